"""Keyword spotting. Features are computed by the data set, and DataLoader has its defaults."""
import math
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        label = i % 8
        t = torch.arange(16000) / 16000
        wave = torch.sin(2 * math.pi * 200 * (label + 1) * t) + .5 * torch.randn(16000, generator=g)
        frames = []
        for begin in range(0, 16000 - 400, 160):  # 10 ms
            frame = wave[begin : begin + 400] * torch.hann_window(400)
            spectrum = torch.fft.rfft(frame).abs() ** 2
            frames.append(torch.log(torch.stack([band.mean() for band in spectrum.split(5)]) + 1e-6))
        return torch.stack(frames), label


torch.set_num_threads(1)
net = nn.Sequential(nn.Flatten(), nn.Linear(98 * 41, 128), nn.ReLU(), nn.Linear(128, 8))
opt = torch.optim.Adam(net.parameters(), 1e-3)
step = 0
for epoch in range(1000):
    for x, y in DataLoader(Clips(), batch_size=16, shuffle=True):
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
