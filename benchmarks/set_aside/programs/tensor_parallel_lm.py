"""
Tensor parallel transformer LM, written by hand after Megatron (column/row split, no DDP).
All ranks see the same batch; attention heads and MLP columns are split over the ranks.
    torchrun --standalone --nproc-per-node=2 tensor_parallel_lm.py
"""
import math
import os
import time
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

D, HEADS, LAYERS, CTX, VOCAB, BS = 512, 8, 3, 96, 256, 8
STEPS, LR, WARMUP = 20000, 6e-4, 200


class CopyToTP(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        g = g.contiguous()
        dist.all_reduce(g)
        return g


class ReduceFromTP(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


class TPAttention(nn.Module):
    def __init__(self, world):
        super().__init__()
        assert HEADS % world == 0
        self.h, self.hd = HEADS // world, D // HEADS
        self.qkv = nn.Linear(D, 3 * D // world, bias=False)
        self.o = nn.Linear(D // world, D, bias=False)

    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = self.qkv(CopyToTP.apply(x)).view(B, T, 3, self.h, self.hd).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, -1)
        return ReduceFromTP.apply(self.o(y))


class TPMLP(nn.Module):
    def __init__(self, world):
        super().__init__()
        self.a = nn.Linear(D, 4 * D // world)
        self.b = nn.Linear(4 * D // world, D, bias=False)

    def forward(self, x):
        return ReduceFromTP.apply(self.b(F.gelu(self.a(CopyToTP.apply(x)))))


class LM(nn.Module):
    def __init__(self, rank, world):
        super().__init__()
        torch.manual_seed(0)  # replicated parts are the same everywhere
        self.tok, self.pos = nn.Embedding(VOCAB, D), nn.Parameter(torch.randn(CTX, D) * 0.02)
        self.ln = nn.ModuleList([nn.LayerNorm(D) for _ in range(2 * LAYERS + 1)])
        self.head = nn.Linear(D, VOCAB, bias=False)
        nn.init.normal_(self.tok.weight, std=0.02)
        torch.manual_seed(100 + rank)  # sharded parts differ
        self.attn = nn.ModuleList([TPAttention(world) for _ in range(LAYERS)])
        self.mlp = nn.ModuleList([TPMLP(world) for _ in range(LAYERS)])

    def forward(self, idx):
        x = self.tok(idx) + self.pos[:idx.shape[1]]
        for i in range(LAYERS):
            x = x + self.attn[i](self.ln[2 * i](x))
            x = x + self.mlp[i](self.ln[2 * i + 1](x))
        return self.head(self.ln[-1](x))


def markov_text(n, g):
    nxt = torch.randint(0, VOCAB, (VOCAB, 4), generator=g)
    t = torch.zeros(n, dtype=torch.long)
    choice = torch.randint(0, 4, (n,), generator=g).tolist()
    nl, cur, out = nxt.tolist(), 0, []
    for c in choice:
        cur = nl[cur][c]
        out.append(cur)
    t[:] = torch.tensor(out)
    return t


def main():
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    g = torch.Generator().manual_seed(7)
    text = markov_text(400_000, g)
    model = LM(rank, world).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=LR, betas=(0.9, 0.95), weight_decay=0.1)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / WARMUP))
    if rank == 0:
        print(f"tp={world}, {sum(p.numel() for p in model.parameters()) / 1e6:.2f}M parameters per rank, uniform loss {math.log(VOCAB):.2f}, entropy {math.log(4):.2f}", flush=True)
    t0 = time.time()
    for step in range(1, STEPS + 1):
        i = torch.randint(0, len(text) - CTX - 1, (BS,), generator=g)  # same on all ranks
        b = torch.stack([text[j:j + CTX + 1] for j in i.tolist()]).to(device)
        loss = F.cross_entropy(model(b[:, :-1]).flatten(0, 1), b[:, 1:].flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        # global grad norm: sharded parameters are summed over the ranks
        sh = torch.stack([p.grad.pow(2).sum() for m in (model.attn, model.mlp) for p in m.parameters()]).sum()
        dist.all_reduce(sh)
        rep = torch.stack([p.grad.pow(2).sum() for n, p in model.named_parameters() if not n.startswith(("attn", "mlp"))]).sum()
        norm = (sh + rep).sqrt()
        scale = (1.0 / (norm + 1e-6)).clamp(max=1.0)
        for p in model.parameters():
            p.grad.mul_(scale)
        opt.step()
        sched.step()
        if rank == 0 and step % 5 == 0:
            print(f"step {step:5d} loss {loss.item():.4f} gnorm {norm.item():.2f} lr {sched.get_last_lr()[0]:.1e} "
                  f"{step * BS * CTX / (time.time() - t0):.0f} tok/s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
