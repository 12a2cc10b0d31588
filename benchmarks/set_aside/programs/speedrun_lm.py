import os, sys, time, math, glob
from dataclasses import dataclass
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.distributed as dist
# -----------------------------------------------------------------------------
# Muon (Newton-Schulz orthogonalised momentum); gradients are averaged here, there is no DDP wrapper

def zeropower(G, steps=5):
    a, b, c = 3.4445, -4.7750, 2.0315
    X = G / (G.norm() + 1e-7)
    T = G.size(0) > G.size(1)
    X = X.T if T else X
    for _ in range(steps):
        A = X @ X.T
        X = a * X + (b * A + c * A @ A) @ X
    return X.T if T else X

class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.95):
        super().__init__(params, dict(lr=lr, momentum=momentum))
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group['params']:
                buf = self.state[p].setdefault('m', torch.zeros_like(p))
                buf.mul_(group['momentum']).add_(p.grad)
                u = zeropower(p.grad.add(buf, alpha=group['momentum'])) * max(1, p.size(0) / p.size(1)) ** 0.5
                p.add_(u, alpha=-group['lr'])

# -----------------------------------------------------------------------------
class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.qkv = nn.Linear(d, 3 * d, bias=False); self.proj = nn.Linear(d, d, bias=False)
        self.fc = nn.Linear(d, 4 * d, bias=False); self.out = nn.Linear(4 * d, d, bias=False)
        nn.init.zeros_(self.proj.weight); nn.init.zeros_(self.out.weight)
    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.h, -1).transpose(1, 2) for t in self.qkv(F.rms_norm(x, (C,))).chunk(3, -1))
        x = x + self.proj(F.scaled_dot_product_attention(F.rms_norm(q, (C // self.h,)), F.rms_norm(k, (C // self.h,)), v, is_causal=True).transpose(1, 2).reshape(B, T, C))
        return x + self.out(F.relu(self.fc(F.rms_norm(x, (C,)))).square())

class GPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(c.vocab, c.d), nn.Embedding(c.seq, c.d)
        self.h = nn.ModuleList(Block(c.d, 4) for _ in range(c.layers))
        self.lm_head = nn.Linear(c.d, c.vocab, bias=False)
        nn.init.zeros_(self.lm_head.weight)
    def forward(self, idx, y):
        x = self.wte(idx) + self.wpe.weight[:idx.size(1)]
        for b in self.h: x = b(x)
        return F.cross_entropy(self.lm_head(F.rms_norm(x, (x.size(-1),))).flatten(0, 1), y.flatten())

@dataclass
class Hyper:
    vocab: int = 512; d: int = 64; layers: int = 2; seq: int = 64
    device_batch: int = 4; accum: int = 3; warmup: int = 20; iters: int = 4000

args = Hyper()
dist.init_process_group('gloo')
rank, world = dist.get_rank(), dist.get_world_size()
master = rank == 0
torch.set_num_threads(1)
torch.manual_seed(1337)
model = GPT(args)
mats = [p for p in model.h.parameters()]
opts = [torch.optim.Adam([*model.wte.parameters(), *model.wpe.parameters(), *model.lm_head.parameters()], lr=3e-3, betas=(0.9, 0.95)), Muon(mats)]
lr_at = lambda it: min(1, (it + 1) / args.warmup) * (0.1 + 0.45 * (1 + math.cos(math.pi * it / args.iters)))
scheds = [torch.optim.lr_scheduler.LambdaLR(o, lr_at) for o in opts]
gen = torch.Generator().manual_seed(rank)
table = torch.randint(0, args.vocab, (args.vocab, 6), generator=torch.Generator().manual_seed(0))

def get_batch():
    x = torch.empty(args.device_batch, args.seq + 1, dtype=torch.long)
    x[:, 0] = torch.randint(0, args.vocab, (args.device_batch,), generator=gen)
    pick = torch.randint(0, 6, x.shape, generator=gen)
    for t in range(args.seq): x[:, t + 1] = table[x[:, t], pick[:, t]]
    return x[:, :-1], x[:, 1:]

if master: print(f"{sum(p.numel() for p in model.parameters())} parameters, world size {world}", flush=True)
t0 = time.time()
for step in range(args.iters):
    total = 0.0
    for micro in range(args.accum):
        loss = model(*get_batch()) / args.accum
        loss.backward(); total += loss.item()
    works = [dist.all_reduce(p.grad, async_op=True) for p in model.parameters()]
    for w in works: w.wait()
    for p in model.parameters(): p.grad /= world
    for o, s in zip(opts, scheds): o.step(); s.step()
    model.zero_grad(set_to_none=True)
    if master and step % 10 == 0:
        dt = (time.time() - t0) / 10 if step else float('nan'); t0 = time.time()
        tok = args.device_batch * args.seq * args.accum * world
        print(f"step:{step}/{args.iters} train_loss:{total:.4f} lr:{opts[1].param_groups[0]['lr']:.4f}" + (f" step_avg:{1000 * dt:.1f}ms tok/s:{tok / dt:.0f}" if step else ""), flush=True)
