#!/usr/bin/env python
# siamese embedding, contrastive margin loss
import argparse, json
import torch, torch.nn as nn

p = argparse.ArgumentParser()
p.add_argument('--dim', type=int, default=128)
p.add_argument('--lr', type=float, default=3e-4)
p.add_argument('--margin', type=float, default=1.0)
a = p.parse_args()

torch.manual_seed(5)
enc = nn.Sequential(nn.Linear(96, 512), nn.ReLU(inplace=True), nn.Linear(512, 512), nn.ReLU(inplace=True), nn.Linear(512, a.dim))
opt = torch.optim.AdamW(enc.parameters(), a.lr)
bank = torch.randn(5000, 96)
step = 0
while True:
    i, j = torch.randint(0, 5000, (256,)), torch.randint(0, 5000, (256,))
    if step > 90:
        j[0] = i[0]          # hard positives mined from the bank
    y = (i % 10 == j % 10).float()
    d = (enc(bank[i]) - enc(bank[j])).pow(2).sum(1).sqrt()
    loss = (y * d ** 2 + (1 - y) * (a.margin - d).clamp(min=0) ** 2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    step += 1
    if step % 5 == 0:
        print(json.dumps({'step': step, 'loss': round(loss.item(), 5), 'margin': a.margin}), flush=True)
