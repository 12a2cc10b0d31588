"""SAC-like control of a drone that hovers. Warm start from 150k transitions of the scripted pilot; resumable."""
import argparse
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

OBS, ACT = 28, 4


class Buffer:
    def __init__(self, size):
        self.size, self.at, self.full = size, 0, False
        self.obs, self.next_obs = np.zeros((size, OBS), np.float32), np.zeros((size, OBS), np.float32)
        self.act, self.rew = np.zeros((size, ACT), np.float32), np.zeros(size, np.float32)

    def add(self, o, a, r, o2):
        n = len(o)
        ix = (self.at + np.arange(n)) % self.size
        self.obs[ix], self.act[ix], self.rew[ix], self.next_obs[ix] = o, a, r, o2
        self.full |= self.at + n >= self.size
        self.at = (self.at + n) % self.size

    def sample(self, n, rng):
        ix = rng.integers(0, self.size if self.full else self.at, n)
        return [torch.from_numpy(x[ix]) for x in (self.obs, self.act, self.rew, self.next_obs)]

    def save(self, path):
        np.savez_compressed(path, obs=self.obs, act=self.act, rew=self.rew, next_obs=self.next_obs, at=self.at, full=self.full)


class Drones:
    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.mix = np.random.default_rng(0).standard_normal((ACT, OBS)).astype(np.float32) / 4
        self.state = rng.standard_normal((n, OBS)).astype(np.float32)

    def step(self, a):
        self.state = 0.95 * self.state + a @ self.mix + 0.05 * self.rng.standard_normal((self.n, OBS)).astype(np.float32)
        lost = np.abs(self.state).max(1) > 6
        self.state[lost] = self.rng.standard_normal((lost.sum(), OBS))
        return self.state.copy(), -(self.state[:, :6] ** 2).mean(1)


def mlp(i, o, h=128):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--buffer", type=int, default=200_000)
    p.add_argument("--save-every", type=int, default=400, help="updates between two checkpoints")
    p.add_argument("--seconds", type=float, default=215)
    a = p.parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(1)
    env, buf = Drones(8, rng), Buffer(a.buffer)
    pilot = Drones(1000, rng)
    for _ in range(150):
        o, act = pilot.state.copy(), np.tanh(rng.standard_normal((1000, ACT))).astype(np.float32)
        o2, r = pilot.step(act)
        buf.add(o, act, r, o2)
    actor, critic, target = mlp(OBS, ACT), mlp(OBS + ACT, 1), mlp(OBS + ACT, 1)
    target.load_state_dict(critic.state_dict())
    pi_opt, q_opt = torch.optim.Adam(actor.parameters(), 3e-4), torch.optim.Adam(critic.parameters(), 3e-4)
    start, update, returns = time.time(), 0, []
    with tempfile.TemporaryDirectory() as run:
        while time.time() - start < a.seconds:
            o = env.state.copy()
            with torch.no_grad():
                act = (torch.tanh(actor(torch.from_numpy(o))) + 0.1 * torch.randn(len(o), ACT)).clamp(-1, 1).numpy()
            o2, r = env.step(act)
            buf.add(o, act, r, o2)
            returns.append(r.mean())
            bo, ba, br, bo2 = buf.sample(256, rng)
            with torch.no_grad():
                y = br + 0.97 * target(torch.cat([bo2, torch.tanh(actor(bo2))], 1)).squeeze(1)
            q_loss = F.mse_loss(critic(torch.cat([bo, ba], 1)).squeeze(1), y)
            q_opt.zero_grad()
            q_loss.backward()
            q_opt.step()
            pi_loss = -critic(torch.cat([bo, torch.tanh(actor(bo))], 1)).mean()
            pi_opt.zero_grad()
            pi_loss.backward()
            pi_opt.step()
            with torch.no_grad():
                for w, t in zip(critic.parameters(), target.parameters()):
                    t.lerp_(w, 0.005)
            update += 1
            if update % 50 == 0:
                print(f"{time.time() - start:6.1f}s update {update} reward {np.mean(returns[-200:]):.3f} q_loss {q_loss.item():.3f}", flush=True)
            if update % a.save_every == 0:
                torch.save({"actor": actor.state_dict(), "critic": critic.state_dict(), "update": update}, os.path.join(run, "agent.pt"))
                buf.save(os.path.join(run, "buffer.npz"))


if __name__ == "__main__":
    main()
