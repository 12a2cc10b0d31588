"""Isolated words from an old radio: log-mel frames, transformer with layerdrop as in wav2vec. mp.spawn, one process per GPU."""
import logging
import os
import random
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

WORDS, MELS, FRAMES = 20, 40, 60
LAYERS, LAYERDROP = 5, 0.2


def recordings(n=4800):
    g = torch.Generator().manual_seed(77)
    templates = torch.randn(WORDS, MELS, FRAMES // 4, generator=g).repeat_interleave(4, 2)
    words = torch.randint(0, WORDS, (n,), generator=g)
    x = templates[words] * (0.6 + 0.8 * torch.rand(n, 1, 1, generator=g))
    shift = torch.randint(0, 8, (n,), generator=g)
    x = torch.stack([torch.roll(a, int(s), 1) for a, s in zip(x, shift)])
    return TensorDataset((x + 1.5 * torch.randn(x.shape, generator=g)).transpose(1, 2).contiguous(), words)


class WordNet(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(MELS, dim, 5, stride=2, padding=2), nn.GELU())
        self.pos = nn.Parameter(0.02 * torch.randn(1, FRAMES // 2, dim))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, 4, 3 * dim, 0.1, activation="gelu", batch_first=True, norm_first=True) for _ in range(LAYERS)
        )
        self.out = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, WORDS))

    def forward(self, x):
        h = self.front(x.transpose(1, 2)).transpose(1, 2) + self.pos
        for layer in self.layers:
            if self.training and random.random() < LAYERDROP:
                continue
            h = layer(h)
        return self.out(h.mean(1))


def run(rank, world, folder):
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s [rank {rank}] %(message)s")
    log = logging.getLogger("radio")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", os.environ.get("PORT", "29577"))
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo", rank=rank, world_size=world)
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    torch.manual_seed(1)
    random.seed(rank)
    log.info("drawing the recordings, device %s", device)
    data = recordings()
    sampler = DistributedSampler(data, world, rank, shuffle=True, seed=1)
    loader = DataLoader(data, batch_size=32, sampler=sampler, drop_last=True)
    # dropped layers get no gradient in that step
    model = DistributedDataParallel(WordNet().to(device), device_ids=[rank] if cuda else None, find_unused_parameters=True)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    ce = nn.CrossEntropyLoss(label_smoothing=0.1)
    for epoch in range(100):
        sampler.set_epoch(epoch)
        model.train()
        seen = hits = 0
        for i, (x, y) in enumerate(loader):
            x, y = x.to(device), y.to(device)
            logits = model(x)
            loss = ce(logits, y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            seen += len(y)
            hits += int((logits.argmax(1) == y).sum())
            if i % 15 == 0:
                log.info("epoch %d batch %d/%d loss %.4f acc %.3f", epoch, i, len(loader), loss.item(), hits / seen)
        if rank == 0:
            torch.save(model.module.state_dict(), os.path.join(folder, "last.pt"))
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    world = int(os.environ.get("NGPU", "2"))
    with tempfile.TemporaryDirectory(prefix="radio-") as folder:
        mp.spawn(run, args=(world, folder), nprocs=world)
