"""What the main thread of a real process waits for, by its system call."""

from __future__ import annotations

import errno
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gputop.snapshot import DeviceUse, Process
from gputop.sources.host import evidence, procfs, waits
from gputop.sources.host.process_cache import ProcessCache
from gputop.sources.host.reader import HostReader
from gputop.whereabouts.records import Doing
from tests.real_processes import BUSY, Processes, as_nobody, eventually

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64") or not Path("/proc/self/syscall").exists(), reason="no table of calls here"
)
USE = (DeviceUse("GPU-0", 1 << 30, 50.0, "C"),)
PAIR = "import socket; a, b = socket.socketpair(); "


def asleep(processes: Processes) -> subprocess.Popen[str]:
    """A process in its long sleep. Between saying that it is ready and that, it may wait for a moment and run again."""
    child, _ = processes.ready("say('ready'); time.sleep(100)")  # IDLE wakes up twenty times a second
    eventually(lambda: waits.read_waits_for(child.pid), lambda found: found == "sleep")
    return child


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ("time.sleep(100)", "sleep"),
        ("import select; select.select([], [], [], 100)", "sleep"),
        ("r, w = os.pipe(); os.read(r, 1)", "pipe"),
        (f"{PAIR}a.recv(1)", "socket"),
        (f"{PAIR}os.read(a.fileno(), 1)", "socket"),
        ("import select; r, w = os.pipe(); select.select([r], [], [], 100)", "events"),
        ("import select; p = select.epoll(); p.poll(100)", "events"),
        ("import queue; queue.Queue().get()", "lock"),
        ("lock = threading.Lock(); lock.acquire(); lock.acquire()", "lock"),
        ("import subprocess; child = subprocess.Popen(['sleep', '100']); os.waitpid(child.pid, 0)", "child"),
        ("r, w = os.pipe(); os.dup2(w, 1); os.write(1, bytes(1 << 20))", "output"),
        (f"{PAIR}os.dup2(a.fileno(), 2); os.write(2, bytes(1 << 20))", "output"),
        ("r, w = os.pipe(); os.write(w, bytes(1 << 20))", "pipe"),
    ],
)
def test_what_a_process_waits_for(processes: Processes, code: str, word: str) -> None:
    child, _ = processes.ready(f"say('ready'); {code}")
    eventually(lambda: waits.read_waits_for(child.pid), lambda found: found == word)
    assert word in waits.WAITS
    assert procfs.read_stat(child.pid).state == "S", "reading it stops nothing"


LOCKS = "import fcntl; file = open({path!r}, 'w'); fcntl.{call}(file, fcntl.LOCK_EX); "


@pytest.mark.parametrize("call", ["flock", "lockf"])
def test_who_holds_the_lock_of_a_file_that_a_process_waits_for(processes: Processes, tmp_path: Path, call: str) -> None:
    lock = LOCKS.format(path=str(tmp_path / "lock"), call=call)
    holds, _ = processes.ready(f"{lock}say('ready'); time.sleep(100)")
    waiting = [processes.ready(f"say('ready'); {lock}")[0] for _ in range(2)]
    for child in waiting:
        eventually(lambda pid=child.pid: waits.read_waits_for(pid), lambda found: found == "file lock")
        assert waits.read_lock_holder(child.pid) == holds.pid
    assert waits.read_lock_holder(holds.pid) is None
    known, facts = evidence.Evidence(), ProcessCache().look_up(waiting[0].pid)
    assert facts is not None
    known.read(facts, 1000.0)
    assert (known.waits_for, known.lock_held_by) == ("file lock", holds.pid)


def test_a_lock_that_belongs_to_an_open_file_names_no_process(processes: Processes, tmp_path: Path) -> None:
    lock = LOCKS.format(path=str(tmp_path / "lock"), call="lockf")
    own = "import fcntl, struct; file = open({path!r}, 'w'); fcntl.fcntl(file, 37, struct.pack('hhqqi4x', 1, 0, 0, 0, 0)); "
    processes.ready(f"{own.format(path=str(tmp_path / 'lock'))}say('ready'); time.sleep(100)")  # F_OFD_SETLK: any process's
    waiting, _ = processes.ready(f"say('ready'); {lock}")
    eventually(lambda: waits.read_waits_for(waiting.pid), lambda found: found == "file lock")
    assert waits.read_lock_holder(waiting.pid) is None


ALONE = "lock = threading.Lock(); lock.acquire(); "
WAITS = "threading.Thread(target=lock.acquire, daemon=True).start(); "


