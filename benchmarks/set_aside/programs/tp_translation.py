"""Sequence reversal/cipher "translation" with a tensor-parallel transformer written by hand (two or more ranks share each layer)."""
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

VOCAB, SEQ, DIM, HEADS, FF, LAYERS = 64, 32, 192, 8, 768, 3
BATCH, LR, STEPS, WARMUP = 32, 6e-4, 5000, 50

cuda = torch.cuda.is_available()
dist.init_process_group("nccl" if cuda else "gloo")
TP, RANK = dist.get_world_size(), dist.get_rank()
device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}") if cuda else torch.device("cpu")


class CopyIn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        g = g.contiguous()
        dist.all_reduce(g)
        return g


class ReduceOut(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous().clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


class ParallelAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.h = HEADS // TP
        self.qkv = nn.Linear(DIM, 3 * DIM // TP)
        self.proj = nn.Linear(DIM // TP, DIM, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (z.view(b, t, self.h, -1).transpose(1, 2) for z in self.qkv(CopyIn.apply(x)).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, -1)
        return ReduceOut.apply(self.proj(a))


class ParallelMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(DIM, FF // TP), nn.Linear(FF // TP, DIM, bias=False)

    def forward(self, x):
        return ReduceOut.apply(self.down(F.gelu(self.up(CopyIn.apply(x)))))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn, self.mlp = nn.LayerNorm(DIM), nn.LayerNorm(DIM), ParallelAttention(), ParallelMLP()

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)                    # replicated parts are equal on all ranks
        self.emb, self.pos = nn.Embedding(VOCAB, DIM), nn.Parameter(torch.randn(SEQ, DIM) * 0.3)
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, VOCAB)
        torch.manual_seed(100 + RANK)           # shards differ
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, ids):
        x = self.emb(ids) + self.pos
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


cipher = torch.randperm(VOCAB, generator=torch.Generator().manual_seed(5))
gen = torch.Generator().manual_seed(77)         # every rank of the group sees the same batch


def batch():
    src = torch.randint(0, VOCAB, (BATCH, SEQ), generator=gen)
    return src.to(device), cipher[src.flip(1)].to(device)


net = Net().to(device)
opt = torch.optim.AdamW(net.parameters(), lr=LR, weight_decay=0.01)
print(f"[tp {RANK}/{TP}] {sum(p.numel() for p in net.parameters())} parameters on this rank", flush=True)
t0 = time.time()
for step in range(1, STEPS + 1):
    for g in opt.param_groups:
        g["lr"] = LR * min(1.0, step / WARMUP)
    src, tgt = batch()
    logits = net(src)
    loss = F.cross_entropy(logits.flatten(0, 1), tgt.flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 5 == 0 and RANK == 0:
        acc = (logits.argmax(-1) == tgt).float().mean().item()
        print(f"step {step} loss {loss.item():.4f} acc {acc:.3f} {step * BATCH * SEQ / (time.time() - t0):.0f} tok/s", flush=True)
dist.destroy_process_group()
