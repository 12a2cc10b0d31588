"""Usage: watches_checkpoints.py {train|evaluate} DIRECTORY"""
import pathlib
import sys
import time

import torch
from torch import nn

ROLE, RUN = sys.argv[1], pathlib.Path(sys.argv[2])


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 24, 3, 2), nn.ReLU(), nn.Conv2d(24, 48, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(1728, 10))


def digits(n, g):
    y = torch.randint(0, 10, (n,), generator=g)
    glyphs = torch.randn(10, 1, 28, 28, generator=torch.Generator().manual_seed(7))
    return 0.35 * glyphs[y] + torch.randn(n, 1, 28, 28, generator=g), y


def train():
    net, g = model(), torch.Generator().manual_seed(1)
    opt = torch.optim.SGD(net.parameters(), 0.002, momentum=0.9)
    start = saved = time.time()
    step = 0
    while time.time() - start < 205:
        x, y = digits(48, g)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % 50 == 0:
            print(f"train    step {step:6d}  loss {loss.item():.4f}")
        if time.time() - saved > 25:
            saved = time.time()
            torch.save(net.state_dict(), RUN / "tmp")
            (RUN / "tmp").rename(RUN / f"step_{step:07d}.pt")


@torch.no_grad()
def evaluate():
    net, (x, y), seen = model().eval(), digits(4000, torch.Generator().manual_seed(2)), set()
    while True:
        for path in sorted(set(RUN.glob("step_*.pt")) - seen):
            seen.add(path)
            net.load_state_dict(torch.load(path))
            right = sum((net(x[i : i + 100]).argmax(1) == y[i : i + 100]).sum().item() for i in range(0, 4000, 100))
            print(f"evaluate {path.stem}  accuracy {right / 4000:.4f}")
        time.sleep(2)


{"train": train, "evaluate": evaluate}[ROLE]()
