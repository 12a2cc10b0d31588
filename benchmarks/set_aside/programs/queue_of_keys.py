"""Contrastive learning of fabrics, with a queue of keys and a slow encoder. As the queue fills, the task gets harder."""
import copy
import time

import torch
import torch.nn.functional as F
from torch import nn

QUEUE, DIM, BATCH, TAU = 8192, 48, 32, 0.2


def fabrics(n):
    """Two crops of the same weave."""
    fx, fy, phase = (torch.rand(n, 1, 1) * s for s in (1.5, 1.5, 6.28))
    r, c = torch.meshgrid(torch.arange(28.0), torch.arange(28.0), indexing="ij")
    colour = torch.rand(n, 3, 1, 1)

    def crop():
        shift = 6.28 * torch.rand(n, 1, 1)
        return (torch.sin(fx * r + phase + shift) * torch.sin(fy * c + shift)).unsqueeze(1) * colour + 0.15 * torch.randn(n, 3, 28, 28)

    return crop(), crop()


def encoder():
    return nn.Sequential(nn.Conv2d(3, 32, 5, 2), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 5, 2), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, DIM))


torch.manual_seed(0)
q_enc = encoder()
k_enc = copy.deepcopy(q_enc).requires_grad_(False)
opt = torch.optim.SGD(q_enc.parameters(), 0.03, momentum=0.9, weight_decay=1e-4)
keys = torch.empty(0, DIM)
start, step = time.time(), 0
while time.time() - start < 210:
    a, b = fabrics(BATCH)
    q = F.normalize(q_enc(a), dim=1)
    with torch.no_grad():
        for p, s in zip(k_enc.parameters(), q_enc.parameters()):
            p.lerp_(s, 0.01)
        k = F.normalize(k_enc(b), dim=1)
    logits = torch.cat([(q * k).sum(1, keepdim=True), q @ keys.t()], 1) / TAU if len(keys) else q @ k.t() / TAU
    labels = torch.zeros(BATCH, dtype=torch.long) if len(keys) else torch.arange(BATCH)
    loss = F.cross_entropy(logits, labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    keys = torch.cat([k, keys])[:QUEUE]
    step += 1
    if step % 15 == 0:
        print(f"it {step}\tinfo_nce {loss.item():.4f}\ttop1 {(logits.argmax(1) == labels).float().mean().item():.3f}\tkeys {len(keys)}/{QUEUE}", flush=True)
