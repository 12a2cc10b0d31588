"""Adapting a phoneme recognizer to one speaker. Starts from the general model (which is trained first, if it is not there).

The learning rate rises for 250 steps: the general model gets worse before it fits the new voice.
"""
import argparse
import logging
import math
import time

import torch
from torch import nn

PHONEMES, MELS, FRAMES = 32, 40, 30


def speech(n, g, accent):
    voices = torch.randn(PHONEMES, MELS, generator=torch.Generator().manual_seed(4))
    y = torch.randint(0, PHONEMES, (n, FRAMES), generator=g)
    voices = voices + accent * torch.randn(PHONEMES, MELS, generator=torch.Generator().manual_seed(9))
    return voices[y] + 2.2 * torch.randn(n, FRAMES, MELS, generator=g), y


def fit(model, args, accent, peak, warmup, steps, seconds, tag):
    g = torch.Generator().manual_seed(len(tag))
    opt = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)
    start, mean = time.time(), None
    for step in range(1, steps + 1):
        lr = peak * min(1.0, step / warmup) * (1.0 if step < warmup else 0.01 + 0.99 * (1 + math.cos(min(1, (step - warmup) / 600) * math.pi)) / 2)
        opt.param_groups[0]["lr"] = lr
        x, y = speech(args.batch, g, accent)
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        mean = loss.item() if mean is None else 0.9 * mean + 0.1 * loss.item()
        if step % 20 == 0:
            logging.info("%s | step %5d | lr %.2e | loss %.4f", tag, step, lr, mean)
        if time.time() - start > seconds:
            return


class Recognizer(nn.Module):
    def __init__(self, d=160):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(MELS, d, 3, padding=1), nn.ReLU(), nn.Conv1d(d, d, 3, padding=1), nn.ReLU(), nn.Conv1d(d, PHONEMES, 1))

    def forward(self, x):
        return self.conv(x.transpose(1, 2)).transpose(1, 2)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=40)
    ap.add_argument("--warmup", type=int, default=250)
    ap.add_argument("--seconds", type=float, default=190)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%M:%S")
    torch.manual_seed(0)
    model = Recognizer()
    fit(model, args, 0.0, 0.05, 20, 400, 40, "general")
    fit(model, args, 0.3, 0.3, args.warmup, 100_000, args.seconds, "speaker")
