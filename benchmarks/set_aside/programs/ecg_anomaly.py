# Per-timestep anomaly detection on multichannel ECG-like series (TCN).
import time
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import TensorDataset, DataLoader, random_split
from torchmetrics.classification import BinaryAUROC

CFG = dict(n_series=1500, length=256, channels=6, hidden=48, layers=5, batch_size=64,
           lr=1e-3, epochs=400, print_every=10, seed=7)

torch.manual_seed(CFG["seed"])
np.random.seed(CFG["seed"])
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def synth(n, T, C):
    t = np.arange(T)
    x = np.zeros((n, C, T), dtype=np.float32)
    y = np.zeros((n, T), dtype=np.int64)
    for i in range(n):
        per = np.random.uniform(18, 40)
        for c in range(C):
            ph = np.random.uniform(0, 2 * np.pi)
            x[i, c] = np.sin(2 * np.pi * t / per + ph) ** 5 + 0.25 * np.random.randn(T)
        for _ in range(np.random.randint(0, 4)):
            s = np.random.randint(0, T - 24)
            w = np.random.randint(8, 24)
            ch = np.random.choice(C, 2, replace=False)
            x[i, ch, s:s + w] += np.random.randn(2, 1) * 0.9
            y[i, s:s + w] = 1
    return torch.from_numpy(x), torch.from_numpy(y)


class Block(nn.Module):
    def __init__(self, d, dil):
        super().__init__()
        self.c1 = nn.Conv1d(d, d, 3, padding=dil, dilation=dil)
        self.c2 = nn.Conv1d(d, d, 3, padding=dil, dilation=dil)
        self.n = nn.GroupNorm(4, d)

    def forward(self, x):
        return x + self.c2(torch.relu(self.c1(self.n(x))))


class TCN(nn.Module):
    def __init__(self, c, d, n):
        super().__init__()
        self.inp = nn.Conv1d(c, d, 1)
        self.blocks = nn.Sequential(*[Block(d, 2 ** i) for i in range(n)])
        self.out = nn.Conv1d(d, 1, 1)

    def forward(self, x):
        return self.out(self.blocks(self.inp(x))).squeeze(1)


X, Y = synth(CFG["n_series"], CFG["length"], CFG["channels"])
train_ds, val_ds = random_split(TensorDataset(X, Y), [1300, 200])
train_dl = DataLoader(train_ds, CFG["batch_size"], shuffle=True, drop_last=True)
val_dl = DataLoader(val_ds, 100)

net = TCN(CFG["channels"], CFG["hidden"], CFG["layers"]).to(device)
optim = torch.optim.AdamW(net.parameters(), lr=CFG["lr"])
crit = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0, device=device))

train_auc = BinaryAUROC().to(device)
val_auc = BinaryAUROC().to(device)

print("train", len(train_ds), "val", len(val_ds), "pos. rate %.3f" % Y.float().mean(), "on", device, flush=True)
gstep = 0
tic = time.perf_counter()
for epoch in range(CFG["epochs"]):
    net.train()
    for x, y in train_dl:
        x, y = x.to(device), y.to(device)
        logit = net(x)
        loss = crit(logit, y.float())
        optim.zero_grad()
        loss.backward()
        optim.step()

        train_auc.update(logit.detach().sigmoid().flatten(), y.flatten())
        auc = train_auc.compute()
        gstep += 1
        if gstep % CFG["print_every"] == 0:
            dt = time.perf_counter() - tic
            tic = time.perf_counter()
            print(f"ep {epoch:3d} step {gstep:5d} | loss {loss.item():.4f} | auroc {auc.item():.4f} | "
                  f"{1000 * dt / CFG['print_every']:.0f} ms/step", flush=True)

    if epoch % 5 == 4:
        net.eval()
        val_auc.reset()
        with torch.no_grad():
            for x, y in val_dl:
                val_auc.update(net(x.to(device)).sigmoid().flatten(), y.to(device).flatten())
        print(f"== ep {epoch} val auroc {val_auc.compute().item():.4f}", flush=True)
