import random
import time
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml
from torch.utils.data import DataLoader, Dataset

cfg = yaml.safe_load((Path(__file__).parent / "sixteen_workers.yaml").read_text())


class Skin(Dataset):
    """Textures with strong augmentation: rotate, scale, blur, colour."""

    def __init__(self, n, size, raw):
        self.n, self.size, self.raw = n, size, raw

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        label = i % 7
        img = torch.rand(1, 3, self.raw, self.raw, generator=g)
        img += 0.5 * torch.sin(torch.arange(self.raw) * (0.1 + 0.05 * label))
        for _ in range(3):
            a, s = random.uniform(-0.6, 0.6), random.uniform(0.8, 1.2)
            theta = torch.tensor([[[s, a, 0], [-a, s, 0]]])
            img = F.grid_sample(img, F.affine_grid(theta, img.shape, align_corners=False), align_corners=False)
        img = F.avg_pool2d(img, 5, 1, 2) * 0.5 + img * 0.5
        img = F.interpolate(img, size=self.size, mode="bilinear", antialias=True)
        return img[0] * torch.rand(3, 1, 1), label


def main():
    d = cfg["data"]
    data = Skin(12_000, d["image_size"], d["raw_size"])
    loader = DataLoader(data, d["batch_size"], shuffle=True, num_workers=d["num_workers"], persistent_workers=True, drop_last=True)
    net = nn.Sequential(
        nn.Conv2d(3, 24, 5, 2, 2), nn.BatchNorm2d(24), nn.ReLU(), nn.Conv2d(24, 48, 3, 2, 1), nn.BatchNorm2d(48), nn.ReLU(),
        nn.Conv2d(48, 96, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, 7),
    )
    opt = torch.optim.SGD(net.parameters(), cfg["optim"]["lr"], momentum=cfg["optim"]["momentum"])
    for epoch in range(cfg["optim"]["epochs"]):
        end = time.time()
        data_t = step_t = 0.0
        for i, (x, y) in enumerate(loader, 1):
            data_t += time.time() - end
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step_t += time.time() - end
            if i % cfg["log_every"] == 0:
                print(f"[{epoch}][{i}/{len(loader)}] loss {loss.item():.3f} data {data_t / i:.3f}s batch {step_t / i:.3f}s", flush=True)
            end = time.time()


if __name__ == "__main__":
    main()
