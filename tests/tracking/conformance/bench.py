"""The conformance bench: scripts as people write them, run bare and under ``gputop run``, against their own record.

A script knows nothing of gputop. It keeps a list of its losses (``scripts/record.py``), which here becomes the truth.
``make conformance`` runs all of them and writes docs/tracking.md.
"""

from __future__ import annotations

import ast
import json
import math
import platform
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gputop
from gputop.tracking.reader.end_line import NO_STEP
from gputop.tracking.reader.runs import RunReader
from tests.tracking.kit import Home, read_all, without_checkout

SCRIPTS = Path(__file__).parent / "scripts"
RIGHT, NOT_RECORDED, WRONG, NONE = "right", "not recorded", "wrong", "-"
COLUMNS = ("steps", "loss", "lr", "epoch", "output", "weights", "end")
ON_TWO_RANKS = ("all_reduce_by_hand", "ddp", "ddp_join", "ddp_no_sync", "fsdp", "with_transformers_ddp")
TOLERANCE = 1e-5
"""A loss is a 32-bit number, and the mean of several may be taken in another order."""
REMARKS = {
    "functional": "no optimizer steps and no backward runs: nothing shows a step; `gputop run` says that it saw none.",
    "gradients_only": "the loss is not that of a backward pass; `autograd.grad` is also used for penalties and attacks.",
}
"""Why something is not recorded, by script."""
PUBLIC = (
    "Trainers of public libraries (Ultralytics, timm, Transformers, TRL with PEFT, Sentence Transformers, Stable-Baselines3,",
    "fastai, Ignite, skorch, MMEngine, TorchRL, Tianshou, skrl, SpeechBrain, RecBole, PyTorch Forecasting, OpenCLIP, PyKEEN,",
    "and others, and torch's FSDP2 and tensor parallelism) run under `benchmarks/trainers.py`, where they are installed: the",
    "loss of each step, the weights, the exit code.",
)
FOLDS = (
    "Folds that reset one model in place (`reset_parameters()`, `load_state_dict` of its first weights) and make a new",
    "optimizer are shown as one training: only the values of the weights could tell that from a next phase of one training,",
    "which starts from its best checkpoint with a new optimizer as well. Folds that each build a new model count separately,",
    "unless the script keeps the optimizers of earlier folds: while one exists, it may step again. If a new optimizer",
    "trains the weights of an earlier one, a note of the run says so. A script that calls `gputop.finish()` between its",
    "folds gets a run for each of them, with or without `gputop.init`.",
)
UNKNOWN = (
    "Some numbers only the script can know. gputop shows what it sees:",
    "",
    "- A loss that is a sum over the tokens of a batch, whose gradients the script divides by their number later (fairseq),",
    "  is shown as the sum: the loss that runs backward. The number is not in its graph.",
    "- Meta-learning with a new optimizer for each task: the steps of all optimizers count as steps of the run, and a note of",
    "  the run says so. To record the outer loop, call `gputop.log` in it.",
    "- Before the first step, gradients that were reset may be discarded ones (a batch that is left out) or parts of the step",
    "  (PCGrad, clipping the gradients of each sample). If the gradients at the step are neither a multiple of the last ones",
    "  nor these with their values limited, the second step decides, by how often it runs backward; if it does so in neither",
    "  way, or if every value was limited, the first step has no loss. In the latter case, later steps with such resets have",
    "  none either, until a step runs backward only once, or 20 in a row run it as often (then these are parts).",
)
Points = Mapping[str, list[tuple[int, float]]]


@dataclass(slots=True)
class Ran:
    """One run of a script."""

    code: int
    out: str
    err: str
    records: dict[int, Any]
    """Of each rank, what it recorded itself."""
    seconds: float


@dataclass(slots=True)
class Result:
    """What the bench found about one script."""

    name: str
    verdicts: dict[str, str]
    bare_s: float
    tracked_s: float
    why: list[str] = field(default_factory=list)
    """What is wrong, for whoever fixes it."""
    cannot_run: str = ""
    """Why the script itself comes to no step: this torch, or this framework, may lack what it uses. Then it has no verdicts."""


def names() -> list[str]:
    """Return the scripts of the bench, in the order of the table."""
    return [*sorted(path.stem for path in SCRIPTS.glob("*.py") if path.stem != "record"), "pkg.train"]


def title(name: str) -> str:
    """Return what a script does: the first line of its docstring."""
    text = ast.get_docstring(ast.parse((SCRIPTS / f"{name.replace('.', '/')}.py").read_text()))
    return (text or "").splitlines()[0].removesuffix(".")


def command(name: str) -> list[str]:
    """Return how a script is started."""
    script = ["-m", name] if "." in name else [f"{name}.py"]
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"] if name in ON_TWO_RANKS else []
    return [sys.executable, *launcher, *script]


