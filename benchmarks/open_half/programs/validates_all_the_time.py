# early stopping wants a fresh number
import time
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
w = torch.randn(120, 8)


def split(n):
    x = torch.randn(n, 120)
    return TensorDataset(x, (x @ w).argmax(1))


train, val = DataLoader(split(6400), batch_size=32, shuffle=True), DataLoader(split(9600), batch_size=32)
net = torch.nn.Sequential(torch.nn.Linear(120, 400), torch.nn.ReLU(), torch.nn.Linear(400, 400), torch.nn.ReLU(), torch.nn.Linear(400, 8))
opt = torch.optim.SGD(net.parameters(), 0.02, momentum=0.9)
seen = 0
t0 = time.time()
for epoch in range(10000):
    for x, y in train:
        net.train()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        opt.zero_grad(); loss.backward(); opt.step()
        seen += 1
        if seen % 20 == 0:
            t1 = time.time()
            net.eval()
            with torch.no_grad():
                right = sum((net(a).argmax(1) == b).sum().item() for a, b in val)
            t2 = time.time()
            print(f"step {seen} loss {loss.item():.4f} val_acc {right / 9600:.4f} train {t1 - t0:.2f}s eval {t2 - t1:.2f}s", flush=True)
            t0 = time.time()
