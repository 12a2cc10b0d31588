"""Several targets for dairy herds (yield, fat, illness), one per step in turn; two processes (torchrun)."""
import os
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

TASKS = {"yield": 1, "fat": 1, "illness": 5}


def cows(n, seed):
    g = torch.Generator().manual_seed(seed)
    rule = torch.Generator().manual_seed(123)
    mix = torch.randn(24, 32, generator=rule)
    x = torch.randn(n, 30, 24, generator=g)  # thirty days of 24 readings
    trend = torch.linspace(0, 1, 30)[None, :, None]
    z = torch.tanh(((x * trend).sum(1) @ mix) / 12)
    milk = z[:, :8].sum(1) + 0.2 * torch.randn(n, generator=g)
    fat = z[:, 8:12].prod(1) * 4 + z[:, 12] + 0.1 * torch.randn(n, generator=g)
    ill = z[:, 16:21].argmax(1)
    return TensorDataset(x, milk, fat, ill)


class HerdNet(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.inp = nn.Linear(24, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(1, 30, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 256, dropout=0.1, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.heads = nn.ModuleDict({name: nn.Linear(dim, n) for name, n in TASKS.items()})

    def forward(self, x, task):
        h = self.body(self.inp(x) + self.pos).mean(1)
        return self.heads[task](h)


def loss_of(task, out, milk, fat, ill):
    if task == "illness":
        return F.cross_entropy(out, ill)
    return F.mse_loss(out[:, 0], milk if task == "yield" else fat)


def evaluate(model, loader):
    model.eval()
    sums = torch.zeros(len(TASKS) + 1)
    with torch.no_grad():
        for x, *targets in loader:
            for k, task in enumerate(TASKS):
                sums[k] += loss_of(task, model.module(x, task), *targets) * len(x)
            sums[-1] += len(x)
    dist.all_reduce(sums)
    model.train()
    return {task: round((sums[k] / sums[-1]).item(), 4) for k, task in enumerate(TASKS)}


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    say = print if rank == 0 else (lambda *a, **k: None)
    say("world size", dist.get_world_size(), "pid", os.getpid(), flush=True)
    torch.manual_seed(0)
    train, valid = cows(6400, 1), cows(640, 2)
    sampler = DistributedSampler(train)
    loader = DataLoader(train, 16, sampler=sampler, drop_last=True)
    valid_loader = DataLoader(valid, 64, sampler=DistributedSampler(valid, shuffle=False))
    # only one head is used in each step, hence find_unused_parameters
    model = DDP(HerdNet(), find_unused_parameters=True)
    opt = torch.optim.AdamW(model.parameters(), 2e-4, weight_decay=0.01)
    names = list(TASKS)
    step = 0
    for epoch in range(120):
        sampler.set_epoch(epoch)
        for x, *targets in loader:
            task = names[step % len(names)]
            loss = loss_of(task, model(x, task), *targets)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % 20 == 0:
                say(f"epoch {epoch} step {step} {task} loss {loss.item():.4f}", flush=True)
        say(f"epoch {epoch} valid {evaluate(model, valid_loader)}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
