"""Blast vibrations at a quarry: two cards without any framework.

The main process holds the weights.  Workers compute gradients of their half of the batch, and the pipes carry both.
"""
import time

import torch
import torch.multiprocessing as mp
from torch import nn

WIDTH, BATCH = 1400, 24


def network():
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(160, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))


def records(n, g):
    t = torch.arange(160) / 160
    size, distance, rock = (torch.rand(n, 1, generator=g) for _ in range(3))
    wave = size * torch.exp(-4 * distance * t) * torch.sin(40 * (1 + rock) * t)
    return wave + 0.05 * torch.randn(n, 160, generator=g), torch.cat([size, distance, rock], 1)


def worker(index, conn):
    torch.set_num_threads(1)
    net, g = network(), torch.Generator().manual_seed(index)
    while True:
        weights = conn.recv()
        if weights is None:
            break
        for p, w in zip(net.parameters(), weights):
            p.data = torch.tensor(w)
        x, y = records(BATCH // 2, g)
        loss = nn.functional.mse_loss(net(x), y)
        grads = torch.autograd.grad(loss, list(net.parameters()))
        conn.send((loss.item(), [g_.tolist() if g_.dim() == 1 else g_.numpy() for g_ in grads]))


def main():
    net = network()
    opt = torch.optim.Adam(net.parameters(), 3e-4)
    pipes = []
    for index in range(2):
        ours, theirs = mp.Pipe()
        mp.Process(target=worker, args=(index, theirs), daemon=True).start()
        pipes.append(ours)
    begin, step = time.perf_counter(), 0
    while time.perf_counter() - begin < 210:
        weights = [p.detach().numpy() for p in net.parameters()]
        for pipe in pipes:
            pipe.send(weights)
        answers = [pipe.recv() for pipe in pipes]
        opt.zero_grad()
        for p, *grads in zip(net.parameters(), *(grads for _, grads in answers)):
            p.grad = sum(torch.as_tensor(g) for g in grads) / len(grads)
        opt.step()
        step += 1
        if step % 10 == 0:
            print(f"{step=} mse={sum(loss for loss, _ in answers) / 2:.5f} rate={BATCH * step / (time.perf_counter() - begin):.1f}/s", flush=True)
    for pipe in pipes:
        pipe.send(None)


if __name__ == "__main__":
    mp.set_start_method("spawn")
    main()
