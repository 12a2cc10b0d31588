"""The self-test asks a real pynvml on the simulated driver and trains on a virtual GPU; its file becomes a machine."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from gputop.process import ProcessCurve, ProcessRank, ProcessRun
from gputop.selftest import trial
from gputop.selftest.bundle import bundle as bundle_of
from gputop.snapshot import Points
from tests import nvml_sim, samples
from tests.nvml_sim.from_selftest import scenario_of
from tests.packages import needs

GPUTOP = (sys.executable, "-m", "gputop")


def run(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*GPUTOP, *arguments], capture_output=True, text=True, env=env, timeout=240, check=False)


def selftest_on(scenario: nvml_sim.Scenario, place: Path) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    place.mkdir()
    env = nvml_sim.environment(scenario.write(place / "scenario"))
    done = run("selftest", "--no-training", "-o", str(place / "bundle.json"), env=env)
    assert "Traceback" not in done.stderr, done.stderr
    return done, json.loads((place / "bundle.json").read_text())


def test_answers_refusals_and_costs_of_a_driver_become_a_machine(tmp_path: Path) -> None:
    machine = nvml_sim.h100_in_a_vm().error(0, "nvmlDeviceGetComputeMode", 4)
    done, bundle = selftest_on(machine, tmp_path / "first")
    assert done.returncode == 0, done.stdout
    assert "SIMULATED" in done.stdout
    (gpu,) = bundle["gpus"]
    assert gpu["calls"]["nvmlDeviceGetFanSpeed"]["code"] == 3
    assert gpu["calls"]["nvmlDeviceGetMaxClockInfo"]["median_us"] >= 1700
    assert gpu["fields"]["83"]["median_us"] >= 4190
    assert gpu["calls"]["nvmlGpmMetricsGet"]["median_us"] >= 1740
    assert gpu["fields"]["138"]["code"] == 3, "a VM's GPU has no NVLink"
    assert gpu["readings"]["denied"] == ["compute_mode"]
    assert "DeviceGetFanSpeed" in done.stdout
    assert "field 138" in done.stdout

    assert_becomes_a_machine(bundle, tmp_path / "second")


def test_nothing_is_written_through_a_link_in_a_shared_folder(tmp_path: Path) -> None:
    (tmp_path / "bundle.json").symlink_to(tmp_path / "elsewhere")
    done = run("selftest", "--virtual", "1", "--no-training", "-o", str(tmp_path / "bundle.json"))
    assert done.returncode == 1
    assert "bundle.json already exists" in done.stderr
    assert not (tmp_path / "elsewhere").exists()


def assert_becomes_a_machine(bundle: dict[str, Any], place: Path) -> None:
    """Let the simulation play the machine of a self-test's file, and its self-test find the same there."""
    _, again = selftest_on(scenario_of(bundle), place)
    moves = {"energy_j"}
    for gpu, other in zip(bundle["gpus"], again["gpus"], strict=True):
        assert {name: value for name, value in other["readings"].items() if name not in moves} == {
            name: pytest.approx(value, rel=1e-6) if isinstance(value, float) else value
            for name, value in gpu["readings"].items()
            if name not in moves
        }
        assert {name: call["code"] for name, call in other["calls"].items()} == {
            name: call["code"] for name, call in gpu["calls"].items()
        }


@pytest.mark.parametrize("gpu", ["h100", "h200"])
def test_a_real_gpu_becomes_a_machine(tmp_path: Path, gpu: str) -> None:
    path = Path(__file__).parent.parent / "recordings" / f"{gpu}_selftest.json"
    assert_becomes_a_machine(json.loads(path.read_text()), tmp_path / "machine")


def test_the_file_does_not_identify_the_machine(tmp_path: Path) -> None:
    _, bundle = selftest_on(nvml_sim.h100_box(2, busy=1), tmp_path / "box")
    text = json.dumps(bundle)
    for name in (nvml_sim.Scenario.uuid(0), "GPU-", "00000000:", str(tmp_path)):
        assert name not in text
    for word in (socket.gethostname(), getpass.getuser(), str(Path.home())):
        assert f'"{word}"' not in text


