"""Model parallel: the first half of the network on one device, the second on another.

python demos/model_parallel.py                          the devices take turns: one always waits
python demos/model_parallel.py --micro-batches 4        a pipeline: one works on piece 2 while the other has piece 1

For networks that are too big for one GPU. Without micro-batches, two GPUs are at best as fast as one; with M of them, each
device works in M of M + 1 turns. Without CUDA, the two devices are worker threads, each of them one virtual GPU.
"""

from __future__ import annotations

import time
from concurrent.futures import Future

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

import devices
import gputop
import models
import options
from progress import Meter


def halves(model: nn.Module) -> tuple[nn.Module, nn.Module]:
    """Split a model in two: LeNet after its first pooling, a ResNet in the middle of its blocks."""
    if isinstance(model, models.LeNet):
        layers = list(model)
        return nn.Sequential(*layers[:3]), nn.Sequential(*layers[3:])
    if isinstance(model, models.ResNet):
        middle = len(model.blocks) // 2
        return nn.Sequential(model.stem, model.blocks[:middle]), nn.Sequential(model.blocks[middle:], model.head)
    raise SystemExit(f"{type(model).__name__} cannot be split. Choose --model lenet or resnet18.")


class Pipeline:
    """Two halves, each with the worker thread of its device."""

    def __init__(self, first: nn.Module, second: nn.Module, workers: tuple[devices.Worker, devices.Worker]) -> None:
        self.first, self.second = first.to(workers[0].place.device), second.to(workers[1].place.device)
        self.workers = workers
        self.busy_s = [0.0, 0.0]
        self.step_s = 0.0

    def train_step(self, images: Tensor, labels: Tensor, micro_batches: int) -> Tensor:
        """Compute the gradients of one batch, split into ``micro_batches`` pieces; return its loss.

        Each worker runs its tasks in order. The first gets all forwards, so it runs ahead while the second still works on piece
        1; the gradients at the cut come back one by one.
        """
        started = time.perf_counter()
        one, two = self.workers
        pieces = list(zip(images.chunk(micro_batches), labels.chunk(micro_batches), strict=True))
        cuts = [one.submit(self._forward, piece) for piece, _ in pieces]
        # Worker two waits for each cut; worker one, after all its forwards, waits for each gradient.
        ends = [two.submit(self._end, cut, piece, len(labels)) for cut, (_, piece) in zip(cuts, pieces, strict=True)]
        backs = [one.submit(self._backward, cut, end) for cut, end in zip(cuts, ends, strict=True)]
        for back in backs:
            back.result()
        self.step_s += time.perf_counter() - started
        return torch.stack([end.result()[0] for end in ends]).sum()

    def _forward(self, images: Tensor) -> Tensor:
        with self._turn(0):
            out: Tensor = self.first(images.to(self.workers[0].place.device))
        return out

    def _end(self, cut: Future[Tensor], labels: Tensor, samples: int) -> tuple[Tensor, Tensor]:
        """Run the second half: forward, loss, and backward to the cut."""
        received = cut.result().detach()
        with self._turn(1):
            here = received.to(self.workers[1].place.device).requires_grad_()
            scores = self.second(here)
            loss = functional.cross_entropy(scores, labels.to(scores.device), reduction="sum") / samples
            loss.backward()
        assert here.grad is not None
        return loss.detach(), here.grad

    def _backward(self, cut: Future[Tensor], end: Future[tuple[Tensor, Tensor]]) -> None:
        gradient = end.result()[1]
        with self._turn(0):
            out = cut.result()
            out.backward(gradient.to(out.device))

    def _turn(self, index: int) -> _Turn:
        return _Turn(self, index)

    def scores(self, images: Tensor) -> Tensor:
        """Return the network's output, on the second device."""
        cut = self.first(images.to(self.workers[0].place.device))
        out: Tensor = self.second(cut.to(self.workers[1].place.device))
        return out


class _Turn:
    """Measures how long a device works. (On CUDA, how long the thread is busy: kernels keep running after it.)"""

    def __init__(self, pipeline: Pipeline, index: int) -> None:
        self._pipeline, self._index = pipeline, index

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._pipeline.busy_s[self._index] += time.perf_counter() - self._started


def main() -> None:
    """Train, and test after every epoch."""
    parser = options.parser("One network on two devices.", batch_size=128)
    parser.add_argument("--micro-batches", type=options.positive, default=1, help="pieces of a batch in the pipeline; 1: naive")
    args = parser.parse_args()
    if args.batch_size < args.micro_batches:
        raise SystemExit(f"--micro-batches {args.micro_batches} is more than the {args.batch_size} samples of a batch.")
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    places = devices.places()
    if len(places) < 2:
        raise SystemExit(f"Two devices are needed; this process may use {len(places)}.")
    run = gputop.init(name=args.name or f"{args.model}-model-parallel", config=vars(args), epochs=args.epochs)
    workers = (devices.Worker(places[0]), devices.Worker(places[1]))
    first, second = halves(models.build(args.model))
    pipeline = Pipeline(first, second, workers)
    for worker, half in zip(workers, (first, second), strict=True):
        worker.holds([tensor for parameter in half.parameters() for tensor in (parameter, parameter)])  # and gradients
    devices.report_workers(run, workers)
    print(f"first half on {places[0]}, second half on {places[1]}, {args.micro_batches} micro-batches")

    train, test = options.data(args)
    # A multiple of the number of pieces, so that all have the same size.
    loader = DataLoader(train, args.batch_size // args.micro_batches * args.micro_batches, shuffle=True, drop_last=True)
    test_loader = DataLoader(test, batch_size=500)
    whole = nn.Sequential(first, second)
    optimizer = torch.optim.SGD(whole.parameters(), lr=args.lr, momentum=0.9)
    gputop.watch(whole, optimizer, loader)
    meter = Meter(run, options.total_steps(args, len(loader)), args.epochs, args.lr)
    for epoch in range(args.epochs):
        for images, labels in loader:
            if meter.done:
                break
            optimizer.zero_grad()
            loss = pipeline.train_step(images, labels, args.micro_batches)
            optimizer.step()
            meter.count(loss, len(labels), epoch)
        with torch.no_grad():
            right = [pipeline.scores(images).argmax(1).cpu().eq(labels).sum().item() for images, labels in test_loader]
        meter.tested(epoch, sum(right) / len(test))
        if meter.done:
            break

    busy = " and ".join(f"{100 * busy_s / pipeline.step_s:.0f} %" for busy_s in pipeline.busy_s)
    print(f"the two devices worked {busy} of a step's time")
    if args.save:
        torch.save({"first": first.state_dict(), "second": second.state_dict()}, args.save)
    run.finish()


if __name__ == "__main__":
    main()