@pytest.mark.parametrize(
    ("code", "locked"),
    [
        (f"{ALONE}lock.acquire()", True),
        (f"{ALONE}{WAITS}lock.acquire()", True),
        (f"import queue; {ALONE}{WAITS}queue.Queue().get()", True),
        (f"{ALONE}threading.Thread(target=threading.Event().wait, args=(100,), daemon=True).start(); lock.acquire()", True),
        ("threading.Event().wait(100)", False),
        (f"{ALONE}threading.Thread(target=time.sleep, args=(100,), daemon=True).start(); lock.acquire()", False),
        (f"{ALONE}r, w = os.pipe(); threading.Thread(target=os.read, args=(r, 1), daemon=True).start(); lock.acquire()", False),
        ("import multiprocessing; lock = multiprocessing.Lock(); lock.acquire(); lock.acquire()", False),
    ],
    ids=[
        "one thread",
        "two threads",
        "an empty queue",
        "a thread with a time limit",
        "a main thread with one",
        "a thread that sleeps",
        "a thread that reads",
        "another process's lock",
    ],
)
def test_deadlocked_threads_are_distinguished_from_those_that_something_may_wake(
    processes: Processes, code: str, locked: bool
) -> None:
    child, _ = processes.ready(f"say('ready'); {code}")
    eventually(lambda: waits.read_waits_for(child.pid), lambda found: found == "lock")
    eventually(lambda: waits.read_all_locked(child.pid), lambda found: found == locked)


WITH_LIMIT = "full = __import__('queue').Queue(1); full.put(1); full.put(2, timeout=100)"
STARTS = "import subprocess; starts = lambda: (subprocess.Popen(['sleep', '100']), threading.Event().wait()); "


@pytest.mark.parametrize(
    ("code", "woken_by"),
    [
        ("import queue; full = queue.Queue(1); full.put(1); full.put(2)", "nothing"),
        (WITH_LIMIT, "nothing"),
        (f"{ALONE}threading.Thread(target=lambda: threading.Event().wait(), daemon=True).start(); {WITH_LIMIT}", "nothing"),
        (
            f"{ALONE}threading.Thread(target=lambda: threading.Event().wait(90), daemon=True).start(); {WITH_LIMIT}",
            "time limit",
        ),
        (f"{ALONE}threading.Thread(target=time.sleep, args=(100,), daemon=True).start(); {WITH_LIMIT}", "others"),
        (f"import subprocess; subprocess.Popen(['sleep', '100']); {WITH_LIMIT}", "others"),
        (f"import subprocess; subprocess.Popen(['true']); {WITH_LIMIT}", "nothing"),
        (f"{STARTS}threading.Thread(target=starts, daemon=True).start(); {WITH_LIMIT}", "others"),
        ("import multiprocessing; lock = multiprocessing.Lock(); lock.acquire(); lock.acquire()", "others"),
    ],
    ids=[
        "a full queue",
        "with a time limit",
        "beside a thread that waits",
        "beside a thread with a time limit",
        "beside a thread that sleeps",
        "beside a child process",
        "beside a child that has ended",
        "beside the child of a thread",
        "a lock that another process may have",
    ],
)
def test_a_wait_that_nothing_can_end_is_recognized_also_with_a_time_limit(
    processes: Processes, code: str, woken_by: str
) -> None:
    child, _ = processes.ready(f"say('ready'); {code}")
    eventually(lambda: waits.read_waits_for(child.pid), lambda found: found == "lock")
    eventually(lambda: waits.read_woken_by(child.pid), lambda found: found == woken_by)


MAKES = "import multiprocessing as mp, os; mp.set_start_method('fork'); q = mp.Queue(); "
JOINS = f"{MAKES}p = mp.Process(target=q.put, args=(bytes(10**6),)); p.start(); "
SHARES = f"{MAKES}ps = [mp.Process(target=q.put, args=(bytes(40000),)) for _ in range(4)]; [p.start() for p in ps]; "
LEFT = f"{MAKES}lock = mp.Lock(); lock.acquire(); p = mp.Process(target=lock.acquire); p.start(); "
PRINTS = "import subprocess as s, sys; p = s.Popen([sys.executable, '-c', 'print(1000000 * chr(65))'], stdout=s.PIPE); "


