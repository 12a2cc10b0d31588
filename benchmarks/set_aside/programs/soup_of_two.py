"""Model soup: each process fine-tunes with its own rate, dropout and augmentation, and now and then the weights are averaged."""
import os
import random

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

RECIPES = [{"lr": 3e-4, "drop": 0.0, "noise": 0.6, "batch": 96}, {"lr": 1e-3, "drop": 0.2, "noise": 0.9, "batch": 32}]


def build(drop):
    return nn.Sequential(
        nn.Conv1d(4, 48, 11, padding=5), nn.ReLU(), nn.MaxPool1d(4), nn.Dropout(drop),
        nn.Conv1d(48, 96, 7, padding=3), nn.ReLU(), nn.AdaptiveMaxPool1d(4), nn.Flatten(), nn.Dropout(drop), nn.Linear(384, 5),
    )


def evaluate(net, sample):
    net.eval()
    with torch.no_grad():
        x, y = sample(1000, 1.0)
        acc = (net(x).argmax(1) == y).float().mean().item()
    net.train()
    return acc


def ingredient(rank, world):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ["MASTER_PORT"] = os.environ.get("PORT", "29701")
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.set_num_threads(1)
    r = RECIPES[rank]
    motifs = 1.5 * torch.randn(5, 4, 12, generator=torch.Generator().manual_seed(4))
    torch.manual_seed(100 + rank)
    random.seed(rank)

    def sample(n, noise):
        y = torch.randint(0, 5, (n,))
        x = noise * torch.randn(n, 4, 200)
        at = random.randrange(0, 188)
        x[:, :, at : at + 12] += motifs[y]
        return x, y

    net = build(r["drop"])
    for phase in range(1000):
        opt = torch.optim.AdamW(net.parameters(), r["lr"])
        for step in range(250):
            x, y = sample(r["batch"], r["noise"])
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 25 == 0:
                print(f"ingredient {rank} phase {phase} step {step} loss {loss.item():.3f} {r}", flush=True)
        print(f"ingredient {rank} done with phase {phase}, acc {evaluate(net, sample):.3f}; waits for the others", flush=True)
        for p in net.parameters():
            dist.all_reduce(p.data)
            p.data /= world
        if rank == 0:
            print(f"soup after phase {phase}: acc {evaluate(net, sample):.3f}", flush=True)


if __name__ == "__main__":
    mp.spawn(ingredient, args=(len(RECIPES),), nprocs=len(RECIPES))
