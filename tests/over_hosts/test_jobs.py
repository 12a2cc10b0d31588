"""The jobs of hosts that share a home directory, and hosts that hang or never end: none of it freezes or hides the others."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from gputop.cli.across.jobs import rows
from gputop.cli.across.runs import RunsThere, runs_of
from gputop.cli.main import main
from gputop.cli.runs import rows_over
from gputop.errors import GputopError
from gputop.hosts.transport import Transport, transport_of
from gputop.jobs import stopping, store
from gputop.over_hosts import jobs
from gputop.over_hosts.launch import Cancellation, launch_over
from gputop.over_hosts.watched import HostJobs
from gputop.process import ProcessRank, ProcessRun
from gputop.recipes.nodes import NodeOrder
from gputop.wire import encode
from tests import REPOSITORY
from tests.tracking.kit import Home, eventually, home

assert home
HERE = "env GPUTOP_TEST_HOST={host}"
AS_HOST = """
import os, socket, sys
socket.gethostname = lambda: os.environ["GPUTOP_TEST_HOST"]
from gputop.cli.across.jobs import rows
from gputop.cli.across.runs import RunsThere, runs_of
from gputop.cli.main import main
from gputop.cli.runs import rows_over
raise SystemExit(main(sys.argv[1:]))
"""
"""A gputop on a machine of this name."""


def sharing_a_home(folder: Path) -> Transport:
    """Machines called as their hosts are, which all have this machine's state directory."""
    there = folder / "gputop there.py"
    there.write_text(AS_HOST)
    return transport_of(HERE, shlex.join(["env", f"PYTHONPATH={REPOSITORY}", sys.executable, str(there)]))


def saying(folder: Path, script: str) -> Transport:
    """Hosts whose gputop is a script of a shell; $1 is the command, $GPUTOP_TEST_HOST the host."""
    there = folder / "gputop there"
    there.write_text(script)
    return transport_of(HERE, f"sh {shlex.quote(str(there))}")


def listed(over: HostJobs) -> store.Listing:
    """What the hosts list, once they have answered."""
    found: store.Listing = eventually(over.read_jobs, "the hosts answer")
    return found


