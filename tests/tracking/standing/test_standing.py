"""What a rank reports about its place, what it takes from its process for that, and that it gives it back."""

from __future__ import annotations

import json
import os
import random
import struct
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gputop.tracking.journal import format as form
from gputop.tracking.journal.writing.mapping import private
from gputop.tracking.reader.runs import RunReader
from gputop.tracking.standing import early, page
from gputop.tracking.standing.counters import Counters
from gputop.tracking.standing.stack import Frame, where
from tests.facts.checks import assert_facts
from tests.tracking.kit import DEADLINE_S, Home, eventually, home

assert home
pytestmark = pytest.mark.interpreter

SAID = {"at": 3.0, "since": 1.0, "line": "trän.py:88"}
PAGE = page.Page(5, 6, 7, 55, 9, SAID)


def raw(ring: memoryview) -> bytes:
    return bytes(ring[form.STANDING_OFFSET : form.STANDING_OFFSET + form.STANDING_BYTES])


def test_what_is_written_is_read_and_garbage_is_nothing() -> None:
    ring = private(form.HEADER_BYTES)
    assert page.parse(raw(ring)) is None, "an older gputop leaves zeros"
    assert page.parse(b"") is None
    assert page.write(ring, PAGE)
    assert page.parse(raw(ring)) == PAGE
    assert not page.write(ring, page.Page(1, 1, 1, 0, -1, {"stack": ["x" * 990]})), "it is never longer than its place"
    assert page.parse(raw(ring)) == PAGE
    struct.pack_into("<q", ring, form.STANDING_OFFSET, 3)
    assert page.parse(raw(ring)) is None, "being written"
    rng = random.Random(3)
    page.write(ring, PAGE)
    whole = raw(ring)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.randrange(100)] = rng.randrange(256)
        found = page.parse(bytes(damaged))
        assert found is None or found.said == SAID


TORCH = "/x/site-packages/torch/distributed/distributed_c10d.py"


def test_the_collective_is_the_one_that_the_script_has_called() -> None:
    own = Frame("/home/x/train.py", 88, "train_step")
    calls = [Frame(TORCH, 1, "all_gather"), Frame("/x/site-packages/torch/distributed/c10d_logger.py", 83, "wrapper")]
    calls += [Frame(TORCH, 2, "all_gather_object"), own]
    found = where(calls, lambda path: "site-packages" in path)
    assert (found.line, found.function, found.operation) == ("train.py:88", "train_step", "all_gather_object")
    assert where([own], lambda path: False).operation is None
    nothing = where([Frame("<frozen x>", 1, "f")], lambda path: False)
    assert (nothing.line, nothing.function) == (None, None)


@pytest.mark.parametrize(
    ("function", "operation"),
    [("_verify_param_shape_across_processes", "all_gather"), ("_sync_module_states", "broadcast"), ("_to_kwargs", None)],
)
def test_a_rank_that_wraps_its_model_waits_for_the_others(function: str, operation: str | None) -> None:
    calls = [
        Frame("/x/site-packages/torch/distributed/utils.py", 284, function),
        Frame("/x/site-packages/torch/nn/parallel/distributed.py", 1064, "__init__"),
        Frame("/home/x/train.py", 72, "main"),
    ]
    found = where(calls, lambda path: "site-packages" in path)
    assert (found.line, found.operation) == ("train.py:72", operation)


def test_counts_that_are_not_due_are_not_shown_as_current(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"last_enqueued_collective": "15", "last_completed_collective": "14"}
    asked = []

    def slow(entries: bool, active: bool) -> bytes:
        asked.append((entries, active))
        time.sleep(0.01)
        return json.dumps({"pg_status": {"0": said}}).encode()

    world = SimpleNamespace(pg_map={"group": ("gloo", None)})
    monkeypatch.setitem(sys.modules, "torch.distributed.distributed_c10d", SimpleNamespace(_world=world))
    monkeypatch.setitem(sys.modules, "torch._C._distributed_c10d", SimpleNamespace(_dump_fr_trace_json=slow))
    counters = Counters()
    counters.read(100.0, asked=False)
    assert (counters.begun, counters.completed, asked) == (15, 14, [(False, False)])
    counters.read(101.0, asked=False)
    assert (counters.begun, counters.completed, len(asked)) == (None, None, 1)
    counters.read(102.0, asked=True)
    assert (counters.begun, counters.completed, len(asked)) == (15, 14, 2)


