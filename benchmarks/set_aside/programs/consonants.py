"""Spoken consonants with a small transformer, ported from Lightning 1.9 (training_epoch_end is gone)."""

import tempfile

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

CONSONANTS = list("bdgkmnpstz")


def fake_filterbanks(n=2400, frames=64, mels=40):
    g = torch.Generator().manual_seed(5)
    y = torch.randint(0, len(CONSONANTS), (n,), generator=g)
    templates = torch.randn(len(CONSONANTS), 12, mels, generator=g)
    x = torch.randn(n, frames, mels, generator=g)
    start = torch.randint(0, frames - 12, (n,), generator=g)
    for i in range(n):
        x[i, start[i] : start[i] + 12] += templates[y[i]]
    return TensorDataset(x, y)


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x):
        h = self.n1(x)
        a, weights = self.attn(h, h, h, need_weights=True)
        x = x + a
        return x + self.ff(self.n2(x)), weights


class ConsonantModel(L.LightningModule):
    def __init__(self, dim=160, heads=4, layers=4):
        super().__init__()
        self.inp = nn.Linear(40, dim)
        self.pos = nn.Parameter(torch.randn(1, 64, dim) * 0.02)
        self.layers = nn.ModuleList(EncoderLayer(dim, heads) for _ in range(layers))
        self.head = nn.Linear(dim, len(CONSONANTS))
        self.training_step_outputs = []

    def forward(self, x):
        x = self.inp(x) + self.pos
        for layer in self.layers:
            x, weights = layer(x)
        return self.head(x.mean(1)), weights

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits, attention = self(x)
        loss = F.cross_entropy(logits, y)
        acc = (logits.argmax(-1) == y).float().mean()
        self.log("loss", loss, prog_bar=True)
        self.training_step_outputs.append({"loss": loss, "acc": acc, "attention": attention})
        return loss

    def on_train_epoch_end(self):
        outputs = self.training_step_outputs
        mean_acc = torch.stack([o["acc"] for o in outputs]).mean()
        focus = outputs[-1]["attention"].amax(-1).mean()
        self.print(f"\nepoch {self.current_epoch}: acc {mean_acc:.3f} attention focus {focus:.3f}")

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4)


if __name__ == "__main__":
    L.seed_everything(1)
    loader = DataLoader(fake_filterbanks(), batch_size=24, shuffle=True, num_workers=0)
    with tempfile.TemporaryDirectory(prefix="lit-") as root:
        trainer = L.Trainer(
            max_epochs=500,
            max_time="00:00:02:50",
            accelerator="auto",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            default_root_dir=root,
            log_every_n_steps=10,
        )
        trainer.fit(ConsonantModel(), loader)
