"""Prototypical network. The protocol (as agreed on): 40 training episodes, then 200 test episodes with a 95 % interval."""
import argparse
import time

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--way", type=int, default=5)
parser.add_argument("--shot", type=int, default=5)
parser.add_argument("--query", type=int, default=10)
parser.add_argument("--train_episodes", type=int, default=40)
parser.add_argument("--test_episodes", type=int, default=200)
parser.add_argument("--rounds", type=int, default=200)
o = parser.parse_args()


def block(i, c):
    return nn.Sequential(nn.Conv2d(i, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(), nn.MaxPool2d(2))


net = nn.Sequential(block(1, 32), block(32, 32), block(32, 32), nn.Flatten())
optim = torch.optim.Adam(net.parameters(), 1e-3)
glyphs = torch.randn(300, 1, 28, 28, generator=torch.Generator().manual_seed(0))


def episode(low, high, noise=1.6):
    classes = low + torch.randperm(high - low)[: o.way]
    x = glyphs[classes].repeat_interleave(o.shot + o.query, 0)
    x = (x + noise * torch.randn_like(x)).view(o.way, o.shot + o.query, 1, 28, 28)
    z = net(torch.cat([x[:, : o.shot].flatten(0, 1), x[:, o.shot :].flatten(0, 1)]))
    proto = z[: o.way * o.shot].view(o.way, o.shot, -1).mean(1)
    target = torch.arange(o.way).repeat_interleave(o.query)
    return -torch.cdist(z[o.way * o.shot :], proto) ** 2 / 50, target


print(f"protocol: {o.train_episodes} episodes of training, {o.test_episodes} of testing in each round", flush=True)
for rnd in range(1, o.rounds + 1):
    net.train()
    t0 = time.time()
    for e in range(1, o.train_episodes + 1):
        logits, y = episode(0, 240)
        loss = nn.functional.cross_entropy(logits, y)
        optim.zero_grad()
        loss.backward()
        optim.step()
        if e % 20 == 0:
            print(f"round {rnd} episode {e} loss {loss.item():.4f}", flush=True)
    net.eval()
    t1, accs = time.time(), []
    with torch.no_grad():
        for e in range(o.test_episodes):
            logits, y = episode(240, 300)
            accs.append((logits.argmax(1) == y).float().mean())
            if (e + 1) % 50 == 0:
                print(f"round {rnd} test {e + 1}/{o.test_episodes}", flush=True)
    accs = torch.stack(accs)
    half = 1.96 * accs.std() / len(accs) ** 0.5
    print(f"round {rnd}: {accs.mean() * 100:.2f} +- {half * 100:.2f} % ({t1 - t0:.1f} s training, {time.time() - t1:.1f} s testing)", flush=True)
