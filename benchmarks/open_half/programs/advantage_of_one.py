"""A2C on a corridor that gets shorter as the agent gets better."""
import random
from collections import deque

import torch
from torch import nn
from torch.distributions import Categorical


class Corridor:
    def __init__(self, length):
        self.length = length

    def reset(self):
        self.at, self.t = 0, 0
        return self.obs()

    def obs(self):
        return torch.tensor([self.at / 12, self.length / 12, self.t / 60])

    def step(self, action):
        self.at = max(0, self.at + (1 if action == 1 else -1))
        self.t += 1
        done = self.at >= self.length or self.t >= 60
        return self.obs(), (1.0 if self.at >= self.length else -0.01), done


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(3, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh())
        self.pi, self.v = nn.Linear(128, 2), nn.Linear(128, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.pi(h), self.v(h).squeeze(-1)


def main():
    random.seed(0)
    torch.manual_seed(0)
    net = ActorCritic()
    opt = torch.optim.RMSprop(net.parameters(), lr=2e-4)
    env, lengths = Corridor(12), deque(maxlen=50)
    for episode in range(1, 10**7):
        env.length = max(1, 12 - episode // 60)
        obs, done, seen, rewards = env.reset(), False, [], []
        while not done:
            with torch.no_grad():
                logits, _ = net(obs)
            action = torch.distributions.Categorical(logits=torch.nan_to_num(logits)).sample()
            nxt, r, done = env.step(int(action))
            seen.append((obs, action))
            rewards.append(r)
            obs = nxt
        returns, g = [], 0.0
        for r in reversed(rewards):
            g = r + 0.99 * g
            returns.insert(0, g)
        states, actions = torch.stack([s for s, _ in seen]), torch.stack([a for _, a in seen])
        returns = torch.tensor(returns)
        logits, value = net(states)
        adv = returns - value.detach()
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        dist = Categorical(logits=logits, validate_args=False)
        pi_loss = -(dist.log_prob(actions) * adv).mean()
        loss = pi_loss + 0.5 * (returns - value).pow(2).mean() - 0.01 * dist.entropy().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        lengths.append(len(rewards))
        if episode % 25 == 0:
            print(f"ep {episode:6d} len {sum(lengths) / len(lengths):5.1f} loss {loss.item():8.4f}", flush=True)


if __name__ == "__main__":
    main()
