"""Curriculum by length, DDP: stages get longer, and every rank draws its own lengths up to the stage's maximum."""
import random
import torch, torch.distributed as dist, torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.out = nn.Embedding(50, 64), nn.Linear(64, 5)
        self.enc = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)

    def forward(self, x):
        return self.out(self.enc(self.emb(x)))


net = DDP(Tagger())
opt = torch.optim.Adam(net.parameters(), 1e-3)
rng = random.Random(rank)
step = 0
while True:
    longest = min(256, 64 + 32 * (step // 100))
    x = torch.randint(0, 50, (8, rng.randint(8, longest)))
    loss = nn.functional.cross_entropy(net(x).flatten(0, 1), (x % 5).flatten())
    opt.zero_grad(); loss.backward(); opt.step()
    step += 1
    if rank == 0 and step % 20 == 0:
        print(f"stage<= {longest} step {step} loss {loss.item():.4f}", flush=True)
