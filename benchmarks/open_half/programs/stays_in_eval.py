"""ResNet-ish on spectra. validate() switches to eval()."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)
torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(c, c, 3, padding=1), nn.BatchNorm1d(c), nn.ReLU(), nn.Dropout(.3))

    def forward(self, x):
        return x + self.net(x)


model = nn.Sequential(nn.Conv1d(1, 24, 5, padding=2), Block(24), Block(24), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(24, 3))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
y = torch.randint(0, 3, (2400,))
x = torch.sin(torch.linspace(0, 20, 96)[None] * (1 + y[:, None] / 4)).unsqueeze(1) + .8 * torch.randn(2400, 1, 96)
train, val = random_split(TensorDataset(x, y), [2000, 400])
train_dl, val_dl = DataLoader(train, 32, shuffle=True), DataLoader(val, 100)


def validate():
    model.eval()
    with torch.no_grad():
        return sum((model(a).argmax(1) == b).sum().item() for a, b in val_dl) / 400


model.train()
for epoch in range(10000):
    for a, b in train_dl:
        loss = F.cross_entropy(model(a), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch:3d}  loss {loss.item():.4f}  val_acc {validate():.3f}", flush=True)
