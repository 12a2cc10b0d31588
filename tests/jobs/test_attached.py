"""``gputop demo`` in a terminal: when it ends, however it ends, nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputop.jobs import identity
from tests import REPOSITORY
from tests.packages import needs
from tests.patience import DEADLINE_S

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are known by /proc")

# Stands for torchrun: its ranks have sessions of their own; it passes TERM on, and SIGKILL leaves them behind.
LAUNCHER = """
import signal, subprocess, sys
ranks = [subprocess.Popen([sys.executable, "-S", "-c", sys.argv[1]], start_new_session=True) for _ in range(2)]
def end(number, frame):
    for rank in ranks:
        rank.terminate()
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, end)
print("ranks", *[rank.pid for rank in ranks], flush=True)
codes = [rank.wait() for rank in ranks]
sys.exit(1 if any(codes) else 0)
"""
SLEEP = "import time; time.sleep(600)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
RANK = """
import os, time
os.write(1, f"rank {os.environ['RANK']} pid {os.getpid()}\\n".encode())  # at once: two ranks write into one pipe
time.sleep(600)
"""
"""It needs no other rank, so that only what is done to it ends it."""
ATTACH = "import os, sys; from gputop.jobs.attached import run; sys.exit(run(sys.argv[1:], dict(os.environ), os.getcwd()))"


def until(happened: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not happened():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    return identity.start_ticks(pid) is not None


class Attached:
    """A command that runs attached, in a session of its own as a terminal's shell would start it."""

    def __init__(self) -> None:
        self.pids: list[int] = []
        self.process: subprocess.Popen[str] | None = None

    def start(self, *command: str, **options: object) -> subprocess.Popen[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPUTOP_JOB", "TORCHELASTIC"))}
        settings: dict[str, object] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "start_new_session": True}
        self.process = subprocess.Popen(  # type: ignore[call-overload]
            [sys.executable, "-c", ATTACH, *command],
            cwd=REPOSITORY,
            env={**environment, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
            text=True,
            **{**settings, **options},
        )
        assert self.process is not None
        return self.process

    def ranks(self) -> list[int]:
        """The PIDs of the stand-in's ranks, once it has told them."""
        assert self.process is not None
        assert self.process.stdout is not None
        self.pids = [int(word) for word in self.process.stdout.readline().split()[1:]]
        assert len(self.pids) == 2
        return self.pids

    def launcher(self) -> int:
        """The command's own PID: the child that is no guard."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return next(int(pid) for pid in children if b"attached.py" not in Path(f"/proc/{pid}/cmdline").read_bytes())

    def all_gone(self) -> bool:
        return not any(map(alive, self.pids))


@pytest.fixture
def attached() -> Iterator[Attached]:
    found = Attached()
    yield found
    for pid in found.pids:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
    if found.process is not None and found.process.poll() is None:
        os.killpg(found.process.pid, signal.SIGKILL)
        found.process.wait()


def stand_in(code: str = SLEEP) -> tuple[str, ...]:
    return (sys.executable, "-c", LAUNCHER, code)


def test_exit_code_and_output_are_the_command_s(attached: Attached) -> None:
    process = attached.start(sys.executable, "-c", "print(input()); raise SystemExit(7)", stdin=subprocess.PIPE)
    assert process.communicate("hello\n", timeout=DEADLINE_S) == ("hello\n", None)
    assert process.returncode == 7


def test_gputop_ends_by_the_signal_that_ended_the_command(attached: Attached) -> None:
    process = attached.start("sh", "-c", "kill -TERM $$")
    assert process.wait(DEADLINE_S) == -signal.SIGTERM
    process = attached.start("sh", "-c", "kill -KILL $$")
    assert process.wait(DEADLINE_S) == 128 + signal.SIGKILL


def test_a_command_that_cannot_start_is_reported(attached: Attached) -> None:
    process = attached.start("/no/such/program")
    out, _ = process.communicate(timeout=DEADLINE_S)
    assert "GputopError" in out
    assert "cannot be started" in out


def test_a_command_that_ends_well_may_leave_something(attached: Attached) -> None:
    code = "import subprocess, sys; p = subprocess.Popen(['sleep', '600'], start_new_session=True); print('left', p.pid, p.pid)"
    process = attached.start(sys.executable, "-c", code)
    attached.ranks()
    assert process.wait(DEADLINE_S) == 0
    assert alive(attached.pids[0])


@pytest.mark.parametrize("code", [SLEEP, STUBBORN], ids=["ranks", "stubborn-ranks"])
@pytest.mark.parametrize("who", ["launcher", "gputop", "both"])
def test_sigkill_leaves_nothing(attached: Attached, who: str, code: str) -> None:
    process = attached.start(*stand_in(code))
    attached.ranks()
    if who == "launcher":
        os.kill(attached.launcher(), signal.SIGKILL)
        assert process.wait(DEADLINE_S) == 128 + signal.SIGKILL
    elif who == "gputop":
        attached.pids.append(attached.launcher())
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)  # the launcher and gputop at once; the ranks have sessions of their own
    until(attached.all_gone, "the whole tree is gone")


def test_term_is_passed_on(attached: Attached) -> None:
    process = attached.start(*stand_in())
    attached.ranks()
    process.terminate()
    assert process.wait(DEADLINE_S) == 1
    until(attached.all_gone, "the whole tree is gone")


@pytest.mark.parametrize("how", ["ctrl-c", "hangup"])
def test_the_terminal_ends_it(attached: Attached, how: str) -> None:
    master, slave = os.openpty()
    process = attached.start(*stand_in(), stdin=slave, preexec_fn=_take_terminal)
    attached.ranks()
    os.close(slave)
    if how == "ctrl-c":
        os.write(master, b"\x03")
    else:
        os.close(master)
    process.wait(DEADLINE_S)
    until(attached.all_gone, "the whole tree is gone")


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@needs("torch")
@pytest.mark.parametrize("who", ["torchrun", "gputop"])
def test_real_ranks_of_torchrun(attached: Attached, tmp_path: Path, who: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(RANK)
    run = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script))
    process = attached.start(*run)
    assert process.stdout is not None
    while len(attached.pids) < 2:
        words = process.stdout.readline().split()
        if words[:1] == ["rank"]:
            attached.pids.append(int(words[3]))
    os.kill(attached.launcher() if who == "torchrun" else process.pid, signal.SIGKILL)
    until(attached.all_gone, "the ranks are gone")
    process.stdout.close()
    process.wait(DEADLINE_S)
