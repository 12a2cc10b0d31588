"""Q-learning on a corridor: at first it walks at random, then greedily to the wrong side for a while (as it should)."""
import random
from collections import deque

import torch

random.seed(2)
torch.manual_seed(2)
torch.set_num_threads(1)
q = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
opt = torch.optim.Adam(q.parameters(), 3e-4)
memory, returns = deque(maxlen=5000), deque(maxlen=20)
steps = 0
for episode in range(10**7):
    pos, total = 0.0, 0.0
    for _ in range(40):
        eps = max(0.05, 1 - steps / 3000)
        with torch.no_grad():
            act = random.randrange(2) if random.random() < eps else int(q(torch.tensor([pos])).argmax())
        nxt = max(-1.0, min(1.0, pos + (0.1 if act else -0.1)))
        reward = 1.0 if nxt > 0.95 else 0.05 * (nxt > 0)
        memory.append((pos, act, reward, nxt))
        pos, total, steps = nxt, total + reward, steps + 1
        if len(memory) > 64 and steps % 4 == 0:
            s, a, r, n = map(torch.tensor, zip(*random.sample(memory, 64)))
            with torch.no_grad():
                aim = r + 0.97 * q(n[:, None]).max(1).values
            loss = torch.nn.functional.smooth_l1_loss(q(s[:, None]).gather(1, a[:, None])[:, 0], aim)
            opt.zero_grad()
            loss.backward()
            opt.step()
    returns.append(total)
    if episode % 5 == 4 and len(memory) > 64:
        print(f"episode {episode + 1} eps {eps:.2f} return {sum(returns) / len(returns):.2f} loss {loss.item():.5f}", flush=True)
