"""What can happen to a training process, done to real ones."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.tracking.journal import format as form
from gputop.tracking.journal import identity, places
from gputop.tracking.journal.writing.files import OpenJournal
from gputop.tracking.reader.runs import RunReader
from tests import REPOSITORY
from tests.fuzzing import examples
from tests.tracking.kit import DEADLINE_S, Home, eventually, home, read_all, without_checkout

assert home

pytestmark = pytest.mark.interpreter

ACKNOWLEDGE = """
import os, gputop
run = gputop.init(name="victim")
step = 0
while True:
    run.log(loss=float(step), step=step)
    os.pwrite(1, step.to_bytes(8, "little"), 0)
    step += 1
"""


@pytest.mark.parametrize("thread", ["1", "0"], ids=["ring", "write-through"])
def test_kill_9_loses_nothing_that_log_returned_from(home: Home, tmp_path: Path, thread: str) -> None:
    rng = random.Random(3)
    for attempt in range(examples(4)):
        acknowledged = tmp_path / f"acknowledged{attempt}"
        script = ACKNOWLEDGE.replace("os.pwrite(1,", "os.pwrite(out,").replace(
            "step = 0", f"step = 0; out = os.open({str(acknowledged)!r}, os.O_CREAT | os.O_WRONLY)", 1
        )
        process = home.start(script, GPUTOP_RUN_ID=f"victim{attempt}", GPUTOP_THREAD=thread)
        eventually(lambda path=acknowledged: path.exists() and path.stat().st_size, "the victim logs")
        time.sleep(rng.random() * 0.3)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        last = int.from_bytes(acknowledged.read_bytes(), "little")
        (archive,) = (home.runs / f"victim{attempt}").iterdir()
        seen = read_all(archive).series["loss"]
        assert [step for step, _ in seen[: last + 1]] == list(range(last + 1))
        assert len(seen) <= last + 2
        assert all(step == value for step, value in seen)
    reader = RunReader(home.runs)
    assert {run.state for run in reader.poll().runs} == {"killed"}
    assert home.rings() == [], "a dead process's ring is copied to its archive and removed"
    assert {run.state for run in reader.poll().runs} == {"killed"}
    reader.close()
    before = len(read_all(archive).series["loss"])
    assert before == len(seen)


def test_the_process_and_not_the_age_shows_that_a_run_has_ended(home: Home) -> None:
    scripts = {
        "finished": "import gputop\ngputop.init().log(loss=1.0)",
        "failed": "import gputop\ngputop.init().log(loss=1.0)\nraise RuntimeError('boom')",
        "exit3": "import gputop, sys\nwith gputop.init() as run:\n    run.log(loss=1.0)\n    sys.exit(3)",
        "killed": "import gputop, ctypes\ngputop.init().log(loss=1.0)\nctypes.CDLL(None)._exit(0)",
        "silent": "import gputop\ngputop.init()",
    }
    codes = {}
    for name, script in scripts.items():
        codes[name], _, err = home.run(script, GPUTOP_RUN_ID=name)
        assert ("boom" in err) == (name == "failed")
        assert "gputop" not in without_checkout(err).replace("import gputop", "").replace("gputop.init", "")
    states = {run.run_id: (run.state, run.ranks[0].exit_code) for run in RunReader(home.runs).poll().runs}
    assert states == {
        "finished": ("finished", None),
        "failed": ("failed", 1),
        "exit3": ("failed", 3),
        "killed": ("killed", None),
        "silent": ("finished", None),
    }
    assert codes == {"finished": 0, "failed": 1, "exit3": 3, "killed": 0, "silent": 0}


def test_interrupted_and_terminated(home: Home) -> None:
    script = "import gputop, time\nrun = gputop.init()\nrun.log(loss=1.0)\nprint('up')\nwhile True: time.sleep(0.01)"
    for name, number in (("interrupted", signal.SIGINT), ("terminated", signal.SIGTERM)):
        process = home.start(script, GPUTOP_RUN_ID=name)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        os.kill(process.pid, number)
        process.wait()
        assert process.returncode == -number
    assert {run.run_id: run.state for run in RunReader(home.runs).poll().runs} == {
        "interrupted": "stopped",
        "terminated": "killed",
    }


def test_a_stopped_process_is_stalled_and_resumes(home: Home) -> None:
    script = "import gputop, time\nrun = gputop.init()\nprint('up')\nwhile True:\n    run.log(loss=1.0)\n    time.sleep(0.005)"
    process = home.start(script)
    assert process.stdout is not None
    process.stdout.readline()
    reader = RunReader(home.runs)
    eventually(lambda: reader.poll().runs[0].state == "running", "running")
    os.kill(process.pid, signal.SIGSTOP)
    eventually(lambda: reader.poll().runs[0].state == "stalled", "stalled")
    os.kill(process.pid, signal.SIGCONT)
    eventually(lambda: reader.poll().runs[0].state == "running", "running again")
    os.kill(process.pid, signal.SIGKILL)
    eventually(lambda: reader.poll().runs[0].state == "killed", "killed, also while nobody has waited for it")
    reader.close()


def test_a_reused_pid_is_not_the_process(home: Home) -> None:
    who = identity.identify(identity.Place(0, None, 1, 0), "old")
    for run_id, changes in {
        "alive": {},
        "reused": {"start_ticks": who.start_ticks - 5},
        "rebooted": {"boot_id": "x" * 36},
    }.items():
        path = home.runs / run_id / "rank-00000.gpr"
        path.parent.mkdir(parents=True)
        fields = {name: getattr(who, name) for name in who.__dataclass_fields__} | {"run_id": run_id} | changes
        path.write_bytes(form.pack_header(form.ARCHIVE, 0, form.Identity(**fields), ""))
    states = {run.run_id: run.state for run in RunReader(home.runs).poll().runs}
    assert states == {"alive": "starting", "reused": "killed", "rebooted": "killed"}


FORK = """
import os, gputop, sys
run = gputop.init()
log = run.log
log(loss=1.0)
for child in range(3):
    pid = os.fork()
    if pid == 0:
        for number in range(1000):
            log(intruder=1.0); run.log(intruder=1.0); gputop.log(intruder=1.0); run.fact("intruder", 1)
        if child == 1:
            run.finish()
            sys.exit(0)  # through atexit
        if child == 2:
            os.environ["RANK"], os.environ["WORLD_SIZE"] = "1", "2"
            os.environ["GPUTOP_RUN_ID"] = "own"
            gputop.init(name="child").log(child=2.0)
            gputop.finish()
        os._exit(0)
    os.waitpid(pid, 0)
