import argparse
import logging
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
log = logging.getLogger("castings")


class Castings(Dataset):
    """Grey pictures of die castings: good, with a pore, with a cold shut."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, 3, (n,), generator=g)
        self.x = torch.randn(n, 1, 40, 40, generator=g) * 0.6
        for i, y in enumerate(self.y.tolist()):
            r, c = torch.randint(4, 28, (2,), generator=g).tolist()
            if y == 1:
                self.x[i, 0, r : r + 6, c : c + 6] -= 0.5
            elif y == 2:
                self.x[i, 0, r : r + 2, c - 4 : c + 12] += 0.6

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def build_model():
    def stage(i, o):
        return [nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2)]

    return nn.Sequential(*stage(1, 24), *stage(24, 48), *stage(48, 64), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(64, 3))


def train(args):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    data = Castings(4000, 1)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=args.batch, sampler=sampler)
    model = nn.parallel.DistributedDataParallel(build_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9, nesterov=True)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for step, (x, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if rank == 0 and step % 10 == 0:
                log.info("epoch %d/%d step %d loss %.4f", epoch + 1, args.epochs, step, loss.item())
        if rank == 0:
            torch.save({"epoch": epoch, "model": model.state_dict()}, os.path.join(args.out, "last.pt"))
    dist.barrier()
    dist.destroy_process_group()


def evaluate(args):
    model = build_model()
    checkpoint = torch.load(os.path.join(args.out, "last.pt"), map_location="cpu")
    log.info("checkpoint of epoch %d", checkpoint["epoch"] + 1)
    model.load_state_dict(checkpoint["model"])
    model.eval()
    for lot in range(args.repeat):
        data = Castings(600, 1000 + lot)
        with torch.no_grad():
            hits = sum((model(x).argmax(1) == y).sum().item() for x, y in DataLoader(data, 100))
        log.info("lot %d accuracy %.4f", lot, hits / len(data))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["train", "evaluate"])
    parser.add_argument("--out", required=True)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--repeat", type=int, default=1)
    args = parser.parse_args()
    {"train": train, "evaluate": evaluate}[args.what](args)