def check(name: str, place: Path, together: bool = False, warm: bool = False) -> Result:
    """Run a script bare and tracked, at once if ``together``, and judge what was tracked. ``warm``: see ``tests/nursery``."""
    home, other = Home(place / "tracked"), Home(place / "bare")
    home.warm = other.warm = warm
    run = (sys.executable, "-m", "gputop", "run", "--")
    try:
        with ThreadPoolExecutor(2 if together else 1) as pool:
            bare, tracked = pool.map(_run, (other, home), (command(name), [*run, *command(name)]))
        result = Result(name, {}, bare.seconds, tracked.seconds)
        if not any(record["steps"] for record in bare.records.values()):
            result.cannot_run = (bare.err.strip().splitlines() or [f"it records no step, exit code {bare.code}"])[-1]
            return result
        _judge_script(result, bare, tracked)
        _judge_runs(result, bare, home)
        return result
    finally:
        home.close()
        other.close()


def _run(home: Home, words: Sequence[str]) -> Ran:
    records = home.state / "records"
    records.mkdir(parents=True)
    started = time.perf_counter()
    done = home.finish(words, SCRIPTS, CONFORMANCE_RECORD=str(records))
    took = time.perf_counter() - started
    found = {int(path.stem): json.loads(path.read_text()) for path in records.glob("*.json")}
    return Ran(done.returncode, done.stdout, done.stderr, found, took)


def _judge_script(result: Result, bare: Ran, tracked: Ran) -> None:
    """Judge whether the script behaves the same with and without tracking."""
    noticed = any("gputop" in line and line != NO_STEP for line in without_checkout(tracked.err).splitlines())
    result.verdicts["output"] = RIGHT if (bare.code, bare.out) == (tracked.code, tracked.out) and not noticed else WRONG
    # The records hold a checksum of the weights, and all losses on the way to them.
    result.verdicts["weights"] = RIGHT if bare.records and bare.records == tracked.records else WRONG
    if WRONG in result.verdicts.values():
        result.why += [f"exit codes {bare.code}, {tracked.code}", bare.err[-2000:], tracked.err[-2000:]]


def _judge_runs(result: Result, bare: Ran, home: Home) -> None:
    """Judge what the journals hold, rank by rank; the worst counts."""
    reader = RunReader(home.runs)
    runs = reader.poll().runs
    reader.close()
    ranks = {rank.rank: rank for run in runs for rank in run.ranks}
    result.verdicts["end"] = NOT_RECORDED
    if ranks:
        ended = all(
            (rank.state, rank.exit_code or 0) == ("failed" if bare.code else "finished", bare.code) for rank in ranks.values()
        )
        result.verdicts["end"] = RIGHT if ended else WRONG
    if len(runs) > 1 or not set(ranks) <= set(bare.records):
        result.verdicts["steps"] = WRONG
        result.why.append(f"{len(runs)} runs with the ranks {sorted(ranks)}")
    for rank, record in bare.records.items():
        archives = sorted(home.runs.glob(f"*/rank-{rank:05d}*.gpr"))
        found = read_all(archives[0]).series if archives else {}
        for column, verdict in _judge(record["steps"], found, result.why).items():
            known = result.verdicts.get(column, verdict)
            result.verdicts[column] = max(known, verdict, key=(NONE, RIGHT, NOT_RECORDED, WRONG).index)


def _judge(steps: Sequence[Mapping[str, Any]], found: Points, why: list[str]) -> dict[str, str]:
    """Return a verdict for each of the numbers of one rank."""
    numbered = {step for name, points in found.items() if _is_automatic(name) for step, _ in points}
    verdicts = {
        "steps": NOT_RECORDED if not numbered else RIGHT if (min(numbered), max(numbered)) == (0, len(steps) - 1) else WRONG
    }
    if verdicts["steps"] == WRONG:
        why.append(f"steps {min(numbered)} to {max(numbered)} of {len(steps)}")
    verdicts["loss"] = _judge_losses(steps, found, why)
    for name in ("lr", "epoch"):
        points = found.get(name, found.get(f"auto/{name}", []))
        truth = [step[name] for step in steps]
        verdicts[name] = _judge_values(name, truth, points, why)
    return verdicts


def _is_automatic(name: str) -> bool:
    return name == "step_s" or name.removeprefix("auto/").partition("/")[0] in ("loss", "lr")


