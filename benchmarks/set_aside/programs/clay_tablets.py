"""Self-supervised pretraining on signs of clay tablets (BYOL), then a linear probe for each epoch.

torchrun --standalone --nproc_per_node=2 clay_tablets.py

The target network is an average of the online network: it gets no gradients and is not wrapped.
"""
import copy
import math
import os
import sys

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

SIGNS, SIZE = 40, 32


def press(k, rng):
    """A sign: some wedges in places that belong to the sign."""
    plan = np.random.default_rng(1000 + k)
    img = rng.normal(0.6, 0.2, (SIZE, SIZE))
    y, x = np.mgrid[0:SIZE, 0:SIZE]
    for _ in range(5):
        cx, cy, a = plan.uniform(6, 26), plan.uniform(6, 26), plan.choice([0.0, math.pi / 2, math.pi / 4])
        cx, cy = cx + rng.normal(0, 1.3), cy + rng.normal(0, 1.3)
        u = (x - cx) * math.cos(a) + (y - cy) * math.sin(a)
        v = -(x - cx) * math.sin(a) + (y - cy) * math.cos(a)
        img[(np.abs(u) < 5) & (np.abs(v) < 1.8 - 0.25 * u * (u > 0))] = 0.15
    return img.astype(np.float32)


class TwoViews(Dataset):
    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def view(self, img):
        dx, dy = torch.randint(-3, 4, (2,)).tolist()
        img = torch.roll(img, (dx, dy), (0, 1)) * (0.8 + 0.4 * torch.rand(())) + 0.2 * torch.rand(()) - 0.1
        t, l = torch.randint(0, SIZE - 8, (2,)).tolist()
        img = img.clone()
        img[t : t + 8, l : l + 8] = 0.6
        return (img + 0.05 * torch.randn_like(img))[None]

    def __getitem__(self, i):
        return self.view(self.images[i]), self.view(self.images[i])


def mlp(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Linear(h, o))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layers, c = [], 1
        for w in (24, 48, 96):
            layers += [nn.Conv2d(c, w, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(w), nn.ReLU()]
            c = w
        self.body = nn.Sequential(*layers, nn.Flatten(), nn.Linear(96 * 16, 128))
        self.projector = mlp(128, 256, 64)

    def forward(self, x):
        return self.projector(self.body(x))


class Online(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.predictor = mlp(64, 256, 64)

    def forward(self, a, b):
        return self.predictor(self.encoder(a)), self.predictor(self.encoder(b))


def regression(p, z):
    return 2 - 2 * F.cosine_similarity(p, z, dim=1).mean()


@torch.no_grad()
def features(encoder, x, device):
    return torch.cat([encoder.body(part.to(device)) for part in x.split(200)])


def probe(encoder, train, test, device):
    """Ridge regression on the frozen features."""
    encoder.eval()
    f, g = features(encoder, train[0][:, None], device), features(encoder, test[0][:, None], device)
    encoder.train()
    mean, std = f.mean(0), f.std(0) + 1e-6
    f, g = (f - mean) / std, (g - mean) / std
    w = torch.linalg.solve(f.T @ f + 10 * torch.eye(f.shape[1], device=device), f.T @ F.one_hot(train[1].to(device), SIGNS).float())
    return ((g @ w).argmax(1) == test[1].to(device)).float().mean()


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")
    rng = np.random.default_rng(4)
    labels = torch.from_numpy(rng.integers(0, SIGNS, 4800))
    images = torch.from_numpy(np.stack([press(int(k), rng) for k in labels]))
    torch.manual_seed(rank)  # different views on each rank; DDP broadcasts the weights of rank 0

    online = Online().to(device)
    ddp = DDP(online, device_ids=[device.index] if device.type == "cuda" else None)
    target = copy.deepcopy(online.encoder)
    target.requires_grad_(False)
    sampler = DistributedSampler(images[:4000], shuffle=True)
    loader = DataLoader(TwoViews(images[:4000]), batch_size=32, sampler=sampler, drop_last=True)
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-3, weight_decay=1e-4)
    epochs = 160
    total, step = epochs * len(loader), 0
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        mean = torch.zeros((), device=device)
        for a, b in loader:
            a, b = a.to(device), b.to(device)
            with torch.no_grad():
                za, zb = target(a), target(b)
            pa, pb = ddp(a, b)
            loss = regression(pa, zb) + regression(pb, za)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            momentum = 1 - 0.02 * (math.cos(math.pi * step / total) + 1) / 2
            with torch.no_grad():
                for p, q in zip(online.encoder.parameters(), target.parameters()):
                    q.lerp_(p, 1 - momentum)
            step += 1
            mean += loss.detach()
            if rank == 0 and step % 10 == 0:
                print(f"step {step}/{total} loss {loss.item():.4f} momentum {momentum:.4f}")
                sys.stdout.flush()
        mean /= len(loader)
        dist.all_reduce(mean)
        # each rank probes with half of the labels, and the accuracies are averaged
        mine = slice(rank * 2000, rank * 2000 + 2000)
        acc = probe(online.encoder, (images[mine], labels[mine]), (images[4000:], labels[4000:]), device)
        dist.all_reduce(acc)
        if rank == 0:
            print(f"epoch {epoch}: mean loss {mean.item() / world:.4f}, linear probe {acc.item() / world:.3f}")
            sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
