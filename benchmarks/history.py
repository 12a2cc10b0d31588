"""What the screen's history costs: memory, and time to add the values, for a large machine and for a large run.

python benchmarks/history.py [--gpus 64] [--ranks 64] [--points 10000]
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gputop.history.history import History
from gputop.history.series import BUCKETS
from gputop.snapshot import Points, Snapshot
from tests import samples

METRICS = ("loss", "lr", "step_s", "samples_per_s")
AT_ONCE = 1000


def machine(gpus: int) -> Iterable[Snapshot]:
    """Yield snapshots, one per second, until every series is full."""
    first = samples.snapshot()
    devices = tuple(samples.device(index) for index in range(gpus))
    for tick in range(BUCKETS):
        devices = tuple(replace(device, utilization_percent=float(tick % 101)) for device in devices)
        yield replace(first, sequence=tick, time=first.time + tick, devices=devices, points=())


def training(ranks: int, points: int) -> Iterable[Snapshot]:
    """Yield the snapshots of a run at 1 kHz, each with one second of every metric of every rank."""
    first = samples.snapshot()
    run = first.runs[0].run_id
    for start in range(0, points, AT_ONCE):
        steps = tuple(range(start, min(start + AT_ONCE, points)))
        times = tuple(first.time + step / 1000 for step in steps)
        values = tuple(1 / (1 + step) for step in steps)
        found = tuple(Points(run, rank, metric, steps, times, values) for rank in range(ranks) for metric in METRICS)
        yield replace(first, sequence=start, devices=(), points=found)


def measured(what: str, snapshots: Iterable[Snapshot]) -> None:
    """Print the memory that a history of these snapshots keeps, and the time that it took to add them."""
    history = History()
    spent = 0.0
    tracemalloc.start()
    for snapshot in snapshots:
        began = time.perf_counter()
        history.observe(snapshot)
        spent += time.perf_counter() - began
        del snapshot
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    print(f"{what}: {kept / 2**20:.1f} MiB kept, {spent:.1f} s to add (while memory is traced)")


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=64)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--points", type=int, default=10_000, help="of each metric of each rank")
    options = parser.parse_args()
    measured(f"{options.gpus} GPUs, {BUCKETS} snapshots", machine(options.gpus))
    measured(
        f"{options.ranks} ranks x {len(METRICS)} metrics x {options.points} points", training(options.ranks, options.points)
    )


if __name__ == "__main__":
    main()
