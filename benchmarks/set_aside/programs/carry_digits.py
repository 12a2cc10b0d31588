"""Curriculum: adds numbers of ever more digits. A new digit comes every 25 s, so the loss rises then."""
import time

import torch
from torch import nn

torch.manual_seed(5)
emb, rnn, head = nn.Embedding(100, 32), nn.GRU(32, 96, batch_first=True), nn.Linear(96, 10)
dense = torch.optim.AdamW([*rnn.parameters(), *head.parameters()], 2e-3)
table = torch.optim.SGD(emb.parameters(), 0.1)
t0, step = time.time(), 0
while time.time() - t0 < 300:
    digits = 1 + int(time.time() - t0) // 25
    a, b = torch.randint(0, 10, (2, 64, digits))
    carry, total = torch.zeros(64, dtype=torch.long), []
    for k in range(digits):
        s = a[:, k] + b[:, k] + carry
        total.append(s % 10)
        carry = s // 10
    logits = head(rnn(emb(a * 10 + b))[0])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), torch.stack(total, 1).flatten())
    for o in (dense, table):
        o.zero_grad()
    loss.backward()
    for o in (dense, table):
        o.step()
    step += 1
    if step % 25 == 0:
        print(f"step {step} | {digits} digits | loss {loss.item():.4f}", flush=True)
