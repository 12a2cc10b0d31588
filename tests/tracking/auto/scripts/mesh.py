"""Four ranks that share samples in different ways, one run after another; each names its run."""

import os
import sys

import torch
import torch._dynamo  # once, and not in each rank
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import gputop

PLAN = {"0": ColwiseParallel(), "2": RowwiseParallel()}


def fsdp_and_tp(net, rank):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    return fully_shard(parallelize_module(net, mesh["tp"], PLAN), mesh=mesh["dp"])


def unnamed_tp(net, rank):
    return parallelize_module(net, init_device_mesh("cpu", (4,)), PLAN)


def unnamed_fsdp(net, rank):
    return fully_shard(net)


def ddp(net, rank):
    return DistributedDataParallel(net)


def ddp_of_columns(net, rank):
    groups = [dist.new_group([column, column + 2]) for column in range(2)]
    return DistributedDataParallel(net, process_group=groups[rank % 2])


def groups_alone(net, rank):
    dist.new_group([0, 1])
    return net


def odd_names(net, rank):
    init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    return net


def train(rank):
    os.environ.update(RANK=str(rank), WORLD_SIZE="4", LOCAL_RANK=str(rank))
    torch.set_num_threads(1)
    # torch keeps meshes: those with known names come first, and must tell nothing of the others.
    for kind in (fsdp_and_tp, odd_names, ddp, ddp_of_columns, groups_alone, unnamed_tp, unnamed_fsdp):
        dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/{kind.__name__}", rank=rank, world_size=4)
        os.environ["GPUTOP_RUN_ID"] = kind.__name__
        gputop.init(name=kind.__name__)
        net = kind(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8)), rank)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, foreach=False)
        for (inputs,) in DataLoader(TensorDataset(torch.randn(24, 8)), batch_size=4):
            optimizer.zero_grad()
            net(inputs).square().mean().backward()
            optimizer.step()
        dist.barrier()
        gputop.finish()
        del net, optimizer
        dist.destroy_process_group()


children = []
for rank in range(4):
    pid = os.fork()
    if not pid:
        train(rank)
        sys.stderr.flush()
        os._exit(0)
    children.append(pid)
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children))