def _judge_losses(steps: Sequence[Mapping[str, Any]], found: Points, why: list[str]) -> str:
    truth = {name: _series(steps, name) for step in steps for name in step["losses"]}
    shown = {name: points for name, points in found.items() if name.removeprefix("auto/").partition("/")[0] == "loss"}
    missing = [name for name, points in truth.items() if not any(_same(points, other) for other in shown.values())]
    invented = [name for name, points in shown.items() if not any(_same(points, other) for other in truth.values())]
    if invented:
        why.append(f"losses {invented} are none of {list(truth)}")
        why += [f"{name}: {points[:6]}, {len(points)} in all" for name, points in (*shown.items(), *truth.items())]
    return WRONG if invented else NOT_RECORDED if missing else RIGHT


def _series(steps: Sequence[Mapping[str, Any]], name: str) -> list[tuple[int, float]]:
    return [(number, step["losses"][name]) for number, step in enumerate(steps) if name in step["losses"]]


def _same(points: Sequence[tuple[int, float]], others: Sequence[tuple[int, float]]) -> bool:
    return len(points) == len(others) and all(
        at == other_at and _is_close(value, other) for (at, value), (other_at, other) in zip(points, others, strict=True)
    )


def _is_close(value: float, other: float) -> bool:
    if math.isnan(value) or math.isnan(other):
        return math.isnan(value) and math.isnan(other)
    return math.isclose(value, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE * TOLERANCE)


def _judge_values(name: str, truth: Sequence[float | None], points: Sequence[tuple[int, float]], why: list[str]) -> str:
    """Judge a number that is not written at every step; an epoch holds until the next one."""
    if None in truth:
        return WRONG if points and name == "lr" else NONE
    if not points:
        return NOT_RECORDED
    wrong = [
        (at, value) for at, value in points if at >= len(truth) or not math.isclose(value, truth[at] or 0.0, rel_tol=TOLERANCE)
    ]
    if name == "epoch":
        shown = dict(points)
        held = shown[points[0][0]]
        for at in range(points[0][0], len(truth)):
            held = shown.get(at, held)
            wrong += [(at, held)] if held != truth[at] else []
    if wrong:
        why.append(f"{name}: {wrong[:4]}, truth {[truth[at] for at, _ in wrong[:4] if at < len(truth)]}")
    return WRONG if wrong else RIGHT


def page(results: Sequence[Result]) -> str:
    """Return docs/tracking.md."""
    cells = [result.verdicts[column] for result in results for column in COLUMNS]
    lines = [
        "# What tracking gets right",
        "",
        "Scripts as people write them, run bare and under `gputop run`, and compared with the record that each script keeps",
        "of its own training: the number of optimizer steps, the loss of each step, the learning rate, the epoch. With",
        "tracking a script must print the same, train the same weights to the last bit, and end with the same exit code;",
        "`end` says whether its run is listed as it ended. A dash stands for a number that the script does not have.",
        "The seconds are those of whole processes, torch's start included, and of one run each: what tracking adds to a step",
        "is in [costs.md](costs.md).",
        "",
        "Written by `make conformance` (`tests/tracking/conformance`): "
        f"gputop {gputop.__version__}, Python {platform.python_version()}, torch {version('torch')}.",
        f"{len(results)} scripts: {cells.count(RIGHT)} right, {cells.count(NOT_RECORDED)} {NOT_RECORDED}, "
        f"{cells.count(WRONG)} wrong.",
        "",
        "| script | what it does | " + " | ".join(COLUMNS) + " | bare, s | tracked, s |",
        "|---|---|" + "---|" * len(COLUMNS) + "---:|---:|",
    ]
    for result in results:
        verdicts = [_marked(result.verdicts[column]) for column in COLUMNS]
        row = [f"`{result.name}`", title(result.name), *verdicts, f"{result.bare_s:.1f}", f"{result.tracked_s:.1f}"]
        lines.append("| " + " | ".join(row) + " |")
    remarks = [f"- `{result.name}`: {REMARKS[result.name]}" for result in results if result.name in REMARKS]
    explained = ["", "What is not recorded, and why:", "", *remarks] if remarks else []
    return "\n".join([*lines, *explained, "", *PUBLIC, "", *FOLDS, "", *UNKNOWN]) + "\n"


def _marked(verdict: str) -> str:
    return f"**{verdict}**" if verdict in (NOT_RECORDED, WRONG) else verdict


def main(chosen: Sequence[str]) -> None:
    """Run the bench and print the page; say on standard error what is wrong."""
    results = []
    for name in chosen or names():
        with tempfile.TemporaryDirectory() as place:
            result = check(name, Path(place))
        if result.cannot_run:
            print(f"{name}  left out: {result.cannot_run}", file=sys.stderr, flush=True)
            continue
        results.append(result)
        print(name, *(f"{column}: {result.verdicts[column]}" for column in COLUMNS), sep="  ", file=sys.stderr, flush=True)
        for line in result.why:
            print(f"    {line}", file=sys.stderr, flush=True)
    print(page(results), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
