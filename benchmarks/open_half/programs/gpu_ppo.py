# PPO after CleanRL: the environments are on the CPU, so the GPU is idle most of the time, as it has to be.
import time

import numpy as np
import torch
import torch.nn as nn
from torch.distributions.categorical import Categorical

num_envs, num_steps, minibatches, update_epochs, gamma = 8, 128, 4, 4, 0.99
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Poles:
    """A pole on a cart, eight times."""

    def __init__(self):
        self.rng = np.random.default_rng(1)
        self.state = self.rng.uniform(-0.05, 0.05, (num_envs, 4))

    def step(self, action):
        x, v, a, w = self.state.T
        force = np.where(action == 1, 10.0, -10.0)
        temp = (force + 0.05 * w**2 * np.sin(a)) / 1.1
        acc = (9.8 * np.sin(a) - np.cos(a) * temp) / (0.5 * (4 / 3 - 0.1 * np.cos(a) ** 2 / 1.1))
        self.state = self.state + 0.02 * np.stack([v, temp - 0.05 * acc * np.cos(a) / 1.1, w, acc], 1)
        done = (abs(self.state[:, 0]) > 2.4) | (abs(self.state[:, 2]) > 0.21)
        self.state[done] = self.rng.uniform(-0.05, 0.05, (int(done.sum()), 4))
        return self.state, np.ones(num_envs), done


def layer(i, o, std=2**0.5):
    made = nn.Linear(i, o)
    nn.init.orthogonal_(made.weight, std)
    return made


actor = nn.Sequential(layer(4, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 2, 0.01)).to(device)
critic = nn.Sequential(layer(4, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 1, 1.0)).to(device)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=2.5e-4, eps=1e-5)
envs, start, global_step = Poles(), time.time(), 0
obs = torch.zeros((num_steps, num_envs, 4), device=device)
actions, logprobs, rewards, dones, values = (torch.zeros((num_steps, num_envs), device=device) for _ in range(5))
next_obs = torch.tensor(envs.state, dtype=torch.float32, device=device)
for iteration in range(1, 10000):
    for step in range(num_steps):
        global_step += num_envs
        obs[step] = next_obs
        with torch.no_grad():
            chosen = Categorical(logits=actor(next_obs))
            action = chosen.sample()
            logprobs[step], values[step] = chosen.log_prob(action), critic(next_obs).flatten()
        actions[step] = action
        state, reward, done = envs.step(action.cpu().numpy())
        rewards[step], dones[step] = torch.tensor(reward, device=device), torch.tensor(done, dtype=torch.float32, device=device)
        next_obs = torch.tensor(state, dtype=torch.float32, device=device)
    with torch.no_grad():
        returns, following = torch.zeros_like(rewards), critic(next_obs).flatten()
        for t in reversed(range(num_steps)):
            following = rewards[t] + gamma * following * (1 - dones[t])
            returns[t] = following
    flat = [item.reshape(num_steps * num_envs, *item.shape[2:]) for item in (obs, actions, logprobs, returns, values)]
    for _ in range(update_epochs):
        for index in torch.randperm(num_steps * num_envs, device=device).chunk(minibatches):
            o, a, lp, ret, val = (item[index] for item in flat)
            new = Categorical(logits=actor(o))
            ratio = (new.log_prob(a) - lp).exp()
            adv = ret - val
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            pg_loss = torch.max(-adv * ratio, -adv * ratio.clamp(0.8, 1.2)).mean()
            v_loss = 0.5 * (critic(o).view(-1) - ret).pow(2).mean()
            loss = pg_loss - 0.01 * new.entropy().mean() + 0.5 * v_loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_([*actor.parameters(), *critic.parameters()], 0.5)
            optimizer.step()
    print(f"global_step={global_step}, SPS: {int(global_step / (time.time() - start))}, v_loss={v_loss.item():.3f}", flush=True)
