"""fully_shard on two ranks: each holds half of every layer. torchrun --nproc-per-node=2 sharded_lm.py"""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

VOCAB, LENGTH = 96, 40


class Block(nn.Module):
    def __init__(self, d, heads=4):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(d, 3 * d), nn.GELU(), nn.Linear(3 * d, d))
        self.register_buffer("mask", torch.triu(torch.ones(LENGTH, LENGTH, dtype=torch.bool), 1))

    def forward(self, x):
        h = self.n1(x)
        x = x + self.attn(h, h, h, attn_mask=self.mask, need_weights=False)[0]
        return x + self.mlp(self.n2(x))


class LM(nn.Module):
    def __init__(self, d=128, layers=3):
        super().__init__()
        self.emb, self.pos = nn.Embedding(VOCAB, d), nn.Parameter(0.02 * torch.randn(LENGTH, d))
        self.blocks = nn.ModuleList(Block(d) for _ in range(layers))
        self.out = nn.Linear(d, VOCAB)

    def forward(self, ids):
        x = self.emb(ids) + self.pos
        for b in self.blocks:
            x = b(x)
        return self.out(x)


def sums(n, g):
    """Sequences where each token is the sum of the two before it, with some noise."""
    x = torch.randint(0, VOCAB, (n, LENGTH + 1), generator=g)
    for i in range(2, LENGTH + 1):
        keep = torch.rand(n, generator=g) < 0.9
        x[:, i] = torch.where(keep, (x[:, i - 1] + x[:, i - 2]) % VOCAB // 8, x[:, i] // 8)
    return x


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (2,))
    model = LM()
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    g = torch.Generator().manual_seed(rank)
    start, step = time.time(), 0
    while True:
        x = sums(24, g)
        loss = nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % 10 == 0:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            stop = torch.tensor([time.time() - start > 200], dtype=torch.int)
            dist.broadcast(stop, 0)
            if rank == 0:
                print(f"step {step} loss {mean.item() / 2:.4f} {(time.time() - start) / step:.3f} s/step", flush=True)
            if stop:
                break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
