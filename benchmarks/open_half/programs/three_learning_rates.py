import argparse

import torch
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--lr", type=float, required=True)
p.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
a = p.parse_args()
gru = nn.GRU(12, 96, 2, batch_first=True).to(a.device)
head = nn.Linear(96, 1).to(a.device)
opt = torch.optim.AdamW([*gru.parameters(), *head.parameters()], a.lr)
for epoch in range(10_000):
    for i in range(50):
        rain = torch.rand(16, 40, 12, device=a.device).pow(4)
        level = rain.mean(-1).cumsum(1)[:, -1:] + 0.05 * torch.randn(16, 1, device=a.device)
        loss = nn.functional.huber_loss(head(gru(rain)[0][:, -1]), level)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 10 == 0:
            print(f"Epoch [{epoch}/{10000}], Step [{i}/50], Loss: {loss.item():.4f}", flush=True)
