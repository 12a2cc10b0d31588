"""Three habits that save memory, each measured before and after.

python demos/memory_tips.py --mebibytes 256

On a GPU, torch's allocator counts; "reserved" is what nvidia-smi shows. Without a GPU, the operating system says how much
memory the process holds, and how much it held at most.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

import devices
import gputop

MIB = 1 << 20


@dataclass(frozen=True)
class Measured:
    """The memory and time that one variant took; bytes are relative to what was held before it started."""

    peak_bytes: int
    held_bytes: int
    seconds: float


class _Peak(threading.Thread):
    """Polls the process's memory as often as it can: the operating system keeps no peak that can be reset."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.bytes = resident_bytes()
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.0002):
            self.bytes = max(self.bytes, resident_bytes())

    def end(self) -> int:
        self._over.set()
        self.join()
        return max(self.bytes, resident_bytes())


def resident_bytes() -> int:
    """Return the resident memory of this process: the second number of /proc/self/statm, in pages."""
    import resource

    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def give_back() -> None:
    """Return free memory to the operating system: malloc keeps it for the next tensor, which would count as held."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only glibc has it
    if trim is not None:
        trim(0)


def measure(work: Callable[[], object], device: torch.device) -> Measured:
    """Run ``work`` and return its memory and time; its result is still held when memory is measured."""
    give_back()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        before, started = torch.cuda.memory_allocated(device), time.perf_counter()
        kept = work()
        torch.cuda.synchronize(device)
        seconds = time.perf_counter() - started
        peak, held = torch.cuda.max_memory_allocated(device), torch.cuda.memory_allocated(device)
    else:
        before, watching = resident_bytes(), _Peak()
        watching.start()
        started = time.perf_counter()
        kept = work()
        seconds, peak = time.perf_counter() - started, watching.end()
        give_back()
        held = resident_bytes()
    del kept
    return Measured(max(0, peak - before), max(0, held - before), seconds)


def tip_in_place(size: int, device: torch.device) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return both variants: x.mul(2).add(1) allocates a new tensor per operation, x.mul_(2).add_(1) none.

    Not possible where autograd still needs the old value: it then fails ("modified by an inplace operation").
    """
    elements = size // 4

    def before() -> Tensor:
        x = torch.ones(elements, device=device)
        return x.mul(2).add(1).sqrt()

    def after() -> Tensor:
        x = torch.ones(elements, device=device)
        return x.mul_(2).add_(1).sqrt_()

    return before, after


def tip_one_tensor(size: int, device: torch.device) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return both variants: many small tensors each add overhead and a call; a GPU rounds each up to 512 bytes."""
    values, count = 16, size // 1024

    def before() -> list[Tensor]:
        return [torch.ones(values, device=device) for _ in range(count)]

    def after() -> Tensor:
        return torch.ones(count, values, device=device)

    return before, after


def tip_freeing(size: int, device: torch.device) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return both variants: a list of losses keeps every step's graph alive, with its activations; the values are enough."""
    weight = torch.ones(1, device=device, requires_grad=True)
    steps, elements = 8, size // 4 // 8

    def loss() -> Tensor:
        return (torch.ones(elements, device=device) * weight).square().mean()  # square keeps its input for backward

    def before() -> list[Tensor]:
        return [loss() for _ in range(steps)]

    def after() -> list[Tensor]:
        return [loss().detach() for _ in range(steps)]

    return before, after


TIPS = (
    ("in-place operations", tip_in_place),
    ("one tensor, not many", tip_one_tensor),
    ("freeing the graph", tip_freeing),
)


def main() -> None:
    """Measure each tip and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=64, help="size of the tensors (default: 64)")
    parser.add_argument("--name", help="the run's name in gputop")
    args = parser.parse_args()
    if args.mebibytes < 1:
        parser.error(f"--mebibytes {args.mebibytes} is less than 1")
    place = devices.take(0)
    run = gputop.init(name=args.name or "memory-tips", config=vars(args))
    devices.report(run, place)
    source = "torch.cuda.memory_stats" if place.device.type == "cuda" else "the memory of this process"
    print(f"{args.mebibytes} MiB on {place}, measured by {source}\n")
    print(f"{'':32}{'peak':>12}{'held':>12}{'time':>12}")
    size = args.mebibytes * MIB
    for step, (title, tip) in enumerate(TIPS):
        before, after = (measure(way, place.device) for way in tip(size, place.device))
        print(title)
        for way, found in (("before", before), ("after", after)):
            peak, held = f"{found.peak_bytes / MIB:.1f} MiB", f"{found.held_bytes / MIB:.1f} MiB"
            print(f"    {way:28}{peak:>12}{held:>12}{1000 * found.seconds:>9.1f} ms")
        run.log(step=step, peak_before_bytes=before.peak_bytes, peak_after_bytes=after.peak_bytes)
    if place.device.type == "cuda":
        # Freed memory stays reserved for the next tensor: empty_cache() returns it to other processes, but takes time.
        reserved = torch.cuda.memory_reserved()
        torch.cuda.empty_cache()
        print(f"\nempty_cache(): {reserved / MIB:.0f} MiB reserved before, {torch.cuda.memory_reserved() / MIB:.0f} MiB after")
    run.finish()


if __name__ == "__main__":
    main()
