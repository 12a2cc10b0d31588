"""Time to the next eruption of a geyser from its temperature curve (Transformers Trainer).

    python geyser_temps.py
"""
import argparse

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, set_seed


def temperature_curve(n_eruptions, rng):
    """Heats up until it erupts; the rate depends on the season and the last eruption."""
    curve, remaining = [], []
    for _ in range(n_eruptions):
        minutes = int(rng.uniform(45, 110))
        ramp = 92 - 30 * np.exp(-np.linspace(0, 4, minutes)) * rng.uniform(0.8, 1.2) + np.linspace(0, 4, minutes) ** 2 / 3
        curve.append(ramp + rng.normal(0, 0.25, minutes))
        remaining.append(np.arange(minutes, 0, -1))
    return np.concatenate(curve).astype(np.float32), np.concatenate(remaining).astype(np.float32)


class Curves(Dataset):
    def __init__(self, count, window, seed):
        rng = np.random.default_rng(seed)
        self.curve, remaining = temperature_curve(count // 20, rng)
        self.curve = (self.curve - 85) / 8
        self.remaining = (remaining - 40) / 25
        self.window = window
        self.ends = rng.integers(window, len(self.curve), count)

    def __len__(self):
        return len(self.ends)

    def __getitem__(self, i):
        e = self.ends[i]
        return {"values": torch.from_numpy(self.curve[e - self.window:e]), "labels": torch.tensor(self.remaining[e - 1])}


class EruptionModel(nn.Module):
    def __init__(self, window, width=64, heads=4, layers=2, patch=8):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(patch, width)
        self.position = nn.Parameter(torch.randn(1, window // patch, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))

    def forward(self, values, labels=None):
        tokens = values.unfold(1, self.patch, self.patch)
        h = self.encoder(self.embed(tokens) + self.position)
        minutes = self.head(h[:, -1])
        output = {"logits": minutes}
        if labels is not None:
            output["loss"] = nn.functional.mse_loss(minutes, labels)
        return {key: output[key] for key in ("loss", "logits") if key in output}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--windows", type=int, default=12000)
    p.add_argument("--window", type=int, default=192)
    p.add_argument("--epochs", type=float, default=36)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()
    torch.set_num_threads(1)
    set_seed(9)
    train, valid = Curves(args.windows, args.window, 1), Curves(1000, args.window, 2)
    model = EruptionModel(args.window)
    print(f"{len(train)} windows of {args.window} minutes, variance of the target {train.remaining.var():.3f}", flush=True)
    settings = TrainingArguments(
        output_dir="geyser_temps_out", num_train_epochs=args.epochs, learning_rate=args.lr, lr_scheduler_type="cosine",
        warmup_steps=50, per_device_train_batch_size=64, per_device_eval_batch_size=200, eval_strategy="steps", eval_steps=200,
        logging_steps=20, save_strategy="no", report_to="none", disable_tqdm=True, remove_unused_columns=False,
        dataloader_pin_memory=torch.cuda.is_available())

    def metrics(output):
        guess = np.asarray(output.predictions).reshape(-1)
        return {"mae_minutes": float(np.abs(guess - output.label_ids).mean() * 25)}

    trainer = Trainer(model=model, args=settings, train_dataset=train, eval_dataset=valid, compute_metrics=metrics)
    trainer.train()
    final = trainer.evaluate()
    print(f"final MAE {final['eval_mae_minutes']:.1f} minutes", flush=True)


if __name__ == "__main__":
    main()
