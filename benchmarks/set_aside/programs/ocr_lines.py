"""Line recogniser for scanned delivery notes, data parallel.

    torchrun --nproc-per-node=2 ocr_lines.py
"""
import logging
import os

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

CONFIG = {
    "lines": 4000,
    "height": 32,
    "char_width": 12,
    "classes": 40,
    "max_chars": 40,
    "batch_size": 16,
    "lr": 5e-4,
    "epochs": 40,
    "log_every": 5,
}


class LineStore:
    def __init__(self, cfg, rank, world):
        self.cfg = cfg
        g = np.random.default_rng(21)
        n_chars = np.clip(g.lognormal(2.6, 0.6, cfg["lines"]).astype(int), 4, cfg["max_chars"])
        order = np.argsort(n_chars, kind="stable")      # neighbours in width go into one batch: less padding
        texts = [g.integers(1, cfg["classes"], n_chars[i]) for i in order]
        share = len(texts) // world
        self.texts = texts[rank * share:(rank + 1) * share]
        self.font = np.random.default_rng(2).random((cfg["classes"], cfg["height"], cfg["char_width"])) > 0.5

    def batches(self, rng):
        bs = self.cfg["batch_size"]
        starts = rng.permutation(len(self.texts) // bs) * bs
        for s in starts:
            chunk = self.texts[s:s + bs]
            w = max(len(t) for t in chunk) * self.cfg["char_width"]
            img = np.zeros((bs, 1, self.cfg["height"], w), np.float32)
            for k, t in enumerate(chunk):
                line = np.concatenate(list(self.font[t]), axis=1)
                img[k, 0, :, :line.shape[1]] = line
            img += 0.1 * rng.standard_normal(img.shape, dtype=np.float32)
            target = np.zeros((bs, w // self.cfg["char_width"]), np.int64)
            for k, t in enumerate(chunk):
                target[k, :len(t)] = t
            yield torch.from_numpy(img), torch.from_numpy(target)

    def __len__(self):
        return len(self.texts) // self.cfg["batch_size"]


class LineNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d((2, 2)),
            nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d((2, 2)),
            nn.Conv2d(48, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d((1, None)))
        self.mix = nn.Conv1d(64, 128, 5, padding=2)
        self.out = nn.Conv1d(128, classes, 1)
        self.cells = nn.AvgPool1d(3)      # fixed pitch: 12 px for each character

    def forward(self, x):
        return self.cells(self.out(torch.relu(self.mix(self.cnn(x).squeeze(2)))))


def main(cfg):
    use_cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if use_cuda else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    local = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local) if use_cuda else torch.device("cpu")
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.WARNING, format="%(asctime)s %(message)s")
    torch.manual_seed(0)
    store = LineStore(cfg, rank, world)
    net = DDP(LineNet(cfg["classes"]).to(device), device_ids=[local] if use_cuda else None)
    opt = torch.optim.AdamW(net.parameters(), cfg["lr"])
    ce = nn.CrossEntropyLoss(ignore_index=0)
    rng = np.random.default_rng(100 + rank)
    logging.info("%d ranks, %d batches for each", world, len(store))
    step = 0
    for epoch in range(cfg["epochs"]):
        for img, text in store.batches(rng):
            loss = ce(net(img.to(device)), text.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % cfg["log_every"] == 0:
                avg = loss.detach().clone()
                dist.all_reduce(avg)
                logging.info("epoch %d step %d loss %.4f", epoch, step, avg.item() / world)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(CONFIG)
