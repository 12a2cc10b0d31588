"""A small language model of freight papers; the optimizer's state is divided between the processes (ZeRO-1).

torchrun --standalone --nproc_per_node=2 freight_words.py
"""

from __future__ import annotations

import logging
import math
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel


@dataclass
class Config:
    """Sizes and rates."""

    vocab: int = 512
    d: int = 160
    layers: int = 3
    context: int = 48
    batch: int = 6
    lr: float = 6e-4
    warmup: int = 100
    steps: int = 100_000
    save_every: int = 150


class Papers:
    """Waybills, made by a Markov chain over words; each process has its own part of them."""

    def __init__(self, cfg: Config, part: int) -> None:
        shared = torch.Generator().manual_seed(21)
        self.following = torch.randint(0, cfg.vocab, (cfg.vocab, 6), generator=shared)
        self.g = torch.Generator().manual_seed(1000 + part)
        self.cfg = cfg

    def batch(self) -> Tensor:
        """Return rows of words."""
        n = self.cfg.batch
        words = [torch.randint(0, self.cfg.vocab, (n,), generator=self.g)]
        for _ in range(self.cfg.context):
            choice = (6 * torch.rand(n, generator=self.g) ** 2).long()
            words.append(self.following[words[-1], choice])
        return torch.stack(words, dim=1)


class Model(nn.Module):
    """A decoder."""

    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.words = nn.Embedding(cfg.vocab, cfg.d)
        nn.init.normal_(self.words.weight, std=0.05)
        self.places = nn.Parameter(0.02 * torch.randn(cfg.context, cfg.d))
        layer = nn.TransformerEncoderLayer(cfg.d, 4, 4 * cfg.d, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, cfg.layers, nn.LayerNorm(cfg.d), enable_nested_tensor=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(cfg.context), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores for the next words."""
        h = self.layers(self.words(x) + self.places, mask=self.mask, is_causal=True)
        return h @ self.words.weight.T


def main() -> None:
    """Train, and write a checkpoint now and then."""
    cfg = Config()
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank = dist.get_rank()
    logging.basicConfig(format="%(asctime)s | %(message)s", datefmt="%H:%M:%S")
    log = logging.getLogger("freight")
    log.setLevel(logging.INFO if rank == 0 else logging.ERROR)
    torch.set_num_threads(1)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(0)
    model = DistributedDataParallel(Model(cfg).to(device), gradient_as_bucket_view=True)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=cfg.lr, weight_decay=0.1)
    folder = Path(tempfile.mkdtemp(prefix="freight-")) if rank == 0 else None
    papers = Papers(cfg, rank)
    log.info("%s, %.1f M parameters", cfg, sum(p.numel() for p in model.parameters()) / 1e6)
    for step in range(1, cfg.steps + 1):
        rate = cfg.lr * min(1.0, step / cfg.warmup)
        for group in optimizer.param_groups:
            group["lr"] = rate
        text = papers.batch().to(device)
        loss = nn.functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 20 == 0:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            mean /= dist.get_world_size()
            log.info("step %5d | loss %.4f | ppl %8.2f | lr %.2e", step, mean.item(), math.exp(mean.item()), rate)
        if step % cfg.save_every == 0:
            optimizer.consolidate_state_dict(to=0)
            if folder is not None:
                torch.save(
                    {"step": step, "model": model.module.state_dict(), "optim": optimizer.state_dict()}, folder / "last.pt"
                )
                log.info("saved step %d", step)
            dist.barrier()


if __name__ == "__main__":
    main()
