# %% [markdown]
# # Click model, second try
# Exported with jupytext.

# %%
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)
N = 50_000
fields = torch.randint(0, 300, (N, 12))
weights = torch.randn(300)
labels = (weights[fields].sum(1) + torch.randn(N) > 0).float()

# %%
class Clicks(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.EmbeddingBag(300, 64, mode="sum")
        self.mlp = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, x):
        return self.mlp(self.emb(x)).squeeze(1)


def auc(scores, y):
    order = scores.argsort()
    ranks = torch.empty_like(scores)
    ranks[order] = torch.arange(1, len(scores) + 1, dtype=scores.dtype)
    pos = y.sum()
    neg = len(y) - pos
    return ((ranks[y > 0].sum() - pos * (pos + 1) / 2) / (pos * neg)).item()


model = Clicks()
opt = torch.optim.Adagrad(model.parameters(), lr=0.02)

# %%
scores, truth = torch.empty(0), torch.empty(0)
t0 = time.time()
for epoch in range(200):
    for k, idx in enumerate(torch.randperm(N).split(256)):
        out = model(fields[idx])
        loss = F.binary_cross_entropy_with_logits(out, labels[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        scores, truth = torch.cat([scores, out.detach()]), torch.cat([truth, labels[idx]])
        running = auc(scores, truth)
        if k % 20 == 0:
            print(f"epoch {epoch} batch {k} loss {loss.item():.4f} auc {running:.4f} {time.time() - t0:.0f}s", flush=True)
