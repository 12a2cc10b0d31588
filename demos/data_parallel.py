"""Train on several GPUs in one process with nn.DataParallel: one line more than on one GPU.

python demos/data_parallel.py --batch-size 128
python demos/data_parallel.py --model foonet        prints the batch that each replica gets

Each step splits the batch into one piece per GPU. DistributedDataParallel (ddp.py) is faster, because every GPU has its own
process; nn.DataParallel is common in older code.

The scripts in faults/ are this one with one wrong method.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

import cpu_data_parallel
import devices
import gputop
import models
import options
from precision import Precision
from progress import Meter, correct


class Training:
    """One process that trains on all its GPUs."""

    name = "data-parallel"

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        # The master copy is on GPU 0; the other GPUs get a fresh copy at every step.
        self.device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
        self.precision = Precision(self.device, args.amp)

    def train(self) -> None:
        """Train, test after every epoch, save at the end."""
        args = self.args
        torch.manual_seed(args.seed)
        torch.set_num_threads(1)
        run = gputop.init(name=args.name or f"{args.model}-{self.name}", config=vars(args), epochs=args.epochs)

        self.model = self.build()
        self.parallel = self.wrap(self.model.to(self.device))
        if isinstance(self.parallel, cpu_data_parallel.DataParallel):
            devices.report_workers(run, self.parallel.workers)
            print("no CUDA: nn.DataParallel would do nothing here, so the engine of cpu_data_parallel.py takes its place")

        # The loader's batch is for all GPUs together.
        self.batch_size = options.global_batch(args, devices.count())
        lr = options.learning_rate(args, self.batch_size)
        optimizer = torch.optim.SGD(self.parallel.parameters(), lr=lr, momentum=0.9)
        print(f"training on {devices.count()} devices, {self.batch_size} samples a step")

        train, test = options.data(args)
        print(f"data: {train.name}, {len(train)} images")
        loader = self.load(train)
        test_loader = DataLoader(test, batch_size=500)

        gputop.watch(self.parallel, optimizer, loader)

        meter = Meter(run, options.total_steps(args, len(loader)), args.epochs, lr)
        for epoch in range(args.epochs):
            for images, labels in loader:
                if meter.done:
                    break
                images, labels = images.to(self.device), labels.to(self.device)
                with self.precision.autocast():
                    loss = self.loss(images, labels)
                optimizer.zero_grad()
                self.precision.backward(loss)
                self.precision.step(optimizer)
                meter.count(loss, len(labels), epoch)
                if meter.step == 1 and isinstance(self.parallel, cpu_data_parallel.DataParallel):
                    devices.report_workers(run, self.parallel.workers)  # again: only now is each replica's memory known
            meter.tested(epoch, self.accuracy(test_loader))
            if meter.done:
                break

        if args.save:
            torch.save(self.model.state_dict(), args.save)  # the module's, because the wrapper's keys start with "module."
        run.finish()

    def build(self) -> nn.Module:
        """Return the model."""
        return models.build(self.args.model)

    def wrap(self, model: nn.Module, device_ids: Sequence[int] | None = None, dim: int = 0) -> nn.Module:
        """Return the wrapper: over all devices, unless ``device_ids`` names some."""
        if torch.cuda.is_available():
            return nn.DataParallel(model, device_ids, dim=dim)
        places = devices.places()
        return cpu_data_parallel.DataParallel(model, places if device_ids is None else [places[i] for i in device_ids], dim)

    def load(self, train: torch.utils.data.Dataset[Any]) -> DataLoader[Any]:
        """Return the loader of training batches."""
        return DataLoader(train, self.batch_size, shuffle=True, drop_last=True)

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch by calling the wrapper, never the module inside it."""
        return functional.cross_entropy(self.parallel(images), labels)

    def accuracy(self, batches: DataLoader[Any]) -> float:
        """Return the share of test images that the model classifies correctly."""
        right, seen = correct(self.parallel, batches, self.device)
        return right / seen


def main(training: type[Training] = Training, **defaults: object) -> None:
    """Parse the options and train; ``defaults`` overrides the options' defaults."""
    parser = options.parser("Train on all GPUs of one process.", **{"batch_size": 128, **defaults})
    options.add_scaling(parser, scale_batch="global")
    options.add_amp(parser)
    training(parser.parse_args()).train()


if __name__ == "__main__":
    main()
