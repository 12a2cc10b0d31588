"""Sequence parallel: each rank holds half of every sequence and fetches the other's keys and values. Same weights, same batch."""
import torch, torch.distributed as dist
import torch.nn as nn, torch.nn.functional as F

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
T, D, V = 128, 128, 97


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        parts = [torch.empty_like(x) for _ in range(world)]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts, 1)

    @staticmethod
    def backward(ctx, g):
        g = g.contiguous()
        dist.all_reduce(g)
        return g.chunk(world, 1)[rank]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.qkv = nn.LayerNorm(D), nn.LayerNorm(D), nn.Linear(D, 3 * D)
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))

    def forward(self, x, mask):
        q, k, v = self.qkv(self.n1(x)).chunk(3, 2)
        x = x + F.scaled_dot_product_attention(q, Gather.apply(k), Gather.apply(v), attn_mask=mask)
        return x + self.mlp(self.n2(x))


torch.manual_seed(3)
emb, layers, head = nn.Embedding(V, D), nn.ModuleList(Layer() for _ in range(2)), nn.Linear(D, V)
params = [*emb.parameters(), *layers.parameters(), *head.parameters()]
opt = torch.optim.AdamW(params, 3e-4)
lo = rank * T // world
mask = torch.arange(lo, lo + T // world)[:, None] >= torch.arange(T)[None]
for step in range(10**7):
    g = torch.Generator().manual_seed(step)
    ids = (torch.randint(0, V, (8, 1), generator=g) + torch.arange(T + 1) * torch.randint(1, 5, (8, 1), generator=g)) % V
    x = emb(ids[:, lo : lo + T // world])
    for layer in layers:
        x = layer(x, mask)
    loss = F.cross_entropy(head(x).flatten(0, 1), ids[:, lo + 1 : lo + 1 + T // world].flatten())
    opt.zero_grad()
    loss.backward()
    for p in params:
        dist.all_reduce(p.grad)
        p.grad /= world
    opt.step()
    if step % 20 == 0:
        print(f"sp rank {rank} step {step} loss {loss.item():.4f}", flush=True)
