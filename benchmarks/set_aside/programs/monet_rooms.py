"""Rooms as Monet would have painted them: two generators, two discriminators (after the well-known repository).

    python monet_rooms.py --gpu_ids 0,1 --batch_size 8
"""
import argparse
import itertools
import time

import torch
from torch import nn


class Options:
    def __init__(self):
        p = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
        p.add_argument("--name", default="monet_rooms")
        p.add_argument("--gpu_ids", default="0", help="gpu ids: e.g. 0  0,1,2  0,2. use -1 for CPU")
        p.add_argument("--batch_size", type=int, default=8)
        p.add_argument("--ngf", type=int, default=12)
        p.add_argument("--lr", type=float, default=2e-4)
        p.add_argument("--lambda_cycle", type=float, default=10.0)
        p.add_argument("--print_freq", type=int, default=10)
        p.add_argument("--max_seconds", type=float, default=215)
        self.opt = p.parse_args()
        self.opt.gpu_ids = [int(i) for i in self.opt.gpu_ids.split(",") if int(i) >= 0]
        print("----------------- Options ---------------")
        for k, v in sorted(vars(self.opt).items()):
            print(f"{k:>25}: {str(v):<30}{'' if v == p.get_default(k) else f'[default: {p.get_default(k)}]'}")
        print("----------------- End -------------------", flush=True)


def init_net(net, gpu_ids):
    if len(gpu_ids) > 0:
        if torch.cuda.is_available():
            net.to(gpu_ids[0])
        net = nn.DataParallel(net, gpu_ids)  # multi-GPUs
    return net


def generator(n):
    return nn.Sequential(nn.Conv2d(3, n, 5, 1, 2), nn.InstanceNorm2d(n), nn.ReLU(), nn.Conv2d(n, 2 * n, 3, 2, 1), nn.InstanceNorm2d(2 * n), nn.ReLU(), nn.ConvTranspose2d(2 * n, n, 4, 2, 1), nn.InstanceNorm2d(n), nn.ReLU(), nn.Conv2d(n, 3, 5, 1, 2), nn.Tanh())


def discriminator(n):
    return nn.Sequential(nn.Conv2d(3, n, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(n, 2 * n, 4, 2, 1), nn.InstanceNorm2d(2 * n), nn.LeakyReLU(0.2), nn.Conv2d(2 * n, 1, 4, 1, 1))


def domain(n, hue):
    coarse = torch.rand(n, 3, 4, 4) * 2 - 1
    x = nn.functional.interpolate(coarse, size=(32, 32), mode="bilinear" if hue else "nearest")
    return (x * 0.6 + torch.tensor(hue or [0.0, 0.0, 0.0]).view(3, 1, 1)).clamp(-1, 1)


opt = Options().opt
torch.manual_seed(0)
ga, gb = (init_net(generator(opt.ngf), opt.gpu_ids) for _ in range(2))
da, db = (init_net(discriminator(opt.ngf), opt.gpu_ids) for _ in range(2))
for name, net in (("G_A", ga), ("G_B", gb), ("D_A", da), ("D_B", db)):
    print(f"[Network {name}] Total number of parameters : {sum(p.numel() for p in net.parameters()) / 1e6:.3f} M")
optimizer_g = torch.optim.Adam(itertools.chain(ga.parameters(), gb.parameters()), lr=opt.lr, betas=(0.5, 0.999))
optimizer_d = torch.optim.Adam(itertools.chain(da.parameters(), db.parameters()), lr=opt.lr, betas=(0.5, 0.999))
mse, l1 = nn.MSELoss(), nn.L1Loss()
start, total = time.time(), 0
while time.time() - start < opt.max_seconds:
    tick = time.time()
    a, b = domain(opt.batch_size, None), domain(opt.batch_size, [0.1, 0.2, 0.3])
    fake_b, fake_a = ga(a), gb(b)
    sa, sb = da(fake_b), db(fake_a)
    cycle = l1(gb(fake_b), a) + l1(ga(fake_a), b)
    loss_g = mse(sa, torch.ones_like(sa)) + mse(sb, torch.ones_like(sb)) + opt.lambda_cycle * cycle
    optimizer_g.zero_grad()
    loss_g.backward()
    optimizer_g.step()
    loss_d = 0
    for d, real, fake in ((da, b, fake_b), (db, a, fake_a)):
        r, f = d(real), d(fake.detach())
        loss_d = loss_d + 0.5 * (mse(r, torch.ones_like(r)) + mse(f, torch.zeros_like(f)))
    optimizer_d.zero_grad()
    loss_d.backward()
    optimizer_d.step()
    total += opt.batch_size
    if total % (opt.print_freq * opt.batch_size) == 0:
        print(f"(epoch: {1 + total // 6000}, iters: {total % 6000}, time: {(time.time() - tick) / opt.batch_size:.3f}) G: {loss_g:.3f} D: {loss_d:.3f} cycle: {cycle:.3f}", flush=True)
