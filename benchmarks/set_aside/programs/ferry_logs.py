"""Delays of ferries from the lines of their logs. The lines come from one stream, which the main process reads for all.

accelerate launch --num_processes 2 ferry_logs.py
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

HARBOURS = ("Helsingor", "Rodby", "Puttgarden", "Turku", "Tallinn", "Ystad", "Rostock", "Trelleborg")
WEATHER = ("calm", "breeze", "gale", "fog", "ice")


class LogStream(IterableDataset[dict[str, torch.Tensor]]):
    """Lines such as ``Rodby;Puttgarden;gale;14;812;33`` (from, to, weather, hour, passengers, minutes late)."""

    def __init__(self, lines: int, seed: int) -> None:
        self.lines, self.seed = lines, seed

    def read(self) -> Iterator[str]:
        rng = random.Random(self.seed)
        for _ in range(self.lines):
            origin, target = rng.sample(range(len(HARBOURS)), 2)
            weather, hour, people = rng.randrange(len(WEATHER)), rng.randrange(24), rng.randrange(1500)
            late = 4 * weather + 0.01 * people + 3 * (hour in (7, 8, 16, 17)) + abs(origin - target) + rng.gauss(0, 2)
            yield f"{HARBOURS[origin]};{HARBOURS[target]};{WEATHER[weather]};{hour};{people};{late:.1f}"

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        for line in self.read():
            origin, target, weather, hour, people, late = line.split(";")
            yield {
                "codes": torch.tensor(
                    [HARBOURS.index(origin), 8 + HARBOURS.index(target), 16 + WEATHER.index(weather), 21 + int(hour)]
                ),
                "people": torch.tensor(int(people) / 1000.0),
                "late": torch.tensor(float(late)),
            }


class DelayNet(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.codes = nn.Embedding(45, 64)
        layer = nn.TransformerEncoderLayer(64, 4, width, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.out = nn.Sequential(nn.Linear(4 * 64 + 1, width), nn.GELU(), nn.Linear(width, 1))

    def forward(self, codes: torch.Tensor, people: torch.Tensor) -> torch.Tensor:
        h = self.encoder(self.codes(codes)).flatten(1)
        return self.out(torch.cat([h, people[:, None]], 1)).squeeze(1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--lines", type=int, default=40_000)
    args = parser.parse_args()
    torch.set_num_threads(1)
    set_seed(5)
    accelerator = Accelerator(
        cpu=not torch.cuda.is_available(),
        dataloader_config=DataLoaderConfiguration(dispatch_batches=True, split_batches=False),
    )
    model = DelayNet(args.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    train = DataLoader(LogStream(args.lines, 1), batch_size=args.batch_size)
    test = DataLoader(LogStream(1500, 2), batch_size=args.batch_size)
    model, optimizer, train, test = accelerator.prepare(model, optimizer, train, test)
    accelerator.print(f"{accelerator.num_processes} processes on {accelerator.device.type}")
    step = 0
    for epoch in range(args.epochs):
        model.train()
        for batch in train:
            loss = F.huber_loss(model(batch["codes"], batch["people"]), batch["late"])
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step % 10 == 0:
                mean = accelerator.reduce(loss.detach(), reduction="mean")
                accelerator.print(f"epoch {epoch} step {step}: huber {mean.item():.3f}", flush=True)
        model.eval()
        errors = []
        for batch in test:
            with torch.no_grad():
                late = model(batch["codes"], batch["people"])
            late, truth = accelerator.gather_for_metrics((late, batch["late"]))
            errors.append((late - truth).abs())
        accelerator.print(f"epoch {epoch}: mean error {torch.cat(errors).mean().item():.2f} minutes", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
