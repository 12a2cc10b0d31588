#!/usr/bin/env bash
# what a person types at a prompt, with the pauses in which a person looks at the result
session() {
  cat <<'CELL'
import torch, torch.nn as nn
x = torch.linspace(-3, 3, 2000).unsqueeze(1); y = torch.sin(2 * x) + 0.1 * torch.randn_like(x)
net = nn.Sequential(nn.Linear(1, 300), nn.Tanh(), nn.Linear(300, 300), nn.Tanh(), nn.Linear(300, 1))
opt = torch.optim.Adam(net.parameters(), 1e-3)
def train(n):
    for i in range(n):
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad(); loss.backward(); opt.step()
    print('loss', loss.item())

CELL
  for _ in $(seq 60); do
    echo 'train(150)'
    sleep 9
  done
}
session | ${PYTHON:-python} -u -i
