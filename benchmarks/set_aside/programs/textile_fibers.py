"""Fibre mix of textiles from near-infrared spectra, for the sorting line. torchrun --nproc-per-node=2 textile_fibers.py"""
import time

import torch
import torch.nn as nn
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

FIBRES, BANDS = 5, 200


def spectra(n, seed):
    g = torch.Generator().manual_seed(seed)
    pure = torch.Generator().manual_seed(77)
    lines = torch.randn(FIBRES, BANDS, generator=pure).cumsum(1) / 8
    mix = torch.rand(n, FIBRES, generator=g).pow(2)
    mix = mix / mix.sum(1, keepdim=True)
    return TensorDataset(mix @ lines + 0.1 * torch.randn(n, BANDS, generator=g), mix)


class Mixer(nn.Module):
    def __init__(self, w=64):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, w, 9, stride=2, padding=4), nn.GroupNorm(8, w), nn.GELU(),
            nn.Conv1d(w, w, 9, stride=2, padding=4), nn.GroupNorm(8, w), nn.GELU(),
            nn.Conv1d(w, w, 9, padding=4), nn.GroupNorm(8, w), nn.GELU(),
        )
        self.head = nn.Linear(w * 50, FIBRES)

    def forward(self, x):
        return self.head(self.conv(x[:, None]).flatten(1)).log_softmax(1)


def main():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    torch.manual_seed(1)
    train = DataLoader(spectra(20011, 0), batch_size=16, shuffle=True)
    test = DataLoader(spectra(1003, 1), batch_size=64)
    model = Mixer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4)
    model, optimizer, train, test = accelerator.prepare(model, optimizer, train, test)
    criterion = nn.KLDivLoss(reduction="batchmean")
    began = time.time()
    for epoch in range(45):
        model.train()
        seen = []
        for i, (x, mix) in enumerate(train):
            with accelerator.accumulate(model):
                loss = criterion(model(x), mix)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            seen.append(loss.item())
            if i % 60 == 59:
                accelerator.print(f"{time.time() - began:6.1f} s  epoch {epoch}  batch {i + 1}  kl {sum(seen) / len(seen):.4f}", flush=True)
                seen = []
        model.eval()
        errors = []
        with torch.no_grad():
            for x, mix in test:
                out, mix = accelerator.gather_for_metrics((model(x), mix))
                errors.append((out.exp() - mix).abs().mean(1))
        accelerator.print(f"test: mean error of a share {torch.cat(errors).mean().item():.4f}", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
