"""Reads the printed code on a carton (one symbol per crop).  python carton_codes.py carton_codes.yaml"""
import math
import sys
import time

import torch
import yaml
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def crops(cfg, n, seed):
    g = torch.Generator().manual_seed(seed)
    s = cfg["size"]
    proto = torch.Generator().manual_seed(99)
    shapes = nn.functional.interpolate(torch.randn(cfg["classes"], 1, 7, 5, generator=proto), size=(20, 14), mode="bilinear")
    y = torch.randint(cfg["classes"], (n,), generator=g)
    x = 0.6 * torch.randn(n, 1, s, s, generator=g)
    dx = torch.randint(0, s - 20, (n,), generator=g)
    dy = torch.randint(0, s - 14, (n,), generator=g)
    for i in range(n):
        x[i, :, dx[i]:dx[i] + 20, dy[i]:dy[i] + 14] += shapes[y[i]]
    return TensorDataset(x, y)


class SymbolNet(nn.Module):
    def __init__(self, widths, classes, dropout):
        super().__init__()
        layers, c = [], 1
        for w in widths:
            layers += [nn.Conv2d(c, w, 3, padding=1), nn.BatchNorm2d(w), nn.GELU(), nn.MaxPool2d(2)]
            c = w
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(dropout), nn.Linear(c * 16, classes))

    def forward(self, x):
        return self.head(self.features(x))


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg["seed"])
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        m = cfg["model"]
        self.model = SymbolNet(m["widths"], cfg["data"]["classes"], m["dropout"]).to(self.device)
        bs = cfg["loader"]["batch_size"]
        self.train = DataLoader(crops(cfg["data"], cfg["data"]["train"], 1), batch_size=bs, shuffle=True, drop_last=True)
        self.val = DataLoader(crops(cfg["data"], cfg["data"]["val"], 2), batch_size=256)
        o = cfg["optim"]
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=o["lr"], weight_decay=o["weight_decay"])
        s = cfg["schedule"]
        self.warmup = s["warmup_epochs"] * len(self.train)
        self.total = s["total_epochs"] * len(self.train)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self.factor)
        self.criterion = nn.CrossEntropyLoss()

    def factor(self, step):
        if step < self.warmup:
            return step / self.warmup
        return 0.5 * (1 + math.cos(math.pi * (step - self.warmup) / (self.total - self.warmup)))

    def fit(self):
        for epoch in range(self.cfg["schedule"]["total_epochs"]):
            self.run_epoch(epoch)
            self.validate(epoch)
            self.scheduler.step()

    def run_epoch(self, epoch):
        self.model.train()
        t0, running = time.time(), 0.0
        for i, (x, y) in enumerate(self.train, 1):
            x, y = x.to(self.device), y.to(self.device)
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            running += loss.item()
            if i % self.cfg["log_every"] == 0:
                print(f"[{epoch:03d}][{i:4d}/{len(self.train)}] loss={running / self.cfg['log_every']:.4f} "
                      f"({(time.time() - t0) / i * 1000:.0f} ms/it)", flush=True)
                running = 0.0

    @torch.no_grad()
    def validate(self, epoch):
        self.model.eval()
        hit = sum((self.model(x.to(self.device)).argmax(1).cpu() == y).sum().item() for x, y in self.val)
        print(f"[{epoch:03d}] val acc={hit / len(self.val.dataset):.3f}", flush=True)


if __name__ == "__main__":
    with open(sys.argv[1]) as f:
        config = yaml.safe_load(f)
    print("config:", config, flush=True)
    Trainer(config).fit()
