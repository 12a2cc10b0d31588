"""Dialect identification, 12 villages. torchrun --standalone --nproc-per-node=2 village_dialects.py"""
import csv
import os
import tempfile
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


@dataclass
class Config:
    utterances: int = 2400
    villages: int = 12
    bands: int = 40
    hidden: int = 128
    batch: int = 12
    lr: float = 8e-4
    epochs: int = 80
    log_every: int = 20


def make_manifest(cfg):
    """(duration in frames, village, seed), shortest first: little padding in a batch"""
    g = torch.Generator().manual_seed(1)
    seconds = torch.exp(0.9 * torch.randn(cfg.utterances, generator=g)).clamp(0.4, 5.0)
    village = torch.randint(0, cfg.villages, (cfg.utterances,), generator=g)
    rows = [(int(100 * s), int(v), i) for i, (s, v) in enumerate(zip(seconds.tolist(), village.tolist()))]
    return sorted(rows)


def features(row, cfg):
    frames, village, seed = row
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(frames)[:, None]
    band = torch.arange(cfg.bands)[None]
    melody = torch.sin(t * (0.04 + 0.012 * village) + band * 0.3 + 6.28 * torch.rand((), generator=g))
    formant = torch.exp(-((band - 4 - 2.6 * village - 3 * torch.rand((), generator=g)) ** 2) / 8)
    return 0.5 * melody + formant + 0.8 * torch.randn(frames, cfg.bands, generator=g)


class DialectNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.conv = nn.Conv1d(cfg.bands, cfg.hidden, 5, padding=2)
        self.rnn = nn.GRU(cfg.hidden, cfg.hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * cfg.hidden, cfg.villages)

    def forward(self, x, mask):
        x = F.relu(self.conv(x.transpose(1, 2))).transpose(1, 2)
        h, _ = self.rnn(x)
        return self.out((h * mask[..., None]).sum(1) / mask.sum(1, keepdim=True))


def collate(rows):
    xs = [r[0] for r in rows]
    lengths = torch.tensor([len(x) for x in xs])
    x = nn.utils.rnn.pad_sequence(xs, batch_first=True)
    mask = (torch.arange(x.shape[1])[None] < lengths[:, None]).float()
    return x, mask, torch.tensor([r[1] for r in rows])


def main():
    cfg = Config()
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)

    manifest = make_manifest(cfg)
    per_rank = len(manifest) // world
    mine = [(features(row, cfg), row[1]) for row in manifest[rank * per_rank : (rank + 1) * per_rank]]
    if rank == 0:
        print(f"{len(manifest)} utterances, {per_rank} per rank", flush=True)

    model = DDP(DialectNet(cfg).to(device))
    opt = torch.optim.Adam(model.parameters(), cfg.lr)
    table = open(os.path.join(tempfile.mkdtemp(), f"log_{rank}.csv"), "w", newline="")
    writer = csv.writer(table)
    g = torch.Generator().manual_seed(100 + rank)
    step = 0
    for epoch in range(cfg.epochs):
        batches = torch.arange(per_rank).split(cfg.batch)
        for b in torch.randperm(len(batches), generator=g).tolist():
            x, mask, y = collate([mine[i] for i in batches[b].tolist()])
            logits = model(x.to(device), mask.to(device))
            loss = F.cross_entropy(logits, y.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % cfg.log_every == 0:
                acc = (logits.argmax(1).cpu() == y).float().mean().item()
                writer.writerow([step, loss.item(), acc])
                table.flush()
                if rank == 0:
                    print(f"step {step:5d}  epoch {epoch:2d}  loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
