"""Jobs as real processes: they start, end, stop, outlive who started them, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputop.errors import UsageError
from gputop.jobs import checked, identity, record, spawn, stopping, store
from gputop.jobs.job import from_records
from gputop.jobs.store import Job
from gputop.recipes.catalogue import Launch
from tests.jobs.printed import printed_lines
from tests.patience import DEADLINE_S

pytestmark = [
    pytest.mark.interpreter,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="jobs are known by /proc"),
]


# Stands for torchrun: starts ranks in sessions of their own and waits for them.
LAUNCHER = """
import subprocess, sys
ranks = [subprocess.Popen([sys.executable, "-c", sys.argv[1]], start_new_session=True) for _ in range(2)]
print("ranks", *[rank.pid for rank in ranks], flush=True)
sys.exit(max(rank.wait() for rank in ranks))
"""
SLEEP = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"


def until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def launch(code: str, *arguments: str, **changes: object) -> Launch:
    base: dict[str, object] = {"env": {}, "cwd": os.getcwd(), "name": "test"}
    return Launch(argv=(sys.executable, "-c", code, *arguments), **{**base, **changes})  # type: ignore[arg-type]


def ended(job: Job) -> Job:
    until(lambda: not store.find(job.id).active)
    return store.find(job.id)


def says(job: Job, word: str, times: int = 1) -> None:
    """Wait until it is in the log that often. Unbuffered ranks may print two words on one line, and their line ends later."""
    until(lambda: sum(line.count(word) for line in printed_lines(job.id)) >= times)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Whatever a test does, no process of its jobs stays; one that stays in spite of a promise is that test's failure."""
    yield
    left = {job.id: identity.marked(job.id) for job in store.list_jobs()}
    for job_id in left:
        identity.signal_marked(job_id, signal.SIGKILL)
    for process in spawn.started:
        process.wait(DEADLINE_S)
    assert not any(left.values())


def test_a_job_runs_with_its_environment_and_finishes() -> None:
    code = "from os import environ as e; print(e['GPUTOP_JOB_ID'], e['GPUTOP_RUN_ID'], e['MASK'], e['PYTHONUNBUFFERED'])"
    started = store.start(launch(code, env={"MASK": "0,1"}, recipe_id="ddp", device_uuids=("a", "b"), values={"lr": 0.1}))
    assert started.state in ("starting", "running", "finished")
    job = ended(started)
    assert (job.state, job.exit_code, job.signal) == ("finished", 0, None)
    assert (job.name, job.recipe_id, job.device_uuids, job.values) == ("test", "ddp", ("a", "b"), {"lr": 0.1})
    assert printed_lines(job.id) == (f"{job.id} {job.id} 0,1 1",)
    assert job.started_at is not None
    assert job.ended_at is not None
    assert job.ended_at >= job.started_at
    with pytest.raises(UsageError, match="has ended: finished"):
        stopping.stop(job.id)


def test_files_are_private() -> None:
    job = ended(store.start(launch("print('secret')")))
    assert stat.S_IMODE(job.directory.stat().st_mode) == 0o700
    for name in (record.SPEC, record.STATUS, record.OUT_LOG, record.SPAWNED):
        assert stat.S_IMODE((job.directory / name).stat().st_mode) == 0o600, name


def test_failed_killed_and_impossible_commands_have_different_states() -> None:
    failed = store.start(launch("raise SystemExit(7)"))
    killed = store.start(launch("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"))
    impossible = store.start(Launch(("/no/such/program",), {}, os.getcwd(), "nothing"))
    failed, killed, impossible = ended(failed), ended(killed), ended(impossible)
    assert (failed.state, failed.exit_code) == ("failed", 7)
    assert (killed.state, killed.exit_code, killed.signal) == ("killed", None, "SIGKILL")
    assert (impossible.state, impossible.exit_code) == ("failed", 127)
    assert "/no/such/program cannot be started" in (impossible.problem or "")
    assert "/no/such/program cannot be started" in printed_lines(impossible.id)[-1]


def test_a_job_that_ends_while_its_records_are_read_is_shown_with_its_exit(tmp_path: Path) -> None:
    may_end = tmp_path / "may end"
    waits = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)\nsys.exit(7)"
    job = store.start(launch(waits, str(may_end)))
    until(lambda: checked.read_status(job.directory).get("state") == "running")
    before = checked.read_status(job.directory)
    may_end.touch()
    after = ended(job)
    until(lambda: not identity.is_alive(before["supervisor"]))
    assert from_records(job.directory, checked.read_spec(job.directory), before) == after
    assert (after.state, after.exit_code) == ("failed", 7)
    assert after.ended_at is not None


def test_jobs_are_listed_newest_first_and_foreign_things_are_passed_over() -> None:
    first = ended(store.start(launch("pass")))
    second = ended(store.start(launch("pass")))
    (first.directory.parent / "notes.txt").write_text("not a job")
    (first.directory.parent / "half").mkdir()
    assert [job.id for job in store.list_jobs()] == [second.id, first.id]
    for wrong in ("half", "../jobs", "", "no-such"):
        with pytest.raises(UsageError, match="no job"):
            store.find(wrong)


