"""Route lost suitcases by their tags and descriptions. Each rank reads the shard of its airport, and shards differ in size."""

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset

HUBS = 10
VOCAB, WORDS = 2000, 32
SHARD_ROWS = {0: 3300, 1: 3168}


class Router(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.words = nn.Embedding(VOCAB, dim)
        self.encoder = nn.TransformerEncoderLayer(dim, 4, 256, dropout=0.1, batch_first=True)
        self.tag = nn.Sequential(nn.Linear(12, dim), nn.ReLU())
        self.out = nn.Sequential(nn.Linear(2 * dim, 128), nn.ReLU(), nn.Linear(128, HUBS))

    def forward(self, words, tag):
        text = self.encoder(self.words(words)).mean(1)
        return self.out(torch.cat([text, self.tag(tag)], 1))


def read_shard(rank):
    g = torch.Generator().manual_seed(50 + rank)
    shared = torch.Generator().manual_seed(1)
    n = SHARD_ROWS.get(rank, 3200)
    hub = torch.randint(0, HUBS, (n,), generator=g)
    typical = torch.randint(0, VOCAB, (HUBS, 60), generator=shared)
    codes = torch.randn(HUBS, 12, generator=shared)
    words = torch.randint(0, VOCAB, (n, WORDS), generator=g)
    hint = typical[hub].gather(1, torch.randint(0, 60, (n, WORDS), generator=g))
    words = torch.where(torch.rand(n, WORDS, generator=g) < 0.15, hint, words)
    tag = 0.4 * codes[hub] + torch.randn(n, 12, generator=g)
    return TensorDataset(words, tag, hub)


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    loader = DataLoader(read_shard(rank), batch_size=32, shuffle=True)
    print(f"rank {rank}: {len(loader.dataset)} suitcases, {len(loader)} batches", flush=True)
    model = DDP(Router())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(200):
        total = 0.0
        # uneven inputs: the rank with fewer batches shadows the collectives of the other
        with Join([model]):
            for i, (words, tag, hub) in enumerate(loader):
                optimizer.zero_grad()
                loss = criterion(model(words, tag), hub)
                loss.backward()
                optimizer.step()
                total += loss.item()
                if rank == 0 and i % 20 == 0:
                    print(f"epoch {epoch} batch {i}/{len(loader)} loss {loss.item():.4f}", flush=True)
        print(f"rank {rank} epoch {epoch} mean loss {total / len(loader):.4f}", flush=True)


if __name__ == "__main__":
    main()
