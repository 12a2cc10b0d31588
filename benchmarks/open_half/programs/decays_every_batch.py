"""Sound events from log-mel patches.

    python -u decays_every_batch.py --config patches.yaml optim.lr=3e-3
"""
import logging
import pathlib
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml

log = logging.getLogger("patches")


def load(argv):
    cfg = yaml.safe_load((pathlib.Path(__file__).parent / argv[argv.index("--config") + 1]).read_text())
    for item in argv:
        if "=" in item and not item.startswith("--"):
            key, value = item.split("=", 1)
            node = cfg
            *path, last = key.split(".")
            for part in path:
                node = node[part]
            node[last] = yaml.safe_load(value)
    return cfg


class Patches(torch.utils.data.Dataset):
    def __init__(self, n, classes):
        self.n, self.classes = n, classes
        self.tones = torch.rand(classes, 1, 40, 1)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        label = i % self.classes
        return 0.4 * torch.randn(1, 40, 32, generator=g) + self.tones[label], label


class Net(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU(),
        )
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def main():
    logging.basicConfig(level="INFO", format="[%(asctime)s][%(name)s][%(levelname)s] - %(message)s")
    cfg = load(sys.argv)
    log.info("config: %s", cfg)
    torch.manual_seed(cfg["seed"])
    ds = Patches(4096, cfg["model"]["classes"])
    loader = torch.utils.data.DataLoader(ds, cfg["data"]["batch"], shuffle=True, drop_last=True)
    net = Net(cfg["model"]["width"], cfg["model"]["classes"])
    opt = torch.optim.AdamW(net.parameters(), lr=float(cfg["optim"]["lr"]))
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=cfg["optim"]["step"], gamma=0.1)
    n = 0
    for epoch in range(cfg["epochs"]):
        for x, y in loader:
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            if n % 20 == 0:
                log.info("epoch %d it %d loss %.4f", epoch, n, loss.item())
            n += 1


if __name__ == "__main__":
    main()
