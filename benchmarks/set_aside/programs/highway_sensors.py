"""Traffic speed on a ring of highway sensors, 15 minutes ahead. Graph convolution + GRU, two workers with mp.spawn."""
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, Subset
from torch.utils.data.distributed import DistributedSampler

N_SENSORS, HIST, AHEAD = 60, 12, 3
WORLD = 2


def simulate(steps=3200):
    g = torch.Generator().manual_seed(4)
    speed = torch.zeros(steps, N_SENSORS)
    jam = torch.zeros(N_SENSORS)
    for t in range(steps):
        new = (torch.rand(N_SENSORS, generator=g) < 0.004).float()
        jam = torch.clamp(0.93 * (0.6 * jam + 0.4 * jam.roll(-1)) + new, 0, 1)
        rush = 0.3 * torch.sin(torch.tensor(2 * 3.14159 * t / 288))
        speed[t] = 1.0 - 0.8 * jam - rush + 0.05 * torch.randn(N_SENSORS, generator=g)
    return (speed - speed.mean()) / speed.std()


class Windows(Dataset):
    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x) - HIST - AHEAD

    def __getitem__(self, i):
        return self.x[i : i + HIST], self.x[i + HIST : i + HIST + AHEAD]


class GraphGRU(nn.Module):
    def __init__(self, adj, hidden=48):
        super().__init__()
        self.register_buffer("adj", adj)
        self.inp, self.gc = nn.Linear(2, hidden), nn.Linear(2 * hidden, hidden)
        self.gru = nn.GRU(hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, AHEAD)

    def forward(self, x):
        b, t, n = x.shape
        nb = x @ self.adj
        h = torch.relu(self.inp(torch.stack([x, nb], -1)))
        h = torch.relu(self.gc(torch.cat([h, torch.einsum("btnh,nm->btmh", h, self.adj)], -1)))
        h = h.permute(0, 2, 1, 3).reshape(b * n, t, -1)
        _, last = self.gru(h)
        return self.out(last[0]).view(b, n, AHEAD).transpose(1, 2)


def worker(rank, port, folder):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = port
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    torch.manual_seed(0)

    series = simulate()
    train, val = Windows(series[:2500]), Windows(series[2500:])
    sampler = DistributedSampler(train, WORLD, rank, shuffle=True)
    loader = DataLoader(train, batch_size=24, sampler=sampler)
    half = len(val) // WORLD
    val_loader = DataLoader(Subset(val, range(rank * half, (rank + 1) * half)), batch_size=48)

    i = torch.arange(N_SENSORS)
    adj = torch.eye(N_SENSORS)
    adj[i, (i + 1) % N_SENSORS] = 1
    adj[(i + 1) % N_SENSORS, i] = 1
    model = DistributedDataParallel(GraphGRU(adj / adj.sum(0)))
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    best, path = float("inf"), os.path.join(folder, "best.pt")

    for epoch in range(100):
        sampler.set_epoch(epoch)
        model.train()
        for step, (x, y) in enumerate(loader):
            loss = nn.functional.l1_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 10 == 0 and rank == 0:
                print(f"epoch {epoch} step {step}/{len(loader)} mae {loss.item():.4f}", flush=True)

        model.eval()
        with torch.no_grad():
            mae = sum(nn.functional.l1_loss(model.module(x), y).item() for x, y in val_loader) / len(val_loader)
        if rank == 0:
            print(f"epoch {epoch} val mae {mae:.4f} best {min(best, mae):.4f}", flush=True)
        if mae < best:
            best = mae
            if rank == 0:
                torch.save(model.module.state_dict(), path)
            # nobody goes on before the file is complete
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(worker, args=(os.environ.get("PORT", "29517"), folder), nprocs=WORLD, join=True)
