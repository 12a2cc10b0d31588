import logging
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
log = logging.getLogger("spectra")
torch.manual_seed(1)
torch.set_num_threads(1)

# spectra and labels come as two files
centers = torch.randn(12, 80)
kind = torch.randint(12, (8000,))
spectra = TensorDataset(centers[kind] + 0.3 * torch.randn(8000, 80))
labels = TensorDataset(kind)
xs = DataLoader(spectra, batch_size=125, shuffle=True)
ys = DataLoader(labels, batch_size=125, shuffle=True)

net = nn.Sequential(nn.Linear(80, 160), nn.ReLU(), nn.Dropout(0.4), nn.Linear(160, 160), nn.ReLU(), nn.Dropout(0.4), nn.Linear(160, 12))
opt = torch.optim.SGD(net.parameters(), lr=0.02, weight_decay=1e-3)
n = 0
for epoch in range(100000):
    for (x,), (y,) in zip(xs, ys):
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        n += 1
        if n % 20 == 0:
            log.info("iter %d | loss %.4f | acc %.3f", n, loss.item(), (net(x).argmax(1) == y).float().mean())
