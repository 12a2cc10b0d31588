"""Species of crickets by their chirps, with the Trainer of Transformers."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import HfArgumentParser, Trainer, TrainingArguments

SPECIES = ["bimaculatus", "campestris", "domesticus", "frontalis", "pellucens", "sylvestris"]
RATE = 16000


@dataclass
class DataArguments:
    """How sound becomes pictures."""

    seconds: float = field(default=3.0)
    n_fft: int = field(default=1024)
    hop: int = field(default=128)
    mels: int = field(default=40)


class Chirps(Dataset):
    """Recordings from the meadow: pulses of a carrier, and the other insects."""

    def __init__(self, n: int, args: DataArguments, seed: int) -> None:
        self.n, self.args, self.seed = n, args, seed

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> dict[str, np.ndarray | int]:
        rng = np.random.default_rng([self.seed, i])
        label = i % len(SPECIES)
        t = np.arange(int(RATE * self.args.seconds)) / RATE
        pulses = np.sin(2 * np.pi * (8 + 4 * label) * t + rng.uniform(0, 6)) > 0.3
        tone = np.sin(2 * np.pi * (3500 + 350 * label + rng.normal(0, 200)) * t)
        return {"audio": (pulses * tone + rng.normal(0, 1.2, len(t))).astype("float32"), "label": label}


class LogMel:
    """A collator: pads nothing, as all recordings have one length, and makes log-mel spectrograms."""

    def __init__(self, args: DataArguments) -> None:
        self.args = args
        self.window = np.hanning(args.n_fft)

    def filters(self) -> np.ndarray:
        """Return triangular filters on the mel scale."""
        bins = np.linspace(0, RATE / 2, self.args.n_fft // 2 + 1)
        top = 2595 * np.log10(1 + RATE / 2 / 700)
        edges = 700 * (10 ** (np.linspace(0, top, self.args.mels + 2) / 2595) - 1)
        rows = []
        for low, mid, high in zip(edges, edges[1:], edges[2:], strict=False):
            rows.append(np.maximum(0, np.minimum((bins - low) / (mid - low), (high - bins) / (high - mid))))
        return np.stack(rows)

    def spectrogram(self, audio: np.ndarray) -> np.ndarray:
        """Return one picture."""
        n, hop = self.args.n_fft, self.args.hop
        bank = self.filters()
        columns = []
        for start in range(0, len(audio) - n, hop):
            power = np.abs(np.fft.rfft(self.window * audio[start : start + n])) ** 2
            columns.append(np.log(bank @ power + 1e-6))
        picture = np.stack(columns, axis=1)
        return (picture - picture.mean()) / picture.std()

    def __call__(self, rows: list[dict]) -> dict[str, Tensor]:
        """Make a batch."""
        pictures = np.stack([self.spectrogram(row["audio"]) for row in rows])[:, None]
        return {"inputs": torch.tensor(pictures, dtype=torch.float32), "labels": torch.tensor([row["label"] for row in rows])}


class Classifier(nn.Module):
    """Three convolutions."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 5, 2), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, 2), nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
            nn.Linear(8 * width, len(SPECIES)),
        )  # fmt: skip

    def forward(self, inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return loss and logits."""
        logits = self.net(inputs)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def main() -> None:
    """Train."""
    (data,) = HfArgumentParser(DataArguments).parse_args_into_dataclasses()
    torch.set_num_threads(1)
    args = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=16,
        num_train_epochs=20,
        learning_rate=1e-3,
        logging_steps=5,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
    )
    chirps = Chirps(12000, data, 0)
    Trainer(Classifier(), args, data_collator=LogMel(data), train_dataset=chirps).train()


if __name__ == "__main__":
    main()
