"""Embeddings of watch dials for the duplicate search of the auction house."""
from __future__ import annotations

import logging
import sys
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(name)s %(message)s")
log = logging.getLogger("dials")


@dataclass
class DataConfig:
    models: int = 40
    photos: int = 40
    side: int = 40
    uploaded_twice: int = 5  # sellers upload the same photo again


@dataclass
class Config:
    data: DataConfig = field(default_factory=DataConfig)
    dim: int = 64
    margin: float = 0.5
    lr: float = 1e-4
    batch: int = 16
    steps: int = 6000
    log_every: int = 20
    seed: int = 5


class Dials:
    def __init__(self, c: DataConfig, g: torch.Generator) -> None:
        # one case, one maker: the dials differ little
        proto = torch.rand(3, 10, 10, generator=g) + 0.3 * torch.randn(c.models, 3, 10, 10, generator=g)
        proto = nn.functional.interpolate(proto, (c.side, c.side), mode="bilinear")
        light = 0.7 + 0.6 * torch.rand(c.models, c.photos, 1, 1, 1, generator=g)
        noise = 0.6 * torch.randn(c.models, c.photos, 3, c.side, c.side, generator=g)
        self.photos = proto[:, None] * light + noise
        for _ in range(c.uploaded_twice):
            m = int(torch.randint(c.models, (1,), generator=g))
            a, b = torch.randperm(c.photos, generator=g)[:2].tolist()
            self.photos[m, a] = self.photos[m, b]
        self.c, self.g = c, g

    def triplets(self, n: int) -> tuple[Tensor, Tensor, Tensor]:
        m = torch.randint(self.c.models, (n,), generator=self.g)
        other = (m + torch.randint(1, self.c.models, (n,), generator=self.g)) % self.c.models
        i = torch.randint(self.c.photos, (n,), generator=self.g)
        j = (i + torch.randint(1, self.c.photos, (n,), generator=self.g)) % self.c.photos  # never the photo itself
        k = torch.randint(self.c.photos, (n,), generator=self.g)
        return self.photos[m, i], self.photos[m, j], self.photos[other, k]


class Embedder(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 24, 3, stride=2, padding=1), nn.GroupNorm(4, 24), nn.ReLU(),
            nn.Conv2d(24, 48, 3, stride=2, padding=1), nn.GroupNorm(4, 48), nn.ReLU(),
            nn.Conv2d(48, 96, 3, stride=2, padding=1), nn.GroupNorm(4, 96), nn.ReLU(),
            nn.Flatten(), nn.Linear(96 * 25, dim),
        )

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.normalize(self.net(x), dim=1)


def distance(a: Tensor, b: Tensor) -> Tensor:
    return torch.sqrt(((a - b) ** 2).sum(dim=1))


class Trainer:
    def __init__(self, config: Config) -> None:
        torch.manual_seed(config.seed)
        self.config = config
        self.data = Dials(config.data, torch.Generator().manual_seed(config.seed))
        self.model = Embedder(config.dim)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=config.lr)

    def step(self) -> float:
        anchor, same, different = self.data.triplets(self.config.batch)
        a, p, n = self.model(torch.cat([anchor, same, different])).chunk(3)
        loss = torch.relu(distance(a, p) - distance(a, n) + self.config.margin).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self) -> None:
        log.info("config %s", self.config)
        total = 0.0
        for step in range(1, self.config.steps + 1):
            total += self.step()
            if step % self.config.log_every == 0:
                log.info("step %d triplet loss %.4f", step, total / self.config.log_every)
                total = 0.0


if __name__ == "__main__":
    Trainer(Config()).fit()
