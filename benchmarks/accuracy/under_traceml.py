"""What TraceML (PyPI ``traceml-ai``) says about the same scripts: one line of its end report for each fault.

It must be installed in the Python that ``--traceml`` names, with torch; the benchmark also runs without it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from pathlib import Path

from accuracy.truth import Truth
from gputop.recipes.catalogue import prepare
from gputop.snapshot import Device

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("under_traceml_script.py")
STEPS = 150
FINALIZE_S = 20
_VERDICT = re.compile(r"Verdict:\s*([^|\n]+?)\s*(?:\|\||\||$)", re.M)
_WHY = re.compile(r"Why:\s*([^|\n]+?)\s*(?:\|\||\||$)", re.M)
_COLOR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def missing(python: str | None) -> str | None:
    """Return why TraceML cannot be run; None if it can."""
    if python is None:
        return "not requested: --traceml PYTHON names a Python that has traceml-ai and torch"
    command = Path(python).with_name("traceml")
    if not command.exists():
        return f"there is no {command}"
    looked = subprocess.run(
        [python, "-c", "import torch, traceml_ai"], capture_output=True, text=True, timeout=120, check=False, cwd="/"
    )
    return None if looked.returncode == 0 else (looked.stderr.strip().splitlines() or ["it cannot be imported"])[-1]


def said(python: str, truth: Truth, seconds: float) -> str:
    """Run a recipe under ``traceml run`` and return the verdict of its end report, or why there is none."""
    recipe = truth.recipe
    devices = tuple(Device(index, f"virtual-{index}", kind="virtual") for index in range(2))
    chosen = devices[: max(recipe.min_devices, recipe.default_devices)]
    names = {option.name for option in recipe.options}
    launch = prepare(recipe, chosen, {**truth.values, **({"steps": STEPS} if "steps" in names else {})})
    at = next(place for place, item in enumerate(launch.argv) if item.endswith(".py"))
    ranks = recipe.processes or len(chosen) if recipe.launcher != "python" else 1
    with tempfile.TemporaryDirectory(prefix="traceml-", ignore_cleanup_errors=True) as home:
        command = [
            str(Path(python).with_name("traceml")),
            *("run", str(SCRIPT), "--logs-dir", home, "--run-name", "run", "--nproc-per-node", str(ranks)),
            *("--finalize-timeout-sec", str(FINALIZE_S), "--no-save-training-output", "--args", *launch.argv[at:]),
        ]
        environment = {**os.environ, **launch.env, "PYTHONPATH": str(ROOT), "GPUTOP_DIR": home, "GPUTOP": "0"}
        out = Path(home, "out.txt")
        with out.open("wb") as file:
            process = subprocess.Popen(
                command, cwd=home, env=environment, stdout=file, stderr=file, stdin=subprocess.DEVNULL, start_new_session=True
            )
            timed_out = _wait(process, seconds)
        text = _COLOR.sub("", out.read_text(errors="replace"))
    verdict, why = _VERDICT.search(text), _WHY.search(text)
    how = f"did not end within {seconds:.0f} s" if timed_out else f"exit code {process.returncode}"
    if verdict is None:
        last = next((line.strip() for line in reversed(text.splitlines()) if "TraceML" in line), "no report")
        return f"none ({how}): {last[:120]}"
    found = " ".join(verdict[1].split()) + (f": {' '.join(why[1].split())}" if why is not None else "")
    return found if not timed_out and not process.returncode else f"{found} ({how})"


def _wait(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for the end; after this many seconds, send SIGINT, upon which TraceML still writes its report."""
    for number, patience in ((None, seconds), (signal.SIGINT, FINALIZE_S + 10.0), (signal.SIGKILL, 10.0)):
        if number is not None:
            os.killpg(process.pid, number)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
        break
    return number is not None
