"""``gputop launch`` on this machine, and as the node that other machines ask for: real jobs, and hosts that send nonsense."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.cli.main import main
from gputop.errors import GputopError
from gputop.jobs import stopping, store
from tests.hosts.machines.sshd import DEADLINE_S
from tests.tracking.kit import Home, clean_environment, eventually, home

assert home
HERE = "env GPUTOP_TEST_HOST={host}"
SCRIPT = "import os, sys, time\nprint(os.environ['GPUTOP_RUN_ID'], os.environ.get('PET_NNODES'), *sys.argv[1:], flush=True)\n"


@pytest.fixture
def script(home: Home, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    yield path
    for job in store.list_jobs():
        if job.active:
            stopping.stop(job.id)


def test_a_command_continues_as_a_job(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "--name", "mine", "--cwd", str(script.parent), "--", "train.py", "--lr", "0.1", "--"]) == 0
    job_id = capsys.readouterr().out.split(":")[0]
    eventually(lambda: not store.find(job_id).active, "it ended")
    assert (store.find(job_id).name, store.find(job_id).exit_code) == ("mine", 0)
    assert main(["logs", job_id]) == 0
    assert f"{job_id} None --lr 0.1 --\n" in capsys.readouterr().out

    for words, said in (
        (["launch"], "Name a recipe or a command."),
        (["launch", "ddp", "--", "x"], "Name a recipe or a command."),
        (["launch", "--cwd", "/nonexistent", "--", "true"], "Name another one with --cwd."),
        (["launch", "-H", "a", "--via", HERE, "--rendezvous", "a b", "--", "true"], "not an address"),
    ):
        assert main(words) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--", "true"], ["--cwd", ".", "--", "true"], ["--cwd", "below", "--", "true"], ["ddp"]])
def test_a_launch_from_a_deleted_folder_is_refused_in_one_sentence(home: Home, tmp_path: Path, words: list[str]) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    code = "import os, sys; os.rmdir(os.getcwd()); from gputop.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "launch", *words]
    done = subprocess.run(command, cwd=folder, env=clean_environment(home.state), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "There is no folder " in done.stderr


def node(home: Home, *lines: str) -> subprocess.CompletedProcess[str]:
    """Ask for a node, and hang up after ``lines``."""
    return subprocess.run(
        [sys.executable, "-m", "gputop", "launch", "--as-node"],
        input="".join(f"{line}\n" for line in lines),
        env=clean_environment(home.state),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def test_a_node_starts_only_when_all_can(home: Home, script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = {"id": "20261122-141300-3f2a", "node": 1, "nodes": 2, "command": ["train.py"], "cwd": str(script.parent)}
    order = json.dumps({"order": wanted})
    hung_up = node(home, order)
    assert (hung_up.returncode, list(json.loads(hung_up.stdout))) == (1, ["ready"])
    assert store.list_jobs() == []
    missing = node(home, json.dumps({"order": {**wanted, "command": ["gone.py"]}}), json.dumps({"go": "x:1"}))
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "There is no gone.py" in missing.stderr
    assert node(home, "[]").returncode == 1
    assert node(home).returncode == 2

    done = node(home, order, json.dumps({"go": "127.0.0.1:29400"}), json.dumps({"keep": wanted["id"]}))
    ready, started, kept = map(json.loads, done.stdout.splitlines())
    assert 0 < ready["ready"]["port"] < 1 << 16
    assert (started, kept) == ({"started": f"{wanted['id']}-n1"}, {"kept": f"{wanted['id']}-n1"})
    eventually(lambda: not store.find(f"{wanted['id']}-n1").active, "it ended")
    assert main(["logs", str(wanted["id"])]) == 0, "the id of the launch names its jobs on this machine"
    assert f"{wanted['id']} 2\n" in capsys.readouterr().out


def test_a_node_lives_on_only_once_all_have_started(home: Home, script: Path) -> None:
    script.write_text("import time\ntime.sleep(600)\n")
    wanted = {"node": 0, "nodes": 2, "command": ["train.py"], "cwd": str(script.parent)}
    for job_id, more, states in (
        ("20261122-141300-0001", [], {"stopped"}),
        ("20261122-141300-0002", ["nonsense"], {"stopped"}),
        ("20261122-141300-0003", [json.dumps({"keep": ""})], {"starting", "running"}),
    ):
        done = node(home, json.dumps({"order": {**wanted, "id": job_id}}), json.dumps({"go": "127.0.0.1:29400"}), *more)
        assert done.returncode == (1 if "stopped" in states else 0)
        eventually(lambda: store.find(f"{job_id}-n0").state in states, f"{job_id} is {states}")  # noqa: B023


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_node_that_is_killed_before_all_have_started_leaves_nothing_running(
    number: signal.Signals, home: Home, script: Path
) -> None:
    """As on a slow machine whose connection is closed: it may not even have seen that its job started."""
    script.write_text("import time\ntime.sleep(600)\n")
    wanted = {"id": "20261122-141300-3f2a", "node": 0, "nodes": 2, "command": ["train.py"], "cwd": str(script.parent)}
    with subprocess.Popen(
        [sys.executable, "-m", "gputop", "launch", "--as-node"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=clean_environment(home.state),
    ) as as_node:
        assert as_node.stdin is not None
        as_node.stdin.write("".join(json.dumps(line) + "\n" for line in ({"order": wanted}, {"go": "127.0.0.1:1"})).encode())
        as_node.stdin.flush()
        (job,) = eventually(lambda: [job for job in store.list_jobs() if job.state == "running"], "it runs")
        as_node.send_signal(number)
    eventually(lambda: store.find(job.id).state == "stopped", "it was stopped")


def test_a_launch_that_is_interrupted_leaves_nothing_running(home: Home, script: Path, tmp_path: Path) -> None:
    script.write_text("import time\ntime.sleep(600)\n")
    wrapper = tmp_path / "gputop there"
    ready = '{"ready": {"address": "127.0.0.1", "port": 1}}'
    slow = f"case $GPUTOP_TEST_HOST,$1 in b,launch) echo '{ready}'; exec cat >/dev/null;; esac"
    wrapper.write_text(f'{slow}\nexec {shlex.quote(sys.executable)} -m gputop "$@"\n')
    reach = ["-H", "a,b", "--via", HERE, "--remote", f"sh {shlex.quote(str(wrapper))}", "--cwd", str(script.parent)]
    words = [sys.executable, "-m", "gputop", "launch", *reach, "--", "train.py"]
    launching = subprocess.Popen(words, env=clean_environment(home.state), stderr=subprocess.PIPE, text=True)
    try:
        (job,) = eventually(lambda: [job for job in store.list_jobs() if job.state == "running"], "it runs on one host")
        launching.send_signal(signal.SIGINT)
        _, said = launching.communicate(timeout=DEADLINE_S)
    finally:
        launching.kill()
        launching.wait()
    assert launching.returncode == 130
    assert said == f"Starting {job.run_id} on a, b.\nIt was canceled, and runs on no host.\n"
    eventually(lambda: store.find(job.id).state == "stopped", "it was stopped")


def test_a_launch_whose_end_is_interrupted_says_where_it_may_run(home: Home, script: Path, tmp_path: Path) -> None:
    wrapper, happened = tmp_path / "gputop there", tmp_path / "happened"
    note = f'echo "$1 $GPUTOP_TEST_HOST" >>{shlex.quote(str(happened))}'
    wrapper.write_text(
        f"if [ $1 = stop ]; then {note}; exec sleep 600; fi\n"
        """read -r order; echo '{"ready": {"address": "127.0.0.1", "port": 1}}'\n"""
        f"read -r go; {note}; exec cat >/dev/null\n"
    )
    reach = ["-H", "a,b", "--via", HERE, "--remote", f"sh {shlex.quote(str(wrapper))}", "--cwd", str(script.parent)]
    words = [sys.executable, "-m", "gputop", "launch", *reach, "--", "train.py"]
    with subprocess.Popen(words, env=clean_environment(home.state), stderr=subprocess.PIPE, text=True) as launching:
        try:
            assert launching.stderr is not None
            job_id = launching.stderr.readline().split()[1]
            for word in ("launch", "stop"):
                eventually(lambda: happened.exists() and word in happened.read_text(), f"a host received {word!r}")  # noqa: B023
                launching.send_signal(signal.SIGINT)
            _, said = launching.communicate(timeout=DEADLINE_S)
        finally:
            launching.kill()
    assert launching.returncode == 130
    command = said.removeprefix("It may still run on a, b: gputop ")
    assert shlex.split(command) == ["stop", *reach[:6], job_id], "it works as it stands"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['{"ready": {"address": "$(touch x)", "port": 1}}'], "does not know its address"),
        (['{"ready": {"address": "10.0.0.1", "port": 99999}}'], "has no free port"),
        (["nonsense", '{"ready": 7}', "[]"], "Nothing was started."),
    ],
)
def test_a_host_that_sends_nonsense_starts_nothing(
    lines: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = tmp_path / "told"
    told.write_text("".join(f"{line}\n" for line in lines))
    reach = ["-H", "a", "--via", HERE, "--remote", f"cat {shlex.quote(str(told))} #", "--", "true"]
    for command in ("launch", "run"):  # with -H, they are the same
        assert main([command, *reach]) in (GputopError.exit_code, 2)
        assert said in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_the_reason_is_shown_if_no_host_could_start_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrapper = tmp_path / "gputop there"
    wrapper.write_text(
        "if [ $1 = stop ]; then echo 'gputop: There is no job.' >&2; exit 2; fi\n"
        """read -r order; echo '{"ready": {"address": "127.0.0.1", "port": 1}}'\n"""
        "read -r go; echo 'gputop: The disk is full.' >&2; exit 1\n"
    )
    reach = ["-H", "a,b", "--via", HERE, "--remote", f"sh {shlex.quote(str(wrapper))}"]
    assert main(["launch", *reach, "--", "true"]) == GputopError.exit_code
    said = capsys.readouterr().err
    assert "a: The disk is full." in said
    assert "There is no job" not in said


def test_following_a_log_ends_with_its_input(home: Home, script: Path) -> None:
    script.write_text("import time\ntime.sleep(600)\n")
    assert main(["launch", "--cwd", str(script.parent), "--", "train.py"]) == 0
    (job,) = store.list_jobs()
    words = [sys.executable, "-m", "gputop", "logs", job.id, "--follow", "--until-closed"]
    following = subprocess.Popen(words, stdin=subprocess.PIPE, env=clean_environment(home.state))
    assert following.stdin is not None
    assert following.poll() is None
    following.stdin.close()
    assert following.wait(DEADLINE_S) == 0
    assert store.find(job.id).active
