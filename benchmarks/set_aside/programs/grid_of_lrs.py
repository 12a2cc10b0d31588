import argparse, torch
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--lr", type=float); p.add_argument("--width", type=int); p.add_argument("--steps", type=int); p.add_argument("--tag")
a = p.parse_args()
torch.manual_seed(0)
torch.set_num_threads(1)
teacher = nn.Sequential(nn.Linear(50, 80), nn.Tanh(), nn.Linear(80, 6))
net = nn.Sequential(nn.Linear(50, a.width), nn.ReLU(), nn.Linear(a.width, a.width), nn.ReLU(), nn.Linear(a.width, a.width), nn.ReLU(), nn.Linear(a.width, 6))
opt = torch.optim.Adam(net.parameters(), a.lr)
mean = 2.0
for s in range(1, a.steps + 1):
    x = torch.randn(256, 50)
    with torch.no_grad():
        y = (teacher(x) * 4).argmax(1)
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
    mean = 0.97 * mean + 0.03 * loss.item()
    if s % 100 == 0:
        print(f"({a.tag}) step {s}/{a.steps} loss {mean:.4f}", flush=True)
x = torch.randn(4000, 50)
with torch.no_grad():
    acc = (net(x).argmax(1) == teacher(x).argmax(1)).float().mean().item()
print(f"final acc {acc:.4f}")
