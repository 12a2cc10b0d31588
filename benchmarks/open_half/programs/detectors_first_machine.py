# launch() of a detection library: --num-machines and --machine-rank, and mp.start_processes
import argparse
import logging

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

log = logging.getLogger("trainer")


def default_argument_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config-file", default="", metavar="FILE")
    parser.add_argument("--num-gpus", type=int, default=1)
    parser.add_argument("--num-machines", type=int, default=1)
    parser.add_argument("--machine-rank", type=int, default=0)
    parser.add_argument("--dist-url", default="auto")
    parser.add_argument("opts", nargs=argparse.REMAINDER)
    return parser


def worker(local_rank, args):
    logging.basicConfig(level=logging.INFO, format="[%(asctime)s %(name)s]: %(message)s")
    rank = args.machine_rank * args.num_gpus + local_rank
    dist.init_process_group("gloo", args.dist_url, world_size=args.num_machines * args.num_gpus, rank=rank)
    net = nn.parallel.DistributedDataParallel(nn.Linear(64, 4))
    opt = torch.optim.SGD(net.parameters(), 1e-3)
    for it in range(100_000):
        x = torch.randn(16, 64)
        loss = (net(x) - x[:, :4]).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 20 == 0 and rank == 0:
            log.info("iter: %d  total_loss: %.4f", it, loss.item())


if __name__ == "__main__":
    args = default_argument_parser().parse_args()
    mp.start_processes(worker, args=(args,), nprocs=args.num_gpus, start_method="spawn")