def test_a_thread_that_is_too_slow_to_be_waited_for_gives_everything_back_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, goes_on, ended = threading.Event(), threading.Event(), []

    class Slow:
        def __init__(self, is_library: object) -> None:
            pass

        def write_if_due(self, ring: object, asked_ns: int) -> None:
            looks.set()
            goes_on.wait(DEADLINE_S)

        def end(self) -> None:
            ended.append(threading.get_ident())

    monkeypatch.setattr(early, "Reporter", Slow)
    monkeypatch.setattr(early, "AFTER_S", 0.0)
    monkeypatch.setattr(early, "END_S", 0.0)
    slow = early._Early(lambda path: False)
    slow.worker.start()
    assert looks.wait(DEADLINE_S)
    assert slow._file is not None
    slow.end()
    assert not ended, "it may be in the middle of writing"
    goes_on.set()
    eventually(lambda: ended or None, "it gives everything back")
    eventually(lambda: slow._file is None or slow._file._fd < 0 or None, "the memory as well")
    assert ended != [threading.get_ident()]


STANDS = """
import faulthandler, os, signal, sys, threading, time, gputop
{before}
run = gputop.init()
def stand():
    sys.stdin.readline()
run.log(loss=1.0)
print(flush=True)
stand()
{after}
gputop.finish()
caught = int(next(line for line in open("/proc/self/status") if line.startswith("SigCgt")).split()[1], 16)
numbers = [n for n in range(34, 65) if caught >> n - 1 & 1]
memory = [fd for fd in os.listdir("/proc/self/fd") if "gputop-stack" in os.path.realpath("/proc/self/fd/" + fd)]
print(numbers, memory, flush=True)
"""
TAKEN = """
for number in range(signal.SIGRTMAX - 14, signal.SIGRTMAX - 8):
    signal.signal(number, lambda *a: print("its own", flush=True))
"""


def told(ring: Path, until: str) -> page.Page:
    def find() -> page.Page | None:
        fd = os.open(ring, os.O_RDONLY)
        try:
            found = page.parse(os.pread(fd, form.STANDING_BYTES, form.STANDING_OFFSET))
        finally:
            os.close(fd)
        return found if found is not None and found.said["function"] == until else None

    return eventually(find, "it says where it is")


def passed_on(reader: RunReader, pid: int) -> dict[str, Any] | None:
    return next((rank.facts.get("standing") for run in reader.poll().runs for rank in run.ranks if rank.pid == pid), None)


def test_a_rank_reports_its_line_without_torch_and_leaves_the_script_alone(home: Home) -> None:
    processes = [home.start(STANDS.format(before=before, after=""), GPUTOP_WHERE=switch) for before, switch in
                 (("", "1"), (TAKEN, "1"), ("", "0"))]  # fmt: skip
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    rings = {int(form.unpack_header(ring.read_bytes()).identity.pid): ring for ring in home.rings()}
    found = told(rings[processes[0].pid], "stand")
    assert found.said["line"].startswith("script0.py:")
    assert found.thread == processes[0].pid
    assert_facts({"standing": found.said}, ())
    reader = RunReader(home.runs)
    found_by_reader = eventually(lambda: passed_on(reader, processes[0].pid), "readers pass on where it stands")
    reader.close()
    assert found_by_reader["line"] == found.said["line"]
    asked = page.ask(rings[processes[0].pid])
    eventually(lambda: told(rings[processes[0].pid], "stand").answered_ns >= asked, "it answers")
    number = told(rings[processes[1].pid], "stand").signal
    assert 0 < number < found.signal, "the script's own signals are left alone, the next free one is taken"
    os.kill(processes[1].pid, found.signal)
    assert processes[1].stdout is not None
    assert processes[1].stdout.readline() == "its own\n"
    raw_page = rings[processes[2].pid].read_bytes()[form.STANDING_OFFSET : form.HEADER_BYTES]
    assert not any(raw_page), "switched off"
    for process, caught in zip(processes, ("[]", str([*range(found.signal - 5, found.signal + 1)]), "[]"), strict=True):
        out, error = process.communicate("\n", timeout=90)
        assert (process.returncode, error) == (0, "")
        assert out.splitlines()[-1] == f"{caught} []", "what was taken is given back"
