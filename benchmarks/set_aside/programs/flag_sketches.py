"""DCGAN for little flags, one process per card."""
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Flags(Dataset):
    def __init__(self, n=4000):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        a, b, c = torch.rand(3, 3, 1, 1, generator=g) * 2 - 1
        img = torch.empty(3, 16, 24)
        kind = int(torch.randint(0, 3, (1,), generator=g))
        if kind == 0:
            img[:, :5], img[:, 5:11], img[:, 11:] = a, b, c
        elif kind == 1:
            img[:, :, :8], img[:, :, 8:16], img[:, :, 16:] = a, b, c
        else:
            img[:] = a
            img[:, 6:10] = b
            img[:, :, 7:11] = b
        return img


class Generator(nn.Module):
    def __init__(self, z=48, c=32):
        super().__init__()
        self.fc, self.c = nn.Linear(z, 4 * c * 4 * 6), c
        self.net = nn.Sequential(
            nn.GroupNorm(4, 4 * c), nn.ReLU(), nn.Upsample(scale_factor=2), nn.Conv2d(4 * c, 2 * c, 3, 1, 1),
            nn.GroupNorm(4, 2 * c), nn.ReLU(), nn.Upsample(scale_factor=2), nn.Conv2d(2 * c, c, 3, 1, 1),
            nn.GroupNorm(4, c), nn.ReLU(), nn.Conv2d(c, 3, 3, 1, 1), nn.Tanh(),
        )

    def forward(self, z):
        return self.net(self.fc(z).view(len(z), 4 * self.c, 4, 6))


class Discriminator(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, c, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(c, 2 * c, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(2 * c, 4 * c, 3, 1, 1), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(4 * c * 24, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    cuda = torch.cuda.is_available()
    dev = torch.device("cuda", local) if cuda else torch.device("cpu")
    ids = [local] if cuda else None
    torch.manual_seed(0)
    G = DistributedDataParallel(Generator().to(dev), device_ids=ids)
    D = DistributedDataParallel(Discriminator().to(dev), device_ids=ids)
    torch.manual_seed(100 + rank)
    g_opt = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.5, 0.999))
    d_opt = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.5, 0.999))
    data = Flags()
    sampler = DistributedSampler(data, drop_last=True)
    loader = DataLoader(data, batch_size=32, sampler=sampler, drop_last=True)
    if rank == 0:
        print("epoch\tstep\tD\tG\tD(x)\tD(G(z))")
        sys.stdout.flush()
    step, tic = 0, time.time()
    for epoch in range(200):
        sampler.set_epoch(epoch)
        for real in loader:
            real = real.to(dev)
            fake = G(torch.randn(len(real), 48, device=dev))
            score = D(torch.cat([real, fake.detach()]))
            r, f = score.chunk(2)
            d_loss = F.softplus(-r).mean() + F.softplus(f).mean()
            d_opt.zero_grad()
            d_loss.backward()
            d_opt.step()

            g_loss = F.softplus(-D(fake)).mean()
            g_opt.zero_grad()
            g_loss.backward()
            g_opt.step()
            if rank == 0 and step % 20 == 0:
                print("%d\t%d\t%.3f\t%.3f\t%.2f\t%.2f" % (epoch, step, d_loss.item(), g_loss.item(), r.sigmoid().mean().item(), f.sigmoid().mean().item()))
                sys.stdout.flush()
            step += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
