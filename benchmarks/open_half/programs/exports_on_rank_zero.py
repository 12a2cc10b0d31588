# torchrun --standalone --nproc-per-node=2 exports_on_rank_zero.py
# Every 60 steps the embeddings go to the web viewer, as JSON. Rank 0 does it.
import json, os, tempfile
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

ITEMS, DIM = 30_000, 48

dist.init_process_group(backend="gloo")
torch.set_num_threads(1)
rank = dist.get_rank()
torch.manual_seed(0)


class TwoTower(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.items = torch.nn.Embedding(ITEMS, DIM)
        self.users = torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.ReLU(), torch.nn.Linear(256, DIM))

    def forward(self, u, pos, neg):
        h = self.users(u)
        return torch.nn.functional.softplus((h * (self.items(neg) - self.items(pos))).sum(1)).mean()


def viewer_file(path, table):
    rows = [{"item": i, "x": [round(v, 4) for v in row]} for i, row in enumerate(table.tolist())]
    with open(path, "w") as f:
        json.dump(rows, f, indent=1)


net = DistributedDataParallel(TwoTower())
opt = torch.optim.Adagrad(net.parameters(), 0.05)
g = torch.Generator().manual_seed(rank)
with tempfile.TemporaryDirectory() as folder:
    for step in range(1, 10**6):
        u = torch.randn(256, 32, generator=g)
        loss = net(u, torch.randint(0, ITEMS, (256,), generator=g), torch.randint(0, ITEMS, (256,), generator=g))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 60 == 0:
            if rank == 0:
                viewer_file(os.path.join(folder, "items.json"), net.module.items.weight.detach())
            dist.barrier()
            if rank == 0:
                print(f"step {step}: bpr {loss.item():.4f}", flush=True)
