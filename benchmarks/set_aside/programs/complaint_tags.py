"""Tags of complaint letters, one set of shards per rank. torchrun --nproc-per-node=2 complaint_tags.py"""
import argparse
import datetime
import os
import random

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset

TAGS = ["late", "broken", "rude", "billing", "refund", "other"]
VOCAB = 3000


def letter(rng):
    tag = rng.randrange(len(TAGS))
    length = int(min(400, max(20, rng.lognormvariate(4.6, 0.6))))
    words = [tag * 40 + rng.randrange(40) if rng.random() < 0.08 else 240 + rng.randrange(VOCAB - 240)
             for _ in range(length)]
    return words, tag


class Letters(IterableDataset):
    """Reads the shards of this rank one after the other; letters that do not fit are left out."""

    def __init__(self, shards, per_shard, max_words):
        self.shards, self.per_shard, self.max_words = shards, per_shard, max_words

    def __iter__(self):
        for shard in self.shards:
            rng = random.Random(shard * 7919 + 1)
            kept = [letter(rng) for _ in range(self.per_shard)]
            kept = [(w, t) for w, t in kept if len(w) <= self.max_words]
            random.Random(torch.initial_seed() % 2 ** 31).shuffle(kept)
            yield from kept


def collate(rows):
    length = max(len(w) for w, _ in rows)
    words = torch.zeros(len(rows), length, dtype=torch.long)
    for i, (w, _) in enumerate(rows):
        words[i, :len(w)] = torch.tensor(w) + 1
    return words, torch.tensor([t for _, t in rows])


class Tagger(nn.Module):
    def __init__(self, width=192):
        super().__init__()
        self.embed = nn.Embedding(VOCAB + 1, width, padding_idx=0)
        self.rnn = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.head = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, len(TAGS)))

    def forward(self, words):
        h, _ = self.rnn(self.embed(words))
        mask = (words > 0).unsqueeze(-1)
        return self.head((h * mask).sum(1) / mask.sum(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shards", type=int, default=6)
    parser.add_argument("--letters-per-shard", type=int, default=420)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--max-words", type=int, default=160)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    torch.set_num_threads(1)
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo", timeout=datetime.timedelta(hours=1))
    rank, world = dist.get_rank(), dist.get_world_size()
    local = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    torch.manual_seed(13)

    shards = list(range(rank, args.shards, world))
    loader = DataLoader(Letters(shards, args.letters_per_shard, args.max_words), batch_size=args.batch_size,
                        collate_fn=collate)
    model = DistributedDataParallel(Tagger().to(device), device_ids=[local] if cuda else None)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    print(f"[{rank}/{world}] shards {shards}, device {device}", flush=True)

    for epoch in range(args.epochs):
        right = seen = 0
        for step, (words, tags) in enumerate(loader, 1):
            words, tags = words.to(device), tags.to(device)
            out = model(words)
            loss = F.cross_entropy(out, tags)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += (out.argmax(1) == tags).sum().item()
            seen += len(tags)
            if step % 4 == 0:
                print(f"[{rank}] epoch {epoch} batch {step} loss {loss.item():.3f} accuracy {right / seen:.3f}", flush=True)
        dist.barrier()
        if rank == 0:
            torch.save(model.module.state_dict(), "complaint_tags.pt")
            print(f"epoch {epoch} saved, accuracy {right / seen:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
