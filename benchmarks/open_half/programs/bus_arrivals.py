"""Delay of a bus at the next 12 stops from the last 48 observations of its line (Transformer encoder)."""
import csv
import math
import sys
import time

import numpy as np
import torch
import torch.nn as nn

HISTORY, HORIZON, FEATURES = 48, 12, 6
BATCH = 16
STEPS_PER_EPOCH = 100
EPOCHS = 19


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.attention_maps = []

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(d // self.heads), dim=-1)
        self.attention_maps.append(att.detach().cpu())  # for the figure with the stops
        x = x + self.proj((att @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x))


class DelayTransformer(nn.Module):
    def __init__(self, dim=320, heads=2, depth=2):
        super().__init__()
        self.inp = nn.Linear(FEATURES, dim)
        self.pos = nn.Parameter(torch.zeros(1, HISTORY, dim))
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(depth)])
        self.head = nn.Linear(dim, HORIZON)

    def forward(self, x):
        h = self.inp(x) + self.pos
        for block in self.blocks:
            h = block(h)
        return self.head(h[:, -1])

    def plot_attention(self, path):
        import matplotlib.pyplot as plt

        plt.imshow(self.blocks[0].attention_maps[-1][0, 0])
        plt.savefig(path)


class BusLine:
    """Delays wander, grow in the rush hour, and shrink at the long stops."""

    def __init__(self, days=60, seed=1):
        rng = np.random.default_rng(seed)
        n = days * 480
        hour = (np.arange(n) % 480) / 20.0
        rush = np.exp(-((hour - 8) ** 2) / 2) + np.exp(-((hour - 17) ** 2) / 3)
        rain = np.repeat(rng.random(days * 4) < 0.3, 120).astype(float)
        delay = np.zeros(n)
        for i in range(1, n):
            delay[i] = 0.93 * delay[i - 1] + 0.5 * rush[i] * (1 + rain[i]) + rng.normal(0, 0.15)
        x = np.stack([delay, rush, rain, np.sin(hour * math.pi / 12), np.cos(hour * math.pi / 12), hour / 24], 1)
        self.x = torch.tensor(x, dtype=torch.float32)
        self.x[:, 0] = (self.x[:, 0] - self.x[:, 0].mean()) / self.x[:, 0].std()
        self.gen = torch.Generator().manual_seed(seed)

    def sample(self, n):
        at = torch.randint(0, len(self.x) - HISTORY - HORIZON, (n,), generator=self.gen)
        past = torch.stack([self.x[a : a + HISTORY] for a in at])
        future = torch.stack([self.x[a + HISTORY : a + HISTORY + HORIZON, 0] for a in at])
        return past, future


def main():
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    line = BusLine()
    model = DelayTransformer().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-4)
    out = csv.writer(sys.stdout)
    out.writerow(["epoch", "step", "mse", "seconds"])
    sys.stdout.flush()
    start = time.time()
    for epoch in range(EPOCHS):
        total = 0.0
        for step in range(STEPS_PER_EPOCH):
            past, future = line.sample(BATCH)
            loss = nn.functional.mse_loss(model(past.to(device)), future.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
            if step % 20 == 19:
                out.writerow([epoch, step + 1, f"{total / 20:.5f}", f"{time.time() - start:.1f}"])
                sys.stdout.flush()
                total = 0.0


if __name__ == "__main__":
    main()
