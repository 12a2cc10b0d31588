"""The loggers that ``benchmarks/tracking.py`` compares: gputop, a hand-written logger, TensorBoard, W&B offline.

``python benchmarks/_tracking_peers.py NAME SCALE`` is a new process with one of them, from import to exit.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Log = Callable[..., None]
PACE_S = 0.002
"""Pause between two paced calls."""


@dataclass(frozen=True)
class Peer:
    """One logger. ``log`` takes ``step`` and metrics as keywords; ``close`` ends it and waits until all is on the disk."""

    log: Log
    close: Callable[[], None]


def nothing(directory: Path) -> Peer:
    """A call that does nothing: the lower bound in Python."""

    class Nothing:
        def log(self, data: Any = None, step: int | None = None, **metrics: float) -> None:
            """Do nothing."""

    return Peer(Nothing().log, lambda: None)


def gputop(directory: Path) -> Peer:
    """The real thing."""
    import gputop

    run = gputop.init(name="benchmark", dir=directory / "runs")
    if run.disabled:
        raise SystemExit("gputop is switched off (GPUTOP=0 or GPUTOP_MODE=disabled): nothing to measure.")
    return Peer(run.log, run.finish)


def json_lines(directory: Path) -> Peer:
    """What people write by hand: one line of JSON per call, flushed, so that kill -9 loses nothing."""
    file = (directory / "peer.jsonl").open("w", encoding="ascii")

    def log(step: int, **metrics: float) -> None:
        file.write(json.dumps({"step": step, "time": time.time(), **metrics}) + "\n")
        file.flush()

    return Peer(log, file.close)


def tensorboard(directory: Path) -> Peer:
    """``torch.utils.tensorboard``: one ``add_scalar`` per metric."""
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(directory / "tensorboard"))

    def log(step: int, **metrics: float) -> None:
        for name, value in metrics.items():
            writer.add_scalar(name, value, step)

    return Peer(log, writer.close)


def wandb(directory: Path) -> Peer:
    """W&B with ``mode="offline"``: nothing is sent anywhere."""
    # Set before wandb is imported: no network, no folders in the home directory, no prompts.
    for name in ("WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR", "WANDB_DIR"):
        os.environ[name] = str(directory)
    os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_ERROR_REPORTING="false", WANDB_CONSOLE="off")
    import wandb

    run = wandb.init(project="benchmark", dir=directory, mode="offline", settings=wandb.Settings(x_disable_stats=True))

    def log(step: int, **metrics: float) -> None:
        run.log(metrics, step=step)

    return Peer(log, run.finish)


PEERS: dict[str, Callable[[Path], Peer]] = {
    "nothing": nothing,
    "gputop": gputop,
    "json + flush": json_lines,
    "tensorboard": tensorboard,
    "wandb offline": wandb,
}
NEEDS = {"tensorboard": ("torch", "tensorboard"), "wandb offline": ("wandb",)}


def missing(name: str) -> str | None:
    """Return the package that this peer lacks here; None if it can run."""
    return next((package for package in NEEDS.get(name, ()) if importlib.util.find_spec(package) is None), None)


def memory_mib() -> float:
    """Return the resident memory of this process and of the processes that it started, in MiB."""
    total = 0
    for pid in _family(os.getpid()):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1])
    return total / 1024


def _family(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += _family(int(child))
    return found


def per_call_us(log: Log, metrics: int, calls: int) -> float:
    """Return the mean time of a call in microseconds, including that of the loop."""
    started = time.perf_counter()
    if metrics == 1:
        for step in range(calls):
            log(loss=0.5, step=step)
    else:
        for step in range(calls):
            log(loss=0.5, lr=0.1, acc=0.9, norm=1.5, step=step)
    return (time.perf_counter() - started) / calls * 1e6


def paced_us(log: Log, calls: int) -> list[float]:
    """Time single calls with a pause before each, as in a training, with cold caches."""
    times = []
    for step in range(calls):
        time.sleep(PACE_S)
        started = time.perf_counter()
        log(loss=0.5, lr=0.1, acc=0.9, norm=1.5, step=step)
        times.append((time.perf_counter() - started) * 1e6)
    return times


BLOCK = 50
"""Number of consecutive steps that log, followed by as many that do not."""


def training() -> Callable[[Log, int], dict[str, list[float]]] | None:
    """Return a small real training on the CPU that times each step in microseconds; None without torch.

    Blocks of steps with the logger alternate with blocks without it: anything that slows the process down over time (a larger
    heap, the clock of the processor) affects both equally and does not count as the logger's cost.
    """
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, labels = torch.randn(32, 64), torch.randint(0, 10, (32,))
    silent = nothing(Path()).log

    def train(log: Log, steps: int) -> dict[str, list[float]]:
        times: dict[str, list[float]] = {"without": [], "loop": []}
        for step in range(2 * steps):
            block, number = divmod(step, BLOCK)
            call = log if block % 2 else silent
            started = time.perf_counter()
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            value = loss.item()
            call(loss=value, lr=0.01, acc=0.9, norm=1.5, step=step)
            took = (time.perf_counter() - started) * 1e6
            if block > 1 and number > 1:  # in the first steps of a block, the caches are full of the other kind
                times["loop" if block % 2 else "without"].append(took)
        return times

    return train


def life(name: str, scale: int) -> dict[str, Any]:
    """Import, start, use and end one logger in this process; return its figures in microseconds, milliseconds and MiB."""
    train = training()
    before = memory_mib()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        started = time.perf_counter()
        peer = PEERS[name](Path(directory))
        init_ms = (time.perf_counter() - started) * 1e3
        calls = 1_000 * scale
        found: dict[str, Any] = {
            "hot 1": min(per_call_us(peer.log, 1, calls) for _ in range(3)),
            "hot 4": min(per_call_us(peer.log, 4, calls) for _ in range(3)),
        }
        memory = memory_mib() - before
        found["paced"] = paced_us(peer.log, 100 * scale)
        if train:
            found |= train(peer.log, 600 * scale)
        ending = time.perf_counter()
        peer.close()
        finish_ms = (time.perf_counter() - ending) * 1e3
    return {**found, "life": {"import and init ms": init_ms, "memory MiB": memory, "finish ms": finish_ms}}


if __name__ == "__main__":
    print(json.dumps(life(sys.argv[1], int(sys.argv[2]))), flush=True)
