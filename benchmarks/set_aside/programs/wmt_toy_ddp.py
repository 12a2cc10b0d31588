"""Toy translation with sentences bucketed by length. Every rank gets batches of the same bucket in each step."""
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils.rnn import pad_sequence

PAD, BOS, EOS, VOCAB = 0, 1, 2, 80
TOKENS_PER_BATCH = 1000
EPOCHS = 120


def corpus(n=6000, seed=4):
    rng = np.random.default_rng(seed)
    table = rng.permutation(np.arange(3, VOCAB))
    pairs = []
    for _ in range(n):
        k = int(np.clip(rng.lognormal(2.4, 0.6), 4, 50))
        src = rng.integers(3, VOCAB, k)
        tgt = table[src - 3].copy()
        for i in range(0, k - 1, 2):
            if src[i] % 2:
                tgt[i], tgt[i + 1] = tgt[i + 1], tgt[i]
        pairs.append((torch.tensor(src), torch.tensor(np.concatenate([[BOS], tgt, [EOS]]))))
    return pairs


class BucketBatches:
    def __init__(self, pairs, rank, world):
        self.pairs, self.rank, self.world = pairs, rank, world
        order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][0]))
        self.batches, cur = [], []
        for i in order:
            if cur and (len(cur) + 1) * len(pairs[i][0]) > TOKENS_PER_BATCH:
                self.batches.append(cur)
                cur = []
            cur.append(i)
        self.batches.append(cur)
        self.batches = self.batches[: len(self.batches) // world * world]

    def epoch(self, e):
        groups = [self.batches[i:i + self.world] for i in range(0, len(self.batches), self.world)]
        for g in np.random.default_rng(e).permutation(len(groups)):
            idx = groups[g][(self.rank + e) % self.world]
            src, tgt = zip(*[self.pairs[i] for i in idx])
            yield pad_sequence(src, True, PAD), pad_sequence(tgt, True, PAD)

    def __len__(self):
        return len(self.batches) // self.world


class Translator(nn.Module):
    def __init__(self, d=96, layers=2):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d, padding_idx=PAD)
        self.pos = nn.Embedding(64, d)
        self.tf = nn.Transformer(d, 4, layers, layers, 4 * d, 0.1, batch_first=True, norm_first=True)
        self.out = nn.Linear(d, VOCAB)

    def embed(self, x):
        return self.emb(x) * 4 + self.pos(torch.arange(x.size(1), device=x.device))

    def forward(self, src, tgt):
        mask = torch.triu(torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool, device=tgt.device), 1)
        h = self.tf(self.embed(src), self.embed(tgt), tgt_mask=mask, src_key_padding_mask=src == PAD,
                    tgt_key_padding_mask=tgt == PAD, memory_key_padding_mask=src == PAD)
        return self.out(h)


def main():
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, world, local = dist.get_rank(), dist.get_world_size(), int(os.environ["LOCAL_RANK"])
    device = torch.device(f"cuda:{local}" if cuda else "cpu")
    torch.manual_seed(rank)
    data = BucketBatches(corpus(), rank, world)
    net = DDP(Translator().to(device), device_ids=[local] if cuda else None)
    opt = torch.optim.Adam(net.parameters(), lr=1.0, betas=(0.9, 0.98))
    noam = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: 96 ** -0.5 * min((s + 1) ** -0.5, (s + 1) * 300 ** -1.5) * 0.35)
    if rank == 0:
        print(f"{world} ranks, {len(data)} steps per epoch", flush=True)
    step = 0
    for epoch in range(EPOCHS):
        net.train()
        t0, tokens = time.time(), 0
        for src, tgt in data.epoch(epoch):
            src, tgt = src.to(device), tgt.to(device)
            logits = net(src, tgt[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD, label_smoothing=0.1)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            noam.step()
            step += 1
            tokens += src.numel() + tgt.numel()
            if rank == 0 and step % 5 == 0:
                print(f"step {step} epoch {epoch} {tuple(src.shape)} loss {loss.item():.3f} lr {noam.get_last_lr()[0]:.2e} "
                      f"{tokens / (time.time() - t0):.0f} tok/s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
