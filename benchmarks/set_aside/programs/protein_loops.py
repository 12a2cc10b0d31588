"""Which residues of a protein lie in loops? Batches of similar length, so that little is padded; two processes."""

from __future__ import annotations

import argparse
import os
import random
import socket
from collections.abc import Iterator

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, Sampler

RESIDUES = 20
PAD = 20


class Chains(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    def __init__(self, count: int, seed: int) -> None:
        rng = random.Random(seed)
        self.lengths = [min(400, max(30, int(rng.lognormvariate(4.6, 0.7)))) for _ in range(count)]
        self.seed = seed

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        g = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        chain = torch.randint(RESIDUES, (self.lengths[index],), generator=g)
        bend = F.avg_pool1d((chain % 5 == 0).float()[None], 5, 1, 2)[0]
        return chain, (bend > 0.3).float()


class SimilarLengths(Sampler[list[int]]):
    """Sorted by length, cut into batches, which are shuffled alike on all ranks; neighbours go to the ranks of one step."""

    def __init__(self, lengths: list[int], batch: int, rank: int, world: int) -> None:
        self.rank, self.world, self.epoch = rank, world, 0
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        batches = [order[i : i + batch] for i in range(0, len(order) - batch + 1, batch)]
        self.groups = [batches[i : i + world] for i in range(0, len(batches) - world + 1, world)]

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[list[int]]:
        groups = self.groups[:]
        random.Random(self.epoch).shuffle(groups)
        return (group[(self.rank + n) % self.world] for n, group in enumerate(groups))


def collate(items: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
    chains, loops = zip(*items, strict=True)
    pad = nn.utils.rnn.pad_sequence
    return pad(list(chains), batch_first=True, padding_value=PAD), pad(list(loops), batch_first=True, padding_value=-1.0)


class Tagger(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(RESIDUES + 1, width, padding_idx=PAD)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.1, batch_first=True, norm_first=True)
        self.local = nn.Conv1d(width, width, 9, padding=4)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(width, 1)

    def forward(self, chain: torch.Tensor) -> torch.Tensor:
        h = self.embed(chain)
        h = h + torch.relu(self.local(h.transpose(1, 2))).transpose(1, 2)
        return self.out(self.encoder(h, src_key_padding_mask=chain == PAD)).squeeze(-1)


def run(rank: int, world: int, port: int, args: argparse.Namespace) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": str(world)}
    os.environ["LOCAL_RANK"] = str(rank)
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = Chains(args.chains, 3)
    sampler = SimilarLengths(data.lengths, args.batch, rank, world)
    loader = DataLoader(data, batch_sampler=sampler, collate_fn=collate)
    model = DDP(Tagger(args.width))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    step = 0
    for epoch in range(args.epochs):
        sampler.epoch = epoch
        for chain, loop in loader:
            logits = model(chain)
            known = loop >= 0
            loss = F.binary_cross_entropy_with_logits(logits[known], loop[known])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if rank == 0 and step % 5 == 0:
                right = ((logits > 0)[known] == (loop > 0.5)[known]).float().mean()
                print(f"{step:6d}  length {chain.shape[1]:3d}  loss {loss.item():.4f}  accuracy {right:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--chains", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=1000)
    options = parser.parse_args()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        free = int(s.getsockname()[1])
    mp.spawn(run, args=(2, free, options), nprocs=2)
