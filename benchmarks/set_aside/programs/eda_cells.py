# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
# ---

# %% [markdown]
# # Wine, and what one can learn from 13 numbers
# For the workshop: cells run by themselves, and leave time to read (and to talk) in between.

# %%
import time

import torch
import torch.nn.functional as F
from torch import nn


def talk(seconds, about):
    print(f"--- {about}", flush=True)
    time.sleep(seconds)


# %%
torch.manual_seed(0)
kind = torch.randint(0, 3, (6000,))
wine = torch.randn(3, 13)[kind] * 0.6 + torch.randn(6000, 13)
print(wine.shape, kind.bincount().tolist())
talk(4, "Which of the numbers would you look at first?")


# %%
def fit(model, lr, seconds, x=wine[:5000], y=kind[:5000]):
    opt, start, step = torch.optim.Adam(model.parameters(), lr), time.time(), 0
    while time.time() - start < seconds:
        i = torch.randint(0, len(x), (256,))
        loss = F.cross_entropy(model(x[i]), y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % 500 == 0:
            print(f"  {step:6d} {loss.item():.4f}", flush=True)
    with torch.no_grad():
        print(f"test accuracy {(model(wine[5000:]).argmax(1) == kind[5000:]).float().mean():.3f}", flush=True)


# %%
fit(nn.Linear(13, 3), 1e-2, 12)
talk(15, "A linear model. Why is it not perfect?")

# %%
fit(nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, 3)), 1e-3, 20)
talk(20, "Wider. Did it help?")

# %%
deep = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 3))
fit(deep, 1e-3, 25)
talk(25, "Coffee")

# %%
for lr in (1e-5, 1e-4, 1e-3, 1e-2):
    print("lr", lr)
    fit(nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, 3)), lr, 12)
talk(40, "Questions?")
