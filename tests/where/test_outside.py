"""What /proc shows of a process that rests, and which lines of a stack are the user's."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import gputop.tracking.auto.hooks
from gputop.tracking.standing.stack import Frame, where
from gputop.where import outside
from gputop.where.untracked import ask_process
from gputop.whereabouts.activities import is_library
from gputop.whereabouts.records import RankPlace, Whereabouts
from gputop.whereabouts.verdict import perhaps_behind, summary
from tests.tracking.kit import eventually


@pytest.mark.parametrize("call", ["flock", "lockf"])
def test_a_process_that_waits_for_a_file_lock_says_for_which(tmp_path: Path, call: str) -> None:
    code = f"import fcntl, sys; fcntl.{call}(open(sys.argv[1], 'w'), fcntl.LOCK_EX); input()"
    path = tmp_path / "lock"
    with path.open("w") as held:
        getattr(fcntl, call)(held, fcntl.LOCK_EX)
        child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE)
        try:
            eventually(lambda: _doing(child.pid) == f"waits for the lock of {path}", "it waits for the lock")
        finally:
            child.kill()
            child.communicate()


WORKERS = """
import os, select, sys, time
def worker(call):
    child = os.fork()
    if child == 0:
        with open("/proc/self/comm", "w") as name:
            name.write("pt_data_worker")
        call()
        os._exit(0)
    return child
names = {"sleeps": lambda: time.sleep(600), "ends": lambda: None}
print(*[worker(names[name]) for name in sys.argv[1:]], flush=True)
poll = select.poll()
poll.register(sys.stdin)
poll.poll()
"""


@pytest.mark.parametrize(
    ("workers", "words"),
    [
        (["sleeps"], "waits for its loader worker {0}, which sleeps"),
        (["ends"], "waits for its loader worker {0}, which has died"),
        (["sleeps", "ends", "sleeps"], "waits for its 3 loader workers: 2 like {0}, which sleeps; {1} has died"),
    ],
)
def test_a_process_that_waits_for_its_loader_says_what_the_workers_do(workers: list[str], words: str) -> None:
    command = [sys.executable, "-c", WORKERS, *workers]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        try:
            assert child.stdout is not None
            pids = child.stdout.readline().split()
            if not Path(f"/proc/{child.pid}/task/{child.pid}/children").exists():
                pytest.skip("this kernel does not list children")
            wanted = words.format(*pids)
            eventually(lambda: (found := outside.observe(child.pid)) is not None and found.doing == wanted, "it says so")
        finally:
            os.killpg(child.pid, signal.SIGKILL)


READS_FROM_A_WORKER = """
import os, signal, socket, sys
mine, its = socket.socketpair()
child = os.fork()
if child == 0:
    with open("/proc/self/comm", "w") as name:
        name.write("pt_data_worker")
    if sys.argv[1] == "ends":
        os._exit(0)
    if sys.argv[1] == "stops":
        os.kill(os.getpid(), signal.SIGSTOP)
    signal.pause()
print(child, flush=True)
os.read(mine.fileno(), 1)
"""


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ("stops", "waits for its loader worker {0}, which is stopped"),
        ("ends", "waits for its loader worker {0}, which has died"),
        ("works", "reads a socket"),
    ],
)
def test_a_process_that_reads_what_a_stuck_worker_should_send_waits_for_it(does: str, words: str) -> None:
    command = [sys.executable, "-c", READS_FROM_A_WORKER, does]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        try:
            assert child.stdout is not None
            wanted = words.format(child.stdout.readline().strip())
            if not Path(f"/proc/{child.pid}/task/{child.pid}/children").exists():
                pytest.skip("this kernel does not list children")
            eventually(lambda: _doing(child.pid) == wanted, f"{wanted}, not {_doing(child.pid)}")
        finally:
            os.killpg(child.pid, signal.SIGKILL)


def _doing(pid: int) -> str | None:
    found = outside.observe(pid)
    return found.doing if found is not None else None


def test_gputop_s_own_frames_are_never_the_user_s_line() -> None:
    """A signal's stack has them; in a checkout they are in no site-packages."""
    own = gputop.tracking.auto.hooks.__file__
    stack = [Frame(f"{own}#importlib._bootstrap", 364, "save"), Frame("/home/me/train.py", 12, "save")]
    assert where(stack, is_library).line == "train.py:12"


RANKS = """
import importlib.util, os, sys, threading, time
def validate():
    print("ready", flush=True)
    time.sleep(100)
def average():
    spec = importlib.util.spec_from_file_location("c10d", sys.argv[1])
    c10d = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(c10d)
    print("ready", flush=True)
    c10d.all_reduce()
if os.environ["RANK"] == "1":
    validate()
average()
"""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="no known layout of this Python")
def test_ranks_that_gputop_does_not_track_are_asked_for_their_lines_from_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collectives = tmp_path / "site-packages" / "torch" / "distributed" / "distributed_c10d.py"
    collectives.parent.mkdir(parents=True)
    collectives.write_text("import time\n\ndef all_reduce():\n    time.sleep(100)\n")
    script = tmp_path / "train.py"
    script.write_text(RANKS)
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(collectives)],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        for process in ranks:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        answer = eventually(lambda: _with_lines(ranks[0].pid), "the collective is entered")
        waits, late = answer.ranks
        assert (waits.source, waits.line, waits.function, waits.operation) == ("memory", "train.py:11", "average", "all_reduce")
        assert (late.source, late.line, late.function, late.operation) == ("memory", "train.py:5", "validate", None)
        assert late.stack == ("train.py:5 validate", "train.py:13 <module>")
        assert late.phase == "evaluation"
        with monkeypatch.context() as another:
            another.setattr(os, "geteuid", lambda: 4242)
            assert {place.source for place in ask_process(ranks[0].pid).ranks} == {None}, (
                "only this user's own processes are read"
            )
        assert summary(answer) == (
            "which rank is behind is not known; it may be rank 1, which is in no collective while rank 0 is in all_reduce"
        )
    finally:
        for process in ranks:
            process.kill()
            process.wait()


def _with_lines(pid: int) -> Whereabouts | None:
    answer = ask_process(pid)
    return answer if answer.ranks[0].operation is not None else None


def test_a_rank_in_backward_may_wait_for_one_that_is_in_no_collective() -> None:
    """Gradients are exchanged in C++, of which a Python stack shows nothing."""
    ahead = RankPlace(0, 7, source="memory", line="train.py:60", phase="backward")
    late = RankPlace(1, 8, source="memory", line="train.py:5")
    found = perhaps_behind([ahead, late])
    assert found is not None
    assert (list(found.late), list(found.ahead)) == ([late], [ahead])
