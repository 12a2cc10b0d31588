# exported from kfold.ipynb
# %%
import copy
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)

# %% data: 24k rows, 50 numeric columns, one categorical
n = 24_000
num = torch.randn(n, 50)
cat = torch.randint(0, 30, (n,))
effect = torch.randn(30)
price = (num[:, :5].sum(1) + effect[cat] + 0.5 * torch.randn(n))[:, None]
folds = torch.randperm(n).chunk(5)


# %%
class Tab(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(30, 16)
        self.f = nn.Sequential(nn.Linear(66, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, a, b):
        return self.f(torch.cat([a, self.e(b)], 1))


def rmse(model, idx):
    model.eval()
    with torch.no_grad():
        out = (model(num[idx], cat[idx]) - price[idx]).pow(2).mean().sqrt().item()
    model.train()
    return out


# %% each fold starts from scratch; repeat the whole CV with new seeds
best_of_all = []
for repeat in range(10_000):
    for k in range(5):
        train = torch.cat([f for j, f in enumerate(folds) if j != k])
        model = Tab()
        opt = torch.optim.AdamW(model.parameters(), 1e-3)
        best, state = float("inf"), None
        for epoch in range(6):
            for idx in train[torch.randperm(len(train))].split(256):
                loss = nn.functional.mse_loss(model(num[idx], cat[idx]), price[idx])
                opt.zero_grad()
                loss.backward()
                opt.step()
            score = rmse(model, folds[k])
            if score < best:
                best, state = score, copy.deepcopy(model.state_dict())
            print(f"repeat {repeat} fold {k} epoch {epoch}: train loss {loss.item():.4f} val rmse {score:.4f}", flush=True)
        best_of_all.append(best)
    print(f"== CV {repeat}: {sum(best_of_all[-5:]) / 5:.4f}", flush=True)
