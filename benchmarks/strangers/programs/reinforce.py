"""REINFORCE on a pole of our own; the policy is tiny, the environment is Python"""
import math, random
import torch

policy = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
optim = torch.optim.Adam(policy.parameters(), lr=1e-2)


def play():
    x, v, a, w = (random.uniform(-.05, .05) for _ in range(4))
    logs, rewards = [], []
    for t in range(200):
        dist = torch.distributions.Categorical(logits=policy(torch.tensor([x, v, a, w])))
        act = dist.sample()
        logs.append(dist.log_prob(act))
        f = 10. if act.item() else -10.
        aa = (9.8 * math.sin(a) - math.cos(a) * f / 1.1) / (0.5 * (4 / 3 - 0.1 * math.cos(a) ** 2 / 1.1))
        v += 0.02 * (f - 0.05 * aa) / 1.1; x += 0.02 * v; w += 0.02 * aa; a += 0.02 * w
        rewards.append(1.)
        if abs(a) > 0.21 or abs(x) > 2.4:
            break
    return logs, rewards


running = 10.
for ep in range(10**6):
    logs, rewards = play()
    R, returns = 0., []
    for r in reversed(rewards):
        R = r + 0.99 * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6) if len(returns) > 1 else returns
    loss = torch.stack([-lp * g for lp, g in zip(logs, returns)]).sum()
    optim.zero_grad(); loss.backward(); optim.step()
    running = 0.05 * len(rewards) + 0.95 * running
    if ep % 10 == 0:
        print(f'Episode {ep}\tLast reward: {len(rewards)}\tAverage reward: {running:.2f}', flush=True)