log(loss=2.0)
"""


def test_forked_children_write_nothing_of_their_parents(home: Home) -> None:
    code, _, err = home.run(FORK)
    assert (code, err) == (0, "")
    runs = {run.name: run for run in RunReader(home.runs).poll().runs}
    assert runs["child"].ranks[0].metrics == {"child": 2.0}
    assert runs["child"].ranks[0].rank == 1
    assert runs["script0"].state == "finished"
    (archive,) = (path for path in home.archives() if path.parent.name == runs["script0"].run_id)
    sink = read_all(archive)
    assert sink.series == {"loss": [(0, 1.0), (1, 2.0)]}
    assert not any(value["name"] == "intruder" for _, _, value in sink.events)


SPAWN = """
import multiprocessing, os, sys, gputop
def work(rank, how):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank), GPUTOP_RUN_ID=f"by-{how}")
    run = gputop.init()
    run.log(rank=float(rank))
    if rank:
        raise ValueError("rank 1 dies")
if __name__ == "__main__":
    for how in ("spawn", "fork"):
        context = multiprocessing.get_context(how)
        children = [context.Process(target=work, args=(rank, how)) for rank in range(2)]
        [child.start() for child in children]
        [child.join() for child in children]
"""


def test_multiprocessing_children_end_as_what_they_were(home: Home) -> None:
    home.run(SPAWN)
    for run in RunReader(home.runs).poll().runs:
        assert [rank.state for rank in run.ranks] == ["finished", "failed"], run.run_id
        assert [rank.metrics["rank"] for rank in run.ranks] == [0.0, 1.0]
        assert run.state == "failed"
    assert len(home.archives()) == 4


THREADS = """
import sys, threading, gputop
sys.setswitchinterval(1e-6)  # threads change at ever other places of log
run = gputop.init()
def work(number):
    for step in range(8000):
        run.log({f"thread{number}": float(step)}, step=step)
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_four_threads_lose_nothing(home: Home) -> None:
    code, _, err = home.run(THREADS)
    assert (code, err) == (0, "")
    series = read_all(home.archives()[0]).series
    assert {name: sorted(points) for name, points in series.items()} == {
        f"thread{number}": [(step, float(step)) for step in range(8000)] for number in range(4)
    }