@pytest.mark.parametrize(
    ("code", "woken_by"),
    [
        (f"{JOINS}p.join()", "nothing"),
        (f"{SHARES}[p.join() for p in ps]", "nothing"),
        (f"{SHARES}[p.join() for p in ps[::-1]]", "nothing"),
        (f"{PRINTS}p.wait()", "nothing"),
        (
            f"{ALONE}threading.Thread(target=lambda: threading.Event().wait(90), daemon=True).start(); {PRINTS}p.wait()",
            "time limit",
        ),
        (
            f"import threading; {PRINTS}threading.Thread(target=time.sleep, args=(100,), daemon=True).start(); p.wait()",
            "others",
        ),
        (f"{JOINS}mp.Process(target=time.sleep, args=(100,)).start(); p.join()", "others"),
        (f"{JOINS}lock = mp.Lock(); lock.acquire(); mp.Process(target=lock.acquire).start(); p.join()", "nothing"),
        (f"{JOINS}l = mp.Lock(); l.acquire(); mp.Process(target=l.acquire, args=(True, 90)).start(); p.join()", "others"),
        (f"{LEFT}p.join()", "others"),
        (
            f"{MAKES}p = mp.Process(target=lambda: (os.fork() or time.sleep(100), q.put(bytes(10**6)))); p.start(); p.join()",
            "others",
        ),
        ("import subprocess; subprocess.run(['sleep', '100'])", "others"),
        ("import subprocess as s; s.run('sleep 100 | wc', shell=True)", "others"),
        (f"{PRINTS}s.Popen(['sleep', '100'], stdin=p.stdout); p.stdout.close(); p.wait()", "others"),
    ],
    ids=[
        "join before get",
        "join before get of what several put",
        "join of the last one first",
        "wait before the output is read",
        "beside a thread with a time limit",
        "beside a thread that sleeps",
        "beside another child, which has the pipe, too",
        "beside a child that waits for a lock of these processes",
        "beside a child that waits for such a lock for some time",
        "a child that waits for a lock, and nobody fills a pipe",
        "beside a child's child",
        "a program that sleeps",
        "programs that are connected",
        "a program that another one reads",
    ],
)
def test_a_wait_for_a_child_that_waits_for_its_reader_is_one_that_nothing_can_end(
    processes: Processes, code: str, woken_by: str
) -> None:
    child, _ = processes.ready(f"say('ready'); {code}")
    eventually(lambda: waits.read_waits_for(child.pid), lambda found: found == "child")
    eventually(lambda: waits.read_child_woken_by(child.pid), lambda found: found == woken_by)


@pytest.mark.parametrize(
    ("before", "inside", "woken_by"), [("lock = mp.Lock()", "", "others"), ("", "lock = mp.Lock()", "nothing")]
)
def test_a_lock_that_the_parent_has_too_may_be_released(processes: Processes, before: str, inside: str, woken_by: str) -> None:
    code = f"""
import multiprocessing as mp
mp.set_start_method('fork')
{before}
child = os.fork()
if child:
    say(child)
    time.sleep(100)
{inside}
q = mp.Queue()
lock.acquire()
ps = [mp.Process(target=q.put, args=(bytes(10**6),)), mp.Process(target=lock.acquire)]
[p.start() for p in ps]
ps[0].join()
"""
    _, words = processes.ready(code)
    child = int(words[0])
    eventually(lambda: waits.read_waits_for(child), lambda found: found == "child")
    eventually(lambda: waits.read_child_woken_by(child), lambda found: found == woken_by)


