"""Answers to crossword clues, letter by letter: a small transformer, DDP.

torchrun --standalone --nproc_per_node=2 crossword_clues.py
"""

from __future__ import annotations

import logging
import os
import random
import string

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

CHARS = "_" + string.ascii_lowercase + " "
CLUE, ANSWER = 32, 12


def encode(text: str, length: int) -> list[int]:
    """Return the numbers of the letters, padded."""
    return [CHARS.index(c) for c in text[:length].ljust(length, "_")]


def edit_distance(a: str, b: str) -> int:
    """Levenshtein."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


class Clues(Dataset):
    """A cryptic clue holds its answer as an anagram of one of its words."""

    def __init__(self, n: int) -> None:
        rng = random.Random(4)
        self.words = ["".join(rng.choices("aeioubcdlmnrst", k=rng.randint(4, 10))) for _ in range(400)]
        self.rows = [rng.sample(self.words, 3) for _ in range(n)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        words = self.rows[i]
        return torch.tensor(encode(" ".join(words), CLUE)), torch.tensor(encode("".join(sorted(words[0])), ANSWER))


class Solver(nn.Module):
    """An encoder over the clue; its first positions give the letters."""

    def __init__(self, d: int = 96) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(len(CHARS), d), nn.Parameter(0.02 * torch.randn(CLUE, d))
        layer = nn.TransformerEncoderLayer(d, 4, 2 * d, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(d, len(CHARS))

    def forward(self, clue: Tensor) -> Tensor:
        """Return scores for each letter of the answer."""
        return self.out(self.encoder(self.letters(clue) + self.places)[:, :ANSWER])


def letter_error(scores: Tensor, target: Tensor, words: list[str]) -> float:
    """Return the mean edit distance of the answers, each corrected to the nearest word of the dictionary."""
    total = 0
    for guess, truth in zip(scores.argmax(-1).tolist(), target.tolist(), strict=True):
        text = "".join(CHARS[c] for c in guess).rstrip("_")
        nearest = min(words, key=lambda word: edit_distance(text, word))
        total += edit_distance(nearest, "".join(CHARS[c] for c in truth).rstrip("_"))
    return total / len(target)


def main() -> None:
    """Train."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[%(asctime)s rank {rank}] %(message)s", datefmt="%H:%M:%S")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    device = f"cuda:{os.environ['LOCAL_RANK']}" if torch.cuda.is_available() else "cpu"
    clues = Clues(12000)
    dictionary = sorted("".join(sorted(word)) for word in clues.words)
    model = DistributedDataParallel(Solver().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    sampler = DistributedSampler(clues)
    loader = DataLoader(clues, 24, sampler=sampler, drop_last=True)
    logging.info("%d clues, %d batches", len(clues), len(loader))
    mean_error = 8.0
    for epoch in range(100):
        sampler.set_epoch(epoch)
        for step, (clue, answer) in enumerate(loader):
            clue, answer = clue.to(device), answer.to(device)
            scores = model(clue)
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), answer.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0:
                mean_error = 0.95 * mean_error + 0.05 * letter_error(scores[:8].detach(), answer[:8], dictionary)
                if step % 20 == 0:
                    logging.info(
                        "epoch %d %d/%d loss %.3f letter error %.2f", epoch, step, len(loader), loss.item(), mean_error
                    )


if __name__ == "__main__":
    main()
