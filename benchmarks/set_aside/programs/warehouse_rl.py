"""Robots in a warehouse: one learner, two simulators. Rollouts go up, weights go down, each through a queue."""
import random
import time

import torch
import torch.multiprocessing as mp
from torch import nn

OBS, ACTIONS, HORIZON = 20, 5, 24


def policy():
    return nn.Sequential(nn.Linear(OBS, 96), nn.Tanh(), nn.Linear(96, 96), nn.Tanh(), nn.Linear(96, ACTIONS))


class Warehouse:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.reset()

    def reset(self):
        self.robot, self.shelf = [self.rng.random() * 10, self.rng.random() * 10], [self.rng.random() * 10, self.rng.random() * 10]
        return self.observe()

    def observe(self):
        dx, dy = self.shelf[0] - self.robot[0], self.shelf[1] - self.robot[1]
        return torch.tensor([dx / 10, dy / 10, *self.robot, *[self.rng.gauss(0, 0.1) for _ in range(OBS - 4)]])

    def step(self, a):
        move = [(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)][a]
        self.robot = [min(10, max(0, p + 0.8 * m)) for p, m in zip(self.robot, move)]
        gap = abs(self.robot[0] - self.shelf[0]) + abs(self.robot[1] - self.shelf[1])
        return self.observe(), -gap / 10


def simulate(number, rollouts, weights):
    torch.set_num_threads(1)
    torch.manual_seed(number)
    world, net = Warehouse(number), policy()
    net.load_state_dict(weights.get())
    while True:
        obs, acts, rewards = [], [], []
        o = world.reset()
        for _ in range(HORIZON):
            with torch.no_grad():
                a = torch.distributions.Categorical(logits=net(o)).sample().item()
            obs.append(o)
            acts.append(a)
            o, r = world.step(a)
            rewards.append(r)
        rollouts.put((torch.stack(obs).numpy(), acts, rewards))
        if weights.qsize() > 0:
            net.load_state_dict(weights.get())


def learn(rollouts, weights, simulators):
    net = policy()
    opt = torch.optim.Adam(net.parameters(), 2e-3)

    def send():
        state = {k: v.detach().clone() for k, v in net.state_dict().items()}
        for _ in simulators:
            weights.put(state)

    send()
    update, mean = 0, 0.0
    per_update = 4
    while True:
        batch = [rollouts.get() for _ in range(per_update)]
        loss = 0.0
        for obs, acts, rewards in batch:
            togo = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
            logp = torch.log_softmax(net(torch.from_numpy(obs)), -1)[range(HORIZON), acts]
            loss = loss - (logp * (togo - togo.mean())).mean() / per_update
            mean = 0.99 * mean + 0.01 * sum(rewards)
        opt.zero_grad()
        loss.backward()
        opt.step()
        update += 1
        if update % 5 == 0:
            print(f"update {update:>5} | return {mean:8.3f} | loss {loss.item():+.4f}", flush=True)
        if update == 300:
            per_update = 1  # the last part of training uses fresh rollouts only
        send()


if __name__ == "__main__":
    mp.set_start_method("spawn")
    rollouts, weights = mp.Queue(6), mp.Queue(4)
    simulators = [mp.Process(target=simulate, args=(n, rollouts, weights), daemon=True) for n in range(2)]
    for s in simulators:
        s.start()
    learn(rollouts, weights, simulators)