@pytest.mark.parametrize(
    ("release", "kept"),
    [("6.8.0-45-example-cluster", "6.8.0"), ("5.14.0-427.13.1.el9_4.x86_64", "5.14.0"), ("6.1", "6.1"), ("example", None)],
)
def test_of_the_kernel_the_file_has_the_numbers_alone(release: str, kept: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.release", lambda: release)
    assert bundle_of(samples.snapshot().host, (), ())["kernel"] == kept


def test_a_hanging_driver_is_reported_with_the_call(tmp_path: Path) -> None:
    script = """
from gputop.selftest.driver import probe
from gputop.sources.nvml.calls import initialize

initialize()
found = probe(1, deadline_s=3)
print(found.finished, found.asking, found.device)
"""
    env = nvml_sim.environment(nvml_sim.one_hangs(1, 2, "nvmlDeviceGetFanSpeed").write(tmp_path / "scenario"))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, timeout=180, check=False)
    assert done.stdout.split() == ["False", "nvmlDeviceGetFanSpeed", "None"], done.stderr


def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    done = run("selftest", "-o", str(tmp_path / "bundle.json"))
    assert done.returncode == 3
    assert not (tmp_path / "bundle.json").exists()


@needs("torch")
def test_a_training_on_a_virtual_gpu_is_watched_and_judged(tmp_path: Path) -> None:
    path = tmp_path / "bundle.json"
    done = run("--virtual", "1", "selftest", "--for", "2s", "-o", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    (trial,) = json.loads(path.read_text())["trials"]
    assert {check["name"]: check["ok"] for check in trial["checks"]} == {
        "run": True,
        "loss": True,
        "process": True,
        "utilization": True,
        "doctor": None,
        "end": True,
    }
    assert len(trial["looks"]) > 3
    assert "FAILED" not in done.stdout
    again = run("--virtual", "1", "selftest", "-o", str(path))
    assert (again.returncode, again.stderr.count("\n")) == (1, 1), "a file is never written over"


@needs("torch")
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name
)
def test_its_training_does_not_outlive_it(number: signal.Signals, tmp_path: Path) -> None:
    # Under nohup, a child ignores SIGHUP, too.
    as_usual = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    command = [*GPUTOP, "--virtual", "1", "selftest", "--for", "10m", "-o", str(tmp_path / "bundle.json")]
    command = [sys.executable, "-c", as_usual, *command]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 60
        started: list[psutil.Process] = []
        while not any("single.py" in " ".join(child.cmdline()) for child in started if child.is_running()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
            started = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        process.wait(60)
        _, left = psutil.wait_procs(started, timeout=90)
        assert not left
        assert number == signal.SIGKILL or not list(tmp_path.glob("gputop-selftest-*")), "it leaves no folder behind"
    finally:
        process.kill()
        for child in started:
            with contextlib.suppress(psutil.Error):
                child.kill()


def test_other_trainings_on_the_machine_are_not_the_trial() -> None:
    own = samples.snapshot()
    other = samples.run(run_id="pid-1-2-aa", name="theirs", world_size=1, step=50)
    known = ProcessRun("pid:1", "theirs.py", (ProcessRank(1),), curves=(ProcessCurve(other.run_id, "output"),))
    points = Points(other.run_id, 0, "loss", (50,), (samples.EPOCH,), (7.25,))
    seen = trial._Seen()
    trial._note(seen, replace(own, runs=(other,), points=(points,), process_runs=(known,)), 0.0)
    assert (seen.run, seen.first_step_s, seen.losses) == (None, None, [])
    trial._note(seen, replace(own, runs=(other, *own.runs), points=(points, *own.points), process_runs=(known,)), 1.0)
    assert (seen.run, seen.first_step_s) == (own.runs[0], 1.0)
    assert seen.losses
    assert 7.25 not in seen.losses
