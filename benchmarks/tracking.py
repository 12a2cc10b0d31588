"""What tracking costs a training: ``log()`` hot and inside a real loop, ``import gputop``, and loading a run.

Figures are ratios to peers timed in the same run, alternating with them, because machines differ and are rarely quiet.
Run: ``python benchmarks/tracking.py [--json] [--quick]``. Needs torch for the loop alone; it is left out without.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOUR = {"loss": 0.5, "lr": 0.1, "acc": 0.9, "norm": 1.5}
ONE = {"loss": 0.5}


class Nothing:
    """A logger that does nothing: the least that a call can cost."""

    def log(self, data: Any = None, step: int | None = None, **metrics: float) -> None:
        """Do nothing."""


class JsonLines:
    """What people write by hand: one line of JSON per call, flushed, so that kill -9 loses nothing."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("w", encoding="ascii")

    def log(self, data: Any = None, step: int | None = None, **metrics: float) -> None:
        """Write one line."""
        self.file.write(json.dumps({"step": step, "time": time.time(), **metrics}) + "\n")
        self.file.flush()


def per_call_us(log: Callable[..., None], metrics: dict[str, float], calls: int) -> float:
    """Return the mean time of a call in microseconds, the loop's own time included."""
    if len(metrics) == 1:
        started = time.perf_counter()
        for step in range(calls):
            log(loss=0.5, step=step)
        return (time.perf_counter() - started) / calls * 1e6
    started = time.perf_counter()
    for step in range(calls):
        log(loss=0.5, lr=0.1, acc=0.9, norm=1.5, step=step)
    return (time.perf_counter() - started) / calls * 1e6


def hot(loggers: dict[str, Callable[..., None]], rounds: int) -> dict[str, dict[str, float]]:
    """Time the loggers in turns; return the best and the median of the rounds in microseconds per call."""
    result: dict[str, dict[str, float]] = {}
    for label, metrics in (("1 metric", ONE), ("4 metrics", FOUR)):
        times: dict[str, list[float]] = {name: [] for name in loggers}
        for _ in range(rounds):
            for name, log in loggers.items():
                times[name].append(per_call_us(log, metrics, 20_000))
        for name, seen in times.items():
            result.setdefault(name, {})[f"{label} best"] = min(seen)
            result[name][f"{label} median"] = statistics.median(seen)
    return result


def in_loop(loggers: dict[str, Callable[..., None]], rounds: int) -> dict[str, float] | None:
    """Return the median time of a small real training step with each logger in microseconds; None without torch."""
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, labels = torch.randn(32, 64), torch.randint(0, 10, (32,))
    times: dict[str, list[float]] = {name: [] for name in loggers}
    for step in range(rounds):
        # One step of each in turn: whatever else the machine does hits all alike.
        for name, log in loggers.items():
            started = time.perf_counter()
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            value = loss.item()
            log(loss=value, lr=0.01, acc=0.9, norm=1.5, step=step)
            times[name].append((time.perf_counter() - started) * 1e6)
    return {name: statistics.median(seen) for name, seen in times.items()}


def import_ms(repeats: int) -> dict[str, float]:
    """Return the time of a bare Python and of ``import gputop`` in fresh processes: the best of ``repeats``, in ms."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    commands = {"python": "pass", "python + import gputop": "import gputop"}
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(repeats):
        for name, script in commands.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, "-S", "-c", script], env=environment, check=True)
            times[name].append((time.perf_counter() - started) * 1e3)
    return {name: min(seen) for name, seen in times.items()}


def load_s(records: int) -> dict[str, float]:
    """Write a run of four metrics and time a new reader's first poll and its later ones, in seconds."""
    import gputop
    from gputop.tracking.reader import RunReader

    with tempfile.TemporaryDirectory() as directory:
        run = gputop.init(name="load", dir=directory)
        for step in range(records):
            run.log(loss=0.5, lr=0.1, acc=0.9, norm=1.5, step=step)
            if step % 5000 == 0:
                time.sleep(0.001)  # lets the flusher keep up
        reader = RunReader(Path(directory))
        started = time.perf_counter()
        reader.poll()
        first = time.perf_counter() - started
        started = time.perf_counter()
        for _ in range(100):
            reader.poll()
        idle = (time.perf_counter() - started) / 100
        run.finish()
        reader.close()
    return {"first poll": first, "later poll": idle}


def table(title: str, rows: list[tuple[str, ...]]) -> None:
    """Print rows in columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    print(f"\n{title}")
    for row in rows:
        cells = zip(row[1:], widths[1:], strict=True)
        print("  " + row[0].ljust(widths[0]) + "".join("  " + cell.rjust(width) for cell, width in cells))


def measure(quick: bool, directory: Path) -> dict[str, Any]:
    """Return all figures."""
    imports = import_ms(5 if quick else 25)
    import gputop

    run = gputop.init(name="benchmark", dir=directory / "runs")
    if run.disabled:
        raise SystemExit("gputop is switched off (GPUTOP=0 or GPUTOP_MODE=disabled): nothing to measure.")
    loggers: dict[str, Callable[..., None]] = {
        "nothing": Nothing().log,
        "gputop": run.log,
        "json + flush": JsonLines(directory / "peer.jsonl").log,
    }
    result = {
        "import_ms": imports,
        "hot_us": hot(loggers, 3 if quick else 15),
        "loop_us": in_loop(loggers, 300 if quick else 5000),
    }
    run.finish()
    records = 50_000 if quick else 1_000_000
    return {**result, "records": records, "load_s": load_s(records)}


def report(found: dict[str, Any]) -> None:
    """Print the figures as tables."""
    hot_us = found["hot_us"]
    kinds = ["1 metric best", "1 metric median", "4 metrics best", "4 metrics median"]
    rows = [("", *kinds, "x nothing (4, best)")]
    for name, times in hot_us.items():
        ratio = times[kinds[2]] / hot_us["nothing"][kinds[2]]
        rows.append((name, *(f"{times[kind]:.2f}" for kind in kinds), f"{ratio:.1f}"))
    table("log(), hot, with a step: microseconds per call", rows)
    loop = found["loop_us"]
    if loop:
        base = loop["nothing"]
        rows = [("", "step, us", "added, us")]
        rows += [(name, f"{value:.1f}", f"{value - base:+.1f}") for name, value in loop.items()]
        table("a real torch step on the CPU, 4 metrics: median microseconds", rows)
    imports = found["import_ms"]
    rows = [("", "ms")] + [(name, f"{value:.1f}") for name, value in imports.items()]
    rows.append(("added", f"{imports['python + import gputop'] - imports['python']:.1f}"))
    table("a fresh process, best", rows)
    rows = [("", "ms")] + [(name, f"{value * 1e3:.2f}") for name, value in found["load_s"].items()]
    table(f"reading a live run of {found['records']:,} records of 4 metrics", rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--quick", action="store_true", help="few rounds: to see that it works")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="gputop-benchmark-"))
    try:
        found = measure(options.quick, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        report(found)


if __name__ == "__main__":
    main()