def test_where_children_are_not_listed_something_may_end_the_wait(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    child, _ = processes.ready(f"say('ready'); {WITH_LIMIT}")
    eventually(lambda: waits.read_woken_by(child.pid), lambda found: found == "nothing")
    read = procfs.read_bytes

    def unlisted(path: str) -> bytes:
        if path.endswith("/children"):
            raise FileNotFoundError(path)
        return read(path)

    monkeypatch.setattr(procfs, "read_bytes", unlisted)
    assert waits.read_woken_by(child.pid) == "others"


def test_of_a_process_at_rest_it_is_known_whether_it_serves(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    serves = "import socket; held = socket.create_server(('127.0.0.1', 0)); "
    children = [processes.ready(f"{begin}say('ready'); {WITH_LIMIT}")[0] for begin in (serves, "")]
    monkeypatch.setattr(evidence, "WAITS_S", 0.0)
    found = []
    for child in children:
        eventually(lambda pid=child.pid: waits.read_waits_for(pid), lambda word: word == "lock")
        facts, known = ProcessCache().look_up(child.pid), evidence.Evidence()
        assert facts is not None
        for turn, (used, with_stack) in enumerate([(0, True), (3, True), (2, False), (2, True)]):
            facts.stat = facts.stat._replace(cpu_ticks=facts.stat.cpu_ticks + used)
            known.read(facts, 1000.0 + turn * evidence.READ_S, with_stack=with_stack)
            found.append((known.woken_by, known.listens))
    busy_or_no_training = [(None, None)] * 3
    assert found == [*busy_or_no_training, ("nothing", True), *busy_or_no_training, ("nothing", False)]


def test_only_a_process_that_rests_is_asked_for_its_threads(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    child, _ = processes.ready(f"say('ready'); {ALONE}lock.acquire()")
    eventually(lambda: waits.read_waits_for(child.pid), lambda found: found == "lock")
    monkeypatch.setattr(evidence, "WAITS_S", 0.0)
    known, found = evidence.Evidence(), []
    for turn in range(3):
        facts = ProcessCache().look_up(child.pid)
        assert facts is not None
        ticks = facts.stat.cpu_ticks if turn else facts.stat.cpu_ticks - 1
        facts.stat = facts.stat._replace(cpu_ticks=ticks)
        known.read(facts, 1000.0 + turn * evidence.READ_S)
        found.append(known.all_locked)
    assert found == [False, False, True], "it has used the CPU between the first two readings"


def test_a_process_that_computes_waits_for_nothing(processes: Processes) -> None:
    child, _ = processes.ready(BUSY)
    eventually(lambda: (waits.read_waits_for(child.pid), procfs.read_stat(child.pid).state), lambda found: found == (None, "R"))


def test_an_older_reading_comes_with_its_time(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    child, _ = processes.ready("say('ready'); time.sleep(100)")
    eventually(lambda: procfs.read_stat(child.pid).state, lambda state: state == "S")
    monkeypatch.setattr(evidence, "WAITS_S", 600.0)
    facts = ProcessCache().look_up(child.pid)
    assert facts is not None
    known = evidence.Evidence()
    for now_s, read_s in ((1000.008, None), (1001.0, 1000.0), (1599.0, 1000.0), (1600.008, None), (1601.0, 1600.0)):
        known.read(facts, now_s)
        assert (known.waits_for, known.waits_read_s) == ("sleep", read_s), "never later than it was"
    facts.stat = facts.stat._replace(state="R")
    known.read(facts, 2200.008)
    assert (known.waits_for, known.waits_read_s) == (None, None), "that it runs is a reading, too"
    known.read(facts, 2201.0)
    assert (known.waits_for, known.waits_read_s) == (None, 2200.0)


def test_where_the_kernel_denies_it_the_wait_is_unknown_and_said_to_be_hidden(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Yama denies it for processes that did not descend from the reader."""
    child = asleep(processes)
    read_line = procfs.read_line

    def denied(path: str) -> bytes:
        if path.endswith("/syscall"):
            raise PermissionError(errno.EPERM, "Operation not permitted", path)
        return read_line(path)

    monkeypatch.setattr(procfs, "read_line", denied)
    (process,) = (found for found in HostReader().read_processes({child.pid: USE}, {}) if found.pid == child.pid)
    assert (process.waits_for, "waits_for" in process.hidden) == (None, True)
    assert process.state == "S"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can read as another user")
def test_of_another_users_process_the_wait_is_hidden(processes: Processes) -> None:
    child = asleep(processes)
    with as_nobody():
        (process,) = (found for found in HostReader().read_processes({child.pid: USE}, {}) if found.pid == child.pid)
    assert (process.waits_for, "waits_for" in process.hidden) == (None, True)


def test_a_process_that_is_gone_raises(processes: Processes) -> None:
    child, _ = processes.ready("say('ready')")
    child.wait()
    with pytest.raises(OSError, match=str(child.pid)):
        waits.read_waits_for(child.pid)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="no known layout of this Python")
def test_only_a_process_of_this_user_is_read_for_what_it_does(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    child, _ = processes.ready()

    def found(reader: HostReader, runs: dict[int, tuple[str, int]]) -> Process:
        return next(item for item in reader.read_processes({child.pid: USE}, runs) if item.pid == child.pid)

    reader = HostReader()
    eventually(lambda: found(reader, {}), lambda item: item.doing is not None and item.doing.activity == "other")
    tracked = found(HostReader(), {child.pid: ("run", 0)}).doing
    assert tracked is not None, "also of a tracked rank"
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert found(HostReader(), {}).doing is None, "it is another user's"


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="no known layout of this Python")
def test_the_line_is_read_from_the_user_s_own_file(processes: Processes, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import time\nprint('ready', flush=True)\ntime.sleep(1000)  # for the data\n", encoding="utf-8")
    before = time.time() - 10
    os.utime(script, (before, before))
    child, _ = processes.ready(f"import runpy\nrunpy.run_path({str(script)!r})")
    expected = Doing("wait", "train.py:3", "<module>", "time.sleep(1000)")
    reader = HostReader()

    def found() -> Process:
        return next(item for item in reader.read_processes({child.pid: USE}, {}) if item.pid == child.pid)

    eventually(found, lambda item: item.doing == expected)
