"""``gputop where`` without a name: the newest live run, one that gputop does not track where no other is alive."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests import nvml_sim

WHERE = (sys.executable, "-m", "gputop", "where")
ALONE = ("unshare", "--pid", "--fork", "--mount-proc")


def asked(machine: nvml_sim.Scenario, folder: Path, *within: str) -> subprocess.CompletedProcess[str]:
    env = nvml_sim.environment(machine.write(folder))
    return subprocess.run((*within, *WHERE), capture_output=True, text=True, env=env, timeout=180, check=False)


def skip_beside_another(done: subprocess.CompletedProcess[str], ours: int) -> None:
    """Skip where somebody else trains on this machine, and began later than we did: then that is the newest run."""
    found = re.search(r"process (\d+)", done.stdout)
    if found is None or int(found[1]) == ours:
        return
    began = psutil.Process(ours).create_time()
    if psutil.pid_exists(int(found[1])) and psutil.Process(int(found[1])).create_time() > began:
        pytest.skip(f"a newer training is on this machine: {done.stdout.splitlines()[0]}")


@pytest.mark.alone  # the trainings of other tests are untracked runs, too
def test_without_a_tracked_run_the_newest_untracked_one_is_meant(tmp_path: Path) -> None:
    started = []
    for name in ("older.py", "train.py"):
        (tmp_path / name).write_text("import time\ntime.sleep(600)\n")
        started.append(subprocess.Popen([sys.executable, str(tmp_path / name)]))
        time.sleep(0.05)  # the kernel counts the start of a process in hundredths of a second
    older, training = started
    try:
        machine = nvml_sim.h100_box(2).process(0, older.pid).process(1, training.pid)
        done = asked(machine, tmp_path / "scenario")
        skip_beside_another(done, training.pid)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("train.py\n")
        assert "process" in done.stdout
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_where_nothing_trains_says_so(tmp_path: Path) -> None:
    if subprocess.run((*ALONE, "true"), capture_output=True, check=False).returncode:
        pytest.skip("a namespace without the other processes of this machine cannot be made here (not root)")
    done = asked(nvml_sim.h100_box(1), tmp_path / "scenario", *ALONE)
    assert done.returncode == 2
    assert done.stderr == "gputop: There is no live run. gputop where PID asks about any process.\n"
