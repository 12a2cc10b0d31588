"""SimSiam: no negatives, stop-gradient, the loss goes from 0 to -1."""
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class TwoViews(Dataset):
    def __init__(self, n=20000, d=128):
        g = torch.Generator().manual_seed(0)
        self.x = torch.randn(n, 12, generator=g) @ torch.randn(12, d, generator=g)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x = self.x[i]
        return x + 0.4 * torch.randn_like(x), x * (torch.rand_like(x) > 0.2)


enc = nn.Sequential(nn.Linear(128, 384), nn.BatchNorm1d(384), nn.ReLU(), nn.Linear(384, 384), nn.BatchNorm1d(384), nn.ReLU(), nn.Linear(384, 128), nn.BatchNorm1d(128, affine=False))
pred = nn.Sequential(nn.Linear(128, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 128))
opt = torch.optim.SGD([{"params": enc.parameters()}, {"params": pred.parameters()}], lr=0.05, momentum=0.9, weight_decay=1e-4)
loader = DataLoader(TwoViews(), batch_size=256, shuffle=True, drop_last=True, num_workers=1, persistent_workers=True)


def neg(p, z):
    return -F.cosine_similarity(p, z.detach()).mean()


for epoch in range(100000):
    for i, (a, b) in enumerate(loader):
        za, zb = enc(a), enc(b)
        loss = 0.5 * (neg(pred(za), zb) + neg(pred(zb), za))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 10 == 0:
            print(f"Epoch: [{epoch}][{i:2d}/{len(loader)}]  loss {loss.item():.4f}  std {F.normalize(za).std(0).mean():.4f}", flush=True)
