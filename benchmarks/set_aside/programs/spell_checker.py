"""Corrects spelling, letter by letter. The evaluation searches with a beam, so it takes longer than the training (on purpose)."""
import time

import torch
from torch import nn

torch.manual_seed(6)
net = nn.GRU(28, 96, batch_first=True)
out = nn.Linear(96, 28)
opt = torch.optim.Adam([*net.parameters(), *out.parameters()], 2e-3)
eye = torch.eye(28)


def words(n):
    right = torch.randint(0, 28, (n, 12))
    wrong = torch.where(torch.rand(n, 12) < 0.1, (right + 1) % 28, right)
    return right, wrong


t0, epoch = time.time(), 0
while time.time() - t0 < 300:
    epoch += 1
    for i in range(40):
        right, wrong = words(48)
        loss = nn.functional.cross_entropy(out(net(eye[wrong])[0]).flatten(0, 1), right.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 10 == 9:
            print(f"epoch {epoch} batch {i + 1} loss {loss.item():.4f}", flush=True)
    hits, begin = 0, time.time()
    with torch.no_grad():
        for i in range(900):
            right, wrong = words(1)
            state, beams = None, 8
            for letter in eye[wrong[0]]:
                y, state = net(letter.expand(beams, 1, 28), state)
                hits += int(out(y)[0, 0].argmax() == right[0, 0])
            if i % 150 == 149:
                print(f"  eval {i + 1}/900 words", flush=True)
    print(f"epoch {epoch} evaluated in {time.time() - begin:.1f}s", flush=True)
