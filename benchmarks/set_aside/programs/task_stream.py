"""Continual learning: a new task every 15 seconds, and what remains of the old ones (class-incremental, with rehearsal)."""
import argparse
import time

import torch
from torch import nn
from tqdm import tqdm


def task(number, n):
    g = torch.Generator().manual_seed(number)
    centres = torch.randn(5, 96, generator=g)
    y = torch.randint(0, 5, (n,))
    return centres[y] * 0.45 + torch.randn(n, 96), 5 * number + y


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tasks", type=int, default=14)
    p.add_argument("--per-task", type=float, default=15)
    p.add_argument("--rehearsal", type=float, default=0.3)
    a = p.parse_args()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(96, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 5 * a.tasks))
    opt = torch.optim.SGD(net.parameters(), 0.02, momentum=0.9)
    memory = []
    for t in range(a.tasks):
        begin, bar = time.time(), tqdm(desc=f"task {t}", mininterval=0.7, ncols=80, bar_format="{desc}: {n_fmt} steps {rate_fmt} {postfix}")
        while time.time() - begin < a.per_task:
            x, y = task(t, 128)
            if memory:
                keep = int(128 * a.rehearsal)
                mx, my = memory[torch.randint(0, len(memory), ()).item()]
                x, y = torch.cat([x[keep:], mx[:keep]]), torch.cat([y[keep:], my[:keep]])
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            bar.update()
            bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
        bar.close()
        memory.append(task(t, 256))
        with torch.no_grad():
            print("accuracy on tasks so far:", " ".join(f"{(net(x).argmax(1) == y).float().mean():.2f}" for x, y in memory), flush=True)


if __name__ == "__main__":
    main()
