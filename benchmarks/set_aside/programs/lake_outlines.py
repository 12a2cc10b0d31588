"""Lake segmentation from (simulated) satellite tiles with a small U-Net."""
import logging
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
log = logging.getLogger("lakes")


@dataclass
class Config:
    tile: int = 48
    batch: int = 8
    lr: float = 1e-2
    iters: int = 20000
    log_every: int = 20
    seed: int = 3


def make_tiles(cfg, n):
    g = torch.Generator().manual_seed(cfg.seed)
    yy, xx = torch.meshgrid(torch.arange(cfg.tile), torch.arange(cfg.tile), indexing="ij")
    images, masks = [], []
    for _ in range(n):
        mask = torch.zeros(cfg.tile, cfg.tile)
        for _ in range(int(torch.randint(1, 4, (1,), generator=g))):
            cy, cx = (torch.rand(2, generator=g) * cfg.tile).tolist()
            ry, rx = (5 + torch.rand(2, generator=g) * 11).tolist()
            mask[((yy - cy) / ry) ** 2 + ((xx - cx) / rx) ** 2 < 1] = 1.0
        land = torch.tensor([0.35, 0.45, 0.25]).view(3, 1, 1)
        water = torch.tensor([0.05, 0.12, 0.65]).view(3, 1, 1)
        img = land * (1 - mask) + water * mask + 0.04 * torch.randn(3, cfg.tile, cfg.tile, generator=g)
        images.append((img - 0.3) / 0.2)
        masks.append(mask[None])
    return torch.stack(images), torch.stack(masks)


def double_conv(i, o):
    return nn.Sequential(
        nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
        nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, c=10):
        super().__init__()
        self.d1, self.d2, self.d3 = double_conv(3, c), double_conv(c, 2 * c), double_conv(2 * c, 4 * c)
        self.pool = nn.MaxPool2d(2)
        self.up2 = nn.ConvTranspose2d(4 * c, 2 * c, 2, stride=2)
        self.up1 = nn.ConvTranspose2d(2 * c, c, 2, stride=2)
        self.u2, self.u1 = double_conv(4 * c, 2 * c), double_conv(2 * c, c)
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(self.pool(a))
        z = self.d3(self.pool(b))
        y = self.u2(torch.cat([self.up2(z), b], 1))
        y = self.u1(torch.cat([self.up1(y), a], 1))
        return torch.sigmoid(self.out(y))


class WeightedBCE(nn.Module):
    """water is rarer than land, so it counts more"""

    def __init__(self, pos_weight=3.0):
        super().__init__()
        self.w = pos_weight

    def forward(self, p, t):
        loss = -(self.w * t * torch.log(p) + (1 - t) * torch.log(1 - p))
        return loss.mean()


def iou(p, t):
    p = p > 0.5
    t = t > 0.5
    return ((p & t).sum() / (p | t).sum().clamp(min=1)).item()


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    images, masks = make_tiles(cfg, 300)
    log.info("%d tiles, %.1f %% water, %s", len(images), 100 * masks.mean().item(), device)
    model = UNet().to(device)
    loss_fn = WeightedBCE()
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    for it in range(1, cfg.iters + 1):
        idx = torch.randint(0, len(images), (cfg.batch,))
        x, t = images[idx].to(device), masks[idx].to(device)
        p = model(x)
        loss = loss_fn(p, t)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % cfg.log_every == 0:
            log.info("iter %5d/%d  loss %.5f  iou %.3f", it, cfg.iters, loss.item(), iou(p, t))


if __name__ == "__main__":
    main()
