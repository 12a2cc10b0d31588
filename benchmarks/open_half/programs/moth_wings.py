"""A variational autoencoder for the wings of moths.

torchrun --nproc_per_node=2 moth_wings.py
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


@dataclass
class Config:
    """What we change from run to run."""

    latent: int = 24
    width: int = 24
    batch: int = 16
    lr: float = 1e-3
    beta: float = 0.5
    epochs: int = 2000


class Wings(Dataset):
    """Spots and bands, drawn on a grid of 32 by 32."""

    def __init__(self, n: int, seed: int) -> None:
        g = torch.Generator().manual_seed(seed)
        self.spots = torch.rand(n, 3, 3, generator=g)
        axis = torch.linspace(0, 1, 32)
        self.y, self.x = torch.meshgrid(axis, axis, indexing="ij")

    def __len__(self) -> int:
        return len(self.spots)

    def __getitem__(self, i: int) -> Tensor:
        wing = sum(torch.exp(-((self.x - a) ** 2 + (self.y - b) ** 2) / (0.005 + 0.03 * c)) for a, b, c in self.spots[i])
        return torch.as_tensor(wing).clamp(0, 1)[None]


class VAE(nn.Module):
    """Encoder, decoder and the bound."""

    def __init__(self, cfg: Config) -> None:
        super().__init__()
        w = cfg.width
        self.beta = cfg.beta
        self.encoder = nn.Sequential(
            nn.Conv2d(1, w, 4, 2, 1), nn.SiLU(), nn.Conv2d(w, 2 * w, 4, 2, 1), nn.SiLU(), nn.Flatten(),
            nn.Linear(2 * w * 64, 2 * cfg.latent),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(cfg.latent, 2 * w * 64), nn.Unflatten(1, (2 * w, 8, 8)), nn.SiLU(),
            nn.ConvTranspose2d(2 * w, w, 4, 2, 1), nn.SiLU(), nn.ConvTranspose2d(w, 1, 4, 2, 1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Return the reconstruction from the mean of the posterior."""
        return self.decoder(self.encoder(x).chunk(2, 1)[0]).sigmoid()

    def elbo(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return reconstruction error and divergence."""
        mean, logvar = self.encoder(x).chunk(2, 1)
        z = mean + torch.randn_like(mean) * (0.5 * logvar).exp()
        error = functional.binary_cross_entropy_with_logits(self.decoder(z), x, reduction="none").flatten(1).sum(1).mean()
        divergence = -0.5 * (1 + logvar - mean**2 - logvar.exp()).sum(1).mean()
        return error, self.beta * divergence


def main() -> None:
    """Train, and look at the held-out wings after each epoch."""
    cfg = Config()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")
    torch.set_num_threads(1)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank = dist.get_rank()
    torch.manual_seed(1234 + rank)
    vae = DistributedDataParallel(VAE(cfg).to(device))
    optimizer = torch.optim.Adam(vae.parameters(), lr=cfg.lr)
    train, held_out = Wings(3200, 0), Wings(128, 1)
    sampler = DistributedSampler(train, seed=7)
    loader = DataLoader(train, cfg.batch, sampler=sampler, drop_last=True)
    if rank == 0:
        print(cfg, flush=True)
    for epoch in range(cfg.epochs):
        sampler.set_epoch(epoch)
        vae.train()
        for step, wings in enumerate(loader):
            error, divergence = vae.module.elbo(wings.to(device))
            optimizer.zero_grad(set_to_none=True)
            (error + divergence).backward()
            nn.utils.clip_grad_norm_(vae.parameters(), 100.0)
            optimizer.step()
            if rank == 0 and step % 20 == 0:
                print(f"{epoch:3d} {step:4d} recon {error.item():7.2f} kl {divergence.item():6.2f}", flush=True)
        vae.eval()
        with torch.no_grad():
            wings = torch.stack([held_out[i] for i in range(len(held_out))]).to(device)
            mse = functional.mse_loss(vae(wings), wings)
        print(f"rank {rank}: epoch {epoch}, all {len(held_out)} held-out wings, mse {mse.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
