import os, sys, time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

# adds a separate process group for metrics, so that they do not wait behind gradients


def log(*a):
    print(time.strftime("%H:%M:%S"), f"[rank{os.environ['RANK']}]", *a, flush=True)


def metrics_group(rank, world):
    if rank == 0:                       # only the main process logs
        return dist.new_group(ranks=list(range(world)))
    return None


def train(rank, world):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = DDP(nn.Sequential(nn.Linear(80, 400), nn.GELU(), nn.Linear(400, 400), nn.GELU(), nn.Linear(400, 3)))
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    log("model ready,", sum(p.numel() for p in net.parameters()), "parameters")
    metrics = metrics_group(rank, world)
    log("metrics group:", "yes" if metrics else "no")
    gen = torch.Generator().manual_seed(rank)
    for it in range(1, 10**6):
        x = torch.randn(128, 80, generator=gen)
        y = x[:, :3].argmax(1)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad(); loss.backward(); opt.step()
        if it % 50 == 0 and rank == 0:
            log("it", it, "loss", round(loss.item(), 4))


if __name__ == "__main__":
    dist.init_process_group("gloo")
    log("joined, python", sys.version.split()[0], "torch", torch.__version__)
    train(dist.get_rank(), dist.get_world_size())
