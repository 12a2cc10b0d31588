# A2C on a gridworld with keys and doors. Environment workers in processes, one learner.
#
#   learner  <- (obs, reward, done) -- pipe -- worker 0..3
#
# The learner waits for the slowest worker, as synchronous A2C does. Returns are logged every 20 updates.
import argparse
import multiprocessing as mp
import random
import time
from collections import deque

import numpy as np

N = 5


class KeyDoor:
    """Find the key, then the door. -0.01 a move, +0.5 key, +1 door, and a little for coming nearer."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.reset()

    def reset(self):
        self.me, self.key, self.door = ([self.rng.randrange(N), self.rng.randrange(N)] for _ in range(3))
        self.has, self.t = False, 0
        return self.obs()

    def obs(self):
        o = np.zeros((4, N, N), np.float32)
        o[0, self.me[0], self.me[1]] = 1
        if not self.has:
            o[1, self.key[0], self.key[1]] = 1
        o[2, self.door[0], self.door[1]] = 1
        o[3] = self.has
        return o.ravel()

    def far(self):
        goal = self.door if self.has else self.key
        return abs(goal[0] - self.me[0]) + abs(goal[1] - self.me[1])

    def step(self, a):
        d = ((0, 1), (0, -1), (1, 0), (-1, 0))[a]
        far = self.far()
        self.me = [min(N - 1, max(0, self.me[i] + d[i])) for i in (0, 1)]
        self.t += 1
        r = -0.01 + 0.05 * (far - self.far())
        if not self.has and self.me == self.key:
            self.has, r = True, 0.5
        done = self.t >= 60
        if self.has and self.me == self.door:
            r, done = 1.0, True
        return (self.reset() if done else self.obs()), r, done


def worker(pipe, n, seed):
    envs = [KeyDoor(seed * 1000 + i) for i in range(n)]
    pipe.send(np.stack([e.obs() for e in envs]))
    while True:
        try:
            acts = pipe.recv()
        except EOFError:
            return
        got = [e.step(int(a)) for e, a in zip(envs, acts)]
        pipe.send((np.stack([g[0] for g in got]), np.array([g[1] for g in got], np.float32), np.array([g[2] for g in got], np.float32)))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--workers", type=int, default=4)
    ap.add_argument("--envs", type=int, default=16)
    ap.add_argument("--unroll", type=int, default=16)
    ap.add_argument("--gamma", type=float, default=0.98)
    args = ap.parse_args()
    pipes = []
    for i in range(args.workers):
        a, b = mp.Pipe()
        mp.Process(target=worker, args=(b, args.envs, i), daemon=True).start()
        pipes.append(a)

    import torch  # after the fork
    from torch import nn

    torch.manual_seed(1)
    body = nn.Sequential(nn.Linear(4 * N * N, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
    pi, vf = nn.Linear(256, 4), nn.Linear(256, 1)
    params = [*body.parameters(), *pi.parameters(), *vf.parameters()]
    opt = torch.optim.Adam(params, 1e-3, eps=1e-5)
    obs = np.concatenate([p.recv() for p in pipes])
    acc, recent = np.zeros(len(obs)), deque(maxlen=500)
    t0, frames = time.time(), 0
    for update in range(1, 10**7):
        logp, vals, ents, rews, dones = [], [], [], [], []
        for _ in range(args.unroll):
            h = body(torch.from_numpy(obs))
            d = torch.distributions.Categorical(logits=pi(h))
            a = d.sample()
            logp.append(d.log_prob(a)); ents.append(d.entropy()); vals.append(vf(h)[:, 0])
            for p, part in zip(pipes, a.numpy().reshape(args.workers, -1)):
                p.send(part)
            got = [p.recv() for p in pipes]
            obs, r, done = (np.concatenate(g) for g in zip(*got))
            acc += r
            recent.extend(acc[done > 0])
            acc[done > 0] = 0
            rews.append(torch.from_numpy(r)); dones.append(torch.from_numpy(done))
        with torch.no_grad():
            ret = vf(body(torch.from_numpy(obs)))[:, 0]
        targets = []
        for r, d in zip(reversed(rews), reversed(dones)):
            ret = r + args.gamma * ret * (1 - d)
            targets.insert(0, ret)
        target, v = torch.stack(targets), torch.stack(vals)
        adv = (target - v).detach()
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        pg = -(torch.stack(logp) * adv).mean()
        vl = (target - v).pow(2).mean()
        loss = pg + 0.5 * vl - 0.004 * torch.stack(ents).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(params, 0.5)
        opt.step()
        frames += len(obs) * args.unroll
        if update % 20 == 0:
            print(f"update={update} frames={frames} fps={frames / (time.time() - t0):.0f} ret={np.mean(recent) if recent else 0:.3f} pg={pg.item():+.4f} v={vl.item():.4f} H={torch.stack(ents).mean().item():.3f}", flush=True)


if __name__ == "__main__":
    main()
