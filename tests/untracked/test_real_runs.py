"""Real runs that gputop did not start, as a snapshot shows them: torchrun, multiprocessing.spawn, and a plain Python."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.agent.sampler import Sampler
from gputop.cli.output.once import once_text
from gputop.doctor.evidence.rank_groups import RankGroups
from gputop.process import ProcessRun
from gputop.snapshot import Snapshot
from gputop.sources.host import procfs
from gputop.sources.host import unlisted as host_unlisted
from gputop.sources.virtual import VirtualSource
from gputop.untracked import curves
from tests import real_processes
from tests.real_processes import IDLE, MARKERS, PRELUDE, descendants, eventually

RANKS = """
import os, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
parent, until, value = os.getppid(), time.monotonic() + 120, torch.ones(1000)
while os.getppid() == parent and time.monotonic() < until:
    for _ in range(10):
        sum(range(20000))
    dist.all_reduce(value)
    time.sleep(0.01)
"""
SPAWNS = f"""
import multiprocessing
{PRELUDE}
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=train) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
"""
WRITES_EVENTS = f"""
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from pathlib import Path
from tests.untracked.files.writers import event_file
event_file(Path("runs/exp1"), os.getpid(), {{7: 0.25}}, at=time.time(), host=os.uname().nodename)
say("step 3/9 loss 0.5")
"""
SCRIPTS = {
    "ranks.py": RANKS,
    "spawn it.py": SPAWNS,
    "plain.py": f"{PRELUDE}\n{WRITES_EVENTS}\nsay('ready'); train()",
    "stuck.py": PRELUDE + IDLE,
}
STANDALONE = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
STUCK = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}


@pytest.fixture
def started(tmp_path: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """One process per script: the launcher of the ranks, the parent of spawned ranks, and standalone processes."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in MARKERS and not name.startswith(("GPUTOP_", "TORCHELASTIC_"))
    }
    library = tmp_path / "libtorch_cpu.so"
    library.write_bytes(b"not really\n")
    found, before = {}, descendants(procfs.list_pids())
    for name, code in SCRIPTS.items():
        (tmp_path / name).write_text(code)
        command = [sys.executable, *(STANDALONE if name == "ranks.py" else ()), str(tmp_path / name), "--lr", "0.1"]
        environment = kept | {"OMP_NUM_THREADS": "1", "TEST_MAPS": str(library)} | (STUCK if name == "stuck.py" else {})
        with (tmp_path / f"{name}.out").open("wb") as out:
            found[name] = subprocess.Popen(
                command, env=environment, cwd=tmp_path, stdout=out, stderr=out, start_new_session=True
            )
    yield found
    # torchrun starts its ranks in sessions of their own.
    every = descendants(procfs.list_pids()) - before
    for pid in every:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for process in found.values():
        process.wait()


def test_runs_of_every_kind_are_seen_with_their_ranks(
    started: dict[str, subprocess.Popen[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real_processes, "DEADLINE_S", 90.0)  # three processes import torch
    monkeypatch.setattr(host_unlisted, "TRAINING_CPU_PERCENT", 1.0)
    monkeypatch.setattr(host_unlisted, "TRAINING_AGE_S", 0.0)
    monkeypatch.setattr(curves, "RUNS_MAX", 64)  # other tests train, too
    monkeypatch.setattr(host_unlisted, "TRAINING_LINGER_S", 1.0)  # the parent of the spawned ranks is busy while it imports
    sampler = Sampler(VirtualSource(2), 1.0)

    snapshot = sampler.take()

    def read() -> dict[str, ProcessRun]:
        nonlocal snapshot
        time.sleep(0.3)
        snapshot = Snapshot.from_json(sampler.take().to_json(compact=True))
        mine = descendants(procfs.list_pids())
        return {run.name: run for run in snapshot.process_runs if {rank.pid for rank in run.ranks} & mine}

    sizes = {"ranks.py": 2, "spawn it.py": 2, "plain.py": 1, "stuck.py": 1}

    def all_are_seen(runs: dict[str, ProcessRun]) -> bool:
        return {name: len(run.ranks) for name, run in runs.items()} == sizes and len(runs["plain.py"].curves) == 2

    runs = eventually(read, all_are_seen)
    assert [(rank.rank, rank.local_rank, len(rank.devices)) for rank in runs["ranks.py"].ranks] == [(0, 0, 1), (1, 1, 1)]
    assert len(runs["ranks.py"].devices) == 2
    assert runs["ranks.py"].launcher is not None
    assert (runs["ranks.py"].launcher.name, runs["ranks.py"].launcher.pid) == ("torchrun", started["ranks.py"].pid)
    assert (runs["ranks.py"].world_size, runs["ranks.py"].missing_local_ranks, runs["ranks.py"].ranks_elsewhere) == (2, (), 0)
    assert runs["spawn it.py"].launcher is not None
    assert runs["spawn it.py"].launcher.name == "multiprocessing"
    assert runs["plain.py"].ranks[0].pid == started["plain.py"].pid
    assert (runs["stuck.py"].world_size, runs["stuck.py"].missing_local_ranks) == (2, (0,))
    found = runs["plain.py"].curves
    assert [curve.source for curve in found] == ["TensorBoard", "its output"]
    by_id = {run.run_id: run for run in snapshot.runs}
    shown = [by_id[curve.run_id] for curve in found]
    assert [(run.name, run.step, run.ranks[0].metrics["loss"]) for run in shown] == [
        ("plain.py", 7, 0.25),
        ("plain.py", 3, 0.5),
    ]
    assert [Path(curve.files[0]).parent.name for curve in found] == ["exp1", tmp_path.name]
    assert runs["plain.py"].run_id == found[0].run_id
    assert "plain.py, from TensorBoard running 1 7 0.25" in " ".join(once_text(snapshot).split())
    judged = RankGroups().of(snapshot)
    assert {curve.run_id for curve in found}.isdisjoint(group.run_id for group in judged), "judged by its process"
    for name, run in runs.items():
        assert run.command[0].endswith(name), json.dumps(run.command)
        assert run.command[1:] == ("--lr", "0.1")
        assert run.started_at is not None
        assert run.started_at <= time.time()
