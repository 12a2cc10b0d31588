"""Density of ring widths of old oaks (24 rings at a time) with a coupling flow. accelerate launch / torchrun, 2 processes."""
import math
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

RINGS = 24


def oaks(n, seed):
    g = torch.Generator().manual_seed(seed)
    weather = torch.randn(n, RINGS, generator=g)
    age = torch.rand(n, 1, generator=g)
    widths = torch.zeros(n, RINGS)
    for i in range(RINGS):
        before = widths[:, i - 1] if i else 0
        widths[:, i] = 0.85 * before + 0.12 * weather[:, i] + 0.08 * torch.sin(6.28 * age[:, 0] + i / 3)
    return TensorDataset(widths)


class Coupling(nn.Module):
    def __init__(self, flip, hidden):
        super().__init__()
        self.flip = flip
        half = RINGS // 2
        self.net = nn.Sequential(nn.Linear(half, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(),
                                 nn.Linear(hidden, 2 * half))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        a, b = x[:, ::2], x[:, 1::2]
        if self.flip:
            a, b = b, a
        log_scale, shift = self.net(a).chunk(2, 1)
        log_scale = 2 * torch.tanh(log_scale / 2)
        b = b * log_scale.exp() + shift
        pair = (b, a) if self.flip else (a, b)
        return torch.stack(pair, 2).flatten(1), log_scale.sum(1)


class Flow(nn.Module):
    def __init__(self, layers=10, hidden=384):
        super().__init__()
        self.layers = nn.ModuleList([Coupling(i % 2 == 1, hidden) for i in range(layers)])

    def forward(self, x):
        log_det = torch.zeros(len(x), device=x.device)
        for layer in self.layers:
            x, d = layer(x)
            log_det = log_det + d
        return 0.5 * (x**2).sum(1) + 0.5 * RINGS * math.log(2 * math.pi) - log_det  # nll per tree


def main():
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    set_seed(17)
    accelerator.print("processes:", accelerator.num_processes)
    train = DataLoader(oaks(30_000, 1), batch_size=128, shuffle=True, drop_last=True)
    val = DataLoader(oaks(3_001, 2), batch_size=128)  # odd on purpose: gather_for_metrics cuts the padding off
    model = Flow()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    model, optimizer, train, val = accelerator.prepare(model, optimizer, train, val)
    began = time.time()
    for epoch in range(100):
        model.train()
        for step, (x,) in enumerate(train):
            nll = model(x).mean()
            accelerator.backward(nll)
            accelerator.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            optimizer.zero_grad()
            if step % 30 == 0:
                accelerator.print(f"epoch {epoch} step {step} nll {nll.item():.3f}", flush=True)
        model.eval()
        every = []
        with torch.no_grad():
            for (x,) in val:
                every.append(accelerator.gather_for_metrics(model(x)))
        every = torch.cat(every)
        accelerator.print(f"epoch {epoch} val_nll {every.mean():.3f} over {len(every)} trees, {time.time() - began:.0f} s", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
