"""What one look of the doctor costs: 8 GPUs, 8 tracked ranks and 50 ended runs, all rules, one snapshot per second.

Run: ``python benchmarks/doctor_cost.py [--json] [--seconds N] [--profile] [--rules]``. For comparison, it also prints how long
decoding the same snapshots from JSON takes in the same process: that ratio holds on other machines too. The doctor sees decoded
snapshots, as in the dashboard, so no record is the same object twice.
"""

from __future__ import annotations

import argparse
import cProfile
import importlib
import json
import pstats
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gputop.doctor.diagnosis import Doctor
from gputop.snapshot import Run, Snapshot

ROOT = Path(__file__).parent.parent
RANKS = 8
ENDED = 50
ENDED_RANKS = 2
"""Metrics of each run that has ended."""
WARM_S = 90
"""Seconds of the stream before the measurement: by then, all windows are full."""
GOAL_MS = 1.5


def main() -> int:
    """Measure in CPU time of this thread, print, and return 0 (1 if the doctor reports anything about the healthy run)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=int, default=120, help="measured seconds of the stream (default: 120)")
    parser.add_argument("--profile", action="store_true", help="print where the time is spent")
    parser.add_argument("--rules", action="store_true", help="print the time of each rule")
    args = parser.parse_args()
    lines = [stream(second).to_json(compact=True) for second in range(WARM_S + args.seconds)]
    if args.rules:
        _by_rule(lines)
        return 0
    doctor = Doctor()
    profile = cProfile.Profile()
    looks, decodes = [], []
    before = None
    for second, line in enumerate(lines):
        began = time.thread_time()
        snapshot = Snapshot.from_json(line)
        decoded = time.thread_time()
        if args.profile and second >= WARM_S:
            profile.enable()
        found = doctor.observe(snapshot)
        profile.disable()
        done = time.thread_time()
        if found:
            print(f"The doctor reports on a healthy run: {[(item.id, item.title) for item in found]}.", file=sys.stderr)
            return 1
        if second >= WARM_S:
            looks.append(1e3 * (done - decoded))
            decodes.append(1e3 * (decoded - began))
        before = snapshot  # freed outside the measured time: the reader of the stream pays for that
    del before
    mean = statistics.fmean(looks)
    look, decode = statistics.median(looks), statistics.median(decodes)
    worst = statistics.quantiles(looks, n=20)[-1]
    result = {
        "look_ms": look,
        "look_mean_ms": mean,
        "look_p95_ms": worst,
        "decode_ms": decode,
        "ratio": look / decode,
        "goal_ms": GOAL_MS,
    }
    if args.json:
        print(json.dumps(result))
        return 0
    print(f"one look of the doctor: {look:.2f} ms median, {mean:.2f} ms mean (goal {GOAL_MS}), {worst:.2f} ms in 1 of 20")
    print(f"decoding the snapshot: {decode:.2f} ms median; ratio {look / decode:.2f}")
    if args.profile:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(70)
    return 0


def stream(second: int) -> Snapshot:
    """Return the snapshot of one second of a healthy DDP run, along with ended runs."""
    sys.path.insert(0, str(ROOT))
    scenes: Any = importlib.import_module("tests.doctor.tracked")
    metrics = {**scenes.CALM, "phase/forward": _constant(0.1), "phase/backward": _constant(0.15), "lr": _constant(0.1)}
    snapshot: Snapshot = scenes.ddp(second, RANKS, metrics=metrics)
    return replace(snapshot, runs=(*snapshot.runs, *_ended(snapshot.runs[0])))


def _constant(value: float) -> Callable[[int, int], float]:
    return lambda rank, step: value


def _ended(running: Run) -> tuple[Run, ...]:
    """Return ended copies of the live run, with everything that their ranks reported last."""
    ranks = tuple(replace(rank, state="finished", pid=90_000 + rank.rank, step=5000) for rank in running.ranks[:ENDED_RANKS])
    return tuple(replace(running, run_id=f"ended-{number}", state="finished", ranks=ranks) for number in range(ENDED))


def _by_rule(lines: list[str]) -> None:
    """Print the time of each rule, the most expensive first, and the time for collecting the evidence."""
    from gputop.doctor import diagnosis, rules

    spent: dict[str, list[float]] = {}

    def timed(name: str, judge: Callable[..., Any]) -> Callable[..., Any]:
        def judged(*given: Any) -> Any:
            began = time.thread_time()
            try:
                return judge(*given)
            finally:
                spent[name].append(1e3 * (time.thread_time() - began))

        spent[name] = []
        return judged

    kept: tuple[Any, Any] = (rules.GROUP_RULES, rules.MACHINE_RULES)
    setattr(diagnosis, "GROUP_RULES", tuple(replace(rule, judge=timed(rule.id, rule.judge)) for rule in kept[0]))  # noqa: B010
    setattr(  # noqa: B010
        diagnosis, "MACHINE_RULES", tuple(replace(rule, judge_machine=timed(rule.id, rule.judge_machine)) for rule in kept[1])
    )
    doctor = Doctor()
    whole = []
    before = None
    for second, line in enumerate(lines):
        if second == WARM_S:
            for values in spent.values():
                values.clear()
        snapshot = Snapshot.from_json(line)
        began = time.thread_time()
        doctor.observe(snapshot)
        whole.append(1e3 * (time.thread_time() - began))
        before = snapshot
    del before
    looks = len(lines) - WARM_S
    # Most rules do not run at every look, so the sum over all looks counts.
    costs = sorted(((sum(values) / looks, len(values) / looks, name) for name, values in spent.items()), reverse=True)
    for cost, often, name in costs[:25]:
        print(f"{name:<6} {cost:.3f} ms of each look ({cost / often if often else 0.0:.3f} ms in {often:.0%} of them)")
    print(
        f"rules together {sum(cost for cost, _, _ in costs):.2f} ms of {statistics.fmean(whole[WARM_S:]):.2f} ms, on the mean"
    )


if __name__ == "__main__":
    sys.exit(main())
