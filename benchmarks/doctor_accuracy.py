"""How often the doctor is right: every bundled fault as a real job, and every simulated scene, against the truth.

Run: ``python benchmarks/doctor_accuracy.py [--live] [--scenes] [--only ID ...] [--seconds S] [--json FILE]``; without --live
and --scenes, it runs both. Exits 1 if a first verdict is wrong, or if anything above "possible" is reported for a healthy run.
Live: recipes run as jobs (torchrun and gloo on virtual GPUs, tracked) while the agent's own sampler feeds a doctor; with
--hardware, on this machine's GPUs, if they are enough for the recipe. Each result is printed and written as it comes, so that
a run that is stopped keeps those it has; a case that raises, or that does not end, counts as wrong. Virtual GPUs are this
machine's cores, so it should be idle. If others train on it too, run the benchmark in its own PID namespace:
``unshare --user --map-root-user --pid --fork --mount-proc python benchmarks/doctor_accuracy.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accuracy import simulated, under_traceml
from accuracy.live import Outcome, gpu_count, watch
from accuracy.simulated import SceneOutcome
from accuracy.truth import faults, healthy
from common.ending import ended_by_signals

SECONDS = 60.0
LIMIT_S = 120.0
"""A case that takes this much longer than it is watched does not end by itself."""
STOPPED = 130


def main() -> int:
    """Run what was requested and return the exit code."""
    args = _arguments()
    only = _chooser(args.only)
    both = not (args.live or args.scenes)
    scenes: list[SceneOutcome] = []
    live: list[Outcome] = []
    stopped = False
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if args.scenes or both:
            scenes = _scenes(only)
        if args.live or both:
            for outcome in _live(only, args.seconds, args.traceml, hardware=args.hardware):
                live.append(outcome)
                _write(args.json, scenes, live)
    except KeyboardInterrupt:
        stopped = True
        print("\nStopped: the results so far are kept.", file=sys.stderr)
    if not scenes and not live:
        if not stopped:
            print(f"Nothing is called {' or '.join(args.only)}.", file=sys.stderr)
        return STOPPED if stopped else 2
    _write(args.json, scenes, live)
    wrong = [item for item in scenes if not item.right] + [item for item in live if not item.right]
    print(f"\n{len(scenes) + len(live) - len(wrong)} of {len(scenes) + len(live)} right.")
    return STOPPED if stopped else 1 if wrong else 0


def _write(path: str | None, scenes: Sequence[SceneOutcome], live: Sequence[Outcome]) -> None:
    """Write all results so far to the file that was asked for. A reader never sees half of one."""
    if path is None:
        return
    result = {"scenes": [_scene_row(item) for item in scenes], "live": [_live_row(item) for item in live]}
    part = Path(f"{path}.part")
    part.write_text(json.dumps(result, indent=1), encoding="utf-8")
    part.replace(path)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--live", action="store_true", help="only real jobs")
    parser.add_argument("--hardware", action="store_true", help="real jobs on this machine's GPUs, where they are enough")
    parser.add_argument("--scenes", action="store_true", help="only simulated scenes")
    parser.add_argument("--only", nargs="*", default=(), metavar="ID", help='rules ("A07"), recipes, scenes, or "healthy"')
    parser.add_argument("--seconds", type=float, default=SECONDS, help="watch each job for this long from its first step (60)")
    parser.add_argument("--traceml", metavar="PYTHON", help="also run the same scripts under the TraceML of this Python")
    parser.add_argument("--json", metavar="FILE", help="write all results to this file")
    return parser.parse_args()


def _chooser(names: Sequence[str]) -> Callable[[str | None], bool]:
    return lambda name: not names or name in names


def _scenes(only: Callable[[str | None], bool]) -> list[SceneOutcome]:
    found = list(simulated.play_all(only))
    for kind in ("fault", "look-alike", "healthy"):
        of_kind = [item for item in found if item.kind == kind]
        right = sum(item.right for item in of_kind)
        times = [item.verdict_s for item in of_kind if item.verdict_s is not None and kind == "fault"]
        told = f", first told after {statistics.median(times):.0f} s (median), {max(times)} s (longest)" if times else ""
        if of_kind:
            print(f"simulated, {kind}: {right} of {len(of_kind)} right{told}")
        for item in of_kind:
            if not item.right:
                print(f"  WRONG {item.room}: {item.name}: {item.rule or 'nothing'} expected, said {_list(item.wrong)}")
    return found


def _live(only: Callable[[str | None], bool], seconds: float, traceml: str | None, *, hardware: bool) -> Iterator[Outcome]:
    gpus = gpu_count() if hardware else None
    reason = under_traceml.missing(traceml)
    print(f"TraceML is {'run beside, its report is below each line' if reason is None else f'not run: {reason}'}.")
    print(f"{'recipe':<32} {'truth':<6} {'verdict':<8} {'after':>7} {'of start':>8}  others that stood first")
    for truth in (*faults(), *healthy()):
        names = (truth.recipe.id, truth.recipe.fault or "healthy")
        if not any(map(only, names)) or (gpus is not None and truth.recipe.min_devices > gpus):
            continue
        try:
            with _limited(2 * seconds + LIMIT_S):
                outcome = watch(truth, seconds, hardware=hardware)
        except Exception as error:  # noqa: BLE001 - one case must not cost the results of the others
            outcome = Outcome(truth, failed=f"{type(error).__name__}: {error}")
        outcome.traceml = under_traceml.said(traceml, truth, seconds) if traceml and reason is None else f"not run: {reason}"
        values = "".join(f" {name}={value}" for name, value in truth.values.items())
        print(
            f"{truth.recipe.id + values:<32} {truth.rule or '-':<6} {outcome.verdict or '-':<8} {_seconds(outcome.delay_s):>7} "
            f"{_seconds(outcome.verdict_s):>8}  {_list(outcome.wrong)}{'' if outcome.right else '   WRONG'}",
            flush=True,
        )
        if outcome.failed:
            print(f"    It did not end as it should: {outcome.failed}", flush=True)
        if truth.reason:
            print(f"    {truth.reason}")
        if reason is None:
            print(f"    TraceML: {outcome.traceml}", flush=True)
        yield outcome


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the body if it takes longer."""

    def over(number: int, frame: object) -> None:
        raise TimeoutError(f"not done after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds, 10.0)  # again and again: what cleans up may hang as well
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} s"


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "-"


def _scene_row(item: SceneOutcome) -> dict[str, Any]:
    return {
        "room": item.room,
        "kind": item.kind,
        "scene": item.name,
        "truth": item.rule,
        "verdict": item.verdict,
        "verdict_s": item.verdict_s,
        "wrong": item.wrong,
        "right": item.right,
    }


def _live_row(item: Outcome) -> dict[str, Any]:
    return {
        "recipe": item.truth.recipe.id,
        "values": dict(item.truth.values),
        "truth": item.truth.rule,
        "reason": item.truth.reason,
        "verdict": item.verdict,
        "right": item.right,
        "onset_s": item.onset_s,
        "verdict_s": item.verdict_s,
        "delay_s": item.delay_s,
        "others_first": item.wrong,
        "state": item.state,
        "failed": item.failed,
        "steps": item.steps,
        "said": [(round(said.at_s, 1), said.findings) for said in item.said],
        "evidence": item.evidence,
        "confidence": item.confidence,
        "traceml": item.traceml,
        "not_judged": [(gap.rule, gap.why, gap.needs) for gap in item.abstained],
        "log": item.log,
    }


if __name__ == "__main__":
    with ended_by_signals():
        code = main()
    sys.stdout.flush()
    os._exit(code)