SIGNALS = """
import itertools, signal, time, gputop
run = gputop.init()
numbers = itertools.count()
def handler(*_):
    run.log(handled=float(next(numbers)))
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
end, logged = time.monotonic() + 0.5, 0
while time.monotonic() < end:
    run.log(loss=float(logged)); logged += 1
    with run.phase("data"):
        pass
    if logged % 16 == 0:
        run.fact("count", logged)
signal.setitimer(signal.ITIMER_REAL, 0)
print(logged, next(numbers))
"""


def test_a_signal_handler_may_log_at_any_moment(home: Home) -> None:
    code, out, err = home.run(SIGNALS)
    assert (code, err) == (0, "")
    logged, handled = map(int, out.split())
    assert handled > 20
    series = read_all(home.archives()[0]).series
    assert [value for _, value in series["loss"]] == [float(number) for number in range(logged)]
    assert sorted(value for _, value in series["handled"]) == [float(number) for number in range(handled)]
    assert len(series["phase/data"]) == logged


STORM = """
import itertools, signal, sys, time, gputop
run = gputop.init()
numbers = itertools.count()
def handler(*_):
    gputop.log(handled=float(next(numbers)))
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001, float(sys.argv[1]))
logged = 0
while next(numbers) < 4000:
    gputop.log(loss=float(logged)); logged += 1
    gputop.fact("count", logged)
signal.setitimer(signal.ITIMER_REAL, 0)
print(logged)
"""


def test_a_signal_handler_that_logs_at_5_khz_does_not_hold_up_the_training(home: Home) -> None:
    code, out, err = home.run(STORM, "0.0002")
    assert code == 0, err[-2000:]
    series = read_all(home.archives()[0]).series
    assert [value for _, value in series["loss"]] == [float(number) for number in range(int(out))]
    assert err.count("gputop:") == err.count("\n") == ("dropped" in err)


INTERRUPTED = """
import signal, sys, time, gputop
from gputop.tracking.journal.writing import files
files.FINISH_S = 60.0  # a busy machine flushes late; one that holds a lock never does
run = gputop.init()
class Interrupt({base}):
    pass
raised = 0
def handler(*_):
    global raised
    raised += 1
    raise Interrupt
signal.signal(signal.SIGALRM, handler)
end, done, interrupted = time.monotonic() + 0.8, 0, 0
while time.monotonic() < end:
    try:
        # Fires once, some microseconds from here: at ever other places of log, of its slow ways, and of what it calls.
        signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + (done + interrupted) % 37))
        for _ in range(40):
            run.log(loss=1.0, step=done)
            run.log({{"count": 3}}, step=done)
            run.fact("count", done)
            done += 1
    except Interrupt:
        interrupted += 1
signal.setitimer(signal.ITIMER_REAL, 0)
assert not run.journal._writing, "an interrupted call still counts as one that writes"
for step in range(10):
    run.log(after=float(step), step=step)
print(interrupted, raised - interrupted)
"""


