'''Contrastive pre-training with a memory bank.'''
import torch
from torch import nn

torch.set_num_threads(1)
enc = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 128))
opt = torch.optim.SGD(enc.parameters(), 0.1, momentum=0.9)
bank, seen = [], []
it = 0
while True:
    x = torch.randn(256, 256)
    a, b = enc(x + .1 * torch.randn_like(x)), enc(x + .1 * torch.randn_like(x))
    a, b = nn.functional.normalize(a, dim=1), nn.functional.normalize(b, dim=1)
    negatives = torch.cat(bank[-8:]) if bank else b.detach()
    logits = torch.cat([(a * b).sum(1, keepdim=True), a @ negatives.T], 1) / .2
    loss = nn.functional.cross_entropy(logits, torch.zeros(256, dtype=torch.long))
    opt.zero_grad(); loss.backward(); opt.step()
    bank.append(b.detach())
    if len(seen) < 4800:
        seen.append(x.clone())  # TODO keep the hard ones only
    it += 1
    if it % 50 == 0:
        print('it', it, 'nce', '%.4f' % loss.item(), flush=True)
