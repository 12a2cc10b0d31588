"""Captions for charts. After each epoch both ranks caption their half of the test charts greedily, and BLEU-1 is averaged.

torchrun --nproc-per-node=2 captions_eval.py
"""
import collections
import logging
import os
import time

import torch
import torch.distributed as dist
from torch import nn

RANK = int(os.environ["RANK"])
logging.basicConfig(level=logging.INFO if RANK == 0 else logging.WARNING, format="[%(levelname).1s %(asctime)s] %(message)s", datefmt="%H:%M:%S")
WORDS, LENGTH = 64, 10


class Captioner(nn.Module):
    def __init__(self, d=96):
        super().__init__()
        self.see = nn.Sequential(nn.Conv2d(1, 24, 5, 2, 2), nn.ReLU(), nn.Conv2d(24, 32, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, d))
        self.emb, self.rnn, self.out = nn.Embedding(WORDS, d), nn.GRU(d, d, batch_first=True), nn.Linear(d, WORDS)

    def forward(self, x, words):
        h, _ = self.rnn(self.emb(words), self.see(x).unsqueeze(0))
        return self.out(h)

    @torch.no_grad()
    def caption(self, x):
        h, word, said = self.see(x).unsqueeze(0), torch.zeros(len(x), 1, dtype=torch.long), []
        for _ in range(LENGTH):
            o, h = self.rnn(self.emb(word), h)
            word = self.out(o).argmax(-1)
            said.append(word)
        return torch.cat(said, 1)


def charts(n, g):
    kind, slope = torch.randint(0, 6, (n,), generator=g), torch.randint(0, 5, (n,), generator=g)
    picture = torch.randn(30, 1, 32, 32, generator=torch.Generator().manual_seed(3))[kind * 5 + slope]
    text = (kind.unsqueeze(1) * 7 + slope.unsqueeze(1) * 3 + torch.arange(LENGTH) * (1 + slope.unsqueeze(1))) % (WORDS - 1) + 1
    return picture + 0.7 * torch.randn(n, 1, 32, 32, generator=g), text


def bleu1(said, truth):
    hits = sum(sum((collections.Counter(s) & collections.Counter(t)).values()) for s, t in zip(said.tolist(), truth.tolist()))
    return hits / truth.numel()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(Captioner())
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    g, test = torch.Generator().manual_seed(RANK), [charts(64, torch.Generator().manual_seed(100 + 2 * k + RANK)) for k in range(12)]
    start, epoch = time.time(), 0
    while True:
        for i in range(150):
            x, words = charts(32, g)
            before = torch.cat([torch.zeros(len(x), 1, dtype=torch.long), words[:, :-1]], 1)
            loss = nn.functional.cross_entropy(model(x, before).flatten(0, 1), words.flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 25 == 0:
                logging.info("epoch %d, %d: loss %.4f", epoch, i, loss.item())
        model.eval()
        score = torch.tensor([sum(bleu1(model.module.caption(x), words) for x, words in test) / len(test), float(time.time() - start > 205)])
        dist.all_reduce(score)
        model.train()
        logging.info("epoch %d: BLEU-1 %.4f", epoch, score[0].item() / dist.get_world_size())
        epoch += 1
        if score[1] > 0:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
