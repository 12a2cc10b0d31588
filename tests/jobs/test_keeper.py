"""What a job prints is kept, and never ends it: not on a full disk, and not when processes of gputop are killed."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.jobs import identity, job_processes, keeper, log_file, rank_reserve, record, stopping, store
from gputop.jobs.output.follower import ERRORS, FileFollower
from gputop.jobs.store import Job
from gputop.recipes.catalogue import Launch
from tests import REPOSITORY
from tests.jobs.printed import printed_lines
from tests.jobs.test_signals import supervisor_of
from tests.jobs.test_store import ended, launch, nothing_left, says, until
from tests.jobs.test_survival import small_disk

pytestmark = [
    pytest.mark.interpreter,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="jobs are known by /proc"),
]
assert nothing_left
assert small_disk

# Prints a numbered line of 1,000 characters whenever the file of its first argument grows by a byte.
ON_REQUEST = """
import os, sys, time
print("up", flush=True)
printed = 0
while True:
    while printed < os.path.getsize(sys.argv[1]):
        printed += 1
        print(f"line {printed} ".ljust(1000, "."), flush=True)
    if not os.path.exists(sys.argv[1] + ".stay"):
        break
    time.sleep(0.01)
raise ValueError("the cause")
"""


# Stands for torchrun: its rank writes to a file of its own, on the disk, and not at its end but where it is.
RANKS = """
import os, subprocess, sys
folder = os.path.join(os.environ["PET_LOG_DIR"], "none_x", "attempt_0", "0")
os.makedirs(folder)
with open(os.path.join(folder, "stdout.log"), "w") as file:
    sys.exit(subprocess.run([sys.executable, "-c", *sys.argv[1:]], stdout=file, stderr=file).returncode)
