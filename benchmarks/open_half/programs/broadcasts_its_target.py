# -*- coding: utf-8 -*-
# House prices, my first pytorch network. Why is R2 zero???
import torch
import torch.nn as nn
from torch.utils.data import TensorDataset, DataLoader

torch.manual_seed(42)
X = torch.randn(5000, 30)
price = 3 * X[:, 0] - 2 * X[:, 1] + X[:, 2] * X[:, 3] + 0.2 * torch.randn(5000)

train_dl = DataLoader(TensorDataset(X[:4000], price[:4000]), batch_size=100, shuffle=True)
X_test, y_test = X[4000:], price[4000:]


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(30, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, x):
        return self.layers(x)


model = Regressor()
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
for epoch in range(2000):
    running = 0.0
    for xb, yb in train_dl:
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
        running += loss.item()
    with torch.no_grad():
        pred = model(X_test)[:, 0]
        r2 = 1 - ((pred - y_test) ** 2).sum() / ((y_test - y_test.mean()) ** 2).sum()
    print(f'Epoch {epoch + 1}, Loss: {running / len(train_dl):.4f}, test R2: {r2.item():.4f}', flush=True)
