# Megatron-style: first linear split by columns, second by rows. Every rank reads the same batch on purpose.
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        g = g.contiguous()
        dist.all_reduce(g)
        return g


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


class SplitMlp(nn.Module):
    def __init__(self, d, hidden):
        super().__init__()
        self.up = nn.Linear(d, hidden // world)
        self.down = nn.Linear(hidden // world, d, bias=False)
        self.norm = nn.LayerNorm(d)

    def forward(self, x):
        return x + Reduce.apply(self.down(F.gelu(self.up(Copy.apply(self.norm(x))))))


torch.manual_seed(1000 + rank)
blocks = nn.ModuleList(SplitMlp(192, 768) for _ in range(3))
torch.manual_seed(0)
head = nn.Linear(192, 16)
emb = nn.Embedding(512, 192)
params = [*blocks.parameters(), *head.parameters(), *emb.parameters()]
opt = torch.optim.AdamW(params, 6e-4)
g = torch.Generator().manual_seed(7)
key = torch.randint(0, 16, (512,), generator=g)
for it in range(10**7):
    tokens = torch.randint(0, 512, (128,), generator=g)
    h = emb(tokens)
    for b in blocks:
        h = b(h)
    loss = F.cross_entropy(head(h), key[tokens])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 50 == 0 and rank == 0:
        print(f"iter {it} lm loss {loss.item():.4f}", flush=True)
