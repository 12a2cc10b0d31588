"""Fine-tune a small residual net on butterfly wings: head first, then everything. DDP with torchrun."""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--species", type=int, default=12)
    p.add_argument("--batch", type=int, default=24)
    p.add_argument("--head_epochs", type=int, default=1)
    p.add_argument("--epochs", type=int, default=250)
    p.add_argument("--lr_head", type=float, default=3e-3)
    p.add_argument("--lr_body", type=float, default=5e-4)
    p.add_argument("--weights", default="wings_backbone.pth")
    return p.parse_args()


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv2d(c, c, 3, padding=1), nn.GroupNorm(4, c), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1), nn.GroupNorm(4, c)
        )

    def forward(self, x):
        return F.relu(x + self.f(x))


class WingNet(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 24, 3, 2, 1), Residual(24), nn.Conv2d(24, 48, 3, 2, 1), Residual(48), nn.AdaptiveAvgPool2d(2), nn.Flatten()
        )
        self.classifier = nn.Sequential(nn.Linear(192, 96), nn.ReLU(), nn.Dropout(0.2), nn.Linear(96, n))

    def forward(self, x):
        return self.classifier(self.backbone(x))


def set_backbone_trainable(model, flag):
    for p in model.backbone.parameters():
        p.requires_grad = flag


def wings(n_species, n=2304):
    g = torch.Generator().manual_seed(21)
    y = torch.randint(0, n_species, (n,), generator=g)
    pattern = torch.randn(n_species, 3, 10, 10, generator=g)
    x = F.interpolate(pattern[y], size=(40, 40), mode="bilinear") + 3.0 * torch.randn(n, 3, 40, 40, generator=g)
    return TensorDataset(x, y)


def main():
    args = get_args()
    dist.init_process_group(backend="nccl" if torch.cuda.is_available() else "gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    dataset = wings(args.species)
    sampler = DistributedSampler(dataset, shuffle=True, seed=3)
    loader = DataLoader(dataset, batch_size=args.batch, sampler=sampler, drop_last=True)
    net = WingNet(args.species)
    if os.path.exists(args.weights):
        net.backbone.load_state_dict(torch.load(args.weights, map_location="cpu"))
    set_backbone_trainable(net, False)
    model = DDP(net)
    optimizer = torch.optim.AdamW(
        [
            {"params": net.classifier.parameters(), "lr": args.lr_head},
            {"params": net.backbone.parameters(), "lr": args.lr_body},
        ],
        weight_decay=1e-2,
    )
    for epoch in range(args.epochs):
        if epoch == args.head_epochs:
            set_backbone_trainable(model.module, True)
            if rank == 0:
                print("--- backbone unfrozen", flush=True)
        sampler.set_epoch(epoch)
        model.train()
        for i, (x, y) in enumerate(loader):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0 and i % 12 == 0:
                print(f"epoch {epoch} [{i}/{len(loader)}] loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
