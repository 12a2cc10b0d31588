import os
import sys
import time

import numpy as np

mode, work = sys.argv[1:3]


def make():
    rng = np.random.default_rng(0)
    for n in range(100000):
        text = rng.integers(0, 255, 400_000, dtype=np.uint8)
        counts = np.bincount(text[:-1].astype(np.int64) * 256 + text[1:], minlength=65536)
        np.savez(os.path.join(work, f"shard-{n % 4}.npz"), text=text, bigrams=counts.astype(np.int32))
        print(time.strftime("%H:%M:%S"), "shard", n, "done", flush=True)
        time.sleep(0.3)  # leave the machine to the training


def train():
    import torch
    from torch import nn

    torch.manual_seed(0)
    words = torch.randint(0, 40, (64, 9))
    net = nn.ModuleDict({"e": nn.Embedding(40, 96), "r": nn.LSTM(96, 320, batch_first=True), "o": nn.Linear(320, 40)})
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    for step in range(10 ** 6):
        seq = words[torch.randint(0, 64, (24, 5))].reshape(24, 45)
        h, _ = net["r"](net["e"](seq[:, :-1]))
        loss = nn.functional.cross_entropy(net["o"](h).reshape(-1, 40), seq[:, 1:].reshape(-1))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        if step % 10 == 0:
            print(f"update {step} | nll {loss.item():.3f} | bpc {loss.item() / 0.6931:.3f}", flush=True)


{"make": make, "train": train}[mode]()
