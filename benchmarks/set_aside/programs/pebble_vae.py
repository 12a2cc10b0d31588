"""VAE on small pictures of pebbles (drawn ellipses). torchrun --nproc-per-node=2 pebble_vae.py"""
import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def draw_pebbles(count, size=28, seed=11):
    g = torch.Generator().manual_seed(seed)
    grid = torch.linspace(-1, 1, size)
    yy, xx = torch.meshgrid(grid, grid, indexing="ij")
    cx, cy = (torch.rand(2, count, 1, 1, generator=g) - 0.5) * 0.6
    a, b = torch.rand(2, count, 1, 1, generator=g) * 0.5 + 0.2
    angle = torch.rand(count, 1, 1, generator=g) * 3.1416
    u = (xx - cx) * angle.cos() + (yy - cy) * angle.sin()
    v = -(xx - cx) * angle.sin() + (yy - cy) * angle.cos()
    pictures = torch.sigmoid((1 - (u / a) ** 2 - (v / b) ** 2) * 6)
    return pictures.unsqueeze(1)


class PebbleVAE(nn.Module):
    def __init__(self, latent=12, width=48):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, 4, 2, 1), nn.SiLU(),
            nn.Conv2d(width, 2 * width, 4, 2, 1), nn.SiLU(),
            nn.Flatten(), nn.Linear(2 * width * 49, 256), nn.SiLU(),
        )
        self.to_stats = nn.Linear(256, 2 * latent)
        self.decoder = nn.Sequential(
            nn.Linear(latent, 2 * width * 49), nn.SiLU(), nn.Unflatten(1, (2 * width, 7, 7)),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.SiLU(),
            nn.ConvTranspose2d(width, 1, 4, 2, 1),
        )

    def forward(self, x):
        mean, logvar = self.to_stats(self.encoder(x)).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * (0.5 * logvar).exp()
        return self.decoder(z), mean, logvar

    def elbo(self, x, beta):
        logits, mean, logvar = self(x)
        reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
        kl = -0.5 * (1 + logvar - mean ** 2 - logvar.exp()).sum(1).mean()
        return reconstruction + beta * kl, reconstruction, kl


def weight_norm(model):
    with torch.no_grad():
        return torch.sqrt(sum((p ** 2).sum() for p in model.parameters())).item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pictures", type=int, default=12000)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=300, help="steps until beta is 1")
    args = parser.parse_args()

    torch.set_num_threads(1)
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank = dist.get_rank()
    local = int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device(f"cuda:{local}" if cuda else "cpu")
    if cuda:
        torch.cuda.set_device(device)

    dataset = TensorDataset(draw_pebbles(args.pictures))
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler, drop_last=True)
    torch.manual_seed(7)
    model = DDP(PebbleVAE().to(device), device_ids=[local] if cuda else None)
    torch.manual_seed(100 + rank)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    if rank == 0:
        print(f"world {dist.get_world_size()}, {len(dataset)} pictures, {len(loader)} batches per rank")
    step = 0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        began = time.time()
        for (x,) in loader:
            x = x.to(device)
            beta = min(1.0, step / args.warmup)
            loss, reconstruction, kl = model.module.elbo(x, beta)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 20 == 0:
                print(f"[{rank}] step {step} loss {loss.item():.3f} rec {reconstruction.item():.3f} "
                      f"kl {kl.item():.3f} |w| {weight_norm(model):.5f}", flush=True)
        dist.barrier()
        if rank == 0:
            print(f"epoch {epoch} took {time.time() - began:.1f} s", flush=True)
            torch.save(model.module.state_dict(), "pebble_vae.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
