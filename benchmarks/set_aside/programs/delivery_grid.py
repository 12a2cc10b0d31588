# PPO on a delivery robot in a yard, in the style of CleanRL's multi-GPU script:
# torchrun --standalone --nproc_per_node=2 delivery_grid.py
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributions import Categorical

N_ENVS, N_STEPS, EPOCHS, MINIBATCHES = 16, 256, 4, 4
GAMMA, LAM, CLIP, ENT, VF = 0.98, 0.95, 0.2, 0.01, 0.5
SIZE, LIMIT = 8, 64


class Yard:
    """pick the parcel up, then bring it to the door"""

    def __init__(self, n, seed):
        self.n, self.rng = n, np.random.RandomState(seed)
        self.pos, self.parcel, self.door = (np.zeros((n, 2), int) for _ in range(3))
        self.has, self.t, self.ret = np.zeros(n, bool), np.zeros(n, int), np.zeros(n)
        for i in range(n):
            self._new(i)

    def _new(self, i):
        self.pos[i], self.parcel[i], self.door[i] = self.rng.randint(0, SIZE, (3, 2))
        self.has[i], self.t[i], self.ret[i] = False, 0, 0.0

    def obs(self):
        goal = np.where(self.has[:, None], self.door, self.parcel)
        o = np.concatenate([self.pos / SIZE, (goal - self.pos) / SIZE, np.sign(goal - self.pos), self.has[:, None]], 1)
        return torch.from_numpy(o.astype(np.float32))

    def step(self, actions):
        moves = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])
        self.pos = np.clip(self.pos + moves[actions], 0, SIZE - 1)
        r = np.full(self.n, -0.02)
        got = ~self.has & (self.pos == self.parcel).all(1)
        r[got] += 0.5
        self.has |= got
        home = self.has & (self.pos == self.door).all(1) & ~got
        r[home] += 1.0
        self.t += 1
        self.ret += r
        done = home | (self.t >= LIMIT)
        finished = self.ret[done].tolist()
        for i in np.flatnonzero(done):
            self._new(i)
        return r, done, finished


def layer(i, o, std=np.sqrt(2)):
    lin = nn.Linear(i, o)
    nn.init.orthogonal_(lin.weight, std)
    nn.init.zeros_(lin.bias)
    return lin


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(layer(7, 128), nn.Tanh(), layer(128, 128), nn.Tanh(), layer(128, 1, 1.0))
        self.actor = nn.Sequential(layer(7, 128), nn.Tanh(), layer(128, 128), nn.Tanh(), layer(128, 4, 0.01))

    def forward(self, o):
        return Categorical(logits=self.actor(o)), self.critic(o).squeeze(-1)


def average(agent, world):
    flat = torch.cat([p.grad.view(-1) for p in agent.parameters()])
    dist.all_reduce(flat)
    flat /= world
    k = 0
    for p in agent.parameters():
        p.grad.copy_(flat[k : k + p.numel()].view_as(p))
        k += p.numel()


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    agent = Agent()
    torch.manual_seed(1 + 1000 * rank)  # same weights, other dice
    env = Yard(N_ENVS, 7 + rank)
    opt = torch.optim.Adam(agent.parameters(), lr=1e-4, eps=1e-5)
    if rank == 0:
        print("world", world, "pid", os.getpid(), "parameters", sum(p.numel() for p in agent.parameters()), flush=True)
    recent, frames, t0 = [0.0], 0, time.time()
    for update in range(1, 1001):
        O, A, L, R, D, V = [], [], [], [], [], []
        with torch.no_grad():
            for _ in range(N_STEPS):
                o = env.obs()
                pi, v = agent(o)
                a = pi.sample()
                r, d, finished = env.step(a.numpy())
                recent = (recent + finished)[-200:]
                O.append(o), A.append(a), L.append(pi.log_prob(a)), V.append(v)
                R.append(torch.from_numpy(r).float()), D.append(torch.from_numpy(d).float())
            nxt = agent(env.obs())[1]
            adv, last = [None] * N_STEPS, 0.0
            for t in reversed(range(N_STEPS)):
                nv = nxt if t == N_STEPS - 1 else V[t + 1]
                delta = R[t] + GAMMA * nv * (1 - D[t]) - V[t]
                last = delta + GAMMA * LAM * (1 - D[t]) * last
                adv[t] = last
        adv, O, A, L, V = torch.stack(adv).flatten(), torch.cat(O), torch.cat(A), torch.cat(L), torch.cat(V)
        ret = adv + V
        frames += N_ENVS * N_STEPS * world
        for _ in range(EPOCHS):
            for mb in torch.randperm(len(O)).chunk(MINIBATCHES):
                pi, v = agent(O[mb])
                ratio = (pi.log_prob(A[mb]) - L[mb]).exp()
                ad = (adv[mb] - adv[mb].mean()) / (adv[mb].std() + 1e-8)
                pg = -torch.min(ratio * ad, ratio.clamp(1 - CLIP, 1 + CLIP) * ad).mean()
                vl = 0.5 * (v - ret[mb]).pow(2).mean()
                loss = pg + VF * vl - ENT * pi.entropy().mean()
                opt.zero_grad()
                loss.backward()
                average(agent, world)
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                opt.step()
        if rank == 0:
            sps = int(frames / (time.time() - t0))
            print(f"global_step={frames}, episodic_return={np.mean(recent):.3f}, policy_loss={pg:.4f}, value_loss={vl:.4f}, SPS: {sps}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
