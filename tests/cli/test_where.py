"""``gputop where`` without a name: the newest live run, one that gputop does not track where no other is alive."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gputop.cli.where import live_runs
from gputop.command_line import is_spawned
from gputop.sources.host import procfs
from tests import REPOSITORY, nvml_sim, samples
from tests.tracking.kit import eventually

WHERE = (sys.executable, "-m", "gputop", "where")
ALONE = (
    ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child"),
    ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"),
)
"""Ways to run a command in a PID namespace of its own, without the other processes of this machine."""
OTHER_USER = 65534
SLEEPS = "import time\ntime.sleep(600)\n"


@pytest.fixture(scope="module")
def alone() -> tuple[str, ...]:
    for command in ALONE:
        if subprocess.run((*command, "true"), capture_output=True, check=False).returncode == 0:
            return command
    pytest.skip("no PID namespace can be created here")


MPIRUN = """
for rank in 0 1; do
    OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=2 "$PYTHON" "$SCRIPT" &
done
wait
"""
SPAWNS = """
import torch.multiprocessing, time
def rank(number):
    time.sleep(600)
if __name__ == "__main__":
    torch.multiprocessing.spawn(rank, nprocs=2)
"""


def ask(machine: nvml_sim.Scenario, folder: Path, *about: str) -> subprocess.CompletedProcess[str]:
    env = nvml_sim.environment(machine.write(folder)) | {"GPUTOP_DIR": str(folder.parent / "state")}
    return subprocess.run((*WHERE, *about), capture_output=True, text=True, env=env, timeout=180, check=False)


def within(alone: tuple[str, ...], name: str, folder: Path) -> None:
    """Run a function of this module in the namespace: the PIDs that the driver lists are those of the namespace."""
    code = f"from pathlib import Path; from tests.cli import test_where; test_where.{name}(Path({str(folder)!r}))"
    subprocess.run((*alone, sys.executable, "-c", code), check=True, cwd=REPOSITORY, timeout=300)


def test_without_a_tracked_run_the_newest_untracked_one_of_this_user_is_meant(alone: tuple[str, ...], tmp_path: Path) -> None:
    within(alone, "ask_for_the_newest", tmp_path)


def ask_for_the_newest(folder: Path) -> None:
    started = []
    for name in ("older.py", "train.py"):
        (folder / name).write_text(SLEEPS)
        started.append(subprocess.Popen([sys.executable, str(folder / name)]))
        time.sleep(0.05)  # the kernel counts the start of a process in hundredths of a second
    training = started[1]
    machine = nvml_sim.h100_box(4).process(0, started[0].pid).process(1, training.pid)
    done = ask(machine, folder / "scenario")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"train.py\n  process {training.pid}: ")

    (folder / "paused.py").write_text(SLEEPS)
    paused = subprocess.Popen([sys.executable, str(folder / "paused.py")])
    paused.send_signal(signal.SIGSTOP)
    machine.process(2, paused.pid)
    if os.getuid() == 0 and Path("/proc/self/uid_map").read_text().split()[2] != "1":  # other users exist in this namespace
        time.sleep(0.05)
        machine.process(3, subprocess.Popen(["sleep", "600"], user=OTHER_USER).pid)
    assert ask(machine, folder / "scenario").stdout.startswith("train.py\n"), "neither a stopped one nor another user's"
    for process in started:
        process.kill()
        process.wait()
    assert ask(machine, folder / "scenario").stdout.startswith("paused.py\n"), "this user's, though it is stopped"


@pytest.mark.parametrize("launcher", ["mpirun", "spawn"])
def test_all_ranks_of_an_untracked_run_are_told(alone: tuple[str, ...], launcher: str, tmp_path: Path) -> None:
    """Their environment at launch has no RANK, so only the first of two ranks was shown."""
    within(alone, f"ask_for_ranks_of_{launcher}", tmp_path)


def ask_for_ranks_of_mpirun(folder: Path) -> None:
    (folder / "train.py").write_text(SLEEPS)
    env = os.environ | {"PYTHON": sys.executable, "SCRIPT": str(folder / "train.py")}
    launcher = subprocess.Popen(["mpirun", "-c", MPIRUN], executable="/bin/sh", env=env)
    ranks = eventually(lambda: found if len(found := procfs.read_children(launcher.pid)) == 2 else None, "its ranks")
    machine = nvml_sim.h100_box(2).process(0, ranks[0]).process(1, ranks[1])
    for about in ((), ("train.py",), (str(launcher.pid),), (str(ranks[1]),)):
        done = ask(machine, folder / "scenario", *about)
        assert done.stdout.startswith("train.py"), (about, done)
        told = [line.partition(":")[0] for line in done.stdout.splitlines() if line.startswith(("  rank ", "  ranks "))]
        assert sorted(re.findall(r"\d+", " ".join(told))) == ["0", "1"], (about, done)
    assert ask(machine, folder / "scenario", "other.py").stderr.startswith("gputop: There is no run 'other.py'.")


def ask_for_ranks_of_spawn(folder: Path) -> None:
    (folder / "train.py").write_text(SPAWNS)
    parent = subprocess.Popen([sys.executable, str(folder / "train.py")])

    def spawned() -> list[int] | None:
        found = [pid for pid in procfs.read_children(parent.pid) if is_spawned(procfs.command_line_of(pid))]
        return found if len(found) == 2 else None

    ranks = eventually(spawned, "its ranks", within_s=120)
    machine = nvml_sim.h100_box(2).process(0, ranks[0]).process(1, ranks[1])
    for about in ((), ("train.py",), (str(parent.pid),), (str(ranks[1]),)):
        done = ask(machine, folder / "scenario", *about)
        assert done.stdout.startswith("train.py"), (about, done)
        # While one of them still starts, it stands in a line of its own.
        told = [line for line in done.stdout.splitlines() if line.startswith(("  process ", "  processes "))]
        assert {int(pid) for line in told for pid in re.findall(r"\d+", line.partition(":")[0])} == set(ranks), (about, done)


def test_a_run_of_another_machine_is_meant_only_if_there_is_none_here() -> None:
    """A home directory that machines share holds the runs of all of them."""
    local = samples.run(run_id="here")
    far = replace(local, run_id="there", ranks=tuple(replace(rank, elsewhere=True) for rank in local.ranks))
    part = replace(local, run_id="both", ranks=(*far.ranks[:2], *local.ranks[2:]))
    ended = samples.run(run_id="ended", state="finished")
    assert [run.run_id for run in live_runs((far, ended, part, local))] == ["both", "here", "there"]


def test_where_nothing_trains_says_so(alone: tuple[str, ...], tmp_path: Path) -> None:
    within(alone, "ask_for_nothing", tmp_path)


def ask_for_nothing(folder: Path) -> None:
    done = ask(nvml_sim.h100_box(1), folder / "scenario")
    assert done.returncode == 2
    assert done.stderr == "gputop: There is no live run. gputop where PID asks about any process.\n"
