"""The stream, end to end: the real agent and command line against the simulated driver, and without any driver."""

from __future__ import annotations

import array
import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gputop.agent.sampler import Sampler
from gputop.agent.source import NoSource
from gputop.snapshot import Problem, Snapshot
from tests import nvml_sim
from tests.patience import DEADLINE_S
from tests.real_processes import eventually
from tests.sources.nccl.test_ras import Ras
from tests.sources.nccl.test_ras import job as ras_job
from tests.sources.nccl.test_ras import rank as ras_rank

GPUTOP = [sys.executable, "-m", "gputop"]


def run(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*GPUTOP, *arguments], capture_output=True, text=True, env=env, timeout=180, check=False)


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    """A process that the simulated GPUs can show."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def h100(tmp_path: Path, worker: subprocess.Popen[bytes]) -> dict[str, str]:
    """The environment in which eight H100s exist; the first three work, for one process."""
    path = nvml_sim.h100_box(8, busy=3, pids=(worker.pid,)).write(tmp_path / "scenario")
    return nvml_sim.environment(path)


class Agent:
    """A running ``gputop agent``."""

    def __init__(self, *arguments: str, env: dict[str, str] | None = None, command: Sequence[str] = (*GPUTOP, "agent")) -> None:
        self.process = subprocess.Popen(
            [*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
        )

    def next(self) -> Snapshot:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read().decode() if self.process.stderr else ""
        return Snapshot.from_json(line)

    def send(self, **command: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        self.process.stdin.flush()

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


def test_once_and_json_show_the_machine(h100: dict[str, str], worker: subprocess.Popen[bytes]) -> None:
    done = run("--once", "--json", env=h100)
    assert done.returncode == 0, done.stderr
    snapshot = Snapshot.from_json(done.stdout)
    assert [device.utilization_percent for device in snapshot.devices] == [98.0] * 3 + [0.0] * 5
    assert snapshot.devices[0].memory_used_bytes == int(71.2 * nvml_sim.GIB)
    assert snapshot.host.simulated
    assert snapshot.host.driver_version == "580.95.05-sim"
    (process,) = (process for process in snapshot.processes if process.pid == worker.pid)
    assert process.devices[0].device_uuid == snapshot.devices[0].uuid
    assert process.command is not None
    assert "time.sleep(600)" in " ".join(process.command)

    text = run("--once", env=h100)
    assert text.returncode == 0, text.stderr
    assert "SIMULATED" in text.stdout
    assert "71.2/80.0 GiB" in text.stdout
    assert str(worker.pid) in text.stdout
    assert run(env=h100).stdout.splitlines()[2:5] == text.stdout.splitlines()[2:5]  # no terminal: as --once


def test_once_waits_for_what_a_driver_takes_milliseconds_to_say(tmp_path: Path) -> None:
    env = nvml_sim.environment(nvml_sim.h100_in_a_vm().write(tmp_path / "real"))
    (device,) = Snapshot.from_json(run("--once", "--json", env=env).stdout).devices
    limits = (device.temperature_slowdown_c, device.temperature_shutdown_c, device.power_limit_w, device.sm_clock_max_mhz)
    assert (device.temperature_c, *limits) == (35, 89, 95, 700, 1980)
    assert (device.sm_clock_mhz, device.ecc_uncorrected, device.sm_activity_percent) == (345, 0, 0)
    assert (device.nvlinks_active, device.nvlink_rx_bytes_per_s, device.numa_node) == (None, None, None)
    assert device.energy_j is not None


def test_gpus_are_chosen_by_index_and_uuid(h100: dict[str, str]) -> None:
    both = Snapshot.from_json(run("--once", "--json", "-g", f"2,{nvml_sim.Scenario.uuid(5)[:12]}", env=h100).stdout)
    assert [device.index for device in both.devices] == [2, 5]
    wrong = run("--once", "-g", "11", env=h100)
    assert wrong.returncode == 2
    assert "There is no GPU '11' here." in wrong.stderr


def test_the_agent_streams_and_obeys(h100: dict[str, str]) -> None:
    with Agent("-i", "100ms", env=h100) as agent:
        first = [agent.next() for _ in range(3)]
        assert [snapshot.sequence for snapshot in first] == [0, 1, 2]
        assert all(len(snapshot.devices) == 8 for snapshot in first)
        agent.send(interval_s=30.0)
        snapshot = agent.next()
        while snapshot.interval_s != 30.0:
            snapshot = agent.next()
        agent.process.stdin.write(b"garbage\n[]\n")
        agent.send(interval_s=0.1)
        assert agent.next().sequence > snapshot.sequence


def test_the_agent_measures_pcie_throughput_where_it_costs_something_only_while_asked(tmp_path: Path) -> None:
    path = nvml_sim.a100_box(1).write(tmp_path / "scenario")
    with Agent("-i", "200ms", env=nvml_sim.environment(path)) as agent:

        def until(source: str | None) -> None:
            deadline = time.monotonic() + DEADLINE_S
            while time.monotonic() < deadline:
                if any(device.pcie_throughput_source == source for device in agent.next().devices):
                    return
            raise AssertionError(f"the source never became {source}")

        until(None)
        agent.send(pcie=True)
        until("blocking")
        agent.send(pcie=False)
        until(None)


def test_the_agent_ends_with_its_parent(h100: dict[str, str]) -> None:
    with Agent("-i", "100ms", env=h100) as agent:
        agent.next()
        agent.process.stdin.close()
        assert agent.process.wait(DEADLINE_S) == 0
        agent.process.stdin = None


def test_the_agent_ends_without_a_reader(h100: dict[str, str]) -> None:
    with Agent("-i", "100ms", env=h100) as agent:
        agent.next()
        agent.process.stdout.close()
        assert agent.process.wait(DEADLINE_S) == 0


def test_a_hanging_driver_call_leaves_the_rest_alive(tmp_path: Path, h100: dict[str, str]) -> None:
    with Agent("-i", "100ms", env=h100) as agent:
        assert agent.next().devices[1].state == "ok"
        nvml_sim.h100_box(8, busy=3).hang(1).write(tmp_path / "scenario")
        deadline = time.monotonic() + 60
        snapshot = agent.next()
        while snapshot.devices[1].state != "stale" and time.monotonic() < deadline:
            snapshot = agent.next()
        assert snapshot.devices[1].state == "stale"
        nvml_sim.h100_box(8, busy=8).hang(1).write(tmp_path / "scenario")
        while snapshot.devices[7].utilization_percent != 98.0 and time.monotonic() < deadline:
            snapshot = agent.next()
        assert snapshot.devices[7].utilization_percent == 98.0
        agent.process.stdin.close()
        assert agent.process.wait(DEADLINE_S) == 0, "a thread in the driver must not keep the agent"
        agent.process.stdin = None


def test_an_agent_without_a_reader_ends_with_its_parent(h100: dict[str, str]) -> None:
    """The other end of the pipe may stay open, in a process that the parent started."""
    with Agent("-i", "100ms", env=h100) as agent:
        agent.next()
        pipe = agent.process.stdout
        room, deadline = fcntl.fcntl(pipe, 1032), time.monotonic() + 60  # F_GETPIPE_SZ
        waiting, seen = array.array("i", [0]), [0] * 20
        while waiting[0] < room // 2 or len(set(seen)) > 1:  # a second without a byte: pages are not always filled to their end
            assert time.monotonic() < deadline, f"{waiting[0]} of {room} bytes are full"
            fcntl.ioctl(pipe, termios.FIONREAD, waiting)
            seen = [*seen[1:], waiting[0]]
            time.sleep(0.05)
        agent.process.stdin.close()
        assert agent.process.wait(DEADLINE_S) == 0
        agent.process.stdin = None


@pytest.mark.parametrize(
    ("scenario", "words"),
    [(nvml_sim.driver_mismatch(), "version"), (nvml_sim.driver_not_loaded(), "not loaded")],
    ids=["mismatch", "not-loaded"],
)
def test_a_missing_driver_is_reported_with_exit_code_3(tmp_path: Path, scenario: nvml_sim.Scenario, words: str) -> None:
    env = nvml_sim.environment(scenario.write(tmp_path / "scenario"))
    done = run("--once", env=env)
    assert done.returncode == 3
    assert words in done.stdout
    data = json.loads(run("--json", env=env).stdout)
    assert data["devices"] == []
    assert data["host"]["problem"]["hint"]
    assert run("pick", env=env).returncode == 3


def test_virtual_gpus_when_asked_for() -> None:
    done = run("--once", "--json", "--virtual", "3")
    assert done.returncode == 0, done.stderr
    snapshot = Snapshot.from_json(done.stdout)
    assert [device.kind for device in snapshot.devices] == ["virtual"] * 3
    assert snapshot.host.source == "virtual"
    assert snapshot.devices[0].power_w is None


def test_stream_counts_and_survives_head(h100: dict[str, str]) -> None:
    done = run("--stream", "-n", "3", "-i", "100ms", env=h100)
    assert [Snapshot.from_json(line).sequence for line in done.stdout.splitlines()] == [0, 1, 2]
    pipe = f"{shlex.quote(sys.executable)} -m gputop --stream -i 100ms | head -n 2"
    piped = subprocess.run(pipe, shell=True, env=h100, capture_output=True, text=True, timeout=180, check=False)
    assert len(piped.stdout.splitlines()) == 2
    assert piped.stderr == ""


def test_record_then_replay_is_the_same_stream(tmp_path: Path, h100: dict[str, str]) -> None:
    file = tmp_path / "r.ndjson"
    recorder = subprocess.Popen([*GPUTOP, "record", str(file), "-i", "100ms"], env=h100, stderr=subprocess.PIPE)
    deadline = time.monotonic() + DEADLINE_S
    while (not file.exists() or file.read_bytes().count(b"\n") < 4) and time.monotonic() < deadline:
        time.sleep(0.05)
    recorder.send_signal(signal.SIGINT)
    assert recorder.wait(DEADLINE_S) == 0
    recorder.stderr.close()
    replayed = run("replay", str(file))
    assert replayed.returncode == 0, replayed.stderr
    assert replayed.stdout.splitlines() == file.read_text().splitlines()[1:]
    assert run("record", str(file), env=h100).returncode == 1, "a recording is never overwritten"
    assert run("replay", "/dev/null").returncode == 0


def test_waiting_for_events_does_not_delay_the_exit(tmp_path: Path) -> None:
    hanging = nvml_sim.h100_box(1).hang("*", "nvmlEventSetWait_v2").write(tmp_path / "scenario")
    done = run("--once", "--json", env=nvml_sim.environment(hanging))  # at most 60 s, and the call never returns
    assert done.returncode == 0, done.stderr
    assert Snapshot.from_json(done.stdout).devices[0].state == "ok"


NCCL_RANK = """
import sys, threading, time
def watchdog():
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as file:
        file.write("pt_nccl_watchdg")
    time.sleep(600)
