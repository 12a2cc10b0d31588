"""Train on several GPUs with DistributedDataParallel: one process for each GPU, started by torchrun.

torchrun --nproc-per-node=2 demos/ddp.py

The six things that a DDP script does beyond a single-GPU one are numbered below.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset

import devices
import gputop
import models
import options
from progress import Printer, Speed, correct


def main(take_device: Callable[[int], devices.Place] = devices.take, backend: str | None = None) -> None:
    """Train, test after every epoch, save on rank 0."""
    args = options.parser("Train with one process for each GPU, started by torchrun.").parse_args()
    if "LOCAL_RANK" not in os.environ:
        raise SystemExit("This script is started by torchrun: torchrun --nproc-per-node=2 demos/ddp.py")
    torch.manual_seed(args.seed)

    # 1. Each process takes the GPU of its local rank, before anything else touches CUDA.
    place = take_device(int(os.environ["LOCAL_RANK"]))

    # 2. The processes find each other: NCCL between GPUs, gloo between CPUs.
    dist.init_process_group(backend or ("nccl" if place.device.type == "cuda" else "gloo"))
    rank, world_size = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank} of {world_size} trains on {place}")
    run = gputop.init(name=args.name or f"{args.model}-ddp", config=vars(args), epochs=args.epochs)
    devices.report(run, place)

    # 3. Each rank sees its own part of the data; --batch-size is for one rank.
    train, test = options.data(args)
    sampler: DistributedSampler[Any] = DistributedSampler(train, shuffle=True, seed=args.seed, drop_last=True)
    loader = DataLoader(train, args.batch_size, sampler=sampler, drop_last=True)
    test_loader = DataLoader(Subset(test, range(rank, len(test), world_size)), batch_size=500)

    # 4. First to the device, then wrapped: DDP sends rank 0's weights to all, and averages gradients in backward().
    model = models.build(args.model).to(place.device)
    parallel = DistributedDataParallel(model, device_ids=[place.device.index] if place.device.type == "cuda" else None)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=args.lr, momentum=0.9)

    gputop.watch(parallel)

    total = options.total_steps(args, len(loader))
    run.fact("progress", {"total_steps": total, "epochs": args.epochs})
    speed, printer, step = Speed(), Printer(), 0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)  # 5. Without it every epoch has the order of the first.
        for images, labels in loader:
            if step == total:
                break
            images, labels = images.to(place.device), labels.to(place.device)
            loss = functional.cross_entropy(parallel(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            samples_per_s = speed.after(len(labels))
            run.log(step=step, loss=loss, lr=args.lr, epoch=epoch, samples_per_s=samples_per_s)
            printer.step(step, total, epoch, loss, samples_per_s)
        # Every rank tests its part with the plain module (the wrapper would wait for the others); the counts are added up.
        counts = torch.tensor(correct(model, test_loader, place.device), device=place.device)
        dist.all_reduce(counts)
        accuracy = float(counts[0] / counts[1])
        run.log(step=step, accuracy=accuracy)
        if rank == 0:
            print(f"epoch {epoch} accuracy {accuracy:.3f}", flush=True)
        if step == total:
            break

    # 6. All ranks hold the same weights: one of them saves, and saves the module without its wrapper.
    if args.save and rank == 0:
        torch.save(model.state_dict(), args.save)
    run.finish()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
