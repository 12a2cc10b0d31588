"""The same two folds of the sleep-stage classifier, but their lines are read as they come."""
import subprocess
import sys
import threading

import torch
from torch import nn


def fit(fold):
    torch.manual_seed(fold)
    net = nn.Sequential(nn.Linear(120, 256), nn.GELU(), nn.Linear(256, 5))
    opt = torch.optim.SGD(net.parameters(), 0.02, momentum=0.9)
    centers = torch.randn(5, 120)
    for it in range(100_000):
        y = torch.randint(0, 5, (64,))
        loss = nn.functional.cross_entropy(net(centers[y] + 1.5 * torch.randn(64, 120)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 5 == 0:
            print(f"fold {fold} iter {it} loss {loss.item():.4f}", flush=True)


def follow(child, seen):
    for line in child.stdout:
        seen.append(line)
        if len(seen) % 50 == 0:
            print(line, end="", flush=True)


if len(sys.argv) > 1:
    fit(int(sys.argv[1]))
    sys.exit()
readers = []
for fold in (0, 1):
    child = subprocess.Popen([sys.executable, __file__, str(fold)], stdout=subprocess.PIPE, text=True)
    readers.append(threading.Thread(target=follow, args=(child, [])))
    readers[-1].start()
for reader in readers:
    reader.join()
