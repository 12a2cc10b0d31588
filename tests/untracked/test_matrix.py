"""Every way to start a training, with every way to record it: gputop comes later, and shows the run, its ranks and its curve.

The libraries are the real ones, but for the ranks in tmux. docs/curves.md has the table.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gputop.agent.sampler import Sampler
from gputop.process import ProcessRun
from gputop.sources.host import procfs
from gputop.sources.host import unlisted as host_unlisted
from gputop.sources.virtual import VirtualSource
from gputop.untracked import curves
from tests.packages import needs
from tests.real_processes import MARKERS, PRELUDE
from tests.tracking.kit import eventually

SCRIPT, TRAINS = Path(__file__).with_name("records.py"), Path(__file__).with_name("trains.py")
STANDALONE = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
WAYS = {"torchrun": ("torchrun", [0, 1]), "spawn": ("multiprocessing", [None, None]), "plain": (None, [None])}
"""How it is started: what gputop names as its launcher, and the ranks."""
LIBRARIES = {"tensorboard": "tensorboard", "wandb": "wandb", "csv": "lightning", "trainer": "transformers"}
SOURCES = {"tensorboard": "TensorBoard", "wandb": "W&B", "csv": "CSV", "trainer": "Trainer state", "output": "its output"}
START_S = 300.0
"""Five processes import torch, and three of them all the libraries."""
SEEN_S = 60.0
ROUNDED = 2e-3
"""The Trainer prints four digits."""
LOSSES = {step: pytest.approx(1 / step, rel=1e-4) for step in range(1, 51)}


PRINTS = f"""
import multiprocessing
{PRELUDE}
def rank(number):
    if number == 0:
        for step in range(1, 51):
            say(f"step {{step}} loss {{1 / step:.6f}}")
        open(f"{{FOLDER}}/ready", "w").close()
    train()

HOW, FOLDER = sys.argv[1:]
if __name__ == "__main__":
    if HOW == "spawn":
        context = multiprocessing.get_context("spawn")
        children = [context.Process(target=rank, args=(number,)) for number in range(2)]
        for child in children:
            child.start()
        for child in children:
            child.join()
    else:
        rank(int(os.environ.get("RANK", 0)))
"""
"""Prints its losses, and looks like a training of torch, which most of its start would go to."""
MARK = "TEST_OF_THE_MATRIX"
"""A variable of every process that a test starts: its folder. Parents do not tell, because the first processes are orphans."""


def environment(folder: Path) -> dict[str, str]:
    """The environment of a user's shell: no rank, and nothing of gputop."""
    kept = {name: value for name, value in os.environ.items() if name not in MARKERS}
    kept = {name: value for name, value in kept.items() if not name.startswith(("GPUTOP", "TORCHELASTIC_", "WANDB_"))}
    return kept | {"OMP_NUM_THREADS": "1", "WANDB_SILENT": "true", "HF_HUB_OFFLINE": "1", MARK: str(folder)}


def started(folder: Path) -> set[int]:
    """Return the live processes of a test."""
    mark = f"{MARK}={folder}".encode()
    found = set()
    for pid in procfs.list_pids():
        with contextlib.suppress(OSError):
            if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.add(pid)
    return found


def command(way: str, folder: Path, sources: tuple[str, ...], original: Path = SCRIPT) -> list[str]:
    folder.mkdir()
    # torchrun runs this very file; the others have a copy, so that each run has a name of its own.
    script = folder / f"{way}.py"
    shutil.copy(original, script)
    return [sys.executable, *(STANDALONE if way == "torchrun" else ()), str(script), way, str(folder), *sources]


