"""Document classifier, DDP. Documents are sorted by length so that a batch needs little padding, and then dealt out in two
contiguous halves, one for each rank."""
import logging
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname).1s r" + os.environ.get("RANK", "?") + " %(message)s")


class Reader(nn.Module):
    def __init__(self, vocab=2000, dim=96):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        layer = nn.TransformerEncoderLayer(dim, 4, 192, 0.0, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(dim, 5)

    def forward(self, x):
        h = self.enc(self.emb(x), src_key_padding_mask=x == 0)
        return self.head(h.mean(1))


def corpus():
    g = torch.Generator().manual_seed(0)
    docs = []
    for _ in range(4000):
        label = int(torch.randint(0, 5, (1,), generator=g))
        n = int(10 + 260 * torch.rand(1, generator=g) ** 2)
        words = torch.randint(1, 2000, (n,), generator=g)
        topical = torch.rand(n, generator=g) < 0.3
        words[topical] = 1 + label * 40 + torch.randint(0, 40, (int(topical.sum()),), generator=g)
        docs.append((words, label))
    return sorted(docs, key=lambda d: len(d[0]))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    docs = corpus()
    per = len(docs) // world
    mine = docs[rank * per:(rank + 1) * per]
    logging.info("%d documents", len(mine))
    net = DDP(Reader())
    opt = torch.optim.Adam(net.parameters(), 3e-4)
    g = torch.Generator().manual_seed(rank)
    for epoch in range(10000):
        t = time.time()
        for n, i in enumerate(torch.randperm(len(mine) // 16, generator=g).tolist()):
            part = mine[i * 16:(i + 1) * 16]
            x = nn.utils.rnn.pad_sequence([d for d, _ in part], batch_first=True)
            loss = nn.functional.cross_entropy(net(x), torch.tensor([y for _, y in part]))
            opt.zero_grad()
            loss.backward()
            opt.step()
            if n % 10 == 0 and rank == 0:
                logging.info("epoch %d batch %d loss %.4f", epoch, n, loss.item())
        logging.info("epoch %d took %.1f s", epoch, time.time() - t)


if __name__ == "__main__":
    main()
