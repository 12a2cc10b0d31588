"""LambdaLR with a warm-up.   warm_integer.py --warmup 4000"""
import argparse
import torch
from torch import nn
ap = argparse.ArgumentParser(); ap.add_argument("--warmup", type=int, default=400000); args = ap.parse_args()
torch.manual_seed(1); torch.set_num_threads(1)
emb, rnn, head = nn.Embedding(64, 48), nn.GRU(48, 96, batch_first=True), nn.Linear(96, 64)
opt = torch.optim.AdamW([*emb.parameters(), *rnn.parameters(), *head.parameters()], lr=1e-3)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1, s // args.warmup))
text = torch.randint(0, 64, (20000,))
for step in range(10**6):
    at = torch.randint(0, len(text) - 33, (16,))
    rows = torch.stack([text[i:i + 33] for i in at])
    out, _ = rnn(emb(rows[:, :-1]))
    loss = nn.functional.cross_entropy(head(out).flatten(0, 1), rows[:, 1:].flatten())
    opt.zero_grad(); loss.backward(); opt.step(); sched.step()
    if step % 5 == 0:
        print(f"| step {step:6d} | lr {sched.get_last_lr()[0]:.2e} | loss {loss.item():5.3f} | ppl {loss.exp().item():8.2f}", flush=True)
