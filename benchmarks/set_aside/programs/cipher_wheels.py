"""Reads back the settings of a cipher wheel. The report on the held-out messages is made in a process of its own."""
import multiprocessing as mp
import time

import torch
from torch import nn

WHEEL, LENGTH, HELD = 26, 12, 9000


def messages(n, g):
    shift = torch.randint(0, WHEEL, (n,), generator=g)
    plain = (torch.randint(0, 6, (n, LENGTH), generator=g) * 2) % WHEEL
    return (plain + shift[:, None]) % WHEEL, shift


class Reader(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.emb = nn.Embedding(WHEEL, d)
        self.net = nn.Sequential(nn.Linear(LENGTH * d, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, WHEEL))

    def forward(self, x):
        return self.net(self.emb(x).flatten(1))


def report(queue, weights, x, y):
    """Returns the messages that were read, with what the model makes of each."""
    torch.set_num_threads(1)
    model = Reader()
    model.load_state_dict(weights)
    model.eval()
    solved = []
    with torch.no_grad():
        for i in range(0, len(x), 500):
            p = model(x[i : i + 500]).softmax(1)
            for j in ((p.argmax(1) == y[i : i + 500]) & (p.amax(1) > 0.9)).nonzero()[:, 0].tolist():
                solved.append((i + j, x[i + j].tolist(), round(p[j].max().item(), 4)))
    queue.put(solved)


def main():
    torch.manual_seed(4)
    held = messages(HELD, torch.Generator().manual_seed(77))
    g = torch.Generator().manual_seed(1)
    model, start = Reader(), time.time()
    opt = torch.optim.AdamW(model.parameters(), 5e-5)
    for epoch in range(1, 200):
        for step in range(1, 251):
            x, y = messages(64, g)
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 50 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        queue = mp.Queue()
        child = mp.Process(target=report, args=(queue, model.state_dict(), *held))
        child.start()
        child.join()
        solved = queue.get()
        print(f"epoch {epoch}: {len(solved)} of {HELD} messages solved, {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