@pytest.mark.parametrize("base", ["BaseException", "Exception"])
def test_an_exception_from_a_signal_handler_within_log_does_not_end_logging(home: Home, base: str) -> None:
    """What the handler raises may end any call at any point, and reaches the script; the next calls must find the way free."""
    code, out, err = home.run(INTERRUPTED.format(base=base))
    assert (code, err) == (0, "")
    interrupted, lost = map(int, out.split())
    assert interrupted > 50
    assert lost == 0
    series = read_all(home.archives()[0]).series
    assert series["after"] == [(step, float(step)) for step in range(10)]


FULL_DISK = """
import resource, signal, sys, gputop
run = gputop.init()
run.log(loss=0.0)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
for step in range(1, 30_001):
    run.log(loss=float(step))
    if step % 1000 == 0:
        run._opened and run._opened._wake_flusher()
print("trained"); sys.stdout.flush()
sys.exit(int(sys.stdin.readline()))
"""


@pytest.mark.parametrize(("thread", "code"), [("1", 0), ("0", 0), ("0", 3)], ids=["ring", "write-through", "it fails"])
def test_a_full_disk_silences_the_archive_with_one_warning(home: Home, thread: str, code: int) -> None:
    process = home.start(FULL_DISK, GPUTOP_THREAD=thread)
    assert process.stdout is not None
    assert process.stdout.readline() == "trained\n"
    run = home.only_run()
    assert run.state == "running"
    if thread == "1":
        assert run.ranks[0].metrics["loss"] == 30_000.0, "the live view goes on"
    _, err = process.communicate(f"{code}\n")
    assert process.returncode == code
    assert err.count("gputop:") == 1
    assert "the training continues" in err
    assert ("Readers add the last part of the run once it has ended" in err) == (thread == "1")
    assert 100_000 < home.archives()[0].stat().st_size <= 200_000
    run = home.only_run()
    assert (run.state, run.ranks[0].exit_code) == ("failed" if code else "finished", code), "the end takes no room"


ENDED_BY_SIZE = """
import os, resource, signal, sys, time
import gputop
os.dup2(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), 2)
os.write(2, b"here")
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # as scripts do that exec other programs
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
gputop.init()
for step in range(20_000):
    gputop.log(loss=float(step))
time.sleep(1.5)
print("trained")
"""


@pytest.mark.parametrize("limit", [0, 4, 5000, 200_000])
@pytest.mark.parametrize("thread", ["1", "0"], ids=["ring", "write-through"])
def test_a_limit_on_the_size_of_files_does_not_end_a_script_that_lets_the_signal_end_it(
    home: Home, tmp_path: Path, limit: int, thread: str
) -> None:
    """No write of gputop may end the script: not to its own files, and not to a stderr that is a file.

    Python itself would leave truncated bytecode behind, for all that import gputop after it.
    """
    said = tmp_path / "stderr"
    given = {"GPUTOP_THREAD": thread, "PYTHONDONTWRITEBYTECODE": "1"}
    code, out, _ = home.run(ENDED_BY_SIZE.format(limit=limit), str(said), **given)
    assert (code, out) == (0, "trained\n"), said.read_text()
    assert said.stat().st_size <= max(limit, 4)


def test_bytecode_of_gputop_does_not_end_such_a_script_either(home: Home, tmp_path: Path) -> None:
    """As after an installation by uv, which compiles nothing."""
    said, cache = str(tmp_path / "stderr"), tmp_path / "cache"
    compiling = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(cache)}
    assert home.run(ENDED_BY_SIZE.format(limit=10**9), said, **compiling)[0] == 0
    own = Path(f"{cache}{REPOSITORY / 'gputop'}")
    assert list(own.rglob("*.pyc"))
    shutil.rmtree(own)
    code, out, _ = home.run(ENDED_BY_SIZE.format(limit=0), said, **compiling)
    assert (code, out) == (0, "trained\n")


