"""PPO, CleanRL style: environments in worker processes behind pipes, 4 epochs of minibatches after each rollout."""
import multiprocessing as mp
import numpy as np
import torch, torch.nn as nn
from torch.distributions import Normal

N_ENV, PER, ROLL, OBS, ACT = 2, 8, 64, 8, 2


def envs(pipe, seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(OBS, OBS)) * 0.15
    B = rng.normal(size=(ACT, OBS)) * 0.4
    s = rng.normal(size=(PER, OBS))
    t = np.zeros(PER)
    while True:
        a = pipe.recv()
        for _ in range(20):  # physics substeps
            s = s + 0.05 * (s @ A + a @ B)
        t += 1
        reward = -np.square(s).mean(1) - 0.01 * np.square(a).mean(1)
        done = (t > 100) | (np.abs(s).max(1) > 8)
        s[done] = rng.normal(size=(int(done.sum()), OBS))
        t[done] = 0
        pipe.send((s.astype(np.float32), reward.astype(np.float32), done.astype(np.float32)))


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.v = nn.Sequential(nn.Linear(OBS, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.pi = nn.Sequential(nn.Linear(OBS, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, ACT))
        self.log_std = nn.Parameter(torch.zeros(ACT))

    def dist(self, s):
        return Normal(self.pi(s), self.log_std.exp())


def main():
    pipes = []
    for i in range(N_ENV):
        ours, theirs = mp.Pipe()
        mp.Process(target=envs, args=(theirs, i), daemon=True).start()
        pipes.append(ours)
    agent = Agent()
    opt = torch.optim.Adam(agent.parameters(), lr=3e-4, eps=1e-5)
    n = N_ENV * PER
    s, total = torch.zeros(n, OBS), 0
    while True:
        S, A, L, R, D, V = [], [], [], [], [], []
        for _ in range(ROLL):
            with torch.no_grad():
                d = agent.dist(s)
                a = d.sample()
                S.append(s); A.append(a); L.append(d.log_prob(a).sum(1)); V.append(agent.v(s)[:, 0])
            for pipe, part in zip(pipes, a.split(PER)):
                pipe.send(part.numpy())
            got = [pipe.recv() for pipe in pipes]
            s, r, done = (torch.from_numpy(np.concatenate(x)) for x in zip(*got))
            R.append(r); D.append(done)
        total += n * ROLL
        adv, last, nxt = [None] * ROLL, 0.0, agent.v(s)[:, 0].detach()
        for t in reversed(range(ROLL)):
            delta = R[t] + 0.99 * nxt * (1 - D[t]) - V[t]
            last = delta + 0.99 * 0.95 * (1 - D[t]) * last
            adv[t], nxt = last, V[t]
        S, A, L, V, adv = (torch.cat(x) for x in (S, A, L, V, adv))
        ret = adv + V
        for _ in range(4):
            for i in torch.randperm(len(S)).split(256):
                d = agent.dist(S[i])
                ratio = (d.log_prob(A[i]).sum(1) - L[i]).exp()
                z = (adv[i] - adv[i].mean()) / (adv[i].std() + 1e-8)
                pg = torch.max(-z * ratio, -z * ratio.clamp(0.8, 1.2)).mean()
                vl = 0.5 * (agent.v(S[i])[:, 0] - ret[i]).pow(2).mean()
                loss = pg + 0.5 * vl - 0.001 * d.entropy().sum(1).mean()
                opt.zero_grad(); loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                opt.step()
        print(f"global_step={total} policy_loss={pg.item():+.4f} value_loss={vl.item():.4f} reward={torch.stack(R).mean():.4f}", flush=True)


if __name__ == "__main__":
    main()
