"""Sentences are split over the ranks in the order of the file, which is sorted by length. mpirun-style env, started by spawn."""
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP


def run(rank, n):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("PORT", "29777"), RANK=str(rank), WORLD_SIZE=str(n))
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    layer = DDP(torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True))
    opt = torch.optim.Adam(layer.parameters(), 1e-4)
    lengths = sorted(torch.randint(8, 160, (2000,), generator=torch.Generator().manual_seed(0)).tolist())
    mine = lengths[rank * 1000:(rank + 1) * 1000]
    step = 0
    while True:
        for i in torch.randperm(60).tolist():
            size = mine[i * 16 + 15]
            x = torch.randn(16, size, 64)
            loss = (layer(x) - x.roll(1, 1)).pow(2).mean()
            opt.zero_grad(); loss.backward(); opt.step()
            step += 1
            if step % 20 == 0:
                print(f"(rank {rank}) {step:5d} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    mp.spawn(run, (2,), nprocs=2)
