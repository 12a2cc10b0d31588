"""What tracking costs a training: ``log()`` hot, paced and inside a real loop, import and exit, and loading a run.

Figures are ratios to peers that are timed alternately in the same run, because machines differ and are rarely idle. The peers
are those of ``_tracking_peers.py`` that are installed; the others are named and left out, and so is the loop without torch.
Run: ``python benchmarks/tracking.py [--json] [--quick]``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common.ending import ended_by_signals

sys.path.insert(0, str(Path(__file__).parent))
from _tracking_peers import PEERS, missing

GOALS = {"tensorboard": 20.0, "wandb offline": 50.0}
"""How many times gputop's cost each of these should have per call with four metrics."""


def spread_of(times: list[float]) -> dict[str, float]:
    """Return the median, the 99th percentile and the maximum."""
    ordered = sorted(times)
    return {"median": statistics.median(ordered), "p99": ordered[int(len(ordered) * 0.99)], "worst": ordered[-1]}


def lives(names: list[str], rounds: int, scale: int) -> dict[str, list[dict[str, Any]]]:
    """Run the loggers alternately, each in its own processes: whatever else the machine does affects all equally."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            command = [sys.executable, str(Path(__file__).parent / "_tracking_peers.py"), name, str(scale)]
            with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
                assert process.stdout is not None
                line = process.stdout.readline()
                said = time.perf_counter()
                process.wait()
            if not line:
                raise SystemExit(f"{name} failed: {' '.join(command)}")
            one = json.loads(line)
            one["life"]["exit ms"] = (time.perf_counter() - said) * 1e3
            found[name].append(one)
    return found


def summary(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one logger's figures: medians over the rounds, the overall maximum, and the lowest cost of its process."""
    result: dict[str, Any] = {
        "hot_us": {kind: statistics.median(one[kind] for one in rounds) for kind in ("hot 1", "hot 4")},
        "paced_us": spread_of([time for one in rounds for time in one["paced"]]),
        "life": {key: min(one["life"][key] for one in rounds) for key in rounds[0]["life"]},
    }
    if "loop" in rounds[0]:
        result["loop_us"] = spread_of([time for one in rounds for time in one["loop"]])
        added = [statistics.median(one["loop"]) - statistics.median(one["without"]) for one in rounds]
        result["added_us"] = statistics.median(added)
    return result


def import_ms(repeats: int) -> dict[str, float]:
    """Return the time of a bare Python and of ``import gputop`` in new processes: the best of ``repeats``, in ms."""
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
    from gputop.tracking.reader.runs import RunReader

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


def measure(quick: bool) -> dict[str, Any]:
    """Return all figures."""
    absent = {name: lacks for name in PEERS if (lacks := missing(name)) is not None}
    names = [name for name in PEERS if name not in absent]
    found = lives(names, *((1, 1) if quick else (7, 4)))
    records = 50_000 if quick else 1_000_000
    return {
        "absent": absent,
        "peers": {name: summary(rounds) for name, rounds in found.items()},
        "import_ms": import_ms(5 if quick else 25),
        "records": records,
        "load_s": load_s(records),
    }


def ratios(peers: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return how many times gputop's cost each peer has: per call, hot and paced, and added to a step."""

    def costs(one: dict[str, Any]) -> dict[str, float]:
        found = {"hot, 1 metric": one["hot_us"]["hot 1"], "hot, 4 metrics": one["hot_us"]["hot 4"]}
        found["paced, 4 metrics"] = one["paced_us"]["median"]
        return found | ({"added in a loop": one["added_us"]} if "added_us" in one else {})

    own = costs(peers["gputop"])
    # A cost within the loop's own noise has no ratio.
    return {
        name: {kind: cost / own[kind] for kind, cost in costs(one).items() if own[kind] > 0}
        for name, one in peers.items()
        if name not in ("nothing", "gputop")
    }


def report(found: dict[str, Any]) -> None:
    """Print the figures as tables."""
    for name, lacks in found["absent"].items():
        print(f"{name} is left out: {lacks} is not installed.")
    peers = found["peers"]
    base = peers["nothing"]["hot_us"]["hot 4"]
    rows: list[tuple[str, ...]] = [("", "1 metric", "4 metrics", "x nothing (4)")]
    for name, one in peers.items():
        one_us, four_us = one["hot_us"].values()
        rows.append((name, f"{one_us:.2f}", f"{four_us:.2f}", f"{four_us / base:.1f}"))
    table("log(), hot, with a step: microseconds per call", rows)
    parts = ("median", "p99", "worst")
    rows = [("", *parts)]
    rows += [(name, *(f"{one['paced_us'][part]:.1f}" for part in parts)) for name, one in peers.items()]
    table("log() of 4 metrics after a pause: microseconds", rows)
    if "loop_us" in peers["gputop"]:
        rows = [("", "added", *parts)]
        rows += [
            (name, f"{one['added_us']:+.1f}", *(f"{one['loop_us'][part]:.1f}" for part in parts)) for name, one in peers.items()
        ]
        table("a real torch step on the CPU with log() of 4 metrics: microseconds", rows)
    times = ratios(peers)
    kinds = tuple(next(iter(times.values())))
    rows = [("", *kinds, "goal")]
    for name, one in times.items():
        cells = (f"{one[kind]:.1f}x" for kind in kinds)
        rows.append((name, *cells, f"{GOALS[name]:.0f}x" if name in GOALS else ""))
    table("multiples of gputop's cost", rows)
    keys = tuple(peers["gputop"]["life"])
    rows = [("", *keys)] + [(name, *(f"{one['life'][key]:.1f}" for key in keys)) for name, one in peers.items()]
    table("its process (beside torch; memory with helper processes): best", rows)
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
    parser.add_argument("--quick", action="store_true", help="few rounds, to check that it works")
    options = parser.parse_args()
    found = measure(options.quick)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        report(found)


if __name__ == "__main__":
    with ended_by_signals():
        main()
