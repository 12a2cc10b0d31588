# Curiosity in a cave: bonus = distance to the nearest place seen so far
import time

import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(7)
policy = nn.Sequential(nn.Linear(32, 128), nn.Tanh(), nn.Linear(128, 4))
opt = torch.optim.Adam(policy.parameters(), 3e-4)
moves = rng.normal(size=(4, 32)).astype(np.float32)
memory = [np.zeros(32, np.float32)]
t0 = last = time.time()
for episode in range(1, 10**9):
    place, logs, bonus = np.zeros(32, np.float32), [], 0.0
    for _ in range(10):
        dist = torch.distributions.Categorical(logits=policy(torch.from_numpy(place)))
        a = dist.sample()
        logs.append(dist.log_prob(a))
        place = place + moves[a] + 0.1 * rng.normal(size=32).astype(np.float32)
        seen = np.stack(memory)
        bonus += float(np.sort(np.linalg.norm(seen - place, axis=1))[0])
        memory.append(place)
    loss = -torch.stack(logs).sum() * (bonus / 10 - 1)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if episode % 20 == 0:
        now = time.time()
        print(f"Episode {episode:5d} | Bonus {bonus:7.3f} | {20 / (now - last):6.2f} Episoden/s", flush=True)
        last = now
    if time.time() - t0 > 400:
        break
