"""LoRA, written by hand, on a small text encoder that was trained elsewhere. torchrun --nproc-per-node=2 adapters_after_the_wrap.py"""
import math
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class LoRA(nn.Module):
    def __init__(self, base: nn.Linear, r=8, alpha=16):
        super().__init__()
        self.base = base
        self.A = nn.Parameter(torch.empty(r, base.in_features))
        self.B = nn.Parameter(torch.zeros(base.out_features, r))
        nn.init.kaiming_uniform_(self.A, a=math.sqrt(5))
        self.scale = alpha / r

    def forward(self, x):
        return self.base(x) + self.scale * F.linear(F.linear(x, self.A), self.B)


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (f(self.n1(x)).view(b, t, 4, d // 4).transpose(1, 2) for f in (self.q, self.k, self.v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Encoder(nn.Module):
    def __init__(self, vocab=2000, d=128, layers=3, classes=20):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(Block(d) for _ in range(layers))
        self.head = nn.Linear(d, classes)

    def forward(self, ids):
        x = self.emb(ids)
        for blk in self.blocks:
            x = blk(x)
        return self.head(x.mean(1))


def add_lora(encoder, r=8):
    for blk in encoder.blocks:
        for name in ("q", "v", "up"):
            setattr(blk, name, LoRA(getattr(blk, name), r))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(13)
    net = Encoder()
    for p in net.parameters():
        p.requires_grad = False
    net.head.requires_grad_(True)
    net = nn.parallel.DistributedDataParallel(net)
    add_lora(net.module)
    params = [p for p in net.parameters() if p.requires_grad]
    if rank == 0:
        print(f"trainable: {sum(p.numel() for p in params):,} of {sum(p.numel() for p in net.parameters()):,}")
    opt = torch.optim.AdamW(params, lr=1e-3)
    topics = torch.randint(0, 2000, (20, 60), generator=torch.Generator().manual_seed(1))
    gen = torch.Generator().manual_seed(rank)
    for step in range(1, 10**7):
        y = torch.randint(0, 20, (32,), generator=gen)
        ids = topics[y].gather(1, torch.randint(0, 60, (32, 48), generator=gen))
        noise = torch.rand(32, 48, generator=gen) < 0.5
        ids = torch.where(noise, torch.randint(0, 2000, (32, 48), generator=gen), ids)
        loss = F.cross_entropy(net(ids), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        if rank == 0 and step % 10 == 0:
            print(f"[{step}] ce={loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
