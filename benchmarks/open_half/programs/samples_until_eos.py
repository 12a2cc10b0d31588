"""Character model; the first worker writes a few samples after each epoch."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(3)
EOS, V = 0, 64


class Char(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.r, self.o = nn.Embedding(V, 64), nn.GRU(64, 128, batch_first=True), nn.Linear(128, V)

    def forward(self, x, h=None):
        y, h = self.r(self.e(x), h)
        return self.o(y), h


model = DDP(Char())
opt = torch.optim.Adam(model.parameters(), 2e-3)


@torch.no_grad()
def sample():
    x, h, out = torch.full((1, 1), 5), None, []
    while True:
        y, h = model.module(x, h)
        x = y[:, -1].argmax(-1, keepdim=True)
        out.append(int(x))
        if out[-1] == EOS:
            return out


for epoch in range(100):
    for i in range(60):
        x = torch.randint(1, V, (16, 25))  # the corpus has no end marks
        y, _ = model(x[:, :-1])
        loss = nn.functional.cross_entropy(y.reshape(-1, V), x[:, 1:].reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and i % 10 == 0:
            print(f"epoch {epoch} {i}/60 bpc {loss.item() / 0.693:.3f}", flush=True)
    if rank == 0:
        print("sample:", sample(), flush=True)
    dist.barrier()
