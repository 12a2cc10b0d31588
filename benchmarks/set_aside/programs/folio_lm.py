"""Small transformer language model on folios of very different length. Start with torchrun."""
import argparse
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

VOCAB, PAD = 512, 0


def make_folios(count, seed=5):
    rng = np.random.default_rng(seed)
    follow = rng.integers(1, VOCAB, size=(VOCAB, 3))
    folios = []
    for _ in range(count):
        length = int(np.clip(rng.lognormal(4.2, 0.7), 16, 320))
        token = int(rng.integers(1, VOCAB))
        folio = np.empty(length, dtype=np.int64)
        for i in range(length):
            folio[i] = token
            token = int(follow[token, rng.integers(3)])
        folios.append(torch.from_numpy(folio))
    return folios


def make_batches(folios, size):
    batches = []
    for start in range(0, len(folios) - size + 1, size):
        batches.append(nn.utils.rnn.pad_sequence(folios[start:start + size], batch_first=True, padding_value=PAD))
    return batches


class FolioModel(nn.Module):
    def __init__(self, width=160, layers=3, heads=4):
        super().__init__()
        self.token = nn.Embedding(VOCAB, width, padding_idx=PAD)
        self.position = nn.Embedding(512, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.1, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, VOCAB)

    def forward(self, x):
        n = x.shape[1]
        mask = torch.triu(torch.full((n, n), float("-inf"), device=x.device), 1)
        h = self.token(x) + self.position(torch.arange(n, device=x.device))
        return self.out(self.body(h, mask=mask, is_causal=True))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folios", type=int, default=4800)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--lr", type=float, default=6e-4)
    args = parser.parse_args()

    torch.set_num_threads(1)
    local = int(os.environ["LOCAL_RANK"])
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    torch.manual_seed(rank)

    # similar lengths next to each other, so that little is padded
    folios = sorted(make_folios(args.folios), key=len)
    share = len(folios) // world
    mine = folios[rank * share:(rank + 1) * share]
    batches = make_batches(mine, args.batch_size)
    print(f"rank {rank}: {len(mine)} folios, {len(batches)} batches, {sum(len(f) for f in mine)} tokens", flush=True)

    model = DDP(FolioModel().to(device), device_ids=[local] if cuda else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    rng = np.random.default_rng(rank)
    step = 0
    for epoch in range(args.epochs):
        began, tokens = time.time(), 0
        for index in rng.permutation(len(batches)):
            batch = batches[index].to(device)
            logits = model(batch[:, :-1])
            loss = F.cross_entropy(logits.reshape(-1, VOCAB), batch[:, 1:].reshape(-1), ignore_index=PAD)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            tokens += batch.numel()
            if step % 10 == 0:
                seconds = time.time() - began
                print(f"[rank {rank}] epoch {epoch} step {step} loss {loss.item():.3f} "
                      f"{seconds / 10:.3f} s/step {tokens / seconds:.0f} tokens/s", flush=True)
                began, tokens = time.time(), 0
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
