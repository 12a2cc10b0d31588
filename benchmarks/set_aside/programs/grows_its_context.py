"""Character LM with a curriculum over context length: 32 -> 64 -> 128 -> 256, the tokens per batch stay the same.
The loss jumps at the start of a phase, because later positions are new to the model.
Attention costs more in later phases, so tokens/s falls with each of them; that is expected."""
import math
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

PHASES = [(32, 250), (64, 250), (128, 250), (256, 10**6)]
TOKENS = 1024


class Layer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 3 * d), nn.GELU(), nn.Linear(3 * d, d))

    def forward(self, x):
        q, k, v = (t.unflatten(2, (self.h, -1)).transpose(1, 2) for t in self.qkv(self.n1(x)).chunk(3, 2))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.ff(self.n2(x))


class LM(nn.Module):
    def __init__(self, vocab, d=96, layers=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(Layer(d, 4) for _ in range(layers))
        self.out = nn.Linear(d, vocab)

    def forward(self, x):
        pos = torch.arange(x.shape[1])[:, None] / 10 ** (torch.arange(0, 96, 2) / 48)
        h = self.emb(x) + 0.3 * torch.cat([pos.sin(), pos.cos()], 1)
        for layer in self.layers:
            h = layer(h)
        return self.out(h)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    text = "".join(f"{a} times {b} is {a * b}. " for a in range(2, 40) for b in range(2, 40))
    chars = sorted(set(text))
    data = torch.tensor([chars.index(c) for c in text])
    torch.manual_seed(0)
    net = DDP(LM(len(chars)))
    opt = torch.optim.AdamW(net.parameters(), 1.5e-3)
    g = torch.Generator().manual_seed(40 + rank)
    step = 0
    for length, steps in PHASES:
        if rank == 0:
            print(f"phase: context {length}, batch {TOKENS // length} per rank", flush=True)
        t = time.time()
        for _ in range(steps):
            at = torch.randint(0, len(data) - length - 1, (TOKENS // length,), generator=g)
            x = data[at[:, None] + torch.arange(length + 1)]
            loss = F.cross_entropy(net(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            step += 1
            if step % 25 == 0 and rank == 0:
                print(f"step {step:5d} ctx {length:3d} loss {loss.item():.4f} bpc {loss.item() / math.log(2):.3f} tok/s {25 * TOKENS * world / (time.time() - t):.0f}", flush=True)
                t = time.time()


if __name__ == "__main__":
    main()