threading.Thread(target=watchdog, daemon=True).start()
time.sleep(600)
"""


ASKING_AGENT = """
from gputop.agent import nccl_turns, serving
nccl_turns.QUIET_S = 0.0
serving.main(0.1, None, (), "requested")
"""


def test_nccl_is_asked_on_request_only_and_what_it_says_comes_with_the_stream(tmp_path: Path) -> None:
    with Ras("") as ras:
        settings = {"NCCL_RAS_ADDR": f"127.0.0.1:{ras.address[1]}", "NCCL_DEBUG": "WARN", "MASTER_PORT": "29501"}
        # The service is the rank's: a process that listens there and is not known is never asked.
        rank = subprocess.Popen([sys.executable, "-c", NCCL_RANK], env=os.environ | settings, pass_fds=[ras.socket.fileno()])
        ras.answer = ras_job(0xCF264AF53EDBE986, ras_rank(0, rank.pid, all_reduce=7))
        scenario = nvml_sim.h100_box(2, pids=(rank.pid,)).near(0, "0-1", 0).write(tmp_path / "scenario")
        environment = nvml_sim.environment(scenario)
        deadline = time.monotonic() + DEADLINE_S
        try:
            with Agent("-i", "100ms", env=environment) as agent:
                seen = 0
                while seen < 5 and time.monotonic() < deadline:
                    seen += any(process.threads for process in agent.next().processes if process.pid == rank.pid)
            assert (seen, ras.asked) == (5, 0)
            with Agent(env=environment, command=[sys.executable, "-c", ASKING_AGENT]) as agent:
                snapshot = agent.next()
                while not snapshot.communicators and time.monotonic() < deadline:
                    snapshot = agent.next()
        finally:
            rank.kill()
            rank.wait()
    (communicator,) = snapshot.communicators
    assert communicator.communicator_id == "cf264af53edbe986"
    assert communicator.ranks[0].counts["AllReduce"] == 7
    (process,) = (process for process in snapshot.processes if process.pid == communicator.ranks[0].pid)
    assert process.threads == (("pt_nccl_watchdg", 1),)
    assert process.environment is not None
    assert process.environment.master_port == 29501
    assert ("NCCL_DEBUG", "WARN") in process.environment.settings
    assert snapshot.devices[0].cpu_affinity == (0, 1)
    assert snapshot.host.memory_available_bytes is not None


def test_pick_gives_the_freest(h100: dict[str, str]) -> None:
    assert run("pick", "-n", "2", "--index", env=h100).stdout.strip() == "3,4"
    assert run("pick", env=h100).stdout.strip() == nvml_sim.Scenario.uuid(3)
    many = run("pick", "-n", "6", "--free", "20", env=h100)
    assert many.returncode == 2
    assert "Only 5 of 8" in many.stderr


@pytest.mark.parametrize(
    "arguments",
    ["--interval fast", "-i 0", "--gpu", "dance", "replay /nonexistent", "runs show nobody", "logs x", "demo dance"],
)
def test_wrong_usage_is_reported_in_one_line(arguments: str) -> None:
    done = run(*arguments.split(), env={**os.environ, "COLUMNS": "80"})
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert done.stderr.startswith("gputop: ")


NOT_FOR_GPUS_ALONE = (
    *("gputop.tracking.reader.runs", "gputop.tracking.reader.leftovers", "gputop.facts.table", "gputop.sources.virtual"),
    *("gputop.sources.nccl.ras", "socket", "csv", "gputop.untracked.files.tensorboard", "gputop.untracked.files.wandb"),
)


def test_one_reading_of_a_machine_without_runs_imports_no_reader_of_runs(h100: dict[str, str]) -> None:
    command = [sys.executable, "-X", "importtime", *GPUTOP[1:], "--once"]

    def imported() -> set[str]:
        done = subprocess.run(command, capture_output=True, text=True, env=h100, timeout=180, check=False)
        assert "71.2/80.0 GiB" in done.stdout
        return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}

    # Another test may run a training at the moment.
    found = eventually(imported, lambda found: not found.intersection(NOT_FOR_GPUS_ALONE), pause_s=2.0)
    assert "gputop.agent.sampler" in found


def test_what_a_live_tracked_run_prints_is_read_if_it_is_no_job(tmp_path: Path) -> None:
    code = "import gputop\nrun = gputop.init(name='full', autolog=False)\nrun.log(loss=2.0)\nfor text in iter(input, 'end'):"
    code += " print(text)"
    with (tmp_path / "train.log").open("w") as out:
        process = subprocess.Popen([sys.executable, "-uc", code], stdin=subprocess.PIPE, stdout=out, text=True)
    sampler = Sampler(NoSource(Problem("no_gpu", "No GPU.", "")), 1.0)
    try:
        eventually(lambda: sampler.take(), lambda _: sampler._lasting is not None and sampler._lasting._known)
        assert process.stdin is not None
        process.stdin.write("WARNING not saved: [Errno 28] No space left on device\nstep 2 loss 1.9\n")
        process.stdin.flush()
        found = eventually(lambda: sampler.take(), lambda found: found.logs)
        (run_id,) = (run.run_id for run in found.runs if run.name == "full")
        assert [(match.pattern, match.run_id) for match in found.logs] == [("disk_full", run_id)]
    finally:
        process.communicate("end\n")


def test_a_first_run_is_found_by_a_sampler_that_has_seen_none() -> None:
    sampler = Sampler(NoSource(Problem("no_gpu", "No GPU.", "")), 1.0)

    def tracked() -> list[str]:
        return [run.name for run in sampler.take().runs if run.run_id not in sampler.listed_curves]

    assert [tracked() for _ in range(3)] == [[]] * 3
    code = "import gputop\nrun = gputop.init(name='first', autolog=False)\nrun.log(loss=2.0)\nrun.finish()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=180)
    snapshot = sampler.take()
    (first,) = (run for run in snapshot.runs if run.name == "first")
    assert [points.values for points in snapshot.points if points.run_id == first.run_id] == [(2.0,)]
    assert tracked() == ["first"]
