"""How many trout pass the fish ladder in the next hour?  An LSTM on the readings of the counter."""
import os
import sys

import torch
import torch.nn as nn
import yaml

with open(os.path.splitext(sys.argv[0])[0] + ".yaml") as f:
    cfg = yaml.safe_load(f)


class LSTM(nn.Module):
    def __init__(self, input_dim, hidden_dim, num_layers, output_dim=1):
        super().__init__()
        self.lstm = nn.LSTM(input_dim, hidden_dim, num_layers, batch_first=True)
        self.fc = nn.Linear(hidden_dim, output_dim)

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.fc(out[:, -1, :])


def readings(hours):
    g = torch.Generator().manual_seed(cfg["seed"])
    t = torch.arange(hours).float()
    flow = 180 + 60 * torch.sin(t / 300) + 10 * torch.randn(hours, generator=g)
    warm = 11 + 5 * torch.sin(t / 1400) + torch.randn(hours, generator=g)
    trout = (flow * (1 + torch.sin(t * 2 * torch.pi / 24)) * (warm / 10) + 15 * torch.randn(hours, generator=g)).clamp(min=0)
    return torch.stack([flow / 100, warm / 10, trout / 1000], 1), trout


x_all, trout = readings(cfg["hours"])
torch.manual_seed(cfg["seed"])
model = LSTM(3, cfg["model"]["hidden"], cfg["model"]["layers"])
criterion = nn.MSELoss()
optimiser = getattr(torch.optim, cfg["optimiser"]["name"])(model.parameters(), lr=cfg["optimiser"]["lr"], momentum=cfg["optimiser"]["momentum"])
L = cfg["lookback"]
print(cfg, flush=True)
for step in range(1, cfg["steps"] + 1):
    start = torch.randint(0, cfg["hours"] - L - 1, (cfg["batch"],))
    x = torch.stack([x_all[s : s + L] for s in start.tolist()])
    y = torch.stack([trout[s + L] for s in start.tolist()])[:, None]
    loss = criterion(model(x), y)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    if step % 10 == 0:
        print("Step ", step, "MSE: ", loss.item(), flush=True)
