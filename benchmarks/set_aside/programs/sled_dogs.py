"""REINFORCE: a sled has to stay on a track in gusts of wind."""
import time

import torch
from torch import nn

torch.manual_seed(11)
pi = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 3))
opt = torch.optim.Adam(pi.parameters(), 3e-3)
t0, update, mean = time.time(), 0, 0.0
while time.time() - t0 < 300:
    state, logs, alive, reward = torch.randn(32, 2) * 0.3, [], torch.ones(32), torch.zeros(32)
    for _ in range(20):
        d = torch.distributions.Categorical(logits=pi(state))
        a = d.sample()
        logs.append(d.log_prob(a) * alive)
        speed = state[:, 1] + 0.2 * (a - 1) + 0.1 * torch.randn(32)
        state = torch.stack([state[:, 0] + 0.3 * speed, speed], 1)
        alive = alive * (state[:, 0].abs() < 1).float()
        reward += alive
    mean = reward.mean().item() if update == 0 else 0.9 * mean + 0.1 * reward.mean().item()
    loss = -(torch.stack(logs).sum(0) * (reward - mean) / 10).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    update += 1
    if update % 10 == 0:
        print(f"update {update} return {reward.mean():.2f} running {mean:.2f}", flush=True)
