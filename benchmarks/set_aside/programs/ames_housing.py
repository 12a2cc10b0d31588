# House prices regression (tabular), Kaggle style
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

SEED = 2024
BATCH = 256
EPOCHS = 200
LR = 1e-3

torch.manual_seed(SEED)
rng = np.random.default_rng(SEED)
device = "cuda" if torch.cuda.is_available() else "cpu"


def load_houses(n=60000, d=79):
    x = rng.normal(0, 1, (n, d)).astype(np.float32)
    w = rng.normal(0, 1, d) * (rng.random(d) < 0.3)
    y = x @ w * 0.3 + 0.4 * np.tanh(x[:, 0] * x[:, 1]) + 0.2 * np.abs(x[:, 2]) + rng.normal(0, 0.15, n)
    return x, ((y - y.mean()) / y.std()).astype(np.float32)


class HouseDataset(Dataset):
    def __init__(self, x, y):
        self.x = torch.tensor(x, dtype=torch.float32)
        self.y = torch.tensor(y, dtype=torch.float32)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, idx):
        return self.x[idx], self.y[idx]


class MLP(nn.Module):
    def __init__(self, d_in, hidden=(1024, 1024, 512)):
        super().__init__()
        layers = []
        for h in hidden:
            layers += [nn.Linear(d_in, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Dropout(0.1)]
            d_in = h
        self.net = nn.Sequential(*layers, nn.Linear(d_in, 1))

    def forward(self, x):
        return self.net(x)


x, y = load_houses()
split = int(0.9 * len(x))
train_loader = DataLoader(HouseDataset(x[:split], y[:split]), batch_size=BATCH, shuffle=True, drop_last=True)
valid_loader = DataLoader(HouseDataset(x[split:], y[split:]), batch_size=1000)

model = MLP(x.shape[1]).to(device)
criterion = nn.MSELoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS)
print(f"{split} rows to train, {len(x) - split} rows to validate, device {device}", flush=True)

for epoch in range(EPOCHS):
    model.train()
    total, count = 0.0, 0
    for i, (xb, yb) in enumerate(train_loader):
        xb, yb = xb.to(device), yb.to(device)
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(xb)
        count += len(xb)
        if i % 50 == 49:
            print(f"epoch {epoch:03d} step {i + 1:4d} train mse {total / count:.4f}", flush=True)
    scheduler.step()

    model.eval()
    preds, trues = [], []
    with torch.no_grad():
        for xb, yb in valid_loader:
            preds.append(model(xb.to(device)).cpu().numpy().ravel())
            trues.append(yb.numpy())
    preds, trues = np.concatenate(preds), np.concatenate(trues)
    r2 = 1 - ((preds - trues) ** 2).sum() / ((trues - trues.mean()) ** 2).sum()
    print(f"epoch {epoch:03d} train mse {total / count:.4f} valid r2 {r2:+.4f}", flush=True)
