import time
from types import SimpleNamespace

import torch
import torch.nn.functional as F
import yaml
from torch import nn
from torch.utils.data import DataLoader, Dataset

CONFIG = yaml.safe_load(
    """
data: {species: [buzzard, jay, owl, pheasant, kite, heron, magpie, teal], per_species: 520, size: 48}
model: {width: 28, depth: 3}
optim: {lr: 0.004, momentum: 0.9, weight_decay: 0.0005, epochs: 40}
loader: {batch_size: 40}
"""
)


class FeatherAtlas(Dataset):
    """Like ImageFolder: one folder per species, in the order of their names; scans of single feathers."""

    def __init__(self, data, seed, per_species):
        g = torch.Generator().manual_seed(seed)
        size = data.size
        yy, xx = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
        self.samples = []
        for label, _species in enumerate(sorted(data.species)):
            for _ in range(per_species):
                a, b, c = torch.rand(3, generator=g).tolist()
                angle = 0.35 * label + 0.4 * (a - 0.5)
                axis = xx * torch.cos(torch.tensor(angle)) + yy * torch.sin(torch.tensor(angle))
                bars = torch.sin(axis * (6 + 1.5 * (label % 4)) + 6.28 * b)
                vane = torch.exp(-((xx / (0.4 + 0.3 * c)) ** 2))
                self.samples.append((torch.stack([vane * bars, vane, bars * (0.4 + 0.1 * label)]), label))
        self.noise = 0.45

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        image, label = self.samples[index]
        return image + self.noise * torch.randn_like(image), label


class Net(nn.Module):
    def __init__(self, width, depth, classes):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList()
        for i in range(depth):
            c = width * 2**i
            self.blocks.append(nn.Sequential(nn.Conv2d(c, 2 * c, 3, 2, 1), nn.GroupNorm(4, 2 * c), nn.ReLU()))
        self.head = nn.Linear(width * 2**depth, classes)

    def forward(self, x):
        x = F.relu(self.stem(x))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


class Experiment:
    def __init__(self, config):
        self.c = SimpleNamespace(**{key: SimpleNamespace(**value) for key, value in config.items()})
        torch.manual_seed(0)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.train_set = FeatherAtlas(self.c.data, 1, self.c.data.per_species)
        self.val_set = FeatherAtlas(self.c.data, 2, 40)
        self.train_loader = DataLoader(self.train_set, batch_size=self.c.loader.batch_size)
        self.val_loader = DataLoader(self.val_set, batch_size=self.c.loader.batch_size)
        self.net = Net(self.c.model.width, self.c.model.depth, len(self.c.data.species)).to(self.device)
        o = self.c.optim
        self.optim = torch.optim.SGD(self.net.parameters(), o.lr, o.momentum, weight_decay=o.weight_decay)

    def epoch(self, number):
        self.net.train()
        for i, (x, y) in enumerate(self.train_loader):
            loss = F.cross_entropy(self.net(x.to(self.device)), y.to(self.device))
            self.optim.zero_grad()
            loss.backward()
            self.optim.step()
            if i % 4 == 0:
                print(f"[{number:02d}][{i:3d}/{len(self.train_loader)}] loss: {loss.item():.4f}")

    @torch.no_grad()
    def validate(self):
        self.net.eval()
        right = sum((self.net(x.to(self.device)).argmax(1).cpu() == y).sum().item() for x, y in self.val_loader)
        return right / len(self.val_set)

    def run(self):
        began = time.time()
        for number in range(self.c.optim.epochs):
            self.epoch(number)
            print(f"[{number:02d}] val accuracy: {self.validate():.3f}  ({time.time() - began:.0f} s)")


if __name__ == "__main__":
    print("feather atlas,", len(CONFIG["data"]["species"]), "species")
    Experiment(CONFIG).run()
