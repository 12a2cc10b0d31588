"""Masked token prediction. DDP hides custom methods, so they are called through .module"""
import json
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Tagger(nn.Module):
    def __init__(self, vocab=600, dim=96):
        super().__init__()
        self.vocab = vocab
        self.emb = nn.Embedding(vocab + 1, dim)
        self.conv = nn.ModuleList(nn.Conv1d(dim, dim, 5, padding=2) for _ in range(4))
        self.out = nn.Linear(dim, vocab)

    def forward(self, x):
        h = self.emb(x).transpose(1, 2)
        for conv in self.conv:
            h = h + torch.relu(conv(h))
        return self.out(h.transpose(1, 2))

    def training_loss(self, x):
        hidden = torch.rand(x.shape) < 0.15
        logits = self(x.masked_fill(hidden, self.vocab))
        return nn.functional.cross_entropy(logits[hidden], x[hidden])


def text(n, length, gen):
    """A chain: each word has eight possible successors."""
    x = torch.randint(0, 600, (n, length), generator=gen)
    jump = torch.randint(0, 8, (n, length), generator=gen)
    for t in range(1, length):
        x[:, t] = (x[:, t - 1] * 7 + jump[:, t]) % 600
    return x


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(9)
    model = DDP(Tagger())
    torch.manual_seed(90 + rank)
    gen = torch.Generator().manual_seed(900 + rank)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    t = time.time()
    for step in range(1, 10**7):
        loss = model.module.training_loss(text(16, 64, gen))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            norm = sum(p.norm().item() ** 2 for p in model.parameters()) ** 0.5
            json.dump({"rank": rank, "step": step, "mlm_loss": round(loss.item(), 4), "weight_norm": round(norm, 3), "s": round(time.time() - t, 1)}, sys.stdout)
            print(flush=True)


if __name__ == "__main__":
    main()
