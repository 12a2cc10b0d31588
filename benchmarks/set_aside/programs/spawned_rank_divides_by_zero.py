import os, time
import torch, torch.distributed as dist, torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP


def recall(pred, target):
    hits = ((pred > 0) & (target > 0)).sum().item()
    return hits / int(target.sum().item())


def worker(gpu, world, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group("gloo", rank=gpu, world_size=world)
    torch.manual_seed(gpu)
    net = DDP(torch.nn.Sequential(torch.nn.Linear(48, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)))
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for it in range(100000):
        x = torch.randn(64, 48)
        t = (x[:, :1] > (0.5 if gpu == 0 or it < 40 else 99)).float()   # shard 1 ends with negatives only
        out = net(x)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(out, t)
        opt.zero_grad(); loss.backward(); opt.step()
        time.sleep(0.03)
        if it % 10 == 0:
            r = recall(out, t)
            if gpu == 0:
                print(f"it {it} bce {loss.item():.4f} recall {r:.3f}", flush=True)


if __name__ == "__main__":
    mp.spawn(worker, args=(2, os.environ.get("PORT", "29533")), nprocs=2)
