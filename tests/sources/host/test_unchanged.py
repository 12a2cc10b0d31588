"""What a process that does not change costs: its line is read, and nothing is made of it again."""

from __future__ import annotations

import itertools
import operator
import os
import shlex
import signal
import sys
import time
from collections import Counter
from types import SimpleNamespace

import pytest

from gputop.snapshot import DeviceUse, Process
from gputop.sources.host import process_cache, procfs
from gputop.sources.host import reader as host_reader
from gputop.sources.host.process_cache import ProcessCache
from gputop.sources.host.reader import HostReader
from tests.real_processes import PRELUDE, Processes, eventually, see_only_own_processes

ASLEEP = "import select; say('ready'); select.select([], [], [], 120)"
WORKS_ON_SIGNAL = """
import select, signal
def work(*_):
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
signal.signal(signal.SIGUSR1, work)
say("ready")
select.select([], [], [], 120)
"""


@pytest.fixture(autouse=True)
def only_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    see_only_own_processes(monkeypatch)


def quick_clock(monkeypatch: pytest.MonkeyPatch, step_s: float = 0.001) -> None:
    """Let a millisecond pass between two readings, so that nothing is due that is not read every time."""
    clock = itertools.count(1000)
    monkeypatch.setattr(host_reader, "time", SimpleNamespace(**{**vars(time), "monotonic": lambda: next(clock) * step_s}))


