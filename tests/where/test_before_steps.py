"""Real ranks that hang before their first step: no list counts them as a run, and whoever asks is told their lines."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gputop.agent.sampler import Sampler
from gputop.agent.where_reader import answer_to
from gputop.doctor.diagnosis import Doctor
from gputop.doctor.findings.finding import Finding
from gputop.sources.virtual import VirtualSource
from gputop.where import before_steps
from gputop.whereabouts.records import Whereabouts, WhereQuestion
from gputop.whereabouts.verdict import summary
from gputop.whereabouts.words import sentence
from tests import REPOSITORY
from tests.packages import needs
from tests.tracking.kit import Home, clean_environment, eventually, home

pytestmark = [needs("torch"), pytest.mark.long]
assert home

SCRIPT = Path(__file__).with_name("before_steps.py")
LINES = {
    mark: f"{SCRIPT.name}:{number}"
    for number, line in enumerate(SCRIPT.read_text().splitlines(), 1)
    for mark in re.findall(r"# ([A-Z]+)$", line)
}
LAUNCH_S = 120.0


def ask(pids: set[int]) -> Whereabouts | None:
    """Ask the launch of these processes; None while not all of them say where they are."""
    found = before_steps.find()
    try:
        chosen = next((waiting for waiting in found if waiting.pids() & pids), None)
        return before_steps.ask_waiting(chosen) if chosen is not None and pids <= chosen.pids() else None
    finally:
        for waiting in found:
            waiting.close()


def answered(question: WhereQuestion) -> Whereabouts:
    """The answer that a screen gets."""
    return answer_to(question, ())


def diagnosed(home: Home, monkeypatch: pytest.MonkeyPatch, pid: int | None) -> Finding:
    """What the doctor says of a process that others wait for; it is undecided until then."""
    monkeypatch.setenv("GPUTOP_DIR", str(home.state))
    sampler, doctor = Sampler(VirtualSource(2), 1.0), Doctor()
    undecided: list[str] = []

    def told() -> Finding | None:
        findings = doctor.observe(sampler.take())
        undecided.extend(item.title for item in doctor.undecided)
        found = next((item for item in findings if pid in item.pids and item.id == "G01"), None)
        time.sleep(0.5)
        return found

    found = eventually(told, "the doctor names it", LAUNCH_S)
    assert any(title.startswith(f"{SCRIPT.name} has made no step yet") for title in undecided)
    return found


def children(pid: int) -> set[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(child) for child in found}


def until(pids: Callable[[], set[int]], holds: Callable[[Whereabouts], bool]) -> Whereabouts:
    last: list[object] = []

    def asked() -> Whereabouts | None:
        answer = ask(pids())
        last[:] = [answer]
        return answer if answer is not None and holds(answer) else None

    try:
        return eventually(asked, "an answer", LAUNCH_S)
    except AssertionError:
        raise AssertionError(f"{last}") from None


@pytest.fixture
def launched(home: Home, tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Start two ranks by torchrun under ``gputop run``."""
    (tmp_path / "loads").touch()
    started = []

    def launch(way: str) -> subprocess.Popen[str]:
        program = (sys.executable, "-m", "torch.distributed.run")
        torchrun = program if way == "load" else (str(Path(sys.executable).with_name("torchrun")),)
        options = ("--standalone", "--nproc-per-node", "2")
        process = subprocess.Popen(
            [sys.executable, "-m", "gputop", "run", "--", *torchrun, *options, str(SCRIPT), way, str(tmp_path)],
            env=clean_environment(home.state, OMP_NUM_THREADS="1"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        home.started.append(process)
        return process

    yield launch
    for process in started:
        for pid in (process.pid, *(children(process.pid) if process.poll() is None else ())):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("way", ["load", "branch", "wraps"])
def test_the_rank_that_hangs_before_its_first_step_is_named_with_its_line(
    home: Home, launched: Callable[[str], subprocess.Popen[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    process = launched(way)
    found = until(lambda: children(process.pid), lambda found: len(found.ranks) == 2 and found.behind == (1,))
    assert not _memories(process.pid), "the launcher is no rank"
    ahead, late = found.ranks
    assert (late.state, late.source, late.line, late.function) == ("answers", "rank", LINES["LOAD"], "load")
    call = {
        "load": (LINES["INIT"], "init_process_group"),
        "branch": (LINES["FIRST"], "all_reduce"),
        "wraps": (LINES["WRAPS"], "all_gather"),
    }[way]
    assert (ahead.state, ahead.line, ahead.operation) == ("answers", *call)
    told = diagnosed(home, monkeypatch, late.pid)
    assert told.title == f"No first step comes: {found.verdict}"
    assert any(f"{LINES['LOAD']} in load" in fact.text for fact in told.evidence)
    assert not home.runs.exists(), "it is no run"
    assert not home.rings()
    by_screen = answered(WhereQuestion("launcher:1", tuple(children(process.pid))))
    assert (by_screen.run_id, by_screen.behind, by_screen.ranks[1].line) == ("launcher:1", (1,), LINES["LOAD"])
    asked = [str(late.pid)] if way == "load" else []
    done = subprocess.run(
        [sys.executable, "-m", "gputop", "where", *asked, "--json"],
        env=clean_environment(home.state), capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert json.loads(done.stdout)["behind"] == [1]
    if way == "load":
        pids = {place.pid for place in found.ranks if place.pid is not None}
        (tmp_path / "loads").unlink()
        assert process.stdout is not None
        assert process.stdout.read() == "stepped\n" * 2
        assert process.wait() == 0
        assert ask(pids) is None


def test_a_rank_that_never_came_is_named(home: Home, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = f"""
for rank in 0 1
do RANK=$rank "$PYTHON" "{SCRIPT}" none "{tmp_path}" &
done
wait
"""
    path = tmp_path / "job.sh"
    path.write_text(script)
    given = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "PYTHON": sys.executable}
    process = home.open((sys.executable, "-m", "gputop", "run", "--", "sh", str(path)), tmp_path, OMP_NUM_THREADS="1", **given)
    found = until(lambda: children(process.pid), lambda found: found.verdict is not None)
    assert found.verdict == (
        "ranks 0, 1 wait in init_process_group; rank 2 of 3 is not on this machine, or had not imported torch"
    )
    assert {place.line for place in found.ranks} == {LINES["INIT"]}
    assert found.behind == ()


def test_a_rank_that_has_not_imported_torch_is_the_one_that_is_waited_for(home: Home, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = tmp_path / "job.sh"
    path.write_text(
        f'RANK=0 "$PYTHON" "{SCRIPT}" none "{tmp_path}" &\n'
        'RANK=1 "$PYTHON" -c "import time; time.sleep(600)" &\n'
        'RANK=1 WORLD_SIZE=9 "$PYTHON" -c "import time; time.sleep(600)" &\n'
        "wait\n"
    )
    given = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "PYTHON": sys.executable}
    process = home.open((sys.executable, "-m", "gputop", "run", "--", "sh", str(path)), tmp_path, OMP_NUM_THREADS="1", **given)
    ranks = lambda: children(process.pid)  # noqa: E731
    first = eventually(lambda: [pid for pid in ranks() if _memories(pid)], "rank 0 says where it is", LAUNCH_S)
    late = next(pid for pid in ranks() if "time.sleep" in _command(pid) and "WORLD_SIZE=2" in _environment(pid))
    found = until(lambda: {*first}, lambda found: found.verdict is not None)
    assert found.verdict == "rank 0 waits for rank 1, which has not imported torch"
    assert found.behind == (1,)
    assert [(place.rank, place.state) for place in found.ranks] == [(0, "answers"), (1, "before_torch")]
    assert found.ranks[1].pid == late
    assert found.ranks[1].cpu_percent is not None
    assert found.ranks[1].cpu_percent < 50
    assert sentence(found.ranks[1:], found.taken_at).endswith(" of a core; has not imported torch")


def test_what_a_rank_forked_is_listed_with_what_proc_shows(home: Home) -> None:
    script = """
import os, sys, time, torch
pid = os.fork()
if not pid:
    until = time.monotonic() + 600
    while time.monotonic() < until:
        sum(range(10000))
print(pid, flush=True)
os.waitpid(pid, 0)
"""
    tracked = (sys.executable, "-m", "gputop", "run", "--", sys.executable)
    process = home.start(script, command=tracked, RANK="0", WORLD_SIZE="1")
    assert process.stdout is not None
    forked = int(process.stdout.readline())
    try:
        found = until(lambda: {process.pid}, lambda found: len(found.ranks) == 2)
        assert [(place.rank, place.pid, place.state) for place in found.ranks] == [
            (0, process.pid, "answers"),
            (None, forked, "forked"),
        ]
        assert (found.verdict, found.behind) == (None, ())
        assert summary(found) is None
        used = found.ranks[1].cpu_percent
        assert used is not None
        assert used > 0
        assert sentence(found.ranks[1:], found.taken_at).endswith("; says nothing before its first step: its parent forked it")
    finally:
        os.kill(forked, signal.SIGKILL)


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def _environment(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/environ").read_text().split("\0")


LEAVES_NOTHING = """
import os, sys, threading, time
import torch
from gputop.tracking.journal.worker import _workers
from gputop.tracking.standing import early

def alive(worker):
    return worker._thread is not None and worker._thread.is_alive()

def own():
    files = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    return sum(early.NAME in file for file in files), sum(alive(of) for of in _workers if "standing" in of._work.__module__)

def signals():
    files = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    caught = int(next(line for line in open("/proc/self/status") if line.startswith("SigCgt")).split()[1], 16)
    return sum("gputop-stack" in file for file in files), sum(caught >> number - 1 & 1 for number in range(34, 65))

if __name__ == "__main__":
    deadline = time.monotonic() + 60
    while (own()[0] == 0 or signals() != (1, 1)) and time.monotonic() < deadline:
        time.sleep(0.05)
    print(own(), signals(), flush=True)
    pid = os.fork()
    if not pid:
        print(own(), signals(), flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
    model = torch.nn.Linear(2, 1)
    model(torch.ones(1, 2)).sum().backward()
    torch.optim.SGD(model.parameters(), 0.1).step()
    print(own(), flush=True)
"""


@pytest.mark.warm
def test_a_child_and_a_run_that_begins_leave_nothing_of_it(home: Home) -> None:
    code, out, err = home.run(LEAVES_NOTHING, command=(sys.executable, "-m", "gputop", "run", "--", sys.executable))
    assert (code, err) == (0, "")
    assert out.splitlines() == ["(1, 1) (1, 1)", "(0, 0) (0, 0)", "(0, 0)"]


STARTS = """
import os, sys, threading
{before}
import torch
from gputop.tracking.journal.worker import _workers
print(sum(worker.is_running for worker in _workers if "standing" in worker._work.__module__))
"""


@pytest.mark.warm
def test_only_a_process_of_a_launch_reports_itself(home: Home) -> None:
    tracked = (sys.executable, "-m", "gputop", "run", "--", sys.executable)
    torchs = (
        "import __main__, importlib.util, os\n"
        "__main__.__file__ = os.path.dirname(importlib.util.find_spec('torch').origin) + '/run.py'"
    )
    for before, command, environment, expected in (
        ("", tracked, {}, "1"),
        ("import gputop", (sys.executable,), {}, "0"),
        ("import gputop", (sys.executable,), {"RANK": "0"}, "1"),
        (torchs, tracked, {}, "0"),
        ("", tracked, {"GPUTOP_WHERE": "0"}, "0"),
        ("", tracked, {"GPUTOP": "0"}, "0"),
    ):
        code, out, err = home.run(STARTS.format(before=before), command=command, **environment)
        assert (code, out.strip()) == (0, expected), (before, environment, err)


PRELOADS = """
import multiprocessing

if __name__ == "__main__":
    multiprocessing.set_forkserver_preload(["preloaded"])
    child = multiprocessing.get_context("forkserver").Process(target=print, args=("child",))
    child.start()
    child.join()
"""


def test_a_fork_server_that_imports_torch_does_not_report_itself(home: Home, tmp_path: Path) -> None:
    """From Python 3.14 on, a loader's workers have one, and it imports what the script imports."""
    (tmp_path / "preloaded.py").write_text(STARTS.format(before=""))
    tracked = (sys.executable, "-m", "gputop", "run", "--", sys.executable)
    code, out, err = home.run(PRELOADS, command=tracked, PYTHONPATH=f"{tmp_path}{os.pathsep}{REPOSITORY}")
    assert (code, out.split(), err) == (0, ["0", "child"], "")


@pytest.mark.warm
def test_of_a_rank_and_its_helpers_the_rank_is_asked(home: Home) -> None:
    script = "import time, torch\nprint(flush=True)\ntime.sleep(300)"
    tracked = (sys.executable, "-m", "gputop", "run", "--", sys.executable)
    started = []
    for _ in range(2):
        started.append(home.start(script, command=tracked, RANK="0", WORLD_SIZE=str(10**12), GPUTOP_RUN_ID="helped"))
        assert started[-1].stdout is not None
        started[-1].stdout.readline()
    own, helper = ({process.pid} for process in started)
    eventually(lambda: _memories(started[1].pid), "the helper says where it is, too")
    assert ask(helper) is None
    found = until(lambda: own, lambda found: True)
    assert (found.run_id, len(found.ranks), found.verdict) == ("helped", 1, None)


def _memories(pid: int) -> int:
    return sum(before_steps.NAME in _target(file) for file in Path(f"/proc/{pid}/fd").iterdir())


def _target(descriptor: Path) -> str:
    try:
        return os.readlink(descriptor)
    except FileNotFoundError:  # closed since it was listed
        return ""


@pytest.mark.warm
def test_two_launches_of_one_run_answer_as_one(home: Home) -> None:
    """Two launchers on one machine give their ranks different ids; a screen asks about the processes of both."""
    script = "import time, torch\nprint(flush=True)\ntime.sleep(300)"
    tracked = (sys.executable, "-m", "gputop", "run", "--", sys.executable)
    for given in ("01", "11"):
        started = []
        for number, rank in enumerate(given):
            started.append(
                home.start(script, command=tracked, RANK=rank, WORLD_SIZE="2", GPUTOP_RUN_ID=f"launch-{given}-{number}")
            )
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
            eventually(lambda process=process: _memories(process.pid), "it says where it is")  # type: ignore[misc]
        found = answered(WhereQuestion("launcher:1", tuple(process.pid for process in started)))
        assert {place.pid for place in found.ranks} == {process.pid for process in started}
        if given == "01":
            assert [(place.rank, place.state) for place in found.ranks] == [(0, "answers"), (1, "answers")]
