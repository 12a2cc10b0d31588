"""Reads lines of parish ledgers: a small CRNN with CTC.    sbatch parish_ledgers.sh"""

from __future__ import annotations

import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

LETTERS = "-abcdefghijklmnopqrstuvwxyz"
WIDTH, HEIGHT, LENGTH = 96, 24, 8


class Lines(Dataset):
    """The scans may not leave the archive; these are made of the same glyphs."""

    def __init__(self, n: int, seed: int) -> None:
        g = torch.Generator().manual_seed(seed)
        self.words = torch.randint(1, len(LETTERS), (n, LENGTH), generator=g)
        self.glyphs = (
            torch.rand(len(LETTERS), HEIGHT, WIDTH // LENGTH, generator=torch.Generator().manual_seed(9)) > 0.6
        ).float()

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        word = self.words[i]
        line = torch.cat(list(self.glyphs[word]), dim=1)
        return (line + 0.9 * torch.randn_like(line))[None], word


class CRNN(nn.Module):
    """Convolutions, a bidirectional LSTM, and a layer for the letters."""

    def __init__(self, hidden: int = 128) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d((2, 1)),
        )  # fmt: skip
        self.rnn = nn.LSTM(32 * (HEIGHT // 4), hidden, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * hidden, len(LETTERS))

    def forward(self, x: Tensor) -> Tensor:
        """Return log probabilities, time first."""
        h = self.conv(x).flatten(1, 2).transpose(1, 2)
        return self.out(self.rnn(h)[0]).log_softmax(-1).transpose(0, 1)


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=12, help="per device")
    parser.add_argument("--epochs", type=int, default=400)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    accelerator = Accelerator()
    set_seed(args.seed)
    accelerator.print(vars(args), flush=True)
    model = CRNN()
    loader = DataLoader(Lines(4800, 0), args.batch_size, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), args.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(loader))
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    step = 0
    for epoch in range(args.epochs):
        for x, y in loader:
            logp = model(x)
            frames = torch.full((len(x),), logp.shape[0])
            loss = nn.functional.ctc_loss(logp, y, frames, torch.full((len(x),), LENGTH))
            optimizer.zero_grad()
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            schedule.step()
            step += 1
            if step % 20 == 0:
                accelerator.print(
                    f"epoch {epoch} step {step} ctc {loss.item():.3f} lr {schedule.get_last_lr()[0]:.2e}", flush=True
                )


if __name__ == "__main__":
    main()
