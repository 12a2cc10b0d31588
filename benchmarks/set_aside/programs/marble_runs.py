"""A marble on a tilting board. Rank 1 plays, rank 0 learns (IMPALA without the corrections).   torchrun --nproc_per_node=2 marble_runs.py"""
import time

import torch
import torch.distributed as dist
from torch import nn

BOARDS, UNROLL, GAMMA = 32, 20, 0.97


class Boards:
    def __init__(self):
        self.pos, self.vel = torch.rand(BOARDS, 2) * 2 - 1, torch.zeros(BOARDS, 2)

    def observe(self):
        return torch.cat([self.pos, self.vel], 1)

    def step(self, tilt):
        push = torch.tensor([[0.1, 0.0], [-0.1, 0.0], [0.0, 0.1], [0.0, -0.1]])[tilt]
        self.vel = (0.95 * self.vel + push + 0.03 * torch.randn(BOARDS, 2)).clamp(-1, 1)
        self.pos = self.pos + 0.2 * self.vel
        fell = self.pos.abs().amax(1) > 1.5
        reward = torch.where(fell, -3.0, 1 - self.pos.norm(dim=1))
        self.pos[fell] = torch.rand(int(fell.sum()), 2) * 2 - 1
        self.vel[fell] = 0
        return reward


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh())
        self.pi, self.v = nn.Linear(256, 4), nn.Linear(256, 1)

    def forward(self, x):
        h = self.body(x)
        return self.pi(h), self.v(h)[..., 0]


def send_weights(net, src):
    flat = nn.utils.parameters_to_vector(net.parameters()).detach()
    dist.broadcast(flat, src)
    nn.utils.vector_to_parameters(flat, net.parameters())


def act(net, boards):
    obs, taken, rewards = [], [], []
    with torch.no_grad():
        for _ in range(UNROLL):
            o = boards.observe()
            a = torch.distributions.Categorical(logits=net(o)[0]).sample()
            obs.append(o)
            taken.append(a)
            rewards.append(boards.step(a))
            time.sleep(0.004)  # the board's camera
        obs.append(boards.observe())
    return torch.stack(obs), torch.stack(taken), torch.stack(rewards)


def learn(net, opt, obs, taken, rewards):
    logits, values = net(obs)
    returns, running = [], values[-1].detach()
    for r in reversed(rewards):
        running = r + GAMMA * running
        returns.insert(0, running)
    advantage = torch.stack(returns) - values[:-1]
    policy = torch.distributions.Categorical(logits=logits[:-1])
    loss = -(policy.log_prob(taken) * advantage.detach()).mean() + 0.5 * advantage.pow(2).mean() - 0.01 * policy.entropy().mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    opt.step()
    return loss.item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    net, boards = Policy(), Boards()
    opt = torch.optim.Adam(net.parameters(), 4e-4)
    role = "learner" if rank == 0 else "actor"
    print(f"rank {rank} is the {role}", flush=True)
    obs, taken, rewards = torch.zeros(UNROLL + 1, BOARDS, 4), torch.zeros(UNROLL, BOARDS, dtype=torch.long), torch.zeros(UNROLL, BOARDS)
    start = time.time()
    for update in range(2400):
        send_weights(net, 0)
        if rank == 1:
            obs, taken, rewards = act(net, boards)
        for tensor in (obs, taken, rewards):
            dist.broadcast(tensor, 1)
        if rank == 0:
            loss = learn(net, opt, obs, taken, rewards)
            if update % 20 == 0:
                print(f"update {update:5d}  reward {rewards.mean():+.3f}  loss {loss:+.3f}  {time.time() - start:.0f} s", flush=True)


main()
