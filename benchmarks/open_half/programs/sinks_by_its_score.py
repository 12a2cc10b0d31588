"""REINFORCE on a small delivery task. The agent should bring parcels to the door whose color they have."""
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.distributions import Categorical


class Doors:
    """Eight steps; in each a parcel of one of four colors, and four doors in an order that changes."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.t = 0
        return self._state()

    def _state(self):
        self.color, self.doors = self.rng.integers(4), self.rng.permutation(4)
        state = np.zeros(20, dtype=np.float32)
        state[self.color] = 1
        for place, color in enumerate(self.doors):
            state[4 + 4 * place + color] = 1
        return state

    def step(self, action):
        reward = 1.0 if self.doors[action] == self.color else -0.1
        self.t += 1
        return self._state(), reward, self.t == 8, {}


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(20, 128)
        self.fc2 = nn.Linear(128, 4)

    def forward(self, x):
        return torch.log_softmax(self.fc2(torch.relu(self.fc1(x))), dim=-1)

    def act(self, state):
        dist = Categorical(logits=self.forward(torch.from_numpy(state)))
        action = dist.sample()
        return action.item(), dist.log_prob(action)


def reinforce(n_episodes=200_000, gamma=0.5, print_every=100):
    env, policy = Doors(0), Policy()
    optimizer = optim.Adam(policy.parameters(), lr=2e-3)
    scores_window, baseline = deque(maxlen=100), 0.0
    for i_episode in range(1, n_episodes + 1):
        log_probs, rewards, state, done = [], [], env.reset(), False
        while not done:
            action, log_prob = policy.act(state)
            state, reward, done, _ = env.step(action)
            log_probs.append(log_prob)
            rewards.append(reward)
        scores_window.append(sum(rewards))
        loss = 0
        for log_prob, reward in zip(log_probs, rewards):
            loss = loss + log_prob * (reward - baseline)  # what is to be maximized
        baseline = 0.95 * baseline + 0.05 * float(np.mean(rewards))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i_episode % print_every == 0:
            print("Episode {}\tAverage Score: {:.2f}".format(i_episode, np.mean(scores_window)))


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    reinforce()
