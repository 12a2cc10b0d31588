"""Train on several GPUs with DistributedDataParallel: one process per GPU, started by torchrun.

torchrun --nproc-per-node=2 demos/ddp.py
torchrun --nproc-per-node=4 demos/ddp.py --model resnet18 --sync-bn --amp --accumulate 2 --scale-lr linear

What a DDP script does beyond a single-GPU one is numbered below. At the end every rank prints a checksum of its weights: all
must be equal. The scripts in faults/ are this one with one wrong method.
"""

from __future__ import annotations

import argparse
import os
import time
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset

import devices
import gputop
import models
import options
import sync_bn
from precision import Precision
from progress import Meter, checksum, correct, say


class Training:
    """What one rank does. ``train`` is the whole program, in order."""

    name = "ddp"

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))  # set by torchrun: 0, 1, ... on each machine
        self.rank, self.world_size = 0, 1
        self.micro_step = 0

    def train(self) -> None:
        """Train, test after every epoch, save on rank 0."""
        args = self.args
        torch.manual_seed(args.seed)
        self.place = self.take_device()
        self.connect()
        say(f"rank {self.rank} of {self.world_size} trains on {self.place}")
        self.run = gputop.init(name=args.name or f"{args.model}-{self.name}", config=vars(args), epochs=args.epochs)
        devices.report(self.run, self.place)

        # --batch-size is per rank, unless --scale-batch says that all ranks share it.
        self.batch_size = max(1, options.global_batch(args, self.world_size) // self.world_size)
        train, test = options.data(args)
        self.loader = self.load(train)
        self.test_loader = DataLoader(Subset(test, range(self.rank, len(test), self.world_size)), batch_size=500)

        self.model = self.build().to(self.place.device)
        self.parallel = self.wrap(self.model)
        lr = options.learning_rate(args, self.batch_size * self.world_size * args.accumulate)
        self.optimizer = torch.optim.SGD(self.parallel.parameters(), lr=lr, momentum=0.9)
        self.precision = Precision(self.place.device, args.amp)

        gputop.watch(self.parallel, self.optimizer, self.loader)

        total = options.total_steps(args, len(self.loader) // args.accumulate)
        self.meter = Meter(self.run, total, args.epochs, lr)
        for epoch in range(args.epochs):
            self.begin_epoch(epoch)
            self.train_epoch(epoch)
            self.test(epoch)
            if self.meter.done:
                break

        self.save()
        say(f"rank {self.rank} ends with weights {checksum(self.weights())}")
        self.run.finish()
        if dist.is_initialized():
            dist.destroy_process_group()
            # gloo's own thread briefly needs the Python lock to release the last tensors. If they are freed before that, DDP
            # waits for the thread and the thread for the lock, forever: once in a hundred runs with torch 2.13.
            time.sleep(0.1)

    def take_device(self) -> devices.Place:
        """1. Each process takes the GPU of its local rank, before anything else touches CUDA."""
        return devices.take(self.local_rank)

    def connect(self) -> None:
        """2. The processes connect: NCCL between GPUs, gloo between CPUs."""
        if "RANK" not in os.environ:
            raise SystemExit("This script is started by torchrun: torchrun --nproc-per-node=2 demos/ddp.py")
        backend = self.args.backend or ("nccl" if self.place.device.type == "cuda" else "gloo")
        dist.init_process_group(backend, timeout=timedelta(seconds=self.args.timeout))
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()

    def load(self, train: Dataset[Any]) -> DataLoader[Any]:
        """3. Each rank sees its own part of the data."""
        self.sampler: DistributedSampler[Any] = DistributedSampler(
            train, self.world_size, self.rank, shuffle=True, seed=self.args.seed, drop_last=True
        )
        return DataLoader(train, self.batch_size, sampler=self.sampler, drop_last=True)

    def build(self) -> nn.Module:
        """Return the model."""
        model = models.build(self.args.model)
        return sync_bn.convert(model, self.place.device) if self.args.sync_bn else model

    def wrap(self, model: nn.Module) -> nn.Module:
        """4. Move to the device first, then wrap: DDP broadcasts rank 0's weights, and averages gradients in backward()."""
        return DistributedDataParallel(
            model, device_ids=[self.place.device.index] if self.place.device.type == "cuda" else None
        )

    def begin_epoch(self, epoch: int) -> None:
        """5. Without set_epoch, every epoch repeats the order of the first."""
        self.sampler.set_epoch(epoch)

    def train_epoch(self, epoch: int) -> None:
        """Train on each batch of this rank."""
        for number, (images, labels) in enumerate(self.loader):
            if self.meter.done:
                break
            if number == 0:  # no two ranks, and no two epochs, should start with the same batch
                say(f"rank {self.rank} epoch {epoch} begins with batch {checksum([labels])}")
            images, labels = images.to(self.place.device), labels.to(self.place.device)
            loss = self.train_step(images, labels)
            if self.micro_step % self.args.accumulate == 0:
                self.meter.count(loss, len(labels) * self.args.accumulate, epoch)

    def train_step(self, images: Tensor, labels: Tensor) -> Tensor:
        """Accumulate gradients; take an optimizer step after every --accumulate batches."""
        self.micro_step += 1
        last = self.micro_step % self.args.accumulate == 0
        # Only the last backward of a step has to average: no_sync() saves the communication of the others.
        with nullcontext() if self.averages(last) else self.no_sync():
            with self.precision.autocast():
                loss = self.loss(images, labels)
            self.precision.backward(loss / self.args.accumulate)
        if last:
            self.precision.step(self.optimizer)
            self.optimizer.zero_grad()
        return loss.detach()

    def averages(self, last: bool) -> bool:
        """Return whether this backward averages gradients over the ranks; ``last``: it precedes the optimizer step."""
        return last

    def no_sync(self) -> Any:
        """Return the context in which DDP does not average gradients; forward and backward both belong inside."""
        return self.parallel.no_sync() if isinstance(self.parallel, DistributedDataParallel) else nullcontext()

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch by calling the wrapper, never the module inside it."""
        return functional.cross_entropy(self.parallel(images), labels)

    def test(self, epoch: int) -> None:
        """Test this rank's part with the plain module (the wrapper would wait for other ranks), and add up the counts."""
        counts = torch.tensor(correct(self.model, self.test_loader, self.place.device), device=self.place.device)
        if dist.is_initialized():
            dist.all_reduce(counts)
        self.meter.tested(epoch, float(counts[0] / counts[1]), shown=self.rank == 0)

    def weights(self) -> list[Tensor]:
        """Return the weights, to compare them with those of the other ranks."""
        return list(self.model.parameters())

    def save(self) -> None:
        """6. All ranks hold the same weights: one of them saves, and saves the module without its wrapper."""
        if self.args.save and self.rank == 0:
            torch.save(self.model.state_dict(), self.args.save)


def arguments(**defaults: object) -> argparse.ArgumentParser:
    """Return the options; ``defaults`` overrides default values."""
    parser = options.parser("Train with one process for each GPU, started by torchrun.", **defaults)
    options.add_scaling(parser, scale_batch="per-gpu")
    options.add_amp(parser)
    parser.add_argument("--sync-bn", action="store_true", help="batch norm over the batches of all ranks")
    parser.add_argument("--accumulate", type=options.positive, default=1, help="batches whose gradients make one step")
    parser.add_argument("--backend", choices=("nccl", "gloo"), help="of the process group (default: what suits the device)")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds that a rank waits for the others")
    parser.set_defaults(**defaults)
    return parser


def main(training: type[Training] = Training, **defaults: object) -> None:
    """Parse the options and train."""
    training(arguments(**defaults).parse_args()).train()


if __name__ == "__main__":
    main()
