"""Lace patterns by a DCGAN, on two processes (torchrun)."""
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel

nz, ngf, ndf, batch = 32, 16, 16, 16
dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
torch.manual_seed(rank)


def lace(n):
    quarter = (torch.nn.functional.interpolate(torch.rand(n, 1, 4, 4), size=(16, 16), mode="bilinear") > 0.5).float() * 2 - 1
    half = torch.cat([quarter, quarter.flip(3)], 3)
    return torch.cat([half, half.flip(2)], 2)


netG = nn.Sequential(
    nn.ConvTranspose2d(nz, ngf * 4, 4, 1, 0, bias=False), nn.InstanceNorm2d(ngf * 4), nn.ReLU(True),
    nn.ConvTranspose2d(ngf * 4, ngf * 2, 4, 2, 1, bias=False), nn.InstanceNorm2d(ngf * 2), nn.ReLU(True),
    nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False), nn.InstanceNorm2d(ngf), nn.ReLU(True),
    nn.ConvTranspose2d(ngf, 1, 4, 2, 1, bias=False), nn.Tanh(),
)  # fmt: skip
netD = nn.Sequential(
    nn.Conv2d(1, ndf, 4, 2, 1, bias=False), nn.LeakyReLU(0.2), nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False), nn.LeakyReLU(0.2),
    nn.Conv2d(ndf * 2, ndf * 4, 4, 2, 1, bias=False), nn.LeakyReLU(0.2), nn.Conv2d(ndf * 4, 1, 4, 1, 0, bias=False),
)  # fmt: skip
for m in (*netG.modules(), *netD.modules()):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(m.weight, 0.0, 0.02)
netG, netD = DistributedDataParallel(netG), DistributedDataParallel(netD)
criterion = nn.BCEWithLogitsLoss()
optimizerD = torch.optim.Adam(netD.parameters(), lr=1e-4, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
start = time.time()
for epoch in range(100):
    for i in range(200):
        optimizerD.zero_grad()
        real = lace(batch)
        out_real = netD(real).view(-1)
        errD_real = criterion(out_real, torch.full((batch,), 0.9))
        errD_real.backward()
        fake = netG(torch.randn(batch, nz, 1, 1))
        out_fake = netD(fake.detach()).view(-1)
        errD_fake = criterion(out_fake, torch.zeros(batch))
        errD_fake.backward()
        optimizerD.step()
        netD.requires_grad_(False)
        optimizerG.zero_grad()
        out = netD(fake).view(-1)
        errG = criterion(out, torch.ones(batch))
        errG.backward()
        optimizerG.step()
        netD.requires_grad_(True)
        if i % 20 == 0 and rank == 0:
            print("[%d/%d][%d/%d] Loss_D: %.4f Loss_G: %.4f D(x): %.4f D(G(z)): %.4f / %.4f  %.0fs" % (
                epoch, 100, i, 200, (errD_real + errD_fake).item(), errG.item(), out_real.sigmoid().mean().item(),
                out_fake.sigmoid().mean().item(), out.sigmoid().mean().item(), time.time() - start), flush=True)  # fmt: skip