def test_a_deleted_run_directory_is_reported_once_and_the_live_view_stays(home: Home, tmp_path: Path) -> None:
    script = (
        "import gputop, os, sys, time\nrun = gputop.init(name='orphan')\nrun.log(loss=0.0)\nprint('up')\nstep = 0\n"
        "while not os.path.exists(sys.argv[1]):\n    step += 1\n    run.log(loss=float(step))\n    time.sleep(0.002)"
    )
    process = home.start(script, str(tmp_path / "stop"))
    assert process.stdout is not None
    process.stdout.readline()
    following, late = RunReader(home.runs), RunReader(home.runs)
    first = following.poll().runs[0].ranks[0].step or 0
    shutil.rmtree(home.runs)

    def both_see_it() -> bool:
        updates = following.poll().runs, late.poll().runs
        return all(runs and runs[0].name == "orphan" and (runs[0].ranks[0].step or 0) > first for runs in updates)

    eventually(both_see_it, "a reader that knew it and a new one follow the ring alone")
    (tmp_path / "stop").touch()
    _, err = process.communicate()
    assert process.returncode == 0
    assert err.count("gputop:") == 1
    assert "deleted" in err
    following.close()
    late.close()


@pytest.mark.parametrize("obstacle", ["file", "proc"])
def test_where_nothing_can_be_written_the_training_continues(home: Home, tmp_path: Path, obstacle: str) -> None:
    place = tmp_path / "obstacle" / "below" if obstacle == "file" else Path("/proc/nowhere")
    if obstacle == "file":
        place.parent.write_text("no directory")
    script = "import gputop\nrun = gputop.init()\nrun.log(loss=1.0)\nrun.config.update(a=1)\nprint(run.dir)"
    for thread in ("1", "0"):
        code, out, err = home.run(script, GPUTOP_DIR=str(place), GPUTOP_THREAD=thread)
        assert (code, out) == (0, "None\n")
        assert err.count("gputop:") == 1
    for directory in places.live_dirs(place / "runs"):
        shutil.rmtree(directory, ignore_errors=True)


def test_someone_truncates_the_archive(home: Home) -> None:
    script = (
        "import gputop, sys\nrun = gputop.init()\nfor step in range(3000): run.log(loss=float(step))\n"
        "run._opened._wake_flusher()\n"
        "print('up')\nsys.stdin.readline()\nfor step in range(3000): run.log(loss=float(step))"
    )
    process = home.start(script)
    assert process.stdout is not None
    process.stdout.readline()
    (archive,) = home.archives()
    eventually(lambda: archive.stat().st_size > form.SEGMENT_BYTES, "the archive grows")
    reader = RunReader(home.runs)
    reader.poll()
    os.truncate(archive, 10_000)
    reader.poll()
    _, err = process.communicate("\n")
    assert (process.returncode, err) == (0, "")
    assert reader.poll().runs[0].state == "finished"
    assert home.only_run().state == "finished"
    reader.close()


def test_the_owner_truncates_the_ring_by_accident(home: Home) -> None:
    """A mapping of a file that has become shorter kills: as another user than root, the file cannot be opened to write."""
    script = """
import os, sys
import gputop
from gputop.tracking.journal import places
from pathlib import Path
gputop.init().finish()  # imports all that it needs, which another user may have no right to read
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
os.environ["GPUTOP_DIR"] = sys.argv[1]
run = gputop.init()
run.log(loss=1.0)
(ring,) = [ring for room in places.live_dirs(Path(sys.argv[1]) / "runs") for ring in room.glob("*.ring")]
for harm in (lambda: open(ring, "w"), lambda: os.truncate(ring, 0)):
    try:
        harm()
    except PermissionError:
        print("refused")
for step in range(100_000):
    run.log(loss=float(step))
run.finish()
print(ring.exists())
"""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o1777)
    try:
        code, out, err = home.run(script, str(place))
    finally:
        shutil.rmtree(place)
    assert (code, out, err) == (0, "refused\nrefused\nFalse\n", "")


