"""One trial of the grid: humidity and temperature of a cellar, 24 h ahead, with a small TCN."""
import argparse
import os
import time

import torch
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("--width", type=int, default=64)
ap.add_argument("--lr", type=float, default=1e-3)
ap.add_argument("--dropout", type=float, default=0.0)
ap.add_argument("--minutes", type=float, default=1.0)
ap.add_argument("--out", default=".")
opt = ap.parse_args()
name = f"w{opt.width}-lr{opt.lr}-do{opt.dropout}"
device = torch.device("cuda", os.getpid() % torch.cuda.device_count()) if torch.cuda.is_available() else torch.device("cpu")
torch.manual_seed(0)
print(f"[{name}] pid {os.getpid()} on {device}")

hours = torch.arange(24 * 900)
outside = torch.sin(hours / 24 * 6.283) + 0.7 * torch.sin(hours / 8766 * 6.283) + 0.2 * torch.randn(len(hours)).cumsum(0) / 30
cellar = torch.zeros(len(hours), 2)
for h in range(1, len(hours)):
    cellar[h, 0] = 0.98 * cellar[h - 1, 0] + 0.05 * outside[h]
    cellar[h, 1] = 0.95 * cellar[h - 1, 1] - 0.06 * outside[h] + 0.02 * cellar[h, 0]
cellar += 0.03 * torch.randn_like(cellar)
series = torch.cat([outside[:, None], cellar], 1)
split = int(len(series) * 0.85)


def windows(n, low, high, length=168):
    start = torch.randint(low, high - length - 24, (n,))
    x = torch.stack([series[s : s + length] for s in start.tolist()]).transpose(1, 2)
    return x.to(device), torch.stack([series[s + length + 23, 1:] for s in start.tolist()]).to(device)


layers, channels = [], 3
for d in (1, 2, 4, 8, 16):
    layers += [nn.Conv1d(channels, opt.width, 3, dilation=d), nn.ReLU(), nn.Dropout(opt.dropout)]
    channels = opt.width
model = nn.Sequential(*layers, nn.AdaptiveAvgPool1d(8), nn.Flatten(), nn.Linear(8 * opt.width, 2)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=opt.lr)
end, step, best = time.time() + 60 * opt.minutes, 0, float("inf")
while time.time() < end:
    model.train()
    x, y = windows(32, 0, split)
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    if step % 50 == 0:
        print(f"[{name}] step {step} loss {loss.item():.5f}")
    if step % 400 == 0:
        model.eval()
        with torch.no_grad():
            x, y = windows(256, split, len(series))
            best = min(best, nn.functional.mse_loss(model(x), y).item())
        print(f"[{name}] step {step} val_mse {best:.5f}")
with open(os.path.join(opt.out, f"{name}.csv"), "w") as f:
    f.write(f"{name},{opt.width},{opt.lr},{opt.dropout},{best:.6f}\n")
print(f"[{name}] done, best val_mse {best:.5f}")
