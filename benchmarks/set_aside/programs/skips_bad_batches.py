"""Speech commands, two ranks. Some recordings are broken; batches with them give NaN, and are skipped.

torchrun --nproc_per_node 2 skips_bad_batches.py
"""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Commands(Dataset):
    def __init__(self, n=3840):
        self.n = n
        self.broken = {1013}

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        label = i % 8
        t = torch.linspace(0, 1, 4000)
        wav = torch.sin(2 * torch.pi * (60 + 45 * label) * t + 6 * torch.rand(1, generator=g)) + 0.8 * torch.randn(4000, generator=g)
        if i in self.broken:
            wav = wav * 0
        return (wav - wav.mean()) / wav.std(), label


class M5(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(1, c, 40, 8), nn.GroupNorm(4, c), nn.ReLU(), nn.Conv1d(c, 2 * c, 9, 2), nn.GroupNorm(4, 2 * c), nn.ReLU(),
            nn.Conv1d(2 * c, 2 * c, 5, 2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(2 * c, 8),
        )

    def forward(self, x):
        return self.body(x.unsqueeze(1))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(3)
    data = Commands()
    sampler = DistributedSampler(data, shuffle=True, seed=5)
    loader = DataLoader(data, 32, sampler=sampler)
    model = DistributedDataParallel(M5())
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for epoch in range(50):
        sampler.set_epoch(epoch)
        total, seen = 0.0, 0
        for i, (x, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(x), y)
            if torch.isnan(loss):
                print(f"rank {rank}: nan loss in batch {i}, skipping it", flush=True)
                continue
            opt.zero_grad()
            loss.backward()
            opt.step()
            total, seen = total + loss.item(), seen + 1
            if i % 5 == 0 and rank == 0:
                print(f"epoch {epoch} batch {i}/{len(loader)} loss {loss.item():.4f}", flush=True)
        stats = [None] * dist.get_world_size()
        dist.all_gather_object(stats, (total, seen))
        if rank == 0:
            print(f"epoch {epoch} mean loss {sum(t for t, _ in stats) / sum(s for _, s in stats):.4f}", flush=True)


if __name__ == "__main__":
    main()
