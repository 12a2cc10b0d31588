"""FedProx over eight clinics (simulated in one process): three clinics per round, five local epochs, weighted average."""
import copy
import random
import time

import torch
from torch import nn


class Clinic:
    def __init__(self, k):
        g = torch.Generator().manual_seed(k)
        n = int(torch.randint(300, 2500, (1,), generator=g))
        self.name, shift = f"clinic-{k}", torch.randn(60, generator=g)
        self.x = torch.randn(n, 60, generator=g) + 0.8 * shift
        w = torch.randn(60, 5, generator=torch.Generator().manual_seed(99)) + 0.5 * torch.randn(60, 5, generator=g)
        self.y = (self.x @ w).argmax(1)

    def train(self, model, epochs, mu=0.01):
        start = [p.detach().clone() for p in model.parameters()]
        opt = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9)
        for epoch in range(epochs):
            total = 0.0
            for idx in torch.randperm(len(self.x)).split(32):
                loss = nn.functional.cross_entropy(model(self.x[idx]), self.y[idx])
                prox = sum(((p - q) ** 2).sum() for p, q in zip(model.parameters(), start, strict=True))
                opt.zero_grad()
                (loss + 0.5 * mu * prox).backward()
                opt.step()
                total += loss.item() * len(idx)
            print(f"    {self.name} local epoch {epoch} loss {total / len(self.x):.4f}", flush=True)
        return model.state_dict(), len(self.x)


def average(states):
    total = sum(n for _, n in states)
    return {k: sum(s[k] * (n / total) for s, n in states) for k in states[0][0]}


random.seed(0)
torch.manual_seed(0)
clinics = [Clinic(k) for k in range(8)]
server = nn.Sequential(nn.Linear(60, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 5))
for rnd in range(1, 500):
    t = time.time()
    chosen = random.sample(clinics, 3)
    server.load_state_dict(average([c.train(copy.deepcopy(server), 5) for c in chosen]))
    with torch.no_grad():
        losses = [nn.functional.cross_entropy(server(c.x), c.y).item() for c in clinics]
    print(f"round {rnd}: {', '.join(c.name for c in chosen)}; global loss {sum(losses) / 8:.4f} worst {max(losses):.4f} ({time.time() - t:.1f}s)", flush=True)