@pytest.fixture
def ended(tmp_path: Path) -> Iterator[None]:
    """End what the test starts: torchrun and W&B put their processes into sessions of their own."""
    yield
    for pid in started(tmp_path):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: not started(tmp_path), "all have ended", SEEN_S)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine leaves each of them little of a core, and other tests train, too: gputop reads them all the same."""
    monkeypatch.setattr(curves, "RUNS_MAX", 64)
    monkeypatch.setattr(host_unlisted, "TRAINING_CPU_PERCENT", 1.0)
    monkeypatch.setattr(host_unlisted, "TRAINING_AGE_S", 0.0)


class Seen:
    """What gputop shows of these runs from its start on."""

    def __init__(
        self, folder: Path, losses: Mapping[str, object] | None = None, names: tuple[str, ...] = ("loss", "train_loss")
    ) -> None:
        """``losses``: how each run was started -> its losses by step; ``names``: of the metric, in whichever source."""
        self._folder, self._names = folder, names
        self._losses = losses or dict.fromkeys(WAYS, LOSSES)
        self._sampler = Sampler(VirtualSource(2), 1.0)
        self._points: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
        self.runs: dict[str, ProcessRun] = {}
        self.curves: dict[str, dict[str, dict[int, float]]] = {}
        """Script -> source -> step -> loss."""

    def look(self) -> None:
        snapshot = self._sampler.take()
        for points in snapshot.points:
            self._points[points.run_id, points.metric].update(zip(points.steps, points.values, strict=True))
        mine = started(self._folder)
        self.runs = {run.name: run for run in snapshot.process_runs if {rank.pid for rank in run.ranks} & mine}
        self.curves = {
            name: {
                curve.source: values
                for curve in run.curves
                for (run_id, metric), values in self._points.items()
                if run_id == curve.run_id and metric in self._names
            }
            for name, run in self.runs.items()
        }

    def shows(self, sources: set[str]) -> bool:
        self.look()
        return all(
            f"{way}.py" in self.runs
            and len(self.runs[f"{way}.py"].ranks) == len(WAYS[way][1])
            and {source for source, values in self.curves[f"{way}.py"].items() if values == losses} == sources
            for way, losses in self._losses.items()
        )

    def check(self) -> None:
        for way in self._losses:
            launcher, ranks = WAYS[way]
            run = self.runs[f"{way}.py"]
            assert (run.launcher.name if run.launcher is not None else None) == launcher
            assert [rank.rank for rank in run.ranks] == ranks


def until_shown(seen: Seen, sources: set[str]) -> None:
    try:
        eventually(lambda: seen.shows(sources), "all is shown", SEEN_S)
    except AssertionError:
        raise AssertionError(f"{seen.runs} {seen.curves}") from None


def test_runs_by_nohup_with_all_that_records_them(ended: None, eager: None, tmp_path: Path) -> None:
    for library in LIBRARIES.values():
        pytest.importorskip(library)
    for way in WAYS:
        words = command(way, tmp_path / way, tuple(SOURCES))
        # The shell ends at once, as one does whose user logs out: this process trains, too, and would count as a parent.
        line = f"nohup {shlex.join(words)} > nohup.out 2>&1 < /dev/null &"
        subprocess.run(["sh", "-c", line], cwd=tmp_path / way, env=environment(tmp_path), check=True)
    eventually(lambda: all((tmp_path / way / "ready").exists() for way in WAYS), "they train", START_S)
    seen = Seen(tmp_path)
    until_shown(seen, set(SOURCES.values()))
    seen.check()


@needs("torch")
@pytest.mark.long
def test_runs_in_tmux(ended: None, eager: None, tmp_path: Path) -> None:
    if shutil.which("tmux") is None:
        pytest.skip("there is no tmux here")
    script, library = tmp_path / "prints.py", tmp_path / "libtorch_cpu.so"
    script.write_text(PRINTS)
    library.write_bytes(b"not really\n")
    shell = environment(tmp_path) | {"TEST_MAPS": str(library)}
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # a socket's path must be short
        server = ("tmux", "-f", "/dev/null", "-S", f"{folder}/s")
        try:
            for way in WAYS:
                words = shlex.join(command(way, tmp_path / way, (), script))
                begin = (*server, "new-session", "-d", "-c", str(tmp_path / way), "-x", "90", "-y", "20", words)
                subprocess.run(begin, check=True, env=shell)
            ready = [tmp_path / way / "ready" for way in WAYS]
            eventually(lambda: all(path.exists() for path in ready), "they train", START_S)
            seen = Seen(tmp_path)
            until_shown(seen, {"its output in tmux"})
            seen.check()
        finally:
            subprocess.run((*server, "kill-server"), check=False)


def test_runs_of_the_trainer_of_transformers(ended: None, eager: None, tmp_path: Path) -> None:
    """``Trainer.train()`` itself, which starts, logs and saves as it does for everybody."""
    for library in ("transformers", "accelerate", "tensorboard"):
        pytest.importorskip(library)
    ways = ("torchrun", "plain")  # spawned processes do not train with it: each would train alone
    for way in ways:
        words = command(way, tmp_path / way, (), TRAINS)
        line = f"nohup {shlex.join(words)} > nohup.out 2>&1 < /dev/null &"
        subprocess.run(["sh", "-c", line], cwd=tmp_path / way, env=environment(tmp_path), check=True)
    try:
        eventually(lambda: all((tmp_path / way / "ready").exists() for way in ways), "they train", START_S)
    except AssertionError:
        raise AssertionError([(tmp_path / way / "nohup.out").read_text()[-3000:] for way in ways]) from None
    logged = {way: json.loads((tmp_path / way / "logged.json").read_text()) for way in ways}
    losses = {
        way: {int(step): pytest.approx(value, rel=ROUNDED) for step, value in found.items()} for way, found in logged.items()
    }
    assert all(list(found) == list(range(1, 51)) for found in losses.values())
    seen = Seen(tmp_path, losses, ("loss", "train/loss"))
    until_shown(seen, {"TensorBoard", "Trainer state", "its output"})
    seen.check()
