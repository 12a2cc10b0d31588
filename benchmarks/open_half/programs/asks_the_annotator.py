"""Active learning: train on what is labelled, look at the whole pool, label the least certain, begin anew."""

import time

import torch
from torch import nn

torch.manual_seed(2)
pool = torch.randn(60000, 32)
truth = (pool[:, :4].prod(1) > 0).long()
labelled = torch.zeros(len(pool), dtype=torch.bool)
labelled[torch.randperm(len(pool))[:256]] = True

for round_ in range(1000):
    net = nn.Sequential(nn.Linear(32, 384), nn.ReLU(), nn.Linear(384, 384), nn.ReLU(), nn.Linear(384, 2))
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    x, y = pool[labelled], truth[labelled]
    for step in range(240):
        i = torch.randint(0, len(x), (128,))
        loss = nn.functional.cross_entropy(net(x[i]), y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 40 == 0:
            print(f"round {round_} step {step} labelled {int(labelled.sum())} loss {loss.item():.4f}", flush=True)
    began = time.time()
    with torch.no_grad():
        doubt = torch.zeros(len(pool))
        for _ in range(6):  # an ensemble by noise
            for part in range(0, len(pool), 2000):
                p = net(pool[part : part + 2000] + 0.05 * torch.randn(len(pool[part : part + 2000]), 32)).softmax(1)
                doubt[part : part + 2000] -= (p[:, 0] - 0.5).abs()
    doubt[labelled] = -9
    labelled[doubt.topk(256).indices] = True
    print(f"round {round_} scored the pool in {time.time() - began:.1f} s, labelled {int(labelled.sum())}", flush=True)
