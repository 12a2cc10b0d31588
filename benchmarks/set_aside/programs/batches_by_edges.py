"""Graph net for molecules. A batch is filled up to 1200 edges, so that the number of graphs in it differs from step to step and
from rank to rank; the loss is a sum over graphs, divided by the number of graphs on all ranks.
"""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

EDGES = 1200


def molecule(g):
    n = int(torch.randint(5, 60, (1,), generator=g))
    x = torch.randint(0, 12, (n,), generator=g)
    chain = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    extra = torch.randint(0, n, (2, n // 3), generator=g)
    e = torch.cat([chain, extra], 1)
    y = x.float().mean() / 6 + extra.shape[1] / n
    return x, torch.cat([e, e.flip(0)], 1), y


def batch(g):
    xs, es, ys, owner, at, edges = [], [], [], [], 0, 0
    while edges < EDGES:
        x, e, y = molecule(g)
        xs.append(x)
        es.append(e + at)
        ys.append(y)
        owner.append(torch.full((len(x),), len(ys) - 1))
        at += len(x)
        edges += e.shape[1]
    return torch.cat(xs), torch.cat(es, 1), torch.stack(ys), torch.cat(owner)


class Gnn(nn.Module):
    def __init__(self, d=96):
        super().__init__()
        self.emb = nn.Embedding(12, d)
        self.msg = nn.ModuleList(nn.Sequential(nn.Linear(2 * d, d), nn.ReLU(), nn.Linear(d, d)) for _ in range(3))
        self.out = nn.Linear(d, 1)

    def forward(self, x, e, owner, graphs):
        h = self.emb(x)
        for m in self.msg:
            h = h + torch.zeros_like(h).index_add(0, e[1], m(torch.cat([h[e[0]], h[e[1]]], 1)))/3
            h = F.layer_norm(h, h.shape[-1:])
        pooled = torch.zeros(graphs, h.shape[1]).index_add(0, owner, h) / torch.bincount(owner, minlength=graphs)[:, None]
        return self.out(pooled)[:, 0]


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = DDP(Gnn())
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    g = torch.Generator().manual_seed(rank)
    for step in range(10**7):
        x, e, y, owner = batch(g)
        total = torch.tensor(float(len(y)))
        dist.all_reduce(total)
        loss = (net(x, e, owner, len(y)) - y).pow(2).sum() * world / total
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f} graphs here {len(y)} of {int(total)}", flush=True)


if __name__ == "__main__":
    main()
