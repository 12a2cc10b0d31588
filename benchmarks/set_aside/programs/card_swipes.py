# Fraud detection on card payments. Kaggle-style table: anonymous V columns, Time and Amount.
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

SEED = 1234
N_ROWS = 60000
BATCH = 256
EPOCHS = 400
LR = 1e-3

torch.manual_seed(SEED)
rng = np.random.default_rng(SEED)


def load_table():
    y = (rng.random(N_ROWS) < 0.08).astype(np.float32)
    v = rng.standard_normal((N_ROWS, 24)).astype(np.float32)
    shift = rng.normal(0, 1.1, 24).astype(np.float32)
    v += y[:, None] * shift
    hours = rng.uniform(0, 48, N_ROWS).astype(np.float32)
    amount = np.exp(rng.normal(0.3, 0.7, N_ROWS) + 1.2 * y).astype(np.float32)
    return np.column_stack([v, hours / 24, amount]), y


class FocalLoss(nn.Module):
    def __init__(self, alpha=0.75, gamma=2.0):
        super().__init__()
        self.alpha = alpha
        self.gamma = gamma

    def forward(self, p, y):
        pos = -self.alpha * (1 - p) ** self.gamma * y * torch.log(p)
        neg = -(1 - self.alpha) * p**self.gamma * (1 - y) * torch.log(1 - p)
        return (pos + neg).mean()


class FraudNet(nn.Module):
    def __init__(self, n_features):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_features, 256),
            nn.ReLU(),
            nn.Linear(256, 256),
            nn.ReLU(),
            nn.Linear(256, 64),
            nn.ReLU(),
            nn.Linear(64, 1),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return self.layers(x).squeeze(1)


def recall(model, x, y):
    model.eval()
    with torch.no_grad():
        p = model(x)
    hit = ((p > 0.5) & (y > 0.5)).sum().item()
    return hit / max(1, int(y.sum().item()))


def main():
    X, y = load_table()
    X, y = torch.tensor(X), torch.tensor(y)
    n_train = int(N_ROWS * 0.8)
    loader = DataLoader(TensorDataset(X[:n_train], y[:n_train]), batch_size=BATCH, shuffle=True)
    model = FraudNet(X.shape[1])
    criterion = FocalLoss()
    opt = torch.optim.Adam(model.parameters(), lr=LR)
    print(f"{n_train} rows, {int(y[:n_train].sum())} frauds")
    it = 0
    for epoch in range(EPOCHS):
        model.train()
        for xb, yb in loader:
            loss = criterion(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if it % 25 == 0:
                print(f"iter {it} loss {loss.item():.5f}")
            it += 1
        print(f"== epoch {epoch} recall {recall(model, X[n_train:], y[n_train:]):.3f}")


if __name__ == "__main__":
    main()
