import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("what", choices=["resnet", "auto"])
parser.add_argument("--steps", type=int)
args = parser.parse_args()
torch.set_num_threads(1)
torch.manual_seed(len(args.what))


class Res(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.n, self.m = nn.BatchNorm2d(c), nn.BatchNorm2d(c)

    def forward(self, x):
        return F.relu(x + self.m(self.b(F.relu(self.n(self.a(x))))))


if args.what == "resnet":
    net = nn.Sequential(nn.Conv2d(3, 24, 3, 2, 1), Res(24), Res(24), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 5))
    hue = torch.rand(5, 3, 1, 1)

    def batch():
        y = torch.randint(0, 5, (16,))
        return hue[y] + 0.6 * torch.randn(16, 3, 24, 24), y

    loss_of = lambda out, x, y: F.cross_entropy(out, y)
else:
    net = nn.Sequential(nn.Linear(200, 256), nn.ReLU(), nn.Linear(256, 12), nn.Linear(12, 256), nn.ReLU(), nn.Linear(256, 200))
    basis = torch.randn(10, 200)

    def batch():
        x = torch.randn(128, 10).relu() @ basis
        return x, x

    loss_of = lambda out, x, y: F.mse_loss(out, x)
opt = torch.optim.Adam(net.parameters(), 1e-3)
for step in range(1, args.steps + 1):
    x, y = batch()
    loss = loss_of(net(x), x, y)
    opt.zero_grad(); loss.backward(); opt.step()
    if step % 25 == 0:
        print(f"<{args.what}> {step}/{args.steps} loss: {loss.item():.4f}", flush=True)
print(f"<{args.what}> finished", flush=True)
