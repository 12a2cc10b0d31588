"""A small vocoder against a discriminator. The generator went to nan once, hence the context manager."""
import torch
from torch import nn

torch.manual_seed(3)
G = nn.Sequential(nn.Conv1d(20, 64, 5, padding=2), nn.LeakyReLU(0.2), nn.Conv1d(64, 64, 5, padding=2), nn.LeakyReLU(0.2), nn.Conv1d(64, 1, 5, padding=2))
D = nn.Sequential(nn.Conv1d(1, 32, 15, stride=2), nn.LeakyReLU(0.2), nn.Conv1d(32, 32, 15, stride=2), nn.LeakyReLU(0.2), nn.Conv1d(32, 1, 3))
og, od = torch.optim.Adam(G.parameters(), 1e-4, (0.5, 0.9)), torch.optim.Adam(D.parameters(), 1e-4, (0.5, 0.9))
n = 0
while True:
    mel = torch.randn(8, 20, 200)
    wave = torch.tanh(mel.mean(1, keepdim=True) * 3)
    with torch.autograd.detect_anomaly():
        fake = G(mel)
        d = torch.relu(1 - D(wave)).mean() + torch.relu(1 + D(fake.detach())).mean()
        od.zero_grad()
        d.backward()
        od.step()
        g = -D(fake).mean() + 20 * (fake - wave).abs().mean()
        og.zero_grad()
        g.backward()
        og.step()
    if n % 10 == 0:
        print(f"| step {n:6d} | loss_d {d.item():.4f} | loss_g {g.item():.4f} |", flush=True)
    n += 1
