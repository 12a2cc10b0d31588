"""Asynchronous actors, one learner (V-trace without the trace). Catch the falling block, 7x7.

The actors act with weights that are a little old; the learner takes what is in the queue.
"""
import queue
import random
import time

import torch
import torch.multiprocessing as mp
from torch import nn
from torch.distributions import Categorical

SIZE, UNROLL, ACTORS = 7, 24, 2


class Catch:
    def reset(self):
        self.row, self.col, self.paddle = 0, random.randrange(SIZE), SIZE // 2
        return self.obs()

    def obs(self):
        board = torch.zeros(SIZE, SIZE)
        board[self.row, self.col] = 1
        board[SIZE - 1, self.paddle] = 1
        return board.flatten()

    def step(self, action):
        self.paddle = min(SIZE - 1, max(0, self.paddle + action - 1))
        self.row += 1
        if self.row < SIZE - 1:
            return self.obs(), 0.0, False
        reward = 1.0 if self.paddle == self.col else -1.0
        return self.reset(), reward, True


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(SIZE * SIZE, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
        self.pi, self.v = nn.Linear(128, 3), nn.Linear(128, 1)

    def forward(self, x):
        h = self.body(x)
        return self.pi(h), self.v(h).squeeze(-1)


def actor(k, shared, out):
    torch.set_num_threads(1)
    random.seed(k)
    torch.manual_seed(k)
    env = Catch()
    obs = env.reset()
    while True:
        steps = []
        with torch.no_grad():
            for _ in range(UNROLL):
                a = Categorical(logits=shared(obs)[0]).sample()
                nxt, r, done = env.step(int(a))
                steps.append((obs, a, r, done))
                obs = nxt
        o, a, r, d = zip(*steps, strict=True)
        out.put((torch.stack(o).numpy(), torch.stack(a).numpy(), r, d))


def main():
    mp.set_start_method("spawn")
    shared = Agent().share_memory()
    rollouts = mp.Queue(maxsize=8)
    for k in range(ACTORS):
        mp.Process(target=actor, args=(k, shared, rollouts), daemon=True).start()
    opt = torch.optim.RMSprop(shared.parameters(), 1e-3)
    ret, updates, frames, start = 0.0, 0, 0, time.time()
    while True:
        batch = [rollouts.get() for _ in range(4)]
        try:
            while len(batch) < 12:
                batch.append(rollouts.get_nowait())
        except queue.Empty:
            pass
        loss = 0.0
        for o, a, r, d in batch:
            logits, v = shared(torch.from_numpy(o))
            g, returns = v[-1].item(), []
            for reward, done in zip(reversed(r), reversed(d), strict=True):
                g = reward + (0.0 if done else 0.97 * g)
                returns.insert(0, g)
            adv = torch.tensor(returns) - v
            dist = Categorical(logits=logits)
            loss = loss - (dist.log_prob(torch.from_numpy(a)) * adv.detach()).mean() + 0.5 * adv.pow(2).mean() - 0.02 * dist.entropy().mean()
            ended = sum(d)
            if ended:
                ret = 0.98 * ret + 0.02 * sum(r) / ended
            frames += len(r)
        opt.zero_grad()
        (loss / len(batch)).backward()
        opt.step()
        updates += 1
        if updates % 25 == 0:
            print(f"updates {updates} frames {frames} return {ret:+.3f} total_loss {(loss / len(batch)).item():+.4f} fps {frames / (time.time() - start):.0f}", flush=True)


if __name__ == "__main__":
    main()