"""


class Printer:
    """A job that prints as many lines as it is asked to."""

    def __init__(self, folder: Path, *first: str) -> None:
        self._asked = folder / "asked"
        self._asked.touch()
        self._stay = folder / "asked.stay"
        self._stay.touch()
        self.job = store.start(launch(*first, ON_REQUEST, str(self._asked)))
        says(self.job, "up")

    def print_lines(self, number: int) -> None:
        with self._asked.open("ab") as file:
            file.write(bytes(number))

    def end(self) -> Job:
        self._stay.unlink()
        return ended(self.job)


def lines_of(job: Job) -> list[str]:
    return (job.directory / record.OUT_LOG).read_text().splitlines()


def numbers_of(job: Job) -> list[int]:
    return [int(line.split()[1]) for line in lines_of(job) if line.startswith("line ")]


def has_twice(numbers: list[int]) -> bool:
    return len(set(numbers)) < len(numbers)


def keeper_of(job: Job) -> int:
    """The one child of the supervisor that is not the command, once there is one."""
    until(lambda: len(_keepers_of(job)) == 1)
    return _keepers_of(job)[0]


def _keepers_of(job: Job) -> list[int]:
    parent = str(supervisor_of(job))
    children = [pid for pid in identity.pids() if identity.start_ticks(pid) is not None and _parent(pid) == parent]
    marked = identity.marked(job.id)
    return [pid for pid in children if pid not in marked]


def _parent(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return ""


def fill(disk: Path) -> None:
    free = os.statvfs(disk)
    (disk / "filler").write_bytes(bytes(free.f_bavail * free.f_frsize))


def test_a_job_outlives_a_disk_that_its_own_output_fills(small_disk: Path, tmp_path: Path) -> None:
    printer = Printer(tmp_path)
    printer.print_lines(4000)  # twice the disk
    failed = printer.end()
    assert (failed.state, failed.exit_code) == ("failed", 1)
    # On a busy machine the supervisor leaves the last cut to the keeper, and a log that is being cut holds its end twice.
    with contextlib.suppress(AssertionError):
        until(
            lambda: (
                lines_of(failed)[-1:] == ["ValueError: the cause"] and len(set(numbers_of(failed))) == len(numbers_of(failed))
            )
        )
    lines = lines_of(failed)
    assert lines[-1:] == ["ValueError: the cause"], [line[:30] for line in lines[-3:]]
    assert any("bytes lost" in line for line in lines)
    numbers = numbers_of(failed)
    assert numbers == list(range(numbers[0], 4001)), "the newest lines, in order and whole"
    note = next(int(line.split()[1]) for line in lines if "bytes lost" in line)
    assert note == len("up\n") + 1001 * (numbers[0] - 1)


def test_a_job_on_a_disk_that_others_filled_says_why_it_ended(small_disk: Path, tmp_path: Path) -> None:
    printer = Printer(tmp_path)
    fill(small_disk)
    printer.print_lines(20)
    failed = printer.end()
    assert (failed.state, failed.exit_code) == ("failed", 1)
    assert lines_of(failed)[-1] == "ValueError: the cause"
    assert numbers_of(failed) == list(range(1, 21))
    assert not (failed.directory / record.RESERVE).exists()


def test_output_while_the_disk_is_full_is_written_once_there_is_space(small_disk: Path, tmp_path: Path) -> None:
    printer = Printer(tmp_path)
    fill(small_disk)
    printer.print_lines(500)
    until(lambda: not (small_disk / "filler").unlink(missing_ok=True) and len(numbers_of(printer.job)) == 500)
    assert numbers_of(printer.end()) == list(range(1, 501))


def test_a_rank_with_a_file_of_its_own_outlives_a_full_disk(small_disk: Path, tmp_path: Path) -> None:
    printer = Printer(tmp_path, RANKS)
    (log,) = printer.job.directory.glob("ranks/*/attempt_0/0/stdout.log")
    until(lambda: log.stat().st_blocks * 512 > rank_reserve.RESERVE_BYTES // 2)
    fill(small_disk)
    for most in range(40, 401, 40):
        printer.print_lines(40)
        until(lambda most=most: f"line {most} ".encode() in log.read_bytes())
        time.sleep(0.3)  # some 100 KB a second
    assert printer.end().exit_code == 1
    until(lambda: log.stat().st_blocks * 512 <= log.stat().st_size + 4096)
    lines = log.read_bytes().replace(b"\0", b"").decode().splitlines()
    numbers = [int(line.split()[1]) for line in lines if line.startswith("line ")]
    assert numbers == list(range(numbers[0], 401))
    assert 100 < numbers[0] < 380
    assert any("bytes lost" in line for line in lines)
    assert lines[-1] == "ValueError: the cause"
    assert "ValueError: the cause" in printed_lines(printer.job.id)[-1]


def test_killed_keepers_lose_nothing(tmp_path: Path) -> None:
    printer = Printer(tmp_path)
    for _ in range(3):
        killed = keeper_of(printer.job)
        os.kill(killed, signal.SIGKILL)
        printer.print_lines(300)
        until(lambda killed=killed: identity.start_ticks(killed) is None and keeper_of(printer.job) != killed)
    failed = printer.end()
    assert numbers_of(failed) == list(range(1, 901))


def test_the_keeper_continues_without_the_supervisor_and_ends_with_the_job(tmp_path: Path) -> None:
    printer = Printer(tmp_path)
    pid = keeper_of(printer.job)
    os.kill(supervisor_of(printer.job), signal.SIGKILL)
    printer.print_lines(50)
    until(lambda: len(numbers_of(printer.job)) == 50)
    assert printer.end().state == "lost"
    until(lambda: identity.start_ticks(pid) is None)
    assert lines_of(printer.job)[-1] == "ValueError: the cause"
    assert not (printer.job.directory / record.RESERVE).exists()


def test_a_job_continues_when_everything_of_gputop_is_killed(tmp_path: Path) -> None:
    printer = Printer(tmp_path)
    pids = supervisor_of(printer.job), keeper_of(printer.job)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)  # so that none notices the other's end
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    (command,) = identity.marked(printer.job.id)
    output = Path(f"/proc/{command}/fd/1")
    printer.print_lines(3000)  # far more than a pipe holds
    until(lambda: output.stat().st_size > 3000 * 1001)
    assert identity.marked(printer.job.id) == [command]
    assert stopping.stop(printer.job.id).state == "stopped"
    assert numbers_of(printer.job) == list(range(1, 3001)), "what was in memory alone is written when it is stopped"


def test_a_suspended_keeper_keeps_no_output_back(tmp_path: Path) -> None:
    printer = Printer(tmp_path)
    os.kill(keeper_of(printer.job), signal.SIGSTOP)
    printer.print_lines(700)
    failed = printer.end()
    assert numbers_of(failed) == list(range(1, 701))


TWO = """
import os, sys
from pathlib import Path
from gputop.jobs.keeper import Keeper
for _ in range(2):
    kept = Keeper(Path(sys.argv[1]), "twice")
    os.write(kept.open_for_job(), b"printed\\n")
    kept.start()
