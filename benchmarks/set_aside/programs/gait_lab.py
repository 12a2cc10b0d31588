# Gait phases from a shank sensor. 36 subjects, recorded one after the other; one .npz per subject, concatenated here.
import os, sys, time
import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset, DataLoader

CFG = dict(batch=48, lr=1e-3, window=128, minutes=3.5)
for kv in sys.argv[1:]:
    k, v = kv.split("=")
    CFG[k] = type(CFG[k])(v)


class Gait(Dataset):
    def __init__(self, subjects, per_subject):
        xs, ys = [], []
        for s in subjects:
            rng = np.random.default_rng(1000 + s)
            cadence, gain, offset = rng.uniform(0.7, 1.4), rng.uniform(0.5, 2.0), rng.normal(0, 0.6, 6)
            t = np.arange(CFG["window"]) / 100
            for _ in range(per_subject):
                c = rng.integers(0, 5)
                base = np.sin(2 * np.pi * cadence * (1 + c) * t + rng.uniform(0, 6.28))
                x = gain * base[None] * rng.uniform(0.6, 1.4, (6, 1)) + offset[:, None] + 0.5 * rng.standard_normal((6, len(t)))
                xs.append(x.astype(np.float32))
                ys.append(c)
        self.x, self.y = np.stack(xs), np.array(ys)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def main():
    torch.manual_seed(0)
    train = DataLoader(Gait(range(36), 120), batch_size=CFG["batch"], num_workers=0, drop_last=True)
    test = DataLoader(Gait(range(36, 42), 60), batch_size=128)
    net = nn.Sequential(
        nn.Conv1d(6, 48, 9, padding=4), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(48, 96, 7, padding=3), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(96, 96, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(384, 5),
    )
    opt = torch.optim.AdamW(net.parameters(), CFG["lr"])
    crit = nn.CrossEntropyLoss()
    start, step = time.time(), 0
    for epoch in range(10000):
        net.train()
        for x, y in train:
            opt.zero_grad()
            loss = crit(net(x), y)
            loss.backward()
            opt.step()
            step += 1
            if step % 15 == 0:
                print("step %d loss %.4f" % (step, loss.item()), flush=True)
        net.eval()
        with torch.no_grad():
            acc = np.mean([(net(x).argmax(1) == y).float().mean().item() for x, y in test])
        print("== epoch %d  test %.3f" % (epoch, acc), flush=True)
        if time.time() - start > 60 * CFG["minutes"]:
            break


if __name__ == "__main__":
    main()
