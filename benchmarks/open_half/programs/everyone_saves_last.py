import argparse
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--hidden", type=int, default=384)
p.add_argument("--every", type=int, default=30)
args = p.parse_args()

dist.init_process_group(backend="gloo")
rank = dist.get_rank()
out = os.path.join(tempfile.gettempdir(), "run-%s" % os.environ.get("TORCHELASTIC_RUN_ID", "x"))
os.makedirs(out, exist_ok=True)


class Seq(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.emb = nn.Embedding(200, 64)
        self.rnn = nn.GRU(64, h, batch_first=True)
        self.out = nn.Linear(h, 200)

    def forward(self, t):
        return self.out(self.rnn(self.emb(t))[0])


model = nn.parallel.DistributedDataParallel(Seq(args.hidden))
opt = torch.optim.Adam(model.parameters(), 1e-3)
gen = torch.Generator().manual_seed(rank)
best = float("inf")
for it in range(1, 1_000_000):
    start = torch.randint(0, 200, (8, 1), generator=gen)
    toks = (start + torch.arange(21)) % 200
    logits = model(toks[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), toks[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    if it % args.every == 0:
        if rank == 0:
            print(f"it={it} loss={loss.item():.3f}", flush=True)
        torch.save({"model": model.module.state_dict(), "opt": opt.state_dict(), "it": it}, os.path.join(out, "last.pth"))
