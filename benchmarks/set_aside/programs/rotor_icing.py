"""Ice on rotor blades from the turbine's signals. Own DDP trainer: a moving average of the weights, checkpoints from a thread."""
import copy
import os
import queue
import tempfile
import threading

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Writer(threading.Thread):
    """Writes states in the background, the newest one only."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.jobs = path, queue.Queue(maxsize=1)

    def offer(self, state):
        try:
            self.jobs.put_nowait(copy.deepcopy(state))
        except queue.Full:
            print("writer is busy, skipped", flush=True)

    def run(self):
        while True:
            state = self.jobs.get()
            torch.save(state, self.path + ".new")
            os.replace(self.path + ".new", self.path)


def signals(n, seed):
    g = torch.Generator().manual_seed(seed)
    ice = (torch.rand(n, generator=g) < 0.3).float()
    wind = 0.5 + torch.rand(n, 1, generator=g)
    t = torch.arange(128).float()
    power = wind * (1 - 0.25 * ice[:, None]) + 0.2 * torch.randn(n, 128, generator=g)
    shake = (0.4 + 0.5 * ice[:, None]) * torch.sin(t * 0.9 * wind) + 0.4 * torch.randn(n, 128, generator=g)
    x = torch.stack([power, shake, wind.expand(n, 128)], 1)
    ice = torch.where(torch.rand(n, generator=g) < 0.04, 1 - ice, ice)
    return TensorDataset(x, ice)


class IceNet(nn.Module):
    def __init__(self, w=56):
        super().__init__()
        self.gru = nn.GRU(3, w, batch_first=True, bidirectional=True)
        self.head = nn.Sequential(nn.LayerNorm(2 * w), nn.Dropout(0.2), nn.Linear(2 * w, 1))

    def forward(self, x):
        return self.head(self.gru(x.transpose(1, 2))[0].mean(1)).squeeze(1)


@torch.no_grad()
def validate(model, data, rank, world):
    model.eval()
    total = torch.zeros(2)
    for i in range(rank * 64, len(data) - 63, world * 64):
        x, y = data[i : i + 64]
        out = model(x)
        total += torch.tensor([nn.functional.binary_cross_entropy_with_logits(out, y).item(), 1.0])
    dist.all_reduce(total)
    return (total[0] / total[1]).item()


@record
def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(10 + rank)
    train, val = signals(16000, 0), signals(640, 1)
    sampler = DistributedSampler(train, world, rank)
    loader = DataLoader(train, batch_size=32, sampler=sampler, drop_last=True)
    model = DistributedDataParallel(IceNet())
    ema = torch.optim.swa_utils.AveragedModel(model.module, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    writer = None
    if rank == 0:
        writer = Writer(os.path.join(tempfile.mkdtemp(prefix="icing_"), "ema.pt"))
        writer.start()
    step = 0
    for epoch in range(30):
        sampler.set_epoch(epoch)
        for x, y in loader:
            model.train()
            loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            ema.update_parameters(model.module)
            step += 1
            if step % 20 == 0:
                mean = loss.detach().clone()
                dist.all_reduce(mean)
                if rank == 0:
                    print(f"step {step} bce {mean.item() / world:.4f}", flush=True)
            if step % 200 == 0:
                score = validate(ema, val, rank, world)
                if rank == 0:
                    print(f"step {step} ema val bce {score:.4f}", flush=True)
                    writer.offer(ema.module.state_dict())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
