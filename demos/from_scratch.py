"""Data parallel by hand: LeNet on any list of devices, with copied parameters and summed gradients.

python demos/from_scratch.py
python demos/from_scratch.py --devices cuda:0,cuda:1        or cpu,cpu: any list

It takes only four functions. DistributedDataParallel (ddp.py) does the same with one process per GPU, and sends gradients
around a ring while backward still runs; here they all pass through the first device.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

import devices
import gputop
import models
import options
from progress import Meter, correct


def broadcast(model: nn.Module, places: Sequence[devices.Place]) -> list[nn.Module]:
    """Return a copy of the model on each device: all start with the same parameters."""
    return [copy.deepcopy(model).to(place.device) for place in places]


def scatter(batch: Tensor, places: Sequence[devices.Place]) -> list[Tensor]:
    """Split the batch into one piece per device, and send each piece to its device."""
    return [piece.to(place.device) for piece, place in zip(batch.chunk(len(places)), places, strict=True)]


def allreduce(tensors: Sequence[Tensor]) -> None:
    """Add up one tensor per device, and give the sum to all devices."""
    for other in tensors[1:]:
        tensors[0].add_(other.to(tensors[0].device))  # everything goes through the first device
    for other in tensors[1:]:
        other.copy_(tensors[0])


def train_step(
    replicas: Sequence[nn.Module],
    optimizers: Sequence[torch.optim.Optimizer],
    workers: Sequence[devices.Worker],
    images: Tensor,
    labels: Tensor,
) -> Tensor:
    """Take one step on all devices and return the loss of the whole batch."""
    places = [worker.place for worker in workers]
    pieces = list(zip(scatter(images, places), scatter(labels, places), strict=True))

    def backward(index: int) -> Tensor:
        own_images, own_labels = pieces[index]
        # Sum over this piece, divide by the whole batch: the pieces' gradients then add up to the batch's.
        loss = functional.cross_entropy(replicas[index](own_images), own_labels, reduction="sum") / len(labels)
        optimizers[index].zero_grad()
        loss.backward()
        return loss.detach()

    losses = [future.result() for future in [worker.submit(backward, index) for index, worker in enumerate(workers)]]
    for gradients in zip(*([parameter.grad for parameter in replica.parameters()] for replica in replicas), strict=True):
        allreduce([gradient for gradient in gradients if gradient is not None])
    for optimizer in optimizers:
        optimizer.step()  # same parameters, same gradients: all copies stay the same
    return torch.stack([loss.to(losses[0].device) for loss in losses]).sum()


def main() -> None:
    """Train, test after every epoch, save at the end."""
    parser = options.parser("Data parallel by hand.", batch_size=128)
    options.add_scaling(parser, scale_batch="global")
    parser.add_argument("--devices", help="where to put the copies, like cuda:0,cuda:1 or cpu,cpu (default: all devices)")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    run = gputop.init(name=args.name or f"{args.model}-from-scratch", config=vars(args), epochs=args.epochs)
    workers = [devices.Worker(place) for place in chosen(args)]
    count = len(workers)
    print(f"training on {', '.join(str(worker.place) for worker in workers)}")

    samples = options.global_batch(args, count)
    if samples < count:
        raise SystemExit(f"A batch of {samples} cannot be split into {count} pieces. Choose --batch-size {count} or more.")
    lr = options.learning_rate(args, samples)
    train, test = options.data(args)
    loader = DataLoader(train, samples // count * count, shuffle=True, drop_last=True)
    test_loader = DataLoader(test, batch_size=500)
    replicas = broadcast(models.build(args.model), [worker.place for worker in workers])
    optimizers = [torch.optim.SGD(replica.parameters(), lr=lr, momentum=0.9) for replica in replicas]
    for worker, replica in zip(workers, replicas, strict=True):
        worker.holds([tensor for parameter in replica.parameters() for tensor in (parameter, parameter)])  # and gradients
    devices.report_workers(run, workers)

    gputop.watch(replicas[0], optimizers[0], loader)

    meter = Meter(run, options.total_steps(args, len(loader)), args.epochs, lr)
    for epoch in range(args.epochs):
        for images, labels in loader:
            if meter.done:
                break
            meter.count(train_step(replicas, optimizers, workers, images, labels), len(labels), epoch)
        # Every copy is the whole model: test and save the first one.
        right, seen = correct(replicas[0], test_loader, workers[0].place.device)
        meter.tested(epoch, right / seen)
        if meter.done:
            break

    if args.save:
        torch.save(replicas[0].state_dict(), args.save)
    run.finish()


def chosen(args: argparse.Namespace) -> list[devices.Place]:
    """Return the devices of ``--devices``, or all devices."""
    if args.devices is None:
        return devices.places()
    named = [torch.device(part) for part in args.devices.split(",")]
    virtual = iter(devices.places() if not torch.cuda.is_available() else ())
    return [next(virtual, devices.Place(device)) if device.type == "cpu" else devices.Place(device) for device in named]


if __name__ == "__main__":
    main()
