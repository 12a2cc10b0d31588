"""Small ViT on land-use tiles. Shows where it looks (see VitTiles.maps), as reviewer 2 asked."""
import argparse
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

ap = argparse.ArgumentParser()
ap.add_argument("--dim", type=int, default=48)
ap.add_argument("--depth", type=int, default=2)
ap.add_argument("--batch", type=int, default=16)
ap.add_argument("--steps", type=int, default=6000)
ap.add_argument("--stop-after", type=int, default=210)
args = ap.parse_args()


class Attention(nn.Module):
    def __init__(self, d, heads=4):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(d, 3 * d), nn.Linear(d, d), heads

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        w = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1)
        self.w = w
        return self.out((w @ v).transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.n1, self.n2, self.att = nn.LayerNorm(d), nn.LayerNorm(d), Attention(d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        x = x + self.att(self.n1(x))
        return x + self.mlp(self.n2(x))


class VitTiles(nn.Module):
    def __init__(self, d, depth, classes=9):
        super().__init__()
        self.patch = nn.Conv2d(3, d, 4, 4)
        self.pos = nn.Parameter(torch.randn(1, 64, d) * 0.3)
        self.blocks = nn.ModuleList(Block(d) for _ in range(depth))
        self.head = nn.Linear(d, classes)
        self.maps = []

    def forward(self, img):
        x = self.patch(img).flatten(2).transpose(1, 2) + self.pos
        for b in self.blocks:
            x = b(x)
        self.maps.append(self.blocks[-1].att.w)
        return self.head(x.mean(1))


torch.manual_seed(1)
net = VitTiles(args.dim, args.depth)
opt = torch.optim.AdamW(net.parameters(), 1e-3)
t0 = time.time()
for step in range(args.steps):
    y = torch.randint(0, 9, (args.batch,))
    img = torch.randn(args.batch, 3, 32, 32)
    for i, c in enumerate(y.tolist()):
        img[i, c % 3, 8:24] += 0.5 + 0.7 * (c // 3)
    loss = F.cross_entropy(net(img), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(f"{step:6d}  loss {loss.item():.4f}  look {net.maps[-1].max().item():.2f}  {time.time() - t0:6.1f}s", flush=True)
    if time.time() - t0 > args.stop_after:
        break
