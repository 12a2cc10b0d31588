"""GLUE-like pair classification with Accelerate: accumulation over 4 batches, warm-up and linear decay."""
import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Pair(nn.Module):
    def __init__(self, vocab=500, d=128):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(d, 4, 256, 0.1, batch_first=True), 2, enable_nested_tensor=False)
        self.cls = nn.Sequential(nn.Linear(2 * d, d), nn.Tanh(), nn.Linear(d, 2))

    def forward(self, a, b):
        a, b = self.enc(self.emb(a)).mean(1), self.enc(self.emb(b)).mean(1)
        return self.cls(torch.cat([a * b, (a - b).abs()], 1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gradient_accumulation_steps", type=int, default=4)
    parser.add_argument("--num_train_epochs", type=int, default=200)
    args = parser.parse_args()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=args.gradient_accumulation_steps)
    set_seed(42)
    y = torch.randint(0, 2, (6400,))
    a = torch.randint(10, 500, (6400, 24))
    other = torch.randint(10, 500, (6400, 24))
    keep = torch.rand(6400, 24) < (0.25 + 0.5 * y)[:, None]
    b = torch.where(keep, a, other)[:, torch.randperm(24)]
    loader = DataLoader(TensorDataset(a, b, y), 16, shuffle=True)
    model = Pair()
    optimizer = torch.optim.AdamW(model.parameters(), 2e-4)
    total = args.num_train_epochs * len(loader)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 60) * max(0.0, 1 - s / total))
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    accelerator.print("***** Running training *****")
    done = 0
    for epoch in range(args.num_train_epochs):
        for a, b, y in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(a, b), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    done += 1
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients and done % 4 == 0:
                accelerator.print(f"epoch {epoch} update {done}: {{'loss': {loss.item():.4f}, 'learning_rate': {scheduler.get_last_lr()[0]:.3e}}}", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