def test_a_launch_over_hosts_with_one_home_is_read_and_stopped_on_all(home: Home, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os, time\nprint(os.environ['PET_RDZV_ID'])\ntime.sleep(600)\n")
    over = HostJobs(("a", "b"), sharing_a_home(tmp_path))
    order = NodeOrder(store.new_id(), 0, 1, command=(sys.executable, "-u", "train.py"), cwd=str(tmp_path))
    launch_over(over.hosts, over.transport, order, None, lambda line: None)
    try:
        (job,) = listed(over).jobs
        assert (job.id, job.hosts) == (order.id, ("a", "b"))
        log = over.follow(job)
        said: set[str] = set()
        try:
            eventually(lambda: said.update(log.poll()) or {line[:1] for line in said} >= {"a", "b"}, "both hosts tell")
        finally:
            log.close()
        over.stop(job)
        assert {part.state for part in store.list_jobs()} == {"stopped"}
    finally:
        for part in store.list_jobs():
            stopping.stop_processes(part.id)


AHEAD_S = 3 * 3600.0


def telling(folder: Path, told: dict[str, object]) -> Transport:
    """Hosts that print this, as JSON, whatever they are asked."""
    for host, data in told.items():
        (folder / host).write_text(json.dumps(data) + "\n")
    return saying(folder, f'cat {shlex.quote(str(folder))}/"$GPUTOP_TEST_HOST"')


def test_jobs_of_hosts_whose_clocks_differ_have_times_of_this_machine(tmp_path: Path) -> None:
    """They make one row: the earliest start and the latest end by two clocks would make a job of hours."""
    now = time.time()
    job = {"id": "x", "launch_id": "x", "name": "tiny", "state": "finished", "exit_code": 0}
    told: dict[str, object] = {
        "right": [{**job, "started_at": now - 60.0, "ended_at": now - 30.0, "listed_at": now - 1.0}],
        "ahead": [{**job, "started_at": now + AHEAD_S - 60.0, "ended_at": now + AHEAD_S - 30.0, "listed_at": now + AHEAD_S}],
        "older": [{**job, "started_at": now - 60.0, "ended_at": now - 30.0}],
    }
    found, _ = jobs.jobs_of(tuple(told), telling(tmp_path, told))
    assert found["older"][0].started_at == now - 60.0
    for host in ("right", "ahead"):
        began, ended = found[host][0].started_at, found[host][0].ended_at
        assert began is not None
        assert ended is not None
        assert abs(ended - began - 30.0) < 0.01
        assert abs(began - (now - 60.0)) < AHEAD_S / 2
    ((_, _, _, _, took, _, _),) = rows(found, now)
    assert not took.startswith("3h")


def test_a_launch_that_lost_a_node_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before its ranks have met, the others wait for the node for ten minutes, and nothing else shows it."""
    whole = {"id": "w", "launch_id": "w", "name": "whole", "state": "running"}
    part = {"id": "x", "launch_id": "x", "name": "tiny"}
    over = {"id": "z", "launch_id": "z", "name": "over", "state": "finished"}
    told: dict[str, object] = {
        host: [{**whole, "id": f"w-{host}"}, {**part, "id": f"x-{host}", "state": state}, {**over, "id": f"z-{host}"}]
        for host, state in (("a", "running"), ("b", "killed"))
    }
    transport = telling(tmp_path, told)
    assert main(["jobs", "-H", "a,b", "--via", HERE, "--remote", transport.remote]) == 0
    last = capsys.readouterr().out.splitlines()[4:]
    stop = f"gputop stop -H a,b --via '{HERE}' --remote {shlex.quote(transport.remote)} x"
    assert last == [f"x was killed on b: what runs on a may wait for it until a timeout. Stop it: {stop}"]


def test_runs_of_hosts_whose_clocks_differ_have_times_of_this_machine(tmp_path: Path) -> None:
    began = time.time() - 60.0
    run = ProcessRun("pid:7", "train.py", (ProcessRank(7),), started_at=began + AHEAD_S)
    told: dict[str, object] = {"ahead": encode(RunsThere("n1", time.time() + AHEAD_S, not_tracked=(run,)))}
    found, _ = runs_of(("ahead",), telling(tmp_path, told))
    (row,) = rows_over(found)
    assert abs(time.mktime(time.strptime(row[6], "%Y-%m-%d %H:%M:%S")) - began) < AHEAD_S / 2


@pytest.mark.parametrize("told", [{"x": 1}, [{"x": 1}], [7]], ids=str)
def test_an_answer_that_is_no_list_of_jobs_is_not_a_host_without_jobs(tmp_path: Path, told: object) -> None:
    record: dict[str, object] = {"id": "x", "name": "tiny", "state": "running"}
    answers: dict[str, object] = {"good": [record], "odd": told, "part": [record, {"x": 1}], "empty": []}
    found, ends = jobs.jobs_of(tuple(answers), telling(tmp_path, answers))
    assert {host: len(listed) for host, listed in found.items()} == {"good": 1, "part": 1, "empty": 0}
    assert ends["odd"].sentence("odd").startswith("odd: unreadable. What it sends is not what was asked for.")


READY = """read -r order; echo '{"ready": {"address": "127.0.0.1", "port": 1}}'; read -r go"""


def test_a_launch_that_could_not_be_stopped_names_the_hosts_where_it_may_run(tmp_path: Path) -> None:
    cannot = f"""
case $1,$GPUTOP_TEST_HOST in
    launch,a) {READY}; echo '{{"started": "x"}}'; exec cat >/dev/null;;
    launch,b) {READY}; echo 'gputop: The disk is full.' >&2; exit 1;;
    stop,a) echo 'gputop: Job x still runs after SIGKILL: 7.' >&2; exit 1;;
    stop,b) echo 'gputop: There is no job.' >&2; exit 2;;
esac
"""
    order = NodeOrder("20261122-141300-3f2a", 0, 1, command=("true",))
    there = saying(tmp_path, cannot)
    with pytest.raises(GputopError) as told:
        launch_over(("a", "b"), there, order, None, lambda line: None)
    assert "b: The disk is full." in told.value.message
    assert told.value.hint.startswith("It may still run on a: gputop stop -H a ")
    command = shlex.split(told.value.hint.partition(": gputop stop ")[2])
    assert command == ["-H", "a", "--via", HERE, "--remote", there.remote, "20261122-141300-3f2a"], "it works as it stands"


@pytest.mark.parametrize(
    ("hosts", "hint"),
    [(("a", "b"), "The run was stopped on the other hosts."), (("b",), "The run was stopped.")],
    ids=["two hosts", "one host"],
)
def test_a_launch_that_fails_says_where_it_was_stopped(tmp_path: Path, hosts: tuple[str, ...], hint: str) -> None:
    script = f"""
case $1,$GPUTOP_TEST_HOST in
    launch,a) {READY}; echo '{{"started": "x"}}'; exec cat >/dev/null;;
    launch,b) {READY}; echo 'gputop: The disk is full.' >&2; exit 1;;
    stop,*) echo 'gputop: There is no job.' >&2; exit 2;;
