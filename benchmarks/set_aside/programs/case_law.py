"""Court decisions: which chamber? Documents come from the export, shortest first; each card takes its part of them."""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils.rnn import pad_sequence

BATCH = 16


def export(n=2400):
    g = torch.Generator().manual_seed(1)
    lengths = (torch.rand(n, generator=g) ** 2 * 220 + 20).long().sort().values
    docs = []
    for i, l in enumerate(lengths.tolist()):
        y = int(torch.randint(0, 6, (1,), generator=g))
        words = torch.randint(0, 1500, (l,), generator=g)
        words[torch.rand(l, generator=g) < 0.3] = 200 * y + int(torch.randint(0, 200, (1,), generator=g))
        docs.append((words, y))
    return docs


class Chamber(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(1501, 64, padding_idx=1500)
        self.lstm = nn.LSTM(64, 96, batch_first=True, bidirectional=True)
        self.out = nn.Linear(192, 6)

    def forward(self, x):
        return self.out(self.lstm(self.emb(x))[0].amax(1))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    docs = export()
    per = len(docs) // world
    mine = docs[rank * per : (rank + 1) * per]
    net = DDP(Chamber())
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    start = time.time()
    step = 0
    for epoch in range(500):
        order = torch.randperm(len(mine)).tolist()
        for b in range(0, len(order) - BATCH + 1, BATCH):
            part = [mine[i] for i in order[b : b + BATCH]]
            x = pad_sequence([d for d, _ in part], batch_first=True, padding_value=1500)
            y = torch.tensor([c for _, c in part])
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % 10 == 0 and rank == 0:
                print(f"step {step} epoch {epoch} loss {loss.item():.4f} sec/step {(time.time() - start) / step:.3f}", flush=True)
        spent = torch.tensor([time.time() - start])
        dist.broadcast(spent, 0)
        if spent.item() > 200:
            return


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
