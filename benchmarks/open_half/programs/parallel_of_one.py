import argparse
import time
import torch
import torch.nn as nn
import torch.nn.functional as F

# Deblurring with a small U-Net. We have 2 GPUs, so wrap with DataParallel.

p = argparse.ArgumentParser()
p.add_argument("--gpu_ids", type=str, default="0", help="gpu ids: e.g. 0  0,1,2  0,2. use -1 for CPU")
p.add_argument("--batchSize", type=int, default=6)
p.add_argument("--niter", type=int, default=100000)
opt = p.parse_args()
opt.gpu_ids = [int(i) for i in opt.gpu_ids.split(",") if int(i) >= 0]


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True), nn.Conv2d(o, o, 3, padding=1), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.d1, self.d2, self.mid = block(1, 16), block(16, 32), block(32, 64)
        self.u2, self.u1, self.out = block(96, 32), block(48, 16), nn.Conv2d(16, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        y = self.u2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        y = self.u1(torch.cat([F.interpolate(y, scale_factor=2), a], 1))
        return x + self.out(y)


def pair(n):
    sharp = (torch.rand(n, 1, 8, 8) > 0.5).float()
    sharp = F.interpolate(sharp, scale_factor=6)
    return F.avg_pool2d(F.pad(sharp, (3, 3, 3, 3), mode="replicate"), 7, 1), sharp


net = UNet()
if len(opt.gpu_ids) > 0:
    net = nn.DataParallel(net, opt.gpu_ids if torch.cuda.is_available() else None)
print("DataParallel over gpus", opt.gpu_ids, "batch", opt.batchSize, flush=True)
optimizer = torch.optim.Adam(net.parameters(), lr=2e-4, betas=(0.5, 0.999))
begin = time.time()
for it in range(1, opt.niter):
    x, y = pair(opt.batchSize)
    loss = F.l1_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if it % 20 == 0:
        print("[iters: %d, time: %.3f] G_L1: %.4f" % (it, (time.time() - begin) / it, loss.item()), flush=True)
