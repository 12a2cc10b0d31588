"""Snail shells, 8 species, ConvNeXt-like. The weights that are evaluated are the moving average, as in the recipe of timm."""
import copy
import logging

import torch
import torch.nn.functional as F
from torch import nn

logging.basicConfig(format="%(levelname).1s %(asctime)s %(message)s", level=logging.INFO)
SIZE, SPECIES = 40, 8


def shells(n, seed):
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, SIZE), torch.linspace(-1, 1, SIZE), indexing="ij")
    y = torch.randint(0, SPECIES, (n,), generator=g)
    shift = 0.4 * (torch.rand(n, 2, 1, 1, generator=g) - 0.5)
    u, v = xx - shift[:, 0], yy - shift[:, 1]
    radius, angle = (u**2 + v**2).sqrt(), torch.atan2(v, u)
    turns = (3 + (y % 4) * 1.5)[:, None, None]
    hand = torch.where(y < 4, 1.0, -1.0)[:, None, None]
    spiral = torch.cos(turns * 6.28 * radius + hand * angle + 6.28 * torch.rand(n, 1, 1, generator=g))
    x = spiral * (radius < 0.8) + 0.9 * torch.randn(n, SIZE, SIZE, generator=g)
    return x[:, None], y


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.spatial = nn.Conv2d(dim, dim, 5, padding=2, groups=dim)
        self.norm = nn.GroupNorm(1, dim)
        self.wide, self.narrow = nn.Conv2d(dim, 3 * dim, 1), nn.Conv2d(3 * dim, dim, 1)

    def forward(self, x):
        return x + self.narrow(F.gelu(self.wide(self.norm(self.spatial(x)))))


class ShellNet(nn.Sequential):
    def __init__(self, dim=48):
        super().__init__(nn.Conv2d(1, dim, 4, 2, 1), Block(dim), Block(dim), nn.Conv2d(dim, 2 * dim, 2, 2), Block(2 * dim),
                         Block(2 * dim), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(2 * dim),
                         nn.Linear(2 * dim, SPECIES))


class Average:
    def __init__(self, model, decay=0.995):
        self.model, self.decay = copy.deepcopy(model).eval(), decay

    @torch.no_grad()
    def update(self, model):
        for mean, value in zip(self.model.parameters(), model.parameters()):
            mean.lerp_(value, 1 - self.decay)


@torch.no_grad()
def evaluate(model, x, y, device):
    logits = torch.cat([model(part.to(device)).cpu() for part in x.split(100)])
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(6)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, y = shells(6000, 1)
    xv, yv = shells(500, 2)
    model = ShellNet().to(device)
    average = Average(model)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.02)
    total = 9000
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total, pct_start=0.08)
    for step in range(1, total + 1):
        pick = torch.randint(0, len(x), (32,))
        loss = F.cross_entropy(model(x[pick].to(device)), y[pick].to(device), label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        average.update(model)
        if step % 20 == 0:
            logging.info("step %d loss %.3f lr %.2e", step, loss.item(), schedule.get_last_lr()[0])
        if step % 100 == 0:
            val_loss, val_acc = evaluate(average.model, xv, yv, device)
            logging.info("step %d val (ema): loss %.3f acc %.3f", step, val_loss, val_acc)


if __name__ == "__main__":
    main()
