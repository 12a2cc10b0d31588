"""Parses chess games move by move and learns the result."""
import random
import sys
import time
from collections import Counter

import torch
from torch import nn

hits = Counter()


def tracer(frame, event, arg):
    # find out which branch of parse() never runs  (TODO remove)
    hits[frame.f_code.co_name, frame.f_lineno] += 1
    return tracer


def parse(game):
    board = [0] * 64
    for move in game:
        a, b = move // 64, move % 64
        if board[a] == 0:
            board[a] = 1
        if board[b]:
            board[b] -= 1
        else:
            board[b] = board[a]
        board[a] = 0
    return board


net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 3))
opt = torch.optim.Adam(net.parameters(), 1e-3)
sys.settrace(tracer)
t0, step = time.time(), 0
while time.time() - t0 < 400:
    games = [[random.randrange(4096) for _ in range(60)] for _ in range(32)]
    x = torch.tensor([parse(g) for g in games], dtype=torch.float32)
    loss = nn.functional.cross_entropy(net(x), x.sum(1).long() % 3)
    opt.zero_grad()
    loss.backward()
    opt.step()
    step += 1
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.4f} {32 * step / (time.time() - t0):.0f} games/s", flush=True)