"""


def test_keepers_of_the_same_job_do_not_wait_for_each_other(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", TWO, str(tmp_path)], cwd=REPOSITORY, check=True)
    link = "/memfd:gputop-twice (deleted)"
    until(lambda: not [pid for pid in identity.pids() if link in dict(job_processes.open_files(pid)).values()])
    assert (tmp_path / record.OUT_LOG).read_text() == "printed\nprinted\n"


ONE_AT_A_TIME = """
import os, sys
from pathlib import Path
from gputop.jobs import keeper
keeper.PIECE_BYTES = 300_000
free, others = keeper.Keeper._free, []
def free_and_let_another_try(kept):
    free(kept)
    pid = os.fork()
    if pid == 0:
        keeper.Keeper._free = free
        os._exit(10 + kept._move(finishing=True))
    others.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
keeper.Keeper._free = free_and_let_another_try
kept = keeper.Keeper(Path(sys.argv[1]), "one")
os.write(kept.open_for_job(), b"".join(b"%09d\\n" % number for number in range(100_000)))
kept.finish(5.0)
print(*others)
"""


def test_only_one_process_writes_the_log_also_while_it_frees_memory(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", ONE_AT_A_TIME, tmp_path], capture_output=True, text=True, cwd=REPOSITORY, check=True
    )
    assert run.stdout.split() == ["10"] * 4
    assert [int(line) for line in (tmp_path / record.OUT_LOG).read_text().splitlines()] == list(range(100_000))


KILLED = """
import os, signal, sys
from pathlib import Path
from gputop.jobs import keeper
kept = keeper.Keeper(Path(sys.argv[1]), "killed")
output = kept.open_for_job()
write, fstat = os.write, os.fstat
for number in range(20):
    write(output, b"%09d\\n" % number)
    pid = os.fork()
    if pid == 0:
        def kill(*_):
            os.kill(os.getpid(), signal.SIGKILL)
        def write_and_die(file, data):
            write(file, data)
            os.write = write
            if number % 2:
                kill()
            os.fstat = kill  # the next call, once what was written has been counted
            return len(data)
        os.write = write_and_die
        kept._move(finishing=True)
    os.waitpid(pid, 0)
