# One SIREN per bell recording (implicit neural representation), the weights are what we store.
import os
import tempfile

import numpy as np
import torch
from torch import nn
from tqdm import tqdm


class Sine(nn.Module):
    def __init__(self, i, o, w0=30.0, first=False):
        super().__init__()
        self.lin, self.w0 = nn.Linear(i, o), w0
        b = 1 / i if first else np.sqrt(6 / i) / w0
        nn.init.uniform_(self.lin.weight, -b, b)

    def forward(self, x):
        return torch.sin(self.w0 * self.lin(x))


def siren(width=96):
    last = nn.Linear(width, 1)
    nn.init.uniform_(last.weight, -np.sqrt(6 / width) / 30, np.sqrt(6 / width) / 30)
    return nn.Sequential(Sine(1, width, first=True), Sine(width, width), Sine(width, width), last)


def bell(seed, n=6000):
    r = np.random.RandomState(seed)
    t = np.linspace(0, 1, n)
    f0 = r.uniform(60, 120)
    x = sum(r.uniform(0.3, 1) * np.exp(-t * k * 1.2) * np.sin(2 * np.pi * f0 * p * t) for k, p in enumerate([0.5, 1, 1.2, 1.5, 2, 2.7], 1))
    x = x / np.abs(x).max() + 0.01 * r.randn(n)
    return torch.from_numpy(np.linspace(-50, 50, n)[:, None] / 10).float(), torch.from_numpy(x[:, None]).float()


def main():
    archive = tempfile.TemporaryDirectory(prefix="bells-")
    towers = ["St. Peter", "St. Mary", "Town hall", "St. Anne", "Old abbey", "Harbour", "Cemetery", "School", "St. Paul", "Minster"]
    for k, tower in enumerate(towers * 2):
        torch.manual_seed(k)
        t, x = bell(k)
        net = siren()
        opt = torch.optim.Adam(net.parameters(), lr=2e-4)
        sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 700)
        with tqdm(range(700), desc=tower, mininterval=1.0) as bar:
            for step in bar:
                opt.zero_grad()
                loss = ((net(t) - x) ** 2).mean()
                loss.backward()
                opt.step()
                sched.step()
                if step % 20 == 0:
                    bar.set_postfix(mse="%.2e" % loss.item(), psnr="%.1f" % (-10 * np.log10(loss.item() / 4)))
        torch.save({n: p.half() for n, p in net.state_dict().items()}, os.path.join(archive.name, "%02d.pt" % k))


if __name__ == "__main__":
    main()
