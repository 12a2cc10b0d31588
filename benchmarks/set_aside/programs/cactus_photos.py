"""Cactus species, small ResNet, with the full bag of tricks (mixup, cutmix, label smoothing, EMA)."""
import copy
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

conf = {"classes": 10, "n_train": 4000, "n_val": 600, "bs": 50, "epochs": 200, "lr": 0.08, "smoothing": 0.1, "ema": 0.99}


def photos(n, seed):
    g = torch.Generator().manual_seed(123)
    proto = F.interpolate(torch.randn(conf["classes"], 3, 8, 8, generator=g), size=32, mode="bilinear")
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, conf["classes"], (n,), generator=g)
    x = proto[y] * (0.6 + 0.6 * torch.rand(n, 1, 1, 1, generator=g)) + 1.8 * torch.randn(n, 3, 32, 32, generator=g)
    return x, y


class BasicBlock(nn.Module):
    def __init__(self, i, o, s):
        super().__init__()
        self.a, self.b = nn.Conv2d(i, o, 3, s, 1, bias=False), nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(o), nn.BatchNorm2d(o)
        self.sc = nn.Sequential(nn.Conv2d(i, o, 1, s, bias=False), nn.BatchNorm2d(o)) if s != 1 or i != o else nn.Identity()

    def forward(self, x):
        return F.relu(self.nb(self.b(F.relu(self.na(self.a(x))))) + self.sc(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 2, 1)
        self.blocks = nn.Sequential(BasicBlock(16, 16, 1), BasicBlock(16, 32, 2), BasicBlock(32, 64, 2))
        self.fc = nn.Linear(64, conf["classes"])

    def forward(self, x):
        return self.fc(self.blocks(self.stem(x)).mean((2, 3)))


def mix(x, y):
    """half of the batches mixup, half cutmix, always one of them"""
    y = F.one_hot(y, conf["classes"]).float()
    perm = torch.randperm(len(x))
    lam = random.betavariate(1.0, 1.0)
    if random.random() < 0.5:
        return lam * x + (1 - lam) * x[perm], lam * y + (1 - lam) * y[perm]
    side = int(32 * (1 - lam) ** 0.5)
    r, c = random.randint(0, 32 - side), random.randint(0, 32 - side)
    x = x.clone()
    x[:, :, r : r + side, c : c + side] = x[perm][:, :, r : r + side, c : c + side]
    lam = 1 - side * side / 1024
    return x, lam * y + (1 - lam) * y[perm]


random.seed(0)
torch.manual_seed(0)
xt, yt = photos(conf["n_train"], 1)
xv, yv = photos(conf["n_val"], 2)
net = ResNet()
ema = copy.deepcopy(net).requires_grad_(False)
steps = conf["epochs"] * (len(xt) // conf["bs"])
opt = torch.optim.SGD(net.parameters(), lr=conf["lr"], momentum=0.9, nesterov=True, weight_decay=5e-4)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, conf["lr"], total_steps=steps)
print(conf, flush=True)
for epoch in range(conf["epochs"]):
    net.train()
    tic, total, hits, perm = time.time(), 0.0, 0, torch.randperm(len(xt))
    for i in range(0, len(xt), conf["bs"]):
        x, y = xt[perm[i : i + conf["bs"]]], yt[perm[i : i + conf["bs"]]]
        xm, ym = mix(x, y)
        out = net(xm)
        loss = F.cross_entropy(out, ym, label_smoothing=conf["smoothing"])
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        with torch.no_grad():
            for a, b in zip(ema.state_dict().values(), net.state_dict().values()):
                a.lerp_(b, 1 - conf["ema"]) if a.is_floating_point() else a.copy_(b)
        total += loss.item()
        hits += (out.argmax(1) == y).sum().item()
    ema.eval()
    with torch.no_grad():
        out = torch.cat([ema(b) for b in xv.split(100)])
    val = F.cross_entropy(out, yv).item()
    print(
        f"epoch {epoch:02d} lr {sched.get_last_lr()[0]:.4f} train_loss {total / (len(xt) // conf['bs']):.4f} train_acc {hits / len(xt):.3f} "
        f"val_loss {val:.4f} val_acc {(out.argmax(1) == yv).float().mean():.3f} ({time.time() - tic:.1f}s)",
        flush=True,
    )
