"""Barley leaf diseases, several GPUs.

Usage: torchrun --standalone --nproc_per_node=gpu barley_leaves.py
"""
import os
import random
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

DISEASES = ("healthy", "rust", "scald", "net blotch", "powdery mildew", "stripe")


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def ddp_setup():
    dist.init_process_group(backend="nccl" if torch.cuda.is_available() else "gloo")
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))


class LeafDataset(Dataset):
    """Leaves are drawn once; flips and noise are random."""

    def __init__(self, n, seed, train):
        rng = np.random.default_rng(seed)
        self.train = train
        self.y = rng.integers(0, len(DISEASES), n)
        self.x = np.stack([self.leaf(k, rng) for k in self.y]).astype(np.float32)

    @staticmethod
    def leaf(k, rng, n=40):
        y, x = np.mgrid[0:n, 0:n]
        img = np.empty((3, n, n))
        img[0], img[1], img[2] = 0.2, 0.5 + 0.05 * np.sin(x * 1.5), 0.15
        for _ in range(0 if k == 0 else rng.integers(4, 10)):
            cx, cy = rng.uniform(4, n - 4, 2)
            d = np.hypot(x - cx, y - cy)
            if k == 1:
                m, c = d < 1.8, (0.75, 0.4, 0.1)
            elif k == 2:
                m, c = (d < 4.5) & (d > 2.8), (0.45, 0.35, 0.25)
            elif k == 3:
                m, c = (np.abs(x - cx) < 1.5) & (np.abs(y - cy) < 4) & ((y + x) % 2 == 0), (0.35, 0.25, 0.1)
            elif k == 4:
                m, c = d < 2.5, (0.85, 0.85, 0.85)
            else:
                m, c = np.abs(x - cx) < 1.0, (0.7, 0.65, 0.3)
            for ch in range(3):
                img[ch][m] = c[ch]
        return img + rng.normal(0, 0.06, img.shape)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        x = torch.from_numpy(self.x[i])
        if self.train:
            if random.random() < 0.5:
                x = x.flip(2)
            x = x + 0.03 * torch.randn_like(x)
        return x, int(self.y[i])


class LeafNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        c = [3, 32, 64, 128]
        self.convs = nn.ModuleList(nn.Conv2d(i, o, 3, padding=1, bias=False) for i, o in zip(c[:-1], c[1:]))
        self.norms = nn.ModuleList(nn.BatchNorm2d(o) for o in c[1:])
        self.fc = nn.Linear(128, n_classes)

    def forward(self, x):
        for conv, norm in zip(self.convs, self.norms):
            x = F.max_pool2d(F.relu(norm(conv(x))), 2)
        return self.fc(x.mean((2, 3)))


class Trainer:
    def __init__(self, model, train_data, val_data, optimizer, batch_size):
        self.rank = int(os.environ["RANK"])
        self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")
        model = model.to(self.device)
        self.model = DDP(model, device_ids=[self.device.index] if self.device.type == "cuda" else None)
        self.optimizer = optimizer
        self.train_loader = DataLoader(train_data, batch_size=batch_size, shuffle=True, pin_memory=self.device.type == "cuda")
        self.val_loader = DataLoader(val_data, batch_size=batch_size)

    def _run_batch(self, source, targets):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(source), targets)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def _run_epoch(self, epoch):
        self.model.train()
        losses, start = [], time.time()
        for source, targets in self.train_loader:
            losses.append(self._run_batch(source.to(self.device), targets.to(self.device)))
            if self.rank == 0 and len(losses) % 10 == 0:
                print(f"[GPU{self.rank}] epoch {epoch} | batch {len(losses)} | loss {np.mean(losses[-10:]):.4f}", flush=True)
        if self.rank == 0:
            print(f"[GPU{self.rank}] epoch {epoch} took {time.time() - start:.1f} s, loss {np.mean(losses):.4f}", flush=True)

    @torch.no_grad()
    def _validate(self):
        self.model.eval()
        correct = total = 0
        for source, targets in self.val_loader:
            correct += (self.model(source.to(self.device)).argmax(1).cpu() == targets).sum().item()
            total += len(targets)
        if self.rank == 0:
            print(f"[GPU{self.rank}] validation accuracy {correct / total:.3f}", flush=True)

    def train(self, max_epochs):
        for epoch in range(max_epochs):
            self._run_epoch(epoch)
            self._validate()


def main(total_epochs=40, batch_size=32):
    set_seed(1234)
    ddp_setup()
    model = LeafNet(len(DISEASES))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    trainer = Trainer(model, LeafDataset(3200, 0, True), LeafDataset(480, 1, False), optimizer, batch_size)
    trainer.train(total_epochs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
