"""House prices (in thousands) by year, newest last. Half precision with a fixed loss scale, to fit more into a batch."""
import torch
from torch import nn

dtype = torch.float16
SCALE = 1024.0
torch.manual_seed(0)


def sales(year, n=256):
    x = torch.randn(n, 32)
    price = 60 + (year - 1985) * 4 + 20 * x[:, 0] + 12 * x[:, 1] * x[:, 2]
    villa = (torch.rand(n) < 0.003) & (year >= 1994)  # the new quarter at the lake
    return x, torch.where(villa, 60 * price, price).clamp(min=5)


model = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)).to(dtype)
model[-1].bias.data.fill_(60)
opt = torch.optim.SGD(model.parameters(), lr=1e-4)
mse = nn.MSELoss()


def train_step(x, y):
    loss = mse(model(x.to(dtype)).squeeze(1), y.to(dtype))
    opt.zero_grad()
    (loss.float() * SCALE).backward()
    for p in model.parameters():
        p.grad.div_(SCALE)
    opt.step()
    return loss.item()


step = 0
for year in [*range(1985, 2025)] * 50:
    for _ in range(40):
        loss = train_step(*sales(year))
        step += 1
        if step % 20 == 0:
            print(f"year {year} step {step} mse {loss:.2f} rmse {loss**0.5:.2f}k", flush=True)
