"""``gputop where`` without a name: the newest live run, one that gputop does not track where no other is alive."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests import nvml_sim

WHERE = (sys.executable, "-m", "gputop", "where")


def test_without_a_tracked_run_the_newest_untracked_one_is_meant(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import time\ntime.sleep(600)\n")
    training = subprocess.Popen([sys.executable, str(script)])
    try:
        machine = nvml_sim.h100_box(1).process(0, training.pid)
        env = nvml_sim.environment(machine.write(tmp_path / "scenario"))
        done = subprocess.run(WHERE, capture_output=True, text=True, env=env, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("train.py\n")
        assert "process" in done.stdout

        env = nvml_sim.environment(nvml_sim.h100_box(1).write(tmp_path / "empty"))
        done = subprocess.run(WHERE, capture_output=True, text=True, env=env, timeout=60, check=False)
        assert done.returncode == 2
        assert done.stderr == "gputop: There is no live run. gputop where PID asks about any process.\n"
    finally:
        training.kill()
        training.wait()
