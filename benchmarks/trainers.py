"""Checks that gputop tracks trainers of public libraries correctly: each runs alone and under ``gputop run``, and is recorded.

gputop needs none of these libraries. What is not installed is named and left out; a virtual environment for all of them:

    python3 -m venv /tmp/trainers && /tmp/trainers/bin/pip install -e . pytest ultralytics timm trl peft datasets \\
        sentence-transformers stable-baselines3 fastai pytorch-ignite skorch mmengine \\
        pytorch-tabnet schedulefree opacus gpytorch torch-geometric litgpt pyro-ppl \\
        torchrl tianshou skrl setfit speechbrain pytorch-forecasting open-clip-torch pykeen
    /tmp/trainers/bin/python benchmarks/trainers.py [NAME…]

RecBole needs "numpy<2" and Catalyst "accelerate<1", so each of them needs an environment of its own.

The record (``trainers/record.py``) contains the value of every backward and how many came before each optimizer step. Each
script says which loss a step then has: the sum of its backwards (of parts of it), their mean, the last one if the gradients
of those before it were dropped, or "each" if every backward has its own value. The exit code is 1 if a number is wrong, or
if tracking changed a run.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import math
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.tracking.kit import Home, read_all  # noqa: E402 - from the checkout

SCRIPTS = ROOT / "benchmarks" / "trainers"
PARTS = ("record", "words")
TOLERANCE = 1e-4
OF_A_STEP: Mapping[str, Callable[[Sequence[float]], float]] = {
    "sum": math.fsum,
    "mean": lambda values: math.fsum(values) / len(values),
    "last": lambda values: values[-1],
}
Series = Mapping[str, Sequence[tuple[int, float]]]


def words_of(name: str) -> dict[str, str]:
    """Return what a script's docstring says: its "title", "Needs", "Loss", and "Ranks" unless it runs on one."""
    text = ast.get_docstring(ast.parse((SCRIPTS / f"{name}.py").read_text())) or ""
    title, *others = [line for line in text.splitlines() if line]
    return {"title": title, **dict(line.split(": ", 1) for line in others if ": " in line)}


def run(name: str, ranks: str, tracked: bool) -> tuple[Home, int, str, dict[int, Any]]:
    """Run a script to its end; return its state directory, exit code, standard error, and the record of each rank."""
    place = Path(tempfile.mkdtemp(prefix="trainers-"))
    (place / "work").mkdir()
    home = Home(place / "state")
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks != "1" else []
    tracker = ["-m", "gputop", "run", "--", sys.executable] if tracked else []
    done = home.finish(
        [sys.executable, *tracker, *launcher, str(SCRIPTS / f"{name}.py")],
        place,
        RECORD=str(place / "record"),
        WORK=str(place / "work"),
        PYTHONPATH=str(ROOT),
        CUDA_VISIBLE_DEVICES="",
        HF_HUB_OFFLINE="1",
        YOLO_CONFIG_DIR=str(place / "settings"),
        PYTHONHASHSEED="0",
    )
    records = {int(path.suffix[1:]): json.loads(path.read_text()) for path in place.glob("record.*")}
    return home, done.returncode, done.stderr, records


def losses_of(series: Series) -> dict[str, list[float]]:
    """Return the values of each loss, in order."""
    found = {name: points for name, points in series.items() if name.partition("/")[0] == "loss"}
    return {name: [value for _, value in sorted(points)] for name, points in found.items()}


def judge(record: Mapping[str, Any], series: Series, loss: str) -> str:
    """Return what is wrong with the tracked values of one rank; empty if nothing is."""
    shown = losses_of(series)
    if loss == "each":
        truth, tracked = sorted(record["backwards"]), sorted(value for values in shown.values() for value in values)
    else:
        truth, tracked = [OF_A_STEP[loss](values) for values in record["steps"] if values], shown.get("loss", [])
    if len(truth) != len(tracked):
        return f"{len(tracked)} losses of {len(truth)}"
    off = [(a, b) for a, b in zip(truth, tracked, strict=True) if not math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=1e-7)]
    return f"{len(off)} of {len(truth)} losses, first {off[0][1]:.6g} for {off[0][0]:.6g}" if off else ""


def check(name: str, loss: str, ranks: str) -> list[str]:
    """Return what is wrong with a script on this many ranks under ``gputop run``."""
    bare_home, bare_code, bare_error, bare = run(name, ranks, tracked=False)
    home, code, error, records = run(name, ranks, tracked=True)
    try:
        if bare_code:
            return [f"it fails by itself: {bare_error.strip().splitlines()[-1:]}"]
        wrong = [f"exit code {code}: {error.strip().splitlines()[-1:]}"] if code else []
        if bare != records:
            wrong.append("its losses or weights changed")
        archives = {int(path.stem.partition("-")[2][:5]): path for path in home.archives()}
        for rank, record in sorted(records.items()):
            fault = judge(record, read_all(archives[rank]).series, loss) if rank in archives else "no journal"
            if fault:
                wrong.append(f"rank {rank}: {fault}")
        return wrong
    finally:
        home.close()
        bare_home.close()


def main() -> int:
    """Run the named scripts, or all of them, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="scripts in benchmarks/trainers (default: all)")
    names = parser.parse_args().names or sorted(path.stem for path in SCRIPTS.glob("*.py") if path.stem not in PARTS)
    failed = 0
    for name in names:
        words = words_of(name)
        missing = [module for module in words["Needs"].split(", ") if importlib.util.find_spec(module) is None]
        if missing:
            print(f"{name:28} left out: {', '.join(missing)} not installed", flush=True)
            continue
        for ranks in words.get("Ranks", "1").split(", "):
            wrong = check(name, words["Loss"], ranks)
            failed += bool(wrong)
            print(f"{name:28} ranks {ranks}  {'; '.join(wrong) or 'right'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