esac
"""
    order = NodeOrder("20261122-141300-3f2a", 0, 1, command=("true",))
    with pytest.raises(GputopError) as told:
        launch_over(hosts, saying(tmp_path, script), order, None, lambda line: None)
    assert (told.value.message, told.value.hint) == ("b: The disk is full.", hint)


def test_a_launch_is_canceled_without_waiting_for_hosts(home: Home, tmp_path: Path) -> None:
    """One host has started it, and stops it by itself; the other one would hold it up for three minutes."""
    there = tmp_path / "run there.py"
    there.write_text(AS_HOST)
    run = shlex.join(["env", f"PYTHONPATH={REPOSITORY}", sys.executable, str(there)])
    transport = saying(
        tmp_path,
        f"""
case $GPUTOP_TEST_HOST in
    a) exec {run} "$@";;
    b) {READY}; exec cat >/dev/null;;
esac
""",
    )
    order = NodeOrder(store.new_id(), 0, 1, command=("sleep", "600"), cwd=str(tmp_path))
    cancellation = Cancellation()
    with ThreadPoolExecutor(1) as pool:
        launching = pool.submit(launch_over, ("a", "b"), transport, order, None, lambda line: None, cancellation)
        try:
            (job,) = eventually(lambda: [job for job in store.list_jobs() if job.state == "running"], "it runs on one host")
        finally:
            was_in_time = cancellation.cancel()
        assert was_in_time
        with pytest.raises(GputopError):
            launching.result(timeout=60)
    eventually(lambda: store.find(job.id).state == "stopped", "it was stopped")
    late = Cancellation()
    late.all_started()
    assert not late.cancel(), "then it is theirs"


HANGS_AT_STOP = "case $GPUTOP_TEST_HOST in a) echo x-n0: stopped;; b) exec sleep 600;; esac"
HUNG_S = 10.0
"""The limit holds for both hosts: the one that answers may take a while on a busy machine."""


def test_a_stop_that_a_host_does_not_answer_says_what_became_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "STOP_S", HUNG_S)
    over = HostJobs(("a", "b"), saying(tmp_path, HANGS_AT_STOP))
    with pytest.raises(GputopError) as told:
        over.stop(store.Job("x", "mine", "running", (), tmp_path, launch_id="x", hosts=("a", "b")))
    assert "b: timed out. It has not answered for 10 s." in told.value.message
    assert told.value.message.endswith("a: x-n0: stopped.")
    assert told.value.hint == f"It may still run on b: gputop stop {over.transport.options('b')} x"


def test_a_stop_from_the_command_line_ends_where_a_host_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jobs, "STOP_S", HUNG_S)
    transport = saying(tmp_path, HANGS_AT_STOP)
    assert main(["stop", "-H", "a,b", "x", "--via", HERE, "--remote", transport.remote]) == 1
    said = capsys.readouterr()
    assert said.out == "a: x-n0: stopped\n"
    assert "b: timed out. It has not answered for 10 s." in said.err
    assert said.err.endswith(f"It may still run on b: gputop stop {transport.options('b')} x\n")


def test_a_host_that_hangs_is_cut_off_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "ANSWER", replace(jobs.ANSWER, within_s=1.0))
    over = HostJobs(("hung",), saying(tmp_path, "exec sleep 600"))
    assert over.read_jobs() is None, "nobody waits for it"
    (problem,) = listed(over).problems
    assert "hung: timed out. It has not answered for 1 s." in str(problem)


def test_a_host_that_never_ends_is_cut_off_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jobs, "ANSWER", replace(jobs.ANSWER, lines_most=1000))
    record = json.dumps([{"id": "x", "name": "tiny", "state": "running"}])
    script = f"""
case $1,$GPUTOP_TEST_HOST in
    jobs,good) echo 'One moment.'; echo '{record}'; exit;;
    jobs,endless) exec yes '{record}';;
    *,endless) exec yes;;
    *,good) echo 'what it knows';;
esac
"""
    transport = saying(tmp_path, script)
    listing = listed(HostJobs(("good", "endless"), transport))
    assert ([job.hosts for job in listing.jobs], listing.problems) == ([("good", "endless")], ())

    assert main(["runs", "show", "x", "-H", "good,endless", "--via", HERE, "--remote", transport.remote]) == 1
    said = capsys.readouterr()
    assert said.out == "good:\n\nwhat it knows\n", "nothing of a host that was cut off is shown as what it knows"
    assert "endless: unreadable. It sent far more than requested." in said.err


CLOSES_AT_ITS_EXIT = """
import atexit
from gputop.hosts.errand import Errands
from gputop.hosts.transport import transport_of
errands = Errands(transport_of({via!r}, "sleep"), ("a", "b"), ("600",))
errands.start()
atexit.register(errands.close)
"""


def test_connections_are_closed_while_python_ends(tmp_path: Path) -> None:
    """The log on the launch screen closes them in a thread, which nothing waits for; pools of threads take no work by then."""
    script = tmp_path / "closes.py"
    script.write_text(CLOSES_AT_ITS_EXIT.format(via=HERE))
    words = [sys.executable, str(script)]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