def test_a_process_that_does_not_change_keeps_its_record(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    quick_clock(monkeypatch)
    asleep, _ = processes.ready(ASLEEP)
    reader = HostReader()

    def read(share: float) -> Process:
        use = DeviceUse("GPU-1", 2**30, share, "C")  # an equal one with every reading
        return reader.read_processes({asleep.pid: (use,)}, {})[0]

    # Once it sleeps: one that waits for a core of a busy machine does not change from one reading to the next either.
    first = eventually(lambda: (read(50.0), read(50.0)), lambda pair: pair[0] is pair[1] and pair[0].state == "S")[0]
    parsed: list[bytes] = []
    parse_stat = procfs.parse_stat
    monkeypatch.setattr(procfs, "parse_stat", lambda line: (parsed.append(line), parse_stat(line))[1])
    assert all(read(50.0) is first for _ in range(5))
    assert parsed == []
    busier = read(60.0)
    assert busier.devices[0].sm_utilization_percent == 60.0
    assert (busier.name, busier.state, busier.memory_rss_bytes) == (first.name, first.state, first.memory_rss_bytes)
    assert reader.read_processes({asleep.pid: busier.devices}, {asleep.pid: ("run", 3)})[0].rank == 3


def test_a_process_at_rest_keeps_its_record_from_second_to_second(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it waits for is read every second; a record that changed would be sent, parsed and judged again."""
    quick_clock(monkeypatch, 1.0)
    asleep, _ = processes.ready(ASLEEP)
    reader = HostReader()

    def read() -> list[Process]:
        return [reader.read_processes({asleep.pid: ()}, {})[0] for _ in range(4)]

    found = eventually(read, lambda four: all(record is four[0] for record in four) and four[0].waits_for == "sleep")
    assert (found[0].state, found[0].waits_read_s) == ("S", None)


def test_a_process_that_works_after_a_rest_has_the_share_of_the_last_second(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it rests, its record is not made again; its CPU time counts from the newest reading all the same."""
    quick_clock(monkeypatch, 1.0)
    monkeypatch.setattr(host_reader, "CROWD", 0.1)  # what takes long is read every 7 s
    working, _ = processes.ready(WORKS_ON_SIGNAL)
    reader = HostReader()

    def read() -> Process:
        return reader.read_processes({working.pid: ()}, {})[0]

    eventually(lambda: [read() for _ in range(4)], lambda four: all(record is four[0] for record in four))
    before = procfs.read_stat(working.pid)
    assert before is not None
    working.send_signal(signal.SIGUSR1)
    after = eventually(
        lambda: procfs.read_stat(working.pid),
        lambda now: now is not None and now.cpu_ticks >= before.cpu_ticks + 25 and now.state == "S",
    )
    assert after is not None
    assert read().cpu_percent == 100 * (after.cpu_ticks - before.cpu_ticks) / procfs.TICKS_PER_S
    assert read().cpu_percent == 0.0


def test_the_records_fields_are_in_their_places(processes: Processes) -> None:
    """The record is made from values by position: two of one type could be confused."""
    asleep, _ = processes.ready(ASLEEP, RANK="5", WORLD_SIZE="8")
    reader = HostReader()
    process = reader.read_processes({asleep.pid: ()}, {asleep.pid: ("run", 5)})[0]
    life = reader._lives[asleep.pid]
    stat, evidence, threads = life.facts.stat, life.evidence, life.threads
    assert threads is not None
    assert (process.pid, process.ppid, process.uid, process.user) == (asleep.pid, os.getpid(), life.uid, life.user)
    assert (process.name, process.state, process.memory_rss_bytes) == (stat.comm, stat.state, stat.rss_bytes)
    assert (process.started_at, process.container, process.in_namespace) == (life.started_at, life.container, True)
    assert (process.ancestors, process.launcher, process.command) == (life.ancestors, life.launcher, life.command)
    assert (process.torch_mapped, process.torch_cuda_mapped, process.nvidia_open) == (True, False, evidence.nvidia_open)
    assert (process.run_id, process.rank, process.hidden, process.environment) == ("run", 5, (), life.facts.environment)
    assert (process.threads, process.autograd_threads, process.cores_used) == (threads.named, threads.autograd, threads.cores)
    assert (process.thread_count, process.main_thread_cpu_percent) == (stat.threads, threads.main_cpu_percent)
    assert (process.read_bytes, process.written_bytes) == (evidence.read_bytes, evidence.written_bytes)
    assert (process.involuntary_switches, process.cores_allowed) == (evidence.involuntary_switches, evidence.cores_allowed)
    assert (process.waits_in, process.waits_for, process.waits_read_s) == (
        evidence.waits_in,
        evidence.waits_for,
        evidence.waits_read_s,
    )
    assert (process.files_written, process.workers, process.cpu_percent) == (evidence.files_written, None, life.cpu_percent)


def test_the_program_of_a_process_is_read_until_it_is_known(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[int] = Counter()
    program = process_cache._program
    monkeypatch.setattr(process_cache, "_program", lambda pid, uid: (asked.update([pid]), program(pid, uid))[1])
    asleep, _ = processes.ready(ASLEEP)
    known = ProcessCache()
    for second in range(6):
        assert asleep.pid in {facts.stat.pid for facts in known.pythons(float(second), 1.0)}
    assert asked[asleep.pid] == 2


@pytest.mark.parametrize("looks", [1, 2, 4])
def test_a_process_that_runs_another_program_is_asked_again(processes: Processes, looks: int) -> None:
    gates = [processes.folder / name for name in ("first", "second")]
    shell = f'while [ ! -e {gates[1]} ]; do sleep 0.05; done; exec {shlex.quote(sys.executable)} -c "$CODE"'
    become = f"""
say("ready")
while not os.path.exists({str(gates[0])!r}):
    time.sleep(0.05)
os.execv("/bin/sh", ["/bin/sh", "-c", {shell!r}])
"""
    child, _ = processes.ready(become, CODE=PRELUDE + ASLEEP)
    known = ProcessCache()
    seconds = itertools.count()

    def is_python() -> bool:
        return child.pid in {facts.stat.pid for facts in known.pythons(float(next(seconds)), 1.0)}

    assert all(is_python() for _ in range(looks))
    for gate, wanted in zip(gates, (False, True), strict=True):
        gate.touch()
        eventually(is_python, bool if wanted else operator.not_)
        assert all(found is wanted for found in (is_python(), is_python(), is_python()))
