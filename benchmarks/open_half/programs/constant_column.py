# %% [markdown]
# # Energy demand from weather, per district
# Exported with jupytext.
# %%
import math
import torch
from torch import nn

torch.manual_seed(8)
DISTRICTS, HOURS = 24, 600


# %%
def district(k):
    """Weather and demand of one district; the last ones got their rain gauges only this spring."""
    x = torch.randn(HOURS, 9)
    x[:, 3] = torch.where(torch.rand(HOURS) < 0.2, torch.rand(HOURS), torch.zeros(HOURS))  # rain
    if k >= 20:
        x[:, 3] = 0.0
    y = 0.7 * x[:, 0] - 0.2 * x[:, 0] * x[:, 1] + torch.sin(x[:, 2] * 2) + 0.3 * x[:, 3] + 0.1 * torch.randn(HOURS)
    return x, y


def standardize(x):
    return (x - x.mean(0)) / x.std(0)


# %%
model = nn.Sequential(nn.Linear(9, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
history = []

# %%
seen = 0
for epoch in range(5000):
    # start with a few districts and add one every other pass
    known = min(DISTRICTS, 12 + epoch // 2)
    for k in torch.randperm(known).tolist():
        x, y = district(k)
        x = standardize(x)
        for rows in torch.randperm(HOURS).split(100):
            loss = (model(x[rows])[:, 0] - y[rows]).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append(loss.item())
    recent = history[-6 * known:]
    print(f"epoch {epoch}: {known} districts, MAE {math.fsum(recent) / len(recent):.4f}", flush=True)
