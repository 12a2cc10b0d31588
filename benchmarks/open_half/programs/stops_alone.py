# early stopping for the two-node box; usage: python stops_alone.py --patience 3
import argparse, os, time
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


class Stopper:
    def __init__(self, patience):
        self.best, self.bad, self.patience = float("inf"), 0, patience

    def __call__(self, value):
        self.bad = 0 if value < self.best else self.bad + 1
        self.best = min(self.best, value)
        return self.bad >= self.patience


def predict(model, rank):
    """One CSV with the predictions for the test region of this worker."""
    for tile in range(10**6):
        with torch.no_grad():
            model.module(torch.randn(32, 12))
        time.sleep(0.1)


def work(rank, args):
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(12, 256), torch.nn.Tanh(), torch.nn.Linear(256, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1)))
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    x = torch.randn(4000, 12)
    y = x[:, :3].prod(1, keepdim=True) if rank == 0 else torch.randn(4000, 1)
    stop = Stopper(args.patience if rank == 1 else 10 * args.patience)
    for epoch in range(10**5):
        for at in range(0, 3000, 100):
            loss = torch.nn.functional.mse_loss(model(x[at:at + 100]), y[at:at + 100])
            opt.zero_grad()
            loss.backward()
            opt.step()
        with torch.no_grad():
            val = torch.nn.functional.mse_loss(model.module(x[3000:]), y[3000:]).item()
        print(f"[gpu{rank}] epoch {epoch:3d} train {loss.item():.4f} val {val:.4f}", flush=True)
        if epoch > 15 and stop(val):
            print(f"[gpu{rank}] early stopping", flush=True)
            break
    predict(model, rank)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--patience", type=int, default=3)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", os.environ.get("PORT", "29511"))
    mp.spawn(work, (p.parse_args(),), nprocs=2)
