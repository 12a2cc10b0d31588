"""Mel-to-mel transformer postnet, trained with Accelerate. Launch with torchrun or accelerate launch."""
import argparse
import json
import time

import numpy as np
import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset


class Postnet(nn.Module):
    def __init__(self, mel=80, d=192, n=4):
        super().__init__()
        self.inp = nn.Linear(mel, d)
        self.layers = nn.ModuleList([nn.ModuleList([nn.LayerNorm(d), nn.Conv1d(d, d, 5, padding=2), nn.LayerNorm(d),
                                                    nn.Sequential(nn.Linear(d, 3 * d), nn.GELU(), nn.Linear(3 * d, d))])
                                     for _ in range(n)])
        self.out = nn.Linear(d, mel)

    def forward(self, x):
        h = self.inp(x)
        for n1, c, n2, m in self.layers:
            h = h + c(n1(h).transpose(1, 2)).transpose(1, 2)
            h = h + m(n2(h))
        return x + self.out(h)


class RunLogger:
    """jsonl logger with histograms of weights and gradients, a poor man's wandb.watch"""

    def __init__(self, path, bins=64):
        self.f = open(path, "w")
        self.bins = bins

    def watch(self, model, step):
        rec = {"step": step}
        for name, p in model.named_parameters():
            w = p.detach().float().cpu().numpy().ravel()
            h, e = np.histogram(w, bins=self.bins)
            rec["w/" + name] = {"h": h.tolist(), "lo": float(e[0]), "hi": float(e[-1]),
                                "q": np.percentile(w, [1, 25, 50, 75, 99]).tolist()}
            if p.grad is not None:
                g = p.grad.detach().float().cpu().numpy().ravel()
                h, e = np.histogram(g, bins=self.bins)
                rec["g/" + name] = {"h": h.tolist(), "lo": float(e[0]), "hi": float(e[-1]),
                                    "q": np.percentile(g, [1, 25, 50, 75, 99]).tolist()}
        self.f.write(json.dumps(rec) + "\n")


def mels(n=1600, T=64, M=80):
    g = torch.Generator().manual_seed(0)
    base = torch.randn(n, 8, 10, generator=g)
    clean = nn.functional.interpolate(base[:, None], size=(T, M), mode="bilinear")[:, 0]
    return TensorDataset(clean + 0.5 * torch.randn(n, T, M, generator=g), clean)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=100)
    ap.add_argument("--batch_size", type=int, default=8)
    ap.add_argument("--lr", type=float, default=3e-4)
    ap.add_argument("--watch_every", type=int, default=1)
    ap.add_argument("--log", default="/tmp/tts_run.jsonl")
    args = ap.parse_args()
    set_seed(0)
    acc = Accelerator(cpu=not torch.cuda.is_available())
    model = Postnet()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    dl = DataLoader(mels(), args.batch_size, shuffle=True, drop_last=True)
    model, opt, dl = acc.prepare(model, opt, dl)
    logger = RunLogger(args.log) if acc.is_main_process else None
    acc.print(f"{acc.num_processes} processes, {len(dl)} steps per epoch")
    step, t0 = 0, time.time()
    for epoch in range(args.epochs):
        model.train()
        for noisy, clean in dl:
            loss = nn.functional.l1_loss(model(noisy), clean)
            acc.backward(loss)
            acc.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            if logger is not None and step % args.watch_every == 0:
                logger.watch(acc.unwrap_model(model), step)
            opt.zero_grad()
            step += 1
            if step % 10 == 0:
                acc.print(f"epoch {epoch} step {step} l1 {loss.item():.4f} {step / (time.time() - t0):.2f} steps/s", flush=True)
    acc.end_training()


if __name__ == "__main__":
    main()
