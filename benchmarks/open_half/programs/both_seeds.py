import argparse
import torch
import torch.nn as nn

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--width", type=int, default=32)
ap.add_argument("--bs", type=int, default=24)
args = ap.parse_args()
torch.manual_seed(args.seed)
dev = "cuda" if torch.cuda.is_available() else "cpu"


def textures(n):
    # stripes with one of 8 angles, 32x32
    k = torch.randint(0, 8, (n,))
    a = k * torch.pi / 8
    g = torch.linspace(-1, 1, 32)
    yy, xx = torch.meshgrid(g, g, indexing="ij")
    phase = 6.3 * torch.rand(n, 1, 1)
    img = torch.sin(12 * (xx * a.cos()[:, None, None] + yy * a.sin()[:, None, None]) + phase)
    return (img + 0.7 * torch.randn_like(img))[:, None], k


w = args.width
net = nn.Sequential(
    nn.Conv2d(1, w, 3, padding=1), nn.BatchNorm2d(w), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(w, 2 * w, 3, padding=1), nn.BatchNorm2d(2 * w), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(2 * w, 2 * w, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * w, 8),
).to(dev)
opt = torch.optim.SGD(net.parameters(), 0.02, momentum=0.9, nesterov=True)
it, running = 0, None
while it < 500_000:
    x, k = textures(args.bs)
    x, k = x.to(dev), k.to(dev)
    loss = nn.functional.cross_entropy(net(x), k)
    opt.zero_grad()
    loss.backward()
    opt.step()
    running = loss.item() if running is None else 0.9 * running + 0.1 * loss.item()
    it += 1
    if it % 20 == 0:
        print(f"iter {it} loss {running:.4f}", flush=True)
