# DQN on a toy pixel env (moving dot).  python dqn_pixels.py --warmup 200
import argparse, random
import torch
from torch import nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--gamma", type=float, default=0.97)
parser.add_argument("--batch", type=int, default=24)
parser.add_argument("--warmup", type=int, default=200)
parser.add_argument("--eps-end", type=float, default=0.1)
cfg = parser.parse_args()
torch.set_num_threads(1); torch.manual_seed(0); random.seed(0)


class Dot:
    """Keep the dot in the middle. obs: the last 4 frames, 4x84x84"""
    def reset(self):
        self.x, self.t = random.randint(10, 70), 0
        self.stack = torch.zeros(4, 84, 84)
        return self._obs()

    def _obs(self):
        frame = torch.rand(84, 84) * 0.05
        frame[38:46, self.x:self.x + 8] = 1.0
        self.stack = torch.cat([self.stack[1:], frame[None]])
        return self.stack

    def step(self, a):
        self.x = max(0, min(76, self.x + (a - 1) * 4 + random.randint(-2, 2)))
        self.t += 1
        return self._obs(), 1.0 - abs(self.x - 38) / 38, self.t >= 100


def make():
    return nn.Sequential(nn.Conv2d(4, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 81, 128), nn.ReLU(), nn.Linear(128, 3))


q, target = make(), make()
target.load_state_dict(q.state_dict())
opt = torch.optim.Adam(q.parameters(), 2e-4)
replay = []          # (s, a, r, s2, done)
env, ret, rets = Dot(), 0.0, []
s = env.reset()
for step in range(1, 10_000_000):
    eps = max(cfg.eps_end, 1 - step / 1500)
    if random.random() < eps:
        a = random.randrange(3)
    else:
        with torch.no_grad():
            a = int(q(s[None]).argmax())
    s2, r, done = env.step(a)
    replay.append((s.clone(), a, r, s2.clone(), done))
    ret += r
    s = s2
    if done:
        rets.append(ret); ret, s = 0.0, env.reset()
    if step > cfg.warmup:
        b = random.sample(replay, cfg.batch)
        S, S2 = torch.stack([t[0] for t in b]), torch.stack([t[3] for t in b])
        A, R = torch.tensor([t[1] for t in b]), torch.tensor([t[2] for t in b])
        D = torch.tensor([float(t[4]) for t in b])
        with torch.no_grad():
            y = R + cfg.gamma * (1 - D) * target(S2).max(1).values
        loss = F.smooth_l1_loss(q(S).gather(1, A[:, None])[:, 0], y)
        opt.zero_grad(); loss.backward(); opt.step()
        if step % 500 == 0:
            target.load_state_dict(q.state_dict())
        if step % 200 == 0:
            print(f"step {step}  eps {eps:.2f}  return {sum(rets[-5:]) / max(1, len(rets[-5:])):.1f}  td {loss.item():.4f}  replay {len(replay)}", flush=True)
