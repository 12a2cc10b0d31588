"""Trainings in a notebook: a cell that trains, one that forks training children, and one that spawns them.

``ipykernel_launcher`` here is a module of that name, run with a kernel's command line: it runs the cell in its main thread, as
the kernel does. Its standard output holds nothing of what the cell prints.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputop.agent.sampler import Sampler
from gputop.process import ProcessRun
from gputop.snapshot import Snapshot
from gputop.sources.host import procfs
from gputop.sources.host import unlisted as host_unlisted
from gputop.sources.virtual import VirtualSource
from tests.real_processes import MARKERS, PRELUDE, descendants, eventually, see_only_own_processes

WRITES = f"""
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from pathlib import Path
from tests.untracked.files.writers import event_file
def train(folder, loss):
    event_file(Path(folder), os.getpid(), {{7: loss}}, at=time.time(), host=os.uname().nodename)
    while os.getppid() > 1 and time.monotonic() < until:
        sum(range(20000))
"""
TRAINS = "train('runs/exp1', 0.25)"
FORKS = """
children = []
for place in range(2):
    if (child := os.fork()) == 0:
        train(f'runs/rank{place}', 0.5 + place)
        os._exit(0)
for _ in range(2):
    os.wait()
"""
SPAWNS = """
import multiprocessing
children = [multiprocessing.get_context('spawn').Process(target=train, args=(f'runs/rank{n}', 0.5 + n)) for n in range(2)]
for child in children:
    child.start()
for child in children:
    child.join()
"""
Notebook = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    """Start a kernel that runs one cell."""
    before, kernels = descendants(procfs.list_pids()), []
    see_only_own_processes(monkeypatch)
    monkeypatch.setattr(host_unlisted, "TRAINING_CPU_PERCENT", 2.0)
    monkeypatch.setattr(host_unlisted, "TRAINING_AGE_S", 0.0)
    monkeypatch.setattr(host_unlisted, "TRAINING_LINGER_S", 5.0)  # its start keeps a kernel busy
    library = tmp_path / "libtorch_cpu.so"
    library.write_bytes(b"not really\n")
    kept = {name: value for name, value in os.environ.items() if name not in MARKERS and not name.startswith("GPUTOP_")}
    environment = kept | {
        "TEST_MAPS": str(library),
        "PYTHONPATH": str(tmp_path / "kernel"),
        "JPY_SESSION_NAME": "/home/ada/lab/flowers.ipynb",
    }
    (tmp_path / "kernel").mkdir()
    (tmp_path / "lab").mkdir()

    def start(cell: str) -> subprocess.Popen[bytes]:
        code = f"{PRELUDE}{WRITES}\nif __name__ == '__main__':\n{_inner(cell)}"
        (tmp_path / "kernel" / "ipykernel_launcher.py").write_text(code)
        kernels.append(
            subprocess.Popen(
                [sys.executable, "-m", "ipykernel_launcher", "-f", "kernel-7.json"],
                env=environment,
                cwd=tmp_path / "lab",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        )
        return kernels[-1]

    yield start
    for pid in descendants(procfs.list_pids()) - before:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for kernel in kernels:
        kernel.wait()


def _inner(cell: str) -> str:
    return "".join(f"    {line}\n" for line in cell.strip().splitlines())


def seen(ready: Callable[[list[ProcessRun]], object], losses: set[float]) -> tuple[Snapshot, list[ProcessRun]]:
    """Return a snapshot, and the runs in it, once they are ``ready`` and these losses were read, each from its own file."""
    sampler = Sampler(VirtualSource(2), 1.0)

    def read() -> tuple[Snapshot, list[ProcessRun]]:
        time.sleep(0.3)
        snapshot = Snapshot.from_json(sampler.take().to_json(compact=True))
        return snapshot, list(snapshot.process_runs)

    return eventually(read, lambda found: ready(found[1]) and losses == losses_in(found[0]))


def losses_in(snapshot: Snapshot) -> set[float]:
    return {rank.metrics["loss"] for run in snapshot.runs for rank in run.ranks if "loss" in rank.metrics}


def test_a_cell_that_trains_is_a_run_with_the_notebook_s_name_and_its_curve(notebook: Notebook) -> None:
    kernel = notebook(TRAINS)
    snapshot, (run,) = seen(lambda runs: len(runs) == 1 and runs[0].curves, {0.25})
    assert (run.name, run.launcher, [rank.pid for rank in run.ranks]) == ("flowers.ipynb", None, [kernel.pid])
    assert [curve.source for curve in run.curves] == ["TensorBoard"]
    (curve,) = [item for item in snapshot.runs if item.run_id == run.run_id]
    assert (curve.step, curve.ranks[0].metrics["loss"]) == (7, 0.25)


@pytest.mark.parametrize("cell", [FORKS, SPAWNS], ids=["forked", "spawned"])
def test_children_that_a_cell_starts_are_the_ranks_of_one_run(notebook: Notebook, cell: str) -> None:
    kernel = notebook(cell)

    def both_are_shown(runs: list[ProcessRun]) -> bool:
        return len(runs) == 1 and len(runs[0].ranks) == 2 and bool(runs[0].curves)

    snapshot, (run,) = seen(both_are_shown, {0.5, 1.5})
    assert run.name == "flowers.ipynb"
    assert run.launcher is not None
    assert (run.launcher.name, run.launcher.pid) == ("multiprocessing", kernel.pid)
    assert kernel.pid not in {rank.pid for rank in run.ranks}
    starts = {process.pid: process.started_at or 0.0 for process in snapshot.processes}
    assert run.started_at == min(starts[rank.pid] for rank in run.ranks)
    (curve,) = [item for item in snapshot.runs if item.run_id == run.run_id]
    assert {rank.metrics["loss"] for rank in curve.ranks} == {0.5, 1.5}
