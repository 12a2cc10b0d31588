"""Folk tunes in ABC notation, from 16 to 400 letters; tunes of similar length share a batch. Accelerate, two processes.

torchrun --standalone --nproc_per_node=2 folk_tunes.py
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Sampler

NOTES = 40


class Tunes(Dataset):
    """A tune repeats a phrase, with ornaments."""

    def __init__(self, n: int) -> None:
        g = torch.Generator().manual_seed(17)
        self.lengths = (16 * (1 + 24 * torch.rand(n, generator=g) ** 2)).long().tolist()
        self.phrases = torch.randint(1, NOTES, (n, 8), generator=g)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, i: int) -> Tensor:
        tune = self.phrases[i].repeat(self.lengths[i] // 8 + 1)[: self.lengths[i]].clone()
        ornament = torch.rand(len(tune)) < 0.05
        tune[ornament] = torch.randint(1, NOTES, (int(ornament.sum()),))
        return tune


class ByLength(Sampler[list[int]]):
    """Batches of tunes of similar length, in random order; neighbours go to all processes at the same time."""

    def __init__(self, lengths: list[int], batch: int, rank: int, world: int) -> None:
        self.lengths, self.batch, self.rank, self.world, self.epoch = lengths, batch, rank, world, 0

    def __len__(self) -> int:
        return len(self.lengths) // (self.batch * self.world)

    def __iter__(self) -> Iterator[list[int]]:
        g = torch.Generator().manual_seed(self.epoch)
        jitter = torch.rand(len(self.lengths), generator=g).tolist()
        order = sorted(range(len(self.lengths)), key=lambda i: (self.lengths[i] // 16, jitter[i]))
        size = self.batch * self.world
        for start in torch.randperm(len(self), generator=g).tolist():
            yield order[start * size : (start + 1) * size][self.rank :: self.world]


def collate(tunes: list[Tensor]) -> Tensor:
    """Pad with zeros."""
    return nn.utils.rnn.pad_sequence(tunes, batch_first=True)


class TuneModel(nn.Module):
    """A GRU over notes."""

    def __init__(self, d: int = 128) -> None:
        super().__init__()
        self.notes = nn.Embedding(NOTES, d, padding_idx=0)
        self.gru = nn.GRU(d, d, 2, batch_first=True)
        self.out = nn.Linear(d, NOTES)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores for the next notes."""
        return self.out(self.gru(self.notes(x))[0])


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=6)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=100)
    args = parser.parse_args()
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    torch.manual_seed(5)
    model = TuneModel()
    model, optimizer = accelerator.prepare(model, torch.optim.Adam(model.parameters(), args.lr))
    tunes = Tunes(12000)
    batches = ByLength(tunes.lengths, args.batch, accelerator.process_index, accelerator.num_processes)
    loader = DataLoader(tunes, batch_sampler=batches, collate_fn=collate)
    for epoch in range(args.epochs):
        batches.epoch = epoch
        for step, tune in enumerate(loader):
            tune = tune.to(accelerator.device)
            scores = model(tune[:, :-1])
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), tune[:, 1:].flatten(), ignore_index=0)
            optimizer.zero_grad()
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if step % 10 == 0:
                mean = accelerator.reduce(loss.detach(), "mean").item()
                accelerator.print(f"epoch {epoch} {step}/{len(loader)} letters {tuple(tune.shape)} loss {mean:.4f}", flush=True)


if __name__ == "__main__":
    main()
