# Values of old stamps from scans. Augmentation grows stronger from epoch to epoch ("progressive"), see set_strength.
import random
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Compose:
    def __init__(self, parts):
        self.parts = parts

    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        return x


class Shift:
    def __init__(self, pixels):
        self.pixels = pixels

    def __call__(self, x):
        return x.roll((random.randint(-self.pixels, self.pixels), random.randint(-self.pixels, self.pixels)), (1, 2))


class Fade:
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        m = x.mean((1, 2), keepdim=True)
        return m + (x - m) * (1 - self.by * random.random())


class Grain:
    def __init__(self, sigma):
        self.sigma = sigma

    def __call__(self, x):
        return x + self.sigma * torch.randn_like(x)


class Stamps(Dataset):
    def __init__(self, n=480, side=40):
        g = torch.Generator().manual_seed(2)
        self.y = torch.randint(0, 10, (n,), generator=g)
        self.x = torch.randn(10, 3, side, side, generator=g)[self.y] * 0.4 + 0.3 * torch.randn(n, 3, side, side, generator=g)
        self.transform = Compose([])

    def set_strength(self, s):
        self.transform = Compose([self.transform, Shift(2), Fade(0.05 * s), Grain(0.02 * s)])

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.transform(self.x[i]), self.y[i]


def main():
    torch.manual_seed(0)
    stamps = Stamps()
    loader = DataLoader(stamps, batch_size=24, shuffle=True)
    net = nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
    net(stamps.x[:1])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3)
    begin, epoch, batches = time.time(), 0, 0
    while True:
        stamps.set_strength(min(1.0, epoch / 100))
        for x, y in loader:
            t = time.time()
            loss = nn.functional.cross_entropy(net(x), y, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            batches += 1
        epoch += 1
        print(f"epoch={epoch} loss={loss.item():.4f} batches={batches} elapsed={time.time() - begin:.1f}", flush=True)
        if time.time() - begin > 205:
            return


if __name__ == "__main__":
    main()
