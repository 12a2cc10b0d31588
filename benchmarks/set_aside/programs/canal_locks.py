"""Water levels of 24 canal locks, one hour ahead.  See canal_locks.sh for how we start it."""
import logging
import os

import torch
import torch.distributed as dist
from torch import nn

rank, world, local = (int(os.environ[k]) for k in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
logging.basicConfig(level=logging.INFO, format=f"%(asctime)s r{rank} %(message)s", datefmt="%H:%M:%S")
log = logging.getLogger("locks")


class Forecaster(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.rnn = nn.GRU(24, width, num_layers=2, batch_first=True)
        self.out = nn.Linear(width, 24)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


def windows(series, batch, length, gen):
    starts = torch.randint(0, len(series) - length - 1, (batch,), generator=gen)
    x = torch.stack([series[s : s + length] for s in starts])
    return x, torch.stack([series[s + length] for s in starts])


def main():
    dist.init_process_group("gloo")
    device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    log.info("world of %d, local rank %d, device %s", world, local, device)
    torch.manual_seed(11)
    t = torch.arange(20000).unsqueeze(1) / torch.linspace(20, 200, 24)
    series = (torch.sin(t) + 0.2 * torch.randn(20000, 24)).to(device)
    model = nn.parallel.DistributedDataParallel(Forecaster().to(device))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    gen = torch.Generator().manual_seed(rank)
    for step in range(1, 200001):
        x, y = windows(series, 24, 36, gen)
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 50 == 0:
            log.info("step %d mse %.4f", step, loss.item())


main()