def test_a_job_is_also_found_by_its_name_that_of_the_one_that_runs_first() -> None:
    old = ended(store.start(launch("pass", name="resnet")))
    runs = store.start(launch("import time; time.sleep(600)", name="resnet"))
    ended(store.start(launch("pass", name="resnet")))
    assert [job.id for job in store.launched("resnet")] == [runs.id]
    another = store.start(launch("import time; time.sleep(600)", name="resnet"))
    with pytest.raises(UsageError, match="2 jobs are called 'resnet'") as told:
        store.launched("resnet")
    assert told.value.hint is not None
    assert {runs.id, another.id} <= set(told.value.hint.rstrip(".").replace(",", "").split())
    for job in (runs, another):
        stopping.stop(job.id)
    assert [job.id for job in store.launched("resnet")] == [another.id]
    assert [job.id for job in store.launched(old.id)] == [old.id]
    with pytest.raises(UsageError, match="no job"):
        store.launched("resnet50")


def test_stop_ends_launcher_and_ranks_and_says_stopped() -> None:
    job = store.start(launch(LAUNCHER, SLEEP))
    says(job, "up", times=2)
    assert store.find(job.id).state == "running"
    assert len(identity.marked(job.id)) == 3
    stopped = stopping.stop(job.id)
    assert stopped.state == "stopped"
    assert stopped.stop_asked
    assert identity.marked(job.id) == []


def test_stop_kills_what_ignores_it() -> None:
    job = store.start(launch(STUBBORN))
    says(job, "up")
    stopped = stopping.stop(job.id, grace_s=0.2)
    assert (stopped.state, stopped.signal) == ("stopped", "SIGKILL")


def test_a_stop_in_the_first_moment_is_not_lost() -> None:
    job = store.start(launch(SLEEP))
    assert stopping.stop(job.id).state == "stopped"


def test_ranks_of_a_killed_launcher_are_swept() -> None:
    job = store.start(launch(LAUNCHER, STUBBORN))
    says(job, "up", times=2)
    status = record.read_json(job.directory / record.STATUS)
    assert status is not None
    ranks = {int(pid) for pid in next(line for line in printed_lines(job.id) if "ranks" in line).split()[-2:]}
    os.kill(status["child"]["pid"], signal.SIGKILL)
    killed = ended(job)
    assert (killed.state, killed.signal) == ("killed", "SIGKILL")
    assert set(killed.swept) == ranks
    assert killed.survivors == ()
    assert identity.marked(job.id) == []


def test_a_job_outlives_the_process_that_started_it_and_a_hangup(tmp_path: Path) -> None:
    code = (
        "import os, sys, time\n"
        "from gputop.jobs import store\n"
        "from gputop.recipes.catalogue import Launch\n"
        f"print(store.start(Launch((sys.executable, '-c', {SLEEP!r}), {{}}, os.getcwd(), 'survivor')).id, flush=True)\n"
        "time.sleep(600)\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert starter.stdout is not None
    job = store.find(starter.stdout.readline().strip())
    says(job, "up")
    os.killpg(starter.pid, signal.SIGHUP)  # as a terminal does that goes away
    os.killpg(starter.pid, signal.SIGKILL)
    starter.wait()
    starter.stdout.close()
    pid = store.find(job.id).supervisor_pid
    assert pid is not None
    os.kill(pid, signal.SIGHUP)
    assert store.find(job.id).state == "running"
    assert stopping.stop(job.id).state == "stopped"


def test_without_its_supervisor_a_job_runs_on_can_be_stopped_and_is_else_lost() -> None:
    kept, alone = store.start(launch(LAUNCHER, SLEEP)), store.start(launch(SLEEP))
    for job, ranks in ((kept, 2), (alone, 1)):
        says(job, "up", times=ranks)
        pid = store.find(job.id).supervisor_pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda pid=pid: identity.start_ticks(pid) is None)
        assert store.find(job.id).state == "running"
    assert stopping.stop(kept.id).state == "stopped"
    assert identity.marked(kept.id) == []
    identity.signal_marked(alone.id, signal.SIGKILL)
    until(lambda: store.find(alone.id).state == "lost")


def test_a_process_is_not_known_by_its_number_alone() -> None:
    own = identity.describe(os.getpid())
    assert identity.is_alive(own)
    assert not identity.is_alive({**own, "start_ticks": 1})
    assert not identity.is_alive({**own, "boot_id": "another boot"})
    assert not identity.is_alive(None)


def test_a_job_of_another_machine_is_shown_as_it_was_last_and_not_stopped_from_here() -> None:
    job = ended(store.start(launch("pass")))
    spec = record.read_json(job.directory / record.SPEC)
    status = record.read_json(job.directory / record.STATUS)
    assert spec is not None
    assert status is not None
    other = job.directory.parent / "elsewhere"
    other.mkdir()
    record.write_json(other / record.SPEC, {**spec, "id": "elsewhere", "hostname": "node-of-another-name"})
    record.write_json(other / record.STATUS, {**status, "state": "running"})
    assert store.find("elsewhere").state == "running"
    with pytest.raises(UsageError, match="runs on node-of-another-name"):
        stopping.request_stop("elsewhere")


def test_a_link_in_place_of_a_record_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target.json"
    target.write_text("{}")
    (tmp_path / "link.json").symlink_to(target)
    assert record.read_json(target) == {}
    assert record.read_json(tmp_path / "link.json") is None
    with pytest.raises(OSError, match="symbolic"):
        record.open_log(tmp_path / "link.json")
