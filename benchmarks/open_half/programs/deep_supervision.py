"""U-Net with deep supervision for retinal vessels. torchrun --nproc_per_node 2 deep_supervision.py"""
import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


@dataclass
class Config:
    epochs: int = 60
    iters: int = 60
    batch: int = 8
    lr: float = 1e-3
    aux_epochs: int = 2  # the auxiliary output helps in the beginning only
    aux_weight: float = 0.4


def double(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.ReLU(), nn.Conv2d(o, o, 3, padding=1), nn.ReLU())


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.d1, self.d2, self.mid = double(1, 16), double(16, 32), double(32, 48)
        self.u2, self.u1 = double(80, 32), double(48, 16)
        self.out, self.aux = nn.Conv2d(16, 1, 1), nn.Sequential(nn.Conv2d(32, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 1))
        self.pool, self.up = nn.MaxPool2d(2), nn.Upsample(scale_factor=2)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(self.pool(a))
        m = self.mid(self.pool(b))
        c = self.u2(torch.cat([self.up(m), b], 1))
        return self.out(self.u1(torch.cat([self.up(c), a], 1))), self.up(self.aux(c))


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.rank = dist.get_rank()
        torch.manual_seed(0)
        self.model = DistributedDataParallel(UNet())
        self.opt = torch.optim.Adam(self.model.parameters(), cfg.lr)
        self.gen = torch.Generator().manual_seed(10 + self.rank)

    def batch(self):
        x = torch.randn(self.cfg.batch, 1, 48, 48, generator=self.gen)
        return x, (nn.functional.avg_pool2d(x, 5, 1, 2) > 0.15).float()

    def criterion(self, epoch, outputs, y):
        main, aux = outputs
        loss = nn.functional.binary_cross_entropy_with_logits(main, y)
        if epoch < self.cfg.aux_epochs:
            loss = loss + self.cfg.aux_weight * nn.functional.binary_cross_entropy_with_logits(aux, y)
        return loss

    def fit(self):
        for epoch in range(self.cfg.epochs):
            for it in range(self.cfg.iters):
                x, y = self.batch()
                loss = self.criterion(epoch, self.model(x), y)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                if self.rank == 0 and it % 10 == 0:
                    print(f"epoch {epoch} it {it:03d} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    dist.init_process_group(os.environ.get("BACKEND", "gloo"))
    Trainer(Config()).fit()
    dist.destroy_process_group()
