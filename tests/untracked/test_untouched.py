"""Looking at a run that gputop did not start leaves it alone: stops, signals and tracers are counted, and what gputop calls."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gputop.agent.sampler import Sampler
from gputop.process import Process, ProcessRank, ProcessRun
from gputop.sources.host import unlisted as host_unlisted
from gputop.sources.virtual import VirtualSource
from gputop.where import untracked_places
from gputop.where.early_places import EarlyPlaces
from gputop.where.untracked import ask_process
from gputop.where.untracked_places import UntrackedPlaces
from tests.real_processes import see_only_own_processes
from tests.tracking.kit import eventually

COUNTS = """
import json, mmap, os, signal, sys, time
counts = {}
def count(number, frame):
    counts[number] = counts.get(number, 0) + 1
for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
    try:
        signal.signal(number, count)
    except (OSError, ValueError):
        pass
with open(sys.argv[1], "rb") as file:
    kept = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
with open("metrics.csv", "w") as file:
    file.write("step,loss\\n" + "".join(f"{step},{1 / step}\\n" for step in range(1, 20)))
print("ready", flush=True)
parent, traced = os.getppid(), 0
while os.getppid() == parent and not os.path.exists("enough"):
    sum(range(2000))
    traced += "TracerPid:\\t0\\n" not in open("/proc/self/status").read()
print(json.dumps({"signals": counts, "traced": traced}), flush=True)
"""
NOT_ALLOWED = 77
TRACES = f"""
import ctypes, sys, time
seize = 0x4206
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
if libc.ptrace(seize, int(sys.argv[1]), None, None):
    sys.exit({NOT_ALLOWED})
path = f"/proc/{{sys.argv[1]}}/stat"
def ticks():
    return sum(map(int, open(path).read().rpartition(")")[2].split()[11:13]))
until = ticks() + 10
while ticks() < until:
    time.sleep(0.01)
"""
"""Traces a process, without a stop, for as long as it takes to look at itself many times."""
TOUCHES = ("os.kill", "os.killpg", "signal.pthread_kill", "subprocess.Popen", "os.posix_spawn", "os.system", "os.exec")
READY_S = 60.0
touched: list[tuple[str, tuple[Any, ...]]] | None = None
others: frozenset[int | None] = frozenset()
"""Kernel ids of the threads that ran before the test: what an earlier test left behind does not look."""


def note(event: str, arguments: tuple[Any, ...]) -> None:
    if touched is None or not (event in TOUCHES or (event == "ctypes.dlsym" and arguments[1:] == ("ptrace",))):
        return
    if threading.get_native_id() not in others:
        touched.append((event, arguments))


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line that a process prints, waited for at most ``READY_S``."""
    assert process.stdout is not None
    lines: list[str] = []
    reader = threading.Thread(target=lambda out: lines.append(out.readline()), args=(process.stdout,), daemon=True)
    reader.start()
    reader.join(READY_S)
    assert lines, f"nothing was printed within {READY_S:.0f} s"
    return lines[0]


@pytest.fixture(scope="module")
def hook() -> None:
    """Python keeps an audit hook for good: it notes nothing outside these tests."""
    sys.addaudithook(note)


@pytest.fixture
def calls(hook: None) -> Iterator[list[tuple[str, tuple[Any, ...]]]]:
    """What this process did meanwhile that could touch another one."""
    global touched, others
    others = frozenset(map(int, os.listdir("/proc/self/task"))) - {threading.get_native_id()}
    touched = []
    yield touched
    touched = None


def stops_of(pid: int) -> object:
    """What the kernel has to tell of stops of a child; None if there was none."""
    return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WCONTINUED | os.WNOHANG)


def test_looking_stops_signals_and_traces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: list[tuple[str, tuple[Any, ...]]]
) -> None:
    see_only_own_processes(monkeypatch)
    monkeypatch.setattr(host_unlisted, "TRAINING_CPU_PERCENT", 3.0)
    monkeypatch.setattr(host_unlisted, "TRAINING_AGE_S", 0.0)
    library = tmp_path / "libtorch_cpu.so"
    library.write_bytes(b"not really\n")
    (tmp_path / "train.py").write_text(COUNTS)
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
    process = subprocess.Popen(
        [sys.executable, "train.py", str(library)], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert line_of(process) == "ready\n"
        calls.clear()
        sampler, places = Sampler(VirtualSource(1), 1.0), EarlyPlaces()

        def seen() -> bool:
            found = [run for run in sampler.take().process_runs if process.pid in {rank.pid for rank in run.ranks}]
            time.sleep(0.1)
            return bool(places.add(found)) and any(curve.source == "CSV" for run in found for curve in run.curves)

        eventually(seen, "it is shown with its curve", 60)
        assert [place.pid for place in ask_process(process.pid).ranks] == [process.pid]
        monkeypatch.setattr(untracked_places, "FIRST_S", 0.0)
        two = ProcessRun("launcher:1", "train.py", (ProcessRank(process.pid, 0), ProcessRank(os.getpid(), 1)))
        looks = UntrackedPlaces()
        for _ in range(2):
            looks.add((two,), [Process(process.pid, cpu_percent=0.0)])
        assert calls == []
        assert stops_of(process.pid) is None
        (tmp_path / "enough").touch()
        assert json.loads(line_of(process)) == {"signals": {}, "traced": 0}
        assert process.wait() == 0
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def test_the_counter_detects_what_it_should_count(calls: list[tuple[str, tuple[Any, ...]]]) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
    try:
        os.kill(process.pid, signal.SIGSTOP)
        eventually(lambda: stops_of(process.pid), "it stops")
        os.kill(process.pid, signal.SIGCONT)
        eventually(lambda: stops_of(process.pid), "it goes on")
        assert [event for event, _ in calls if event == "os.kill"] == ["os.kill"] * 2
    finally:
        process.kill()
        process.wait()


def test_the_target_counts_a_signal_and_a_tracer(tmp_path: Path) -> None:
    """What looks must not do either: the process that is looked at would tell."""
    (tmp_path / "library").write_bytes(b"not really\n")
    process = subprocess.Popen(
        [sys.executable, "-c", COUNTS, str(tmp_path / "library")], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    try:
        assert line_of(process) == "ready\n"
        os.kill(process.pid, signal.SIGRTMIN + 1)
        tracer = subprocess.run(
            [sys.executable, "-c", TRACES, str(process.pid)], capture_output=True, text=True, timeout=READY_S, check=False
        )
        if tracer.returncode == NOT_ALLOWED:
            pytest.skip("this system lets nobody trace")
        assert tracer.returncode == 0, tracer.stderr
        (tmp_path / "enough").touch()
        found = json.loads(line_of(process))
        assert found["signals"] == {str(int(signal.SIGRTMIN + 1)): 1}
        assert found["traced"] > 0
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def test_earlier_threads_are_not_counted(calls: list[tuple[str, tuple[Any, ...]]]) -> None:
    global others
    gates = [threading.Event(), threading.Event()]

    def signal_itself(gate: threading.Event) -> None:
        assert gate.wait(READY_S)
        os.kill(os.getpid(), 0)

    threads = [threading.Thread(target=signal_itself, args=(gate,), daemon=True) for gate in gates]
    for thread in threads:
        thread.start()
    others |= {threads[0].native_id}
    for thread, gate, expected in zip(threads, gates, (0, 1), strict=True):
        gate.set()
        thread.join(READY_S)
        assert not thread.is_alive()
        assert len(calls) == expected
