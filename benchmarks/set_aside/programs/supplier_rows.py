"""Supplier master data: pretrain a row encoder by masked columns, then fine-tune the late-delivery head on it."""
import argparse
import json
import logging
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

log = logging.getLogger("supplier")


@dataclass
class EncoderConfig:
    cardinalities: list = field(default_factory=lambda: [30, 12, 50, 8, 24, 40, 16, 10, 20, 36])
    dim: int = 96
    layers: int = 3
    heads: int = 4


@dataclass
class RunConfig:
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    rows: int = 40000
    batch_size: int = 256
    mask_rate: float = 0.25
    pretrain_steps: int = 165
    finetune_steps: int = 1500
    eval_every: int = 55
    lr: float = 6e-4
    run_dir: Path = Path(tempfile.gettempdir()) / "supplier_rows"


def synth_rows(cfg, seed):
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(cfg.rows, 6))
    cols = []
    for card in cfg.encoder.cardinalities:
        logits = latent @ rng.normal(size=(6, card)) * 1.4
        cols.append((logits + rng.gumbel(size=logits.shape)).argmax(1))
    late = (latent @ rng.normal(size=6) + rng.normal(0, 0.8, cfg.rows) > 0.8).astype(np.int64)
    return torch.from_numpy(np.stack(cols, 1)), torch.from_numpy(late)


class RowEncoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(c + 1, cfg.dim) for c in cfg.cardinalities)
        self.position = nn.Parameter(torch.randn(len(cfg.cardinalities), cfg.dim) * 0.02)
        layer = nn.TransformerEncoderLayer(cfg.dim, cfg.heads, 4 * cfg.dim, 0.1, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, cfg.layers, enable_nested_tensor=False)
        self.heads = nn.ModuleList(nn.Linear(cfg.dim, c) for c in cfg.cardinalities)

    def forward(self, rows):
        x = torch.stack([t(rows[:, i]) for i, t in enumerate(self.tables)], 1) + self.position
        return self.body(x)


class Pretrainer:
    def __init__(self, cfg, rows, device):
        self.cfg, self.rows, self.device = cfg, rows, device
        self.model = RowEncoder(cfg.encoder).to(device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)
        self.mask_ids = torch.tensor(cfg.encoder.cardinalities, device=device)
        self.best = float("inf")

    def loss(self, rows):
        rows = rows.to(self.device)
        mask = torch.rand(rows.shape, device=self.device) < self.cfg.mask_rate
        h = self.model(torch.where(mask, self.mask_ids.expand_as(rows), rows))
        parts = [F.cross_entropy(head(h[:, i][mask[:, i]]), rows[:, i][mask[:, i]]) for i, head in enumerate(self.model.heads)]
        return torch.stack(parts).mean()

    def run(self):
        held_out, train = self.rows[:2048], self.rows[2048:]
        t0 = time.time()
        for step in range(1, self.cfg.pretrain_steps + 1):
            loss = self.loss(train[torch.randint(len(train), (self.cfg.batch_size,))])
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            if step % 5 == 0:
                log.info("pretrain step %d/%d loss %.4f (%.1f s)", step, self.cfg.pretrain_steps, loss.item(), time.time() - t0)
            if step % self.cfg.eval_every == 0:
                self.model.eval()
                with torch.no_grad():
                    val = self.loss(held_out).item()
                self.model.train()
                if val < self.best:
                    self.best = val
                    self.save(step)
                log.info("pretrain step %d held-out loss %.4f best %.4f", step, val, self.best)

    def save(self, step):
        torch.save({"step": step, "config": self.cfg, "encoder": self.model.state_dict(), "optimizer": self.opt.state_dict(),
                    "best": self.best}, self.cfg.run_dir / "encoder_best.pt")


class LateHead(nn.Module):
    def __init__(self, encoder, dim):
        super().__init__()
        self.encoder, self.fc = encoder, nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2))

    def forward(self, rows):
        return self.fc(self.encoder(rows).mean(1))


def finetune(cfg, rows, late, device):
    checkpoint = torch.load(cfg.run_dir / "encoder_best.pt", map_location=device)
    encoder = RowEncoder(checkpoint["config"].encoder)
    encoder.load_state_dict(checkpoint["encoder"])
    log.info("encoder of step %d, held-out loss %.4f", checkpoint["step"], checkpoint["best"])
    model = LateHead(encoder, cfg.encoder.dim).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr / 3)
    with open(cfg.run_dir / "finetune.jsonl", "w") as f:
        for step in range(1, cfg.finetune_steps + 1):
            i = torch.randint(2048, len(rows), (cfg.batch_size,))
            loss = F.cross_entropy(model(rows[i].to(device)), late[i].to(device))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            if step % 10 == 0:
                log.info("finetune step %d loss %.4f", step, loss.item())
                f.write(json.dumps({"step": step, "loss": loss.item()}) + "\n")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--pretrain-steps", type=int, default=RunConfig.pretrain_steps)
    p.add_argument("--rows", type=int, default=RunConfig.rows)
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname).1s %(name)s %(message)s")
    cfg = RunConfig(pretrain_steps=args.pretrain_steps, rows=args.rows)
    cfg.run_dir.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    rows, late = synth_rows(cfg, 0)
    log.info("%d supplier rows, %d columns, device %s", *rows.shape, device)
    Pretrainer(cfg, rows, device).run()
    finetune(cfg, rows, late, device)


if __name__ == "__main__":
    main()
