import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import yaml
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class TreadViT(nn.Module):
    def __init__(self, image, patch, dim, depth, heads, classes):
        super().__init__()
        self.embed = nn.Conv2d(1, dim, patch, patch)
        self.pos = nn.Parameter(torch.randn(1, (image // patch) ** 2, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, heads, dim * 2, dropout=0.1, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2) + self.pos
        return self.head(self.blocks(x).mean(1))


def treads(n, size, classes, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=g)
    t = torch.linspace(0, 6.28, size)
    freq = 2.0 + 0.6 * y.float()
    phase = torch.rand(n, 2, generator=g) * 6.28
    x = torch.sin(freq[:, None, None] * t[None, :, None] + phase[:, :1, None]) * torch.cos(
        (freq * (1 + y % 3) / 2)[:, None, None] * t[None, None] + phase[:, 1:, None]
    )
    return TensorDataset((x + 1.1 * torch.randn(n, size, size, generator=g))[:, None], y)


class Runner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.rank = int(os.environ.get("RANK", 0))
        self.local_rank = int(os.environ.get("LOCAL_RANK", 0))
        self.world_size = int(os.environ.get("WORLD_SIZE", 1))
        if self.world_size > 1:
            backend = "nccl" if torch.cuda.is_available() else "gloo"
            dist.init_process_group(backend)
        self.device = torch.device("cuda", self.local_rank) if torch.cuda.is_available() else torch.device("cpu")
        torch.manual_seed(cfg["seed"] if "seed" in cfg else 0)
        d, m = cfg["data"], cfg["model"]
        train = treads(d["train"], d["image"], m["classes"], 1)
        self.sampler = DistributedSampler(train) if self.world_size > 1 else None
        self.train_loader = DataLoader(train, d["batch"], shuffle=self.sampler is None, sampler=self.sampler, drop_last=True)
        self.val_loader = DataLoader(treads(d["val"], d["image"], m["classes"], 2), 64)
        self.model = TreadViT(d["image"], d["patch"], **m).to(self.device)
        if self.world_size > 1:
            self.model = DistributedDataParallel(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), cfg["optim"]["lr"], weight_decay=cfg["optim"]["wd"])
        self.criterion = nn.CrossEntropyLoss()

    def info(self, message):
        if self.local_rank == 0:
            print(message, flush=True)

    def train_epoch(self, epoch):
        if self.sampler is not None:
            self.sampler.set_epoch(epoch)
        self.model.train()
        for i, (x, y) in enumerate(self.train_loader):
            loss = self.criterion(self.model(x.to(self.device)), y.to(self.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if i % 20 == 0:
                self.info(f"epoch {epoch:03d} [{i:4d}/{len(self.train_loader)}] loss {loss.item():.4f}")

    @torch.no_grad()
    def validate(self, epoch):
        self.model.eval()
        hits = sum((self.model(x.to(self.device)).argmax(1).cpu() == y).sum().item() for x, y in self.val_loader)
        self.info(f"epoch {epoch:03d} val_acc {hits / len(self.val_loader.dataset):.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    with open(parser.parse_args().config) as stream:
        config = yaml.safe_load(stream)
    runner = Runner(config)
    for ep in range(config["epochs"]):
        runner.train_epoch(ep)
        runner.validate(ep)
    if dist.is_initialized():
        dist.destroy_process_group()
