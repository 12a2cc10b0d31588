"""Rank 0 reads the archive and sends each rank its rows; it trains too.  python master_reads.py"""
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def run(rank, world):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{os.environ.get('PORT', '29811')}", rank=rank, world_size=world)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(30, 200), torch.nn.ReLU(), torch.nn.Linear(200, 3))
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    gen = torch.Generator().manual_seed(9)
    for step in range(10**6):
        mine = torch.empty(64, 30)
        rows = list(torch.randn(64 * world, 30, generator=gen).chunk(world)) if rank == 0 else None
        dist.scatter(mine, rows, src=0)
        loss = torch.nn.functional.cross_entropy(net(mine), mine[:, :3].argmax(1))
        opt.zero_grad(); loss.backward()
        for p in net.parameters():
            dist.all_reduce(p.grad); p.grad /= world
        opt.step()
        if rank == 0 and step % 25 == 0:
            print(f"[master] {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    mp.spawn(run, (2,), nprocs=2)