@pytest.fixture
def small_tmpfs(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "tmpfs"
    directory.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m,mode=700", "none", directory], capture_output=True).returncode:
        pytest.skip("mounting a tmpfs is not permitted here")
    yield directory
    subprocess.run(["umount", "-l", directory], check=True)


def test_a_tmpfs_that_fills_up_after_the_start_ends_nothing(
    home: Home, small_tmpfs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "live_dirs", lambda runs: [small_tmpfs / "gputop" / "x"])
    monkeypatch.setattr("gputop.tracking.journal.writing.ring.TMPFS_SHARE", 1)
    opened = OpenJournal(identity.identify(identity.Place(0, None, 1, 0), "first"), home.runs)
    assert not opened.journal.through
    free = os.statvfs(small_tmpfs)
    (small_tmpfs / "filler").write_bytes(bytes(free.f_bavail * free.f_frsize))
    with pytest.raises(OSError, match="space"):
        (small_tmpfs / "more").write_bytes(bytes(4096))
    for step in range(60_000):  # over the whole ring, on pages that a sparse file would not have
        opened.journal.log(loss=float(step))
    opened.finish(form.FINISHED, None)
    second = OpenJournal(identity.identify(identity.Place(0, None, 1, 0), "second"), home.runs)
    os.unlink(small_tmpfs / "filler")
    assert second.journal.through, "no room for a ring: one write per record"
    second.journal.log(loss=1.0)
    second.finish(form.FINISHED, None)
    assert read_all(home.runs / "first" / "rank-00000.gpr").series["loss"][-1] == (59_999, 59_999.0)
    assert read_all(home.runs / "second" / "rank-00000.gpr").series["loss"] == [(0, 1.0)]


def test_a_squatted_live_directory_is_not_used(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere, open_to_all = tmp_path / "elsewhere", tmp_path / "open"
    elsewhere.mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(elsewhere)
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    monkeypatch.setattr(places, "live_dirs", lambda runs: [tmp_path / "link", open_to_all / "x"])
    opened = OpenJournal(identity.identify(identity.Place(0, None, 1, 0), "run"), home.runs)
    assert opened.journal.through
    opened.finish(form.FINISHED, None)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    ("squat", "words"),
    [
        ("touch $P", "not a directory"),
        ("mkdir $P; chown 65534 $P", "another user"),
        ("ln -s /tmp $P", "not a directory"),
        ("ln -s /missing $P", "not a directory"),
        ("mkfifo $P", "not a directory"),
        ("mkdir -m 777 $P", "open to other users"),
        ("mkdir -m 700 $P", None),
    ],
)
def test_the_owner_of_a_squatted_live_directory_is_named(home: Home, squat: str, words: str | None) -> None:
    if places.file_system(Path("/tmp")) == "tmpfs":
        pytest.skip("/tmp is a second place for rings here")
    own = f'mount -t tmpfs none /dev/shm && P=/dev/shm/gputop-$(id -u) && {squat} && exec "$0" "$@"'
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/dev/shm"], capture_output=True).returncode:
        pytest.skip("a namespace of one's own is not permitted here")
    script = "import gputop; run = gputop.init(); run.log(loss=1.0); print(run.journal.through)"
    code, out, err = home.run(
        script, command=("unshare", "-m", "sh", "-c", own, sys.executable), XDG_RUNTIME_DIR="", GPUTOP_RUN_ID="squatted"
    )
    assert (code, out) == (0, f"{words is not None}\n"), err
    assert err.count("\n") == err.count("gputop: ") == (words is not None)
    if words is not None:
        assert words in err
        assert "Remove" in err
    assert read_all(home.runs / "squatted" / "rank-00000.gpr").series["loss"] == [(0, 1.0)]


@pytest.fixture
def frozen_later(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, which ``fsfreeze`` can freeze."""
    image, directory = tmp_path / "image", tmp_path / "disk"
    image.write_bytes(bytes(16 * 2**20))
    directory.mkdir()
    for command in (
        ["mkfs.ext4", "-q", image],
        ["mount", "-o", "loop", image, directory],
        ["fsfreeze", "-f", directory],
        ["fsfreeze", "-u", directory],
    ):
        try:
            done = subprocess.run(command, capture_output=True, check=False)
        except FileNotFoundError:
            pytest.skip(f"{command[0]} is not installed")
        if done.returncode:
            subprocess.run(["umount", "-l", directory], capture_output=True, check=False)
            pytest.skip("mounting and freezing a file system is not permitted here")
    yield directory
    subprocess.run(["fsfreeze", "-u", directory], capture_output=True, check=False)
    subprocess.run(["umount", "-l", directory], check=True)


FROZEN = """
import gputop, sys, time
run = gputop.init(name="frozen")
run.log(loss=0.0)
print("up", flush=True); sys.stdin.readline()
began, worst = time.monotonic(), 0.0
step = 0
while time.monotonic() < began + 1.5:
    step += 1
    before = time.monotonic()
    run.log(loss=float(step))
    worst = max(worst, time.monotonic() - before)
    time.sleep(0.001)
print("logged", worst < 1.0, flush=True)
before = time.monotonic()
run.finish()
print("finished", time.monotonic() - before < 3.5, flush=True)
"""


def test_a_frozen_file_system_holds_up_neither_the_training_nor_its_end(home: Home, frozen_later: Path) -> None:
    process = home.start(FROZEN, GPUTOP_DIR=str(frozen_later / "state"))
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "up\n"
    subprocess.run(["fsfreeze", "-f", frozen_later], check=True)
    try:
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "logged True\n"
        assert process.stdout.readline() == "finished True\n"
    finally:
        subprocess.run(["fsfreeze", "-u", frozen_later], check=True)
    # The kernel keeps a thread that waits for a frozen disk: the process ends once the disk answers.
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert err.count("gputop:") == 1
    assert "did not answer" in err


SHRUNK = """
import os, sys, time, gputop
from gputop.tracking.journal import format as form
run = gputop.init(name="shrunk")
run.log(loss=0.0, step=0); run.log(loss=1.0, acc=0.5, step=1)
run.config["lr"] = 0.1
words = run.journal.words
while words[form.W_FLUSHED] < words[form.W_HEAD]:
    time.sleep(0.01)
del words
print("up", flush=True)
if sys.stdin.readline() == "log\\n":
    for step in range(2, 30_000):
        run.log(loss=float(step), step=step)
    run.log(later=1.0, step=step)
    run.config["lr"] = 0.2
run.finish()
print("done", flush=True)
"""


ROOT_TRUNCATES = """
import os, pathlib, sys, threading, time, gputop
from gputop.tracking.journal import places
from gputop.tracking.journal import format as form
opened = gputop.init(name="shrunk")
opened.log(loss=0.0, step=0)
(ring,) = [ring for room in places.live_dirs(pathlib.Path(sys.argv[1])) for ring in room.glob("*.ring")]
size = ring.stat().st_size
ring.chmod(0o600)  # as root may
def harm():
    try:
        for left in (form.HEADER_BYTES, 0, size // 2, size) * 100:
            os.truncate(ring, left)
        os.truncate(ring, 0)
    except FileNotFoundError:
        pass  # noticed
    done.append(0)
done, step = [], 0
if sys.argv[2] == "at once":
    os.truncate(ring, 0)
    done.append(0)
else:
    threading.Thread(target=harm, daemon=True).start()
while not done or step < 3000:
    step += 1
    opened.log(loss=float(step), step=step)
    opened.fact("count", step)
    with opened.phase("data"):
        pass
gputop.finish()
print(step)
"""


FORBIDDEN = "from gputop.tracking.journal.writing import ring\nring.copying_call = lambda: None\n"
"""As in a container that forbids ``process_vm_writev``."""


@pytest.mark.parametrize(
    "before", ["", FORBIDDEN], ids=["copied by the kernel", "in a container that forbids the copying call"]
)
@pytest.mark.parametrize("when", ["at once", "all the time"])
def test_a_ring_that_is_truncated_between_any_two_records_ends_nothing(home: Home, when: str, before: str) -> None:
    code, out, err = home.run(before + ROOT_TRUNCATES, str(home.runs), when)
    assert code == 0, err
    assert err.count("gputop:") == err.count("\n") == 1
    assert "truncated" in err
    assert home.rings() == []
    seen = read_all(home.archives()[0]).series["loss"]
    assert seen == [(step, float(step)) for step in range(int(out) + 1)], "the disk has them all"
    assert home.only_run().state == "finished"


def test_a_container_that_forbids_the_copying_call_has_a_ring_all_the_same(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.tracking.journal.writing.ring.copying_call", lambda: None)
    opened = OpenJournal(identity.identify(identity.Place(0, None, 1, 0), "old"), home.runs, ring_bytes=form.RING_BYTES_MIN)
    for step in range(20_000):
        opened.journal.log(loss=float(step))
        if step % 1000 == 0:
            opened._wake_flusher()
    assert read_all(home.archives()[0]).series["loss"][-1] == (19_999, 19_999.0), "the archive does not have all of it yet"
    opened.finish(form.FINISHED, None)
    assert home.only_run().state == "finished"


HOLDS_A_LEASE = """
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
for _ in sys.stdin:
    fd = os.open(sys.argv[1], os.O_RDONLY)
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        print("held", flush=True)
    except OSError:
        os.close(fd)
        print("refused", flush=True)
"""
LEASED = """
import os, pathlib, signal, subprocess, sys, gputop
from gputop.tracking.journal import places
run = gputop.init(name="leased")
run.log(loss=0.0, step=0)
(ring,) = [ring for room in places.live_dirs(pathlib.Path(sys.argv[1])) for ring in room.glob("*.ring")]
inode = f":{ring.stat().st_ino} "
holder = subprocess.Popen([sys.executable, "-c", sys.argv[2], ring], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
said = b""
while said != b"held\\n":
    for fd in set(range(3, 1024)) - {holder.stdin.fileno(), holder.stdout.fileno()}:
        try:
            os.close(fd)  # as a daemon does
        except OSError:
            pass
    holder.stdin.write(b"\\n")
    holder.stdin.flush()
    said = holder.stdout.readline()
holder.send_signal(signal.SIGSTOP)
for step in range(1, 100):
    run.log(loss=float(step), step=step)
gputop.finish()
print(any("LEASE" in line and inode in line for line in open("/proc/locks")))
holder.kill()
"""


def test_a_reader_that_is_stopped_while_it_holds_a_lease_on_the_ring_holds_up_nothing(home: Home) -> None:
    code, out, err = home.run(FORBIDDEN + LEASED, str(home.runs), HOLDS_A_LEASE)
    assert code == 0, err
    assert out == "True\n", "the writer did not wait until the kernel took the lease away"
    assert "can no longer be written" in err
    assert home.rings() == []
    assert read_all(home.archives()[0]).series["loss"] == [(step, float(step)) for step in range(100)]
    assert home.only_run().state == "finished"


@pytest.mark.parametrize(("left", "then"), [(0, "log"), (200_000, "log"), (0, "finish")])
def test_a_ring_that_shrinks_is_abandoned(home: Home, left: int, then: str) -> None:
    process = home.start(SHRUNK)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "up\n"
    (ring,) = home.rings()
    ring.chmod(0o600)
    os.truncate(ring, left)
    if then == "log":
        assert "truncated" in process.stderr.readline(), "the flusher has noticed"
        assert home.only_run().state == "running", "readers follow the archive"
    out, err = process.communicate(f"{then}\n", timeout=DEADLINE_S)
    assert (process.returncode, out) == (0, "done\n"), err
    assert ("truncated" in err) == (then == "finish")
    assert home.rings() == []
    run, said = home.only_run(), read_all(home.archives()[0])
    assert run.state == "finished"
    assert run.config == {"lr": 0.2 if then == "log" else 0.1}
    assert [step for step, _ in said.series["loss"]] == list(range(30_000 if then == "log" else 2))
    assert ("later" in said.series) == (then == "log")
