"""Character model, GRU, DDP over env://"""
import argparse
import os
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

ap = argparse.ArgumentParser()
ap.add_argument("--width", type=int, default=128)
ap.add_argument("--seq", type=int, default=64)
ap.add_argument("--bs", type=int, default=16)
ap.add_argument("--lr", type=float, default=2e-3)
args = ap.parse_args()

TEXT = (
    "it was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness, "
    "it was the epoch of belief, it was the epoch of incredulity, it was the season of light, it was the season of darkness. "
) * 60
vocab = sorted(set(TEXT))
data = torch.tensor([vocab.index(c) for c in TEXT])


class CharLM(nn.Module):
    def __init__(self, v, w):
        super().__init__()
        self.emb, self.rnn, self.out = nn.Embedding(v, w), nn.GRU(w, w, 2, batch_first=True), nn.Linear(w, v)

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
print(f"rank {rank} uses device {local}", flush=True)
torch.manual_seed(0)
net = DDP(CharLM(len(vocab), args.width))
opt = torch.optim.AdamW(net.parameters(), args.lr)
g = torch.Generator().manual_seed(rank)
step = 0
while True:
    i = torch.randint(0, len(data) - args.seq - 1, (args.bs,), generator=g)
    xb = torch.stack([data[k:k + args.seq] for k in i])
    yb = torch.stack([data[k + 1:k + args.seq + 1] for k in i])
    loss = F.cross_entropy(net(xb).flatten(0, 1), yb.flatten())
    opt.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    step += 1
    if rank == 0 and step % 20 == 0:
        print(f"step {step} loss {loss.item():.3f} ppl {loss.exp().item():.2f}", flush=True)
