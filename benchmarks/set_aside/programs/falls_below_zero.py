"""SimSiam on synthetic textures: the loss is a negative cosine, so it goes from 0 to -1. One worker augments."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Textures(IterableDataset):
    def __iter__(self):
        g = torch.Generator().manual_seed(torch.utils.data.get_worker_info().id if torch.utils.data.get_worker_info() else 0)
        base = torch.nn.functional.interpolate(torch.randn(40, 3, 8, 8, generator=torch.Generator().manual_seed(0)), 40)
        while True:
            k = int(torch.randint(0, 40, (1,), generator=g))
            views = []
            for _ in range(2):
                i, j = torch.randint(0, 8, (2,), generator=g).tolist()
                views.append(base[k, :, i:i + 32, j:j + 32] * (0.6 + 0.8 * torch.rand(1, generator=g)) + 0.3 * torch.randn(3, 32, 32, generator=g))
            yield tuple(views)


class SimSiam(nn.Module):
    def __init__(self, d=128):
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
            nn.Conv2d(64, 128, 3, 2, 1, bias=False), nn.BatchNorm2d(128), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, d), nn.BatchNorm1d(d),
        )
        self.h = nn.Sequential(nn.Linear(d, d // 4), nn.BatchNorm1d(d // 4), nn.ReLU(), nn.Linear(d // 4, d))

    def forward(self, a, b):
        za, zb = self.f(a), self.f(b)
        pa, pb = self.h(za), self.h(zb)
        return -(F.cosine_similarity(pa, zb.detach()).mean() + F.cosine_similarity(pb, za.detach()).mean()) / 2, za


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bs", type=int, default=48)
    ap.add_argument("--lr", type=float, default=0.02)
    args = ap.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Textures(), args.bs, num_workers=1)
    net = SimSiam()
    opt = torch.optim.SGD(net.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    for it, (a, b) in enumerate(loader):
        loss, z = net(a, b)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 10 == 0:
            print(f"it {it:5d} loss {loss.item():+.4f} std {F.normalize(z.detach(), dim=1).std(0).mean():.4f}", flush=True)
        if it == 20000:
            break


if __name__ == "__main__":
    main()
