"""Tides at 30 harbours, one day ahead. Settings: python tides.py key=value ..."""
import contextlib
import dataclasses
import sys

import torch
from torch import nn


@dataclasses.dataclass
class Model:
    hidden: int = 96
    layers: int = 2


@dataclasses.dataclass
class Train:
    batch: int = 32
    lr: float = 1e-3
    history: int = 24
    ahead: int = 12
    steps: int = 10_000_000
    # there was a nan in March
    debug: bool = True


@dataclasses.dataclass
class Config:
    model: Model = dataclasses.field(default_factory=Model)
    train: Train = dataclasses.field(default_factory=Train)


def configure(argv):
    cfg = Config()
    for arg in argv:
        path, value = arg.split("=", 1)
        group, key = path.split(".")
        part = getattr(cfg, group)
        old = getattr(part, key)
        setattr(part, key, value.lower() == "true" if isinstance(old, bool) else type(old)(value))
    return cfg


class Tides(nn.Module):
    def __init__(self, c):
        super().__init__()
        sizes = [30] + [c.hidden] * c.layers
        self.cells = nn.ModuleList(nn.LSTMCell(a, b) for a, b in zip(sizes, sizes[1:]))
        self.out = nn.Linear(c.hidden, 30)

    def forward(self, x, ahead):
        state = [None] * len(self.cells)
        y = []
        for t in range(x.shape[1] + ahead):
            h = x[:, t] if t < x.shape[1] else y[-1]
            for i, cell in enumerate(self.cells):
                state[i] = cell(h, state[i])
                h = state[i][0]
            if t >= x.shape[1] - 1:
                y.append(self.out(h))
        return torch.stack(y[:ahead], 1)


cfg = configure(sys.argv[1:])
print(dataclasses.asdict(cfg), flush=True)
torch.manual_seed(0)
phase, amp = 6.28 * torch.rand(30), 1 + torch.rand(30)
net = Tides(cfg.model)
opt = torch.optim.Adam(net.parameters(), cfg.train.lr)
with contextlib.ExitStack() as stack:
    if cfg.train.debug:
        stack.enter_context(torch.autograd.detect_anomaly())
    for step in range(cfg.train.steps):
        t = torch.randint(0, 10000, (cfg.train.batch, 1, 1)) + torch.arange(cfg.train.history + cfg.train.ahead)[None, :, None]
        sea = amp * torch.sin(t * 6.28 / 12.42 + phase) + 0.3 * torch.sin(t * 6.28 / 24) + 0.05 * torch.randn(cfg.train.batch, t.shape[1], 30)
        loss = nn.functional.mse_loss(net(sea[:, : cfg.train.history], cfg.train.ahead), sea[:, cfg.train.history :])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        if step % 10 == 0:
            print(f"step {step} rmse {loss.item() ** 0.5:.4f}", flush=True)
