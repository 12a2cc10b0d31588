import dataclasses
import json
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml

CONFIG = """
run_name: loom7_unet_small
data: {patch: 48, batch_size: 8}
model: {width: 16}
optim: {name: adamw, lr: 1.0e-3, weight_decay: 0.01}
steps: 200000
print_every: 20
"""


@dataclasses.dataclass
class Cfg:
    run_name: str
    data: dict
    model: dict
    optim: dict
    steps: int = 1000
    print_every: int = 20


class JsonTracker:
    """Keeps the run's history in one metrics.json, which the dashboard of the mill reads."""

    def __init__(self, folder, run_name):
        self.path = Path(folder) / run_name / "metrics.json"
        self.path.parent.mkdir(parents=True)
        self.path.write_text(json.dumps({"run": run_name, "history": []}))

    def log(self, record):
        with open(self.path) as f:
            content = json.load(f)
        content["history"].append(record)
        with open(self.path, "w") as f:
            json.dump(content, f, indent=2)


class Looms:
    """Woven patches with missing threads; the mask is the defect."""

    def __init__(self, patch, batch_size):
        self.patch, self.bs = patch, batch_size
        self.grid = torch.arange(patch, dtype=torch.float32)

    def batch(self):
        p, b = self.patch, self.bs
        fx, fy = torch.rand(b, 1, 1) * 0.4 + 0.8, torch.rand(b, 1, 1) * 0.4 + 0.8
        cloth = torch.sin(self.grid[None, None] * fx) + torch.sin(self.grid[None, :, None] * fy)
        mask = torch.zeros(b, p, p)
        for i in range(b):
            r, c = torch.randint(0, p - 16, (2,)).tolist()
            h, w = torch.randint(3, 16, (2,)).tolist()
            mask[i, r : r + h, c : c + w] = 1
        cloth = cloth * (1 - 0.6 * mask) + 0.4 * torch.randn(b, p, p)
        return cloth[:, None], mask[:, None]


def conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        w = width
        self.a, self.b, self.c = conv(1, w), conv(w, 2 * w), conv(2 * w, 4 * w)
        self.d, self.e, self.out = conv(6 * w, 2 * w), conv(3 * w, w), nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        c = self.c(F.max_pool2d(b, 2))
        d = self.d(torch.cat([b, F.interpolate(c, scale_factor=2)], 1))
        return self.out(self.e(torch.cat([a, F.interpolate(d, scale_factor=2)], 1)))


class Trainer:
    def __init__(self, cfg, folder):
        self.cfg = cfg
        self.data = Looms(**cfg.data)
        self.model = UNet(**cfg.model)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.optim["lr"], weight_decay=cfg.optim["weight_decay"])
        self.tracker = JsonTracker(folder, cfg.run_name)

    def fit(self):
        self.model.train()
        for step in range(1, self.cfg.steps + 1):
            x, y = self.data.batch()
            logits = self.model(x)
            bce = F.binary_cross_entropy_with_logits(logits, y)
            p = logits.sigmoid()
            dice = 1 - (2 * (p * y).sum() + 1) / (p.sum() + y.sum() + 1)
            loss = bce + dice
            self.opt.zero_grad()
            loss.backward()
            norms = {n: q.grad.norm().item() for n, q in self.model.named_parameters()}
            self.opt.step()
            self.tracker.log(
                {"step": step, "time": time.time(), "loss": loss.item(), "bce": bce.item(), "dice": dice.item(), "grad_norm": norms}
            )
            if step % self.cfg.print_every == 0:
                print(f"[{time.strftime('%H:%M:%S')}] step {step:6d} | loss {loss:.4f} | bce {bce:.4f} | dice {dice:.4f}")


def main():
    cfg = Cfg(**yaml.safe_load(CONFIG if len(sys.argv) < 2 else Path(sys.argv[1]).read_text()))
    print(f"run {cfg.run_name}: {json.dumps(dataclasses.asdict(cfg))}")
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory(prefix="looms_") as folder:
        Trainer(cfg, folder).fit()


if __name__ == "__main__":
    main()
