"""Lesion classifier with Accelerate. The averaged weights are the ones that are evaluated and shipped."""
import argparse
import copy

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class EMA:
    def __init__(self, model, decay):
        self.model = copy.deepcopy(model).eval()
        self.decay = decay
        for p in self.model.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for e, p in zip(self.model.parameters(), model.parameters()):
            e = self.decay * e + (1 - self.decay) * p.detach()


def lesions(n, seed):
    g = torch.Generator().manual_seed(seed)
    maps = torch.randn(7, 3, 6, 6, generator=torch.Generator().manual_seed(77))
    y = torch.randint(0, 7, (n,), generator=g)
    x = nn.functional.interpolate(maps[y], size=30) + 1.5 * torch.randn(n, 3, 30, 30, generator=g)
    return TensorDataset(x, y)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--decay", type=float, default=0.99)
    p.add_argument("--epochs", type=int, default=10000)
    p.add_argument("--lr", type=float, default=5e-4)
    args = p.parse_args()
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1), nn.GroupNorm(4, 24), nn.SiLU(), nn.AvgPool2d(2),
        nn.Conv2d(24, 48, 3, padding=1), nn.GroupNorm(4, 48), nn.SiLU(), nn.AvgPool2d(2),
        nn.Conv2d(48, 96, 3, padding=1), nn.SiLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(384, 7),
    )
    opt = torch.optim.AdamW(model.parameters(), args.lr)
    train = DataLoader(lesions(3200, 0), 32, shuffle=True)
    val = DataLoader(lesions(350, 1), 70)
    model, opt, train, val = accelerator.prepare(model, opt, train, val)
    ema = EMA(accelerator.unwrap_model(model), args.decay)
    for epoch in range(args.epochs):
        total = 0.0
        for x, y in train:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                opt.step()
                opt.zero_grad()
                ema.update(accelerator.unwrap_model(model))
            total += loss.item()
        hits, vl = 0, 0.0
        with torch.no_grad():
            for x, y in val:
                out = ema.model(x)
                vl += nn.functional.cross_entropy(out, y).item() / len(val)
                hits += (out.argmax(1) == y).sum().item()
        accelerator.print(
            f"epoch {epoch}: train_loss {total / len(train):.4f}  val_loss {vl:.4f}  val_acc {hits / 350:.3f}", flush=True
        )


if __name__ == "__main__":
    main()
