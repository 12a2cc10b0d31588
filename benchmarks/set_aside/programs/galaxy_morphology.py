import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, Subset

NUM_CLASSES = 8
PER_CLASS = 600
SIZE = 48
BATCH = 32
LR = 1e-3
EPOCHS = 80

torch.manual_seed(5)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def render(cls, n):
    """galaxies of one morphological class: bulge + arms + inclination"""
    ax = torch.linspace(-1, 1, SIZE)
    y, x = torch.meshgrid(ax, ax, indexing="ij")
    phi = torch.rand(n, 1, 1) * 6.283
    xr, yr = x * phi.cos() - y * phi.sin(), x * phi.sin() + y * phi.cos()
    q = 1.0 + 0.5 * (cls % 4)
    r = (xr ** 2 + (q * yr) ** 2).sqrt() + 1e-3
    img = torch.exp(-r * (3.0 + cls % 3))
    if cls >= 4:
        arms = (torch.atan2(yr, xr) * (cls - 2) + 6 * r.log()).cos().clamp(min=0)
        img = img + 0.7 * arms * torch.exp(-2 * r)
    return (img + 0.15 * torch.randn(n, SIZE, SIZE))[:, None]


class GalaxyNet(nn.Module):
    def __init__(self):
        super(GalaxyNet, self).__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(48, 48, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(5))
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(48 * 25, 128), nn.ReLU(), nn.Linear(128, NUM_CLASSES))

    def forward(self, x):
        return self.classifier(self.features(x))


images = torch.cat([render(c, PER_CLASS) for c in range(NUM_CLASSES)])
images = (images - images.mean()) / images.std()
labels = torch.arange(NUM_CLASSES).repeat_interleave(PER_CLASS)
full = TensorDataset(images, labels)
val_idx = list(range(0, len(full), 10))
train_idx = [i for i in range(len(full)) if i % 10]
train_loader = DataLoader(Subset(full, train_idx), batch_size=BATCH)
val_loader = DataLoader(Subset(full, val_idx), batch_size=64)

net = GalaxyNet().to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(net.parameters(), lr=LR)
print("Start: %d training images, %d validation images" % (len(train_idx), len(val_idx)), flush=True)

for epoch in range(EPOCHS):
    start = time.time()
    net.train()
    seen = correct = 0
    for i, (inputs, targets) in enumerate(train_loader):
        inputs, targets = inputs.to(device), targets.to(device)
        optimizer.zero_grad()
        outputs = net(inputs)
        loss = criterion(outputs, targets)
        loss.backward()
        optimizer.step()
        seen += len(targets)
        correct += (outputs.argmax(1) == targets).sum().item()
        if (i + 1) % 5 == 0:
            print("[%d, %3d] loss: %.3f" % (epoch + 1, i + 1, loss.item()), flush=True)
    net.eval()
    good = 0
    with torch.no_grad():
        for inputs, targets in val_loader:
            good += (net(inputs.to(device)).argmax(1).cpu() == targets).sum().item()
    print("Epoch %d | train acc %.2f%% | val acc %.2f%% | %.1fs"
          % (epoch + 1, 100.0 * correct / seen, 100.0 * good / len(val_idx), time.time() - start), flush=True)