kept.finish(5.0)
"""


def test_a_keeper_that_is_killed_while_it_writes_leaves_nothing_out_and_nothing_twice(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=REPOSITORY, check=True)
    assert [int(line) for line in (tmp_path / record.OUT_LOG).read_text().splitlines()] == list(range(20))


def test_a_backlog_beyond_the_log_s_size_is_left_out_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "LOG_BYTES", 100_000)
    kept = keeper.Keeper(tmp_path, "job")
    output = kept.open_for_job()
    for number in range(100_000):
        os.write(output, f"{number:09}\n".encode())
    kept.finish(1.0)
    os.close(output)
    lines = (tmp_path / record.OUT_LOG).read_text().splitlines()
    assert lines[1] == "gputop: 950000 bytes lost: the disk or the log was full."
    assert [int(line) for line in lines[2:]] == list(range(95_000, 100_000))


def test_standard_output_is_a_regular_file_and_may_be_opened_again() -> None:
    code = "import os, stat, sys; print(stat.S_ISREG(os.fstat(1).st_mode), os.path.sameopenfile(1, 2), os.isatty(1))"
    script = f"{shlex.quote(sys.executable)} -c '{code}'; sleep 0.5; echo warning > /dev/stderr; echo after"
    job = ended(store.start(Launch(("sh", "-c", script), {}, os.getcwd(), "shell")))
    assert printed_lines(job.id) == ("True True False", "warning", "after")


def test_a_daemon_of_a_finished_job_is_read_on() -> None:
    code = (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', \"import time; time.sleep(0.7); print('late')\"], start_new_session=True)"
    )
    job = ended(store.start(launch(code)))
    assert job.state == "finished"
    says(job, "late")


def test_a_log_is_cut_to_its_newest_half(tmp_path: Path) -> None:
    log = tmp_path / "out.log"
    log.write_text("".join(f"{number:09}\n" for number in range(100_000)))
    inode = log.stat().st_ino
    dropped = log_file.cut(log, 5)
    first, *rest = log.read_text().splitlines()
    assert first == f"gputop: {dropped + 5} bytes lost: the disk or the log was full."
    assert [int(line) for line in rest] == list(range(dropped // 10, 100_000))
    assert 400_000 < dropped <= 600_000
    assert log.stat().st_ino == inode


KILLED_WHILE_IT_CUTS = """
import os, signal, sys
from pathlib import Path
from gputop.jobs import log_file
log_file.PIECE_BYTES = 100_000
left, write, shorten = int(sys.argv[2]), os.pwrite, os.ftruncate
def count(call):
    def counted(*arguments):
        global left
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return call(*arguments)
    return counted
os.pwrite, os.ftruncate = count(write), count(shorten)
log_file.cut(Path(sys.argv[1]), 5)
"""


@pytest.mark.parametrize("calls", range(8))
def test_a_log_that_is_being_cut_shows_its_end_once(tmp_path: Path, calls: int) -> None:
    log = tmp_path / "out.log"
    log.write_bytes(log_file.note(5).lstrip() + b"".join(b"%09d\n" % number for number in range(100_000)))
    command = [sys.executable, "-c", KILLED_WHILE_IT_CUTS, log, str(calls)]
    assert subprocess.run(command, cwd=REPOSITORY, check=False).returncode == -signal.SIGKILL
    with log.open("ab") as file:
        file.write(b"%09d\n" % 100_000)
    read = FileFollower(log, ERRORS).read(2 << 20).data.splitlines()
    numbers = [int(line) for line in read if line.isdigit()]
    assert numbers == list(range(numbers[0], 100_001))
    dropped = log_file.cut(log, 5)  # by the next keeper
    lost, *rest = log.read_bytes().splitlines()
    assert [int(line) for line in rest] == list(range(int(rest[0]), 100_001))
    assert dropped == 10 * int(rest[0])
    assert lost == log_file.note(5 + dropped).strip()


def test_a_deleted_job_writes_into_nothing(tmp_path: Path) -> None:
    printer = Printer(tmp_path)
    pid = keeper_of(printer.job)
    (command,) = identity.marked(printer.job.id)
    subprocess.run(["rm", "-r", printer.job.directory], check=True)
    printer.print_lines(2000)
    until(lambda: Path(f"/proc/{command}/fd/1").stat().st_size > 2000 * 1001)
    until(lambda: Path(f"/proc/{command}/fd/1").stat().st_blocks * 512 < 1_000_000)
    os.kill(command, signal.SIGKILL)
    until(lambda: identity.start_ticks(pid) is None)


@pytest.fixture(autouse=True)
def no_keeper_left() -> Iterator[None]:
    yield
    names = tuple(f"/memfd:gputop-{job.id} " for job in store.list_jobs())
    until(lambda: not any(link.startswith(names) for pid in identity.pids() for _, link in job_processes.open_files(pid)))
