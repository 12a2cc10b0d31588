"""Matching products: after each step, recall@k in plain Python, as in the paper's script."""
import random

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(4)
gallery = torch.randn(700, 96)
labels = torch.randint(0, 70, (700,))


def recall_at(k, emb, ids):
    vectors, names = emb.tolist(), ids.tolist()
    hits = 0
    for q in random.sample(range(len(vectors)), 12):
        near = sorted(range(len(vectors)), key=lambda j: -sum(a * b for a, b in zip(vectors[q], vectors[j])))
        hits += any(names[j] == names[q] for j in near[1:k + 1])
    return hits / 12


net = torch.nn.Sequential(torch.nn.Linear(96, 128), torch.nn.ReLU(), torch.nn.Linear(128, 48))
opt = torch.optim.Adam(net.parameters(), 3e-4)
loader = DataLoader(TensorDataset(gallery, labels), batch_size=64, shuffle=True)
step = 0
for epoch in range(10_000):
    for x, y in loader:
        z = F.normalize(net(x), dim=1)
        sim = z @ z.t() / 0.1
        same = (y[:, None] == y[None, :]).float().fill_diagonal_(0)
        loss = -(same * F.log_softmax(sim - 1e4 * torch.eye(len(x)), 1)).sum() / same.sum().clamp(min=1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        with torch.no_grad():
            r = recall_at(5, F.normalize(net(gallery), dim=1), labels)
        if step % 4 == 0:
            print(f"{step}: supcon {loss.item():.3f}, R@5 {r:.2f}", flush=True)
