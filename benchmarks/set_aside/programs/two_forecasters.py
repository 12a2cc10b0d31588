"""Deep ensemble for river levels: each rank trains its own member (other seed, other bootstrap); they meet only to forecast."""
import os
import time

import torch
import torch.distributed as dist
from torch import nn


class Member(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(5, 96, batch_first=True)
        self.mean, self.logvar = nn.Linear(96, 1), nn.Linear(96, 1)

    def forward(self, x):
        h = self.rnn(x)[0][:, -1]
        return self.mean(h).squeeze(1), self.logvar(h).squeeze(1).clamp(-6, 3)


def rivers(n, g):
    t = torch.arange(61) / 10
    f = 0.5 + torch.rand(n, 5, generator=g)
    s = torch.sin(t.view(1, -1, 1) * f.view(n, 1, 5) + 6.28 * torch.rand(n, 1, 5, generator=g))
    x = s + 0.15 * torch.randn(s.shape, generator=g)
    return x[:, :-1], s[:, -1].mean(1)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    x, y = rivers(4000, torch.Generator().manual_seed(0))
    xt, yt = rivers(500, torch.Generator().manual_seed(1))
    torch.manual_seed(100 + rank)
    boot = torch.randint(0, len(x), (len(x),))
    x, y = x[boot], y[boot]
    net = Member()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    began = time.time()
    for round_ in range(1000):
        order = torch.randperm(len(x))
        for i, idx in enumerate(order.split(64)):
            m, lv = net(x[idx])
            loss = 0.5 * (lv + (y[idx] - m) ** 2 / lv.exp()).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 20 == 0:
                print(f"member {rank} round {round_} {i} nll {loss.item():.4f}", flush=True)
        with torch.no_grad():
            m, lv = net(xt)
        both = [torch.empty_like(m) for _ in range(world)]
        dist.all_gather(both, m)
        t = torch.tensor([time.time() - began])
        dist.broadcast(t, 0)
        if rank == 0:
            e = torch.stack(both)
            print(f"ensemble: rmse {((e.mean(0) - yt) ** 2).mean().sqrt().item():.4f}, spread {e.std(0).mean().item():.4f}", flush=True)
        if t.item() > 200:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
