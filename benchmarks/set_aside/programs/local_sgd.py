"""DiLoCo: each worker trains alone for H steps, then an outer Nesterov step on the averaged difference.

torchrun --standalone --nproc-per-node=2 local_sgd.py
"""
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

H = 60
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(64, 48), nn.Flatten(), nn.Linear(48 * 16, 512), nn.GELU(), nn.Linear(512, 64))
outer = [p.detach().clone() for p in model.parameters()]
outer_opt = torch.optim.SGD(outer, lr=0.7, momentum=0.9, nesterov=True)
inner_opt = torch.optim.AdamW(model.parameters(), lr=1e-3)      # its state stays local

# order-1 markov text, another part for each worker
chain = torch.softmax(2.5 * torch.randn(64, 64, generator=torch.Generator().manual_seed(8)), 1)
g = torch.Generator().manual_seed(900 + rank)


def batch(n=128):
    seq = [torch.randint(0, 64, (n,), generator=g)]
    for _ in range(16):
        seq.append(torch.multinomial(chain[seq[-1]], 1, generator=g)[:, 0])
    return torch.stack(seq[:16], 1), seq[16]


rounds = 0
while True:
    for _ in range(H):
        x, y = batch()
        loss = F.cross_entropy(model(x), y)
        inner_opt.zero_grad()
        loss.backward()
        inner_opt.step()
    outer_opt.zero_grad()
    for o, p in zip(outer, model.parameters()):
        delta = o - p.detach()
        dist.all_reduce(delta)
        o.grad = delta / world
    outer_opt.step()
    with torch.no_grad():
        for o, p in zip(outer, model.parameters()):
            p.copy_(o)
    rounds += 1
    print(f"worker {rank} round {rounds} inner loss {loss.item():.4f}", flush=True)
