"""Directories that only their user can write or replace, whatever the umask."""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from gputop.errors import GputopError
from gputop.jobs import record, store
from gputop.places import config_path, jobs_dir, make_private_dir, open_regular, replace_file, state_dir
from gputop.recipes import own_commands
from gputop.recipes.catalogue import Launch
from gputop.tracking.gpus import record as gpu_record
from gputop.tracking.profiling import exchange
from gputop.tracking.reader import kept
from gputop.tracking.reader.launched import recipe_of
from gputop.tracking.reader.runs import RunReader
from gputop.tracking.reader.stopped import UNKNOWN, job_end
from gputop.tui.state.layout import Layout, read_layout
from tests.jobs.test_store import ended, launch, nothing_left

assert nothing_left
FOREIGN_UID = 12345


@pytest.fixture(params=[0, 0o277], ids=["open-umask", "narrow-umask"])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_created_directories_are_private_whatever_the_umask(umask: None, tmp_path: Path) -> None:
    made = make_private_dir(tmp_path / "a" / "b" / "c")
    assert [mode(path) for path in (made, *made.parents[:2])] == [0o700] * 3
    assert make_private_dir(made) == made
    own_commands.remember(own_commands.OwnCommand("mine", "true", "/"))
    assert [mode(path) for path in (config_path().parent, config_path().parents[1])] == [0o700] * 2


def test_a_replaced_file_is_private_and_complete_or_as_it_was(umask: None, tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    link.symlink_to(path)
    replace_file(path, b"old")
    replace_file(link, b"new", keep_link=True)
    assert (path.read_bytes(), mode(path), link.is_symlink()) == (b"new", 0o600, True)
    code = f"""
import resource, pathlib
from gputop.places import replace_file
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    replace_file(pathlib.Path({str(path)!r}), b"x" * 1000)
except OSError:
    print("too large")
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "too large\n"
    assert path.read_bytes() == b"new"
    assert not list(tmp_path.glob(".*")), "what was begun is gone"
    replace_file(link, b"its own")
    assert (link.is_symlink(), path.read_bytes()) == (False, b"new")


def test_a_job_s_directories_are_private_whatever_the_umask(umask: None) -> None:
    job = ended(store.start(launch("pass")))
    assert job.state == "finished"
    places = (state_dir(), jobs_dir(), job.directory, job.directory / record.RANKS)
    assert [mode(path) for path in places] == [0o700] * len(places)


def test_a_parent_that_everybody_can_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setenv("GPUTOP_DIR", str(shared / "gputop"))
    shared.chmod(0o777)
    with pytest.raises(GputopError, match=f"every user can replace .*: remove their right with chmod o-w {shared}"):
        store.start(Launch(("true",), {}, "/", "first"))
    assert not list(shared.iterdir())
    for harmless in (0o1777, 0o775, 0o755):
        shared.chmod(harmless)
        make_private_dir(jobs_dir())
    jobs_dir().chmod(0o777)  # as an earlier version left it under umask 0
    assert mode(make_private_dir(jobs_dir())) == 0o700


def test_a_parent_that_is_no_directory_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no one is told to change the rights of /dev/null."""
    file, link = tmp_path / "file", tmp_path / "link"
    file.touch()
    file.chmod(0o666)
    link.symlink_to(os.devnull)
    for place in (Path(os.devnull), file, link):
        monkeypatch.setenv("GPUTOP_DIR", str(place))
        with pytest.raises(GputopError, match=f"{place} is not a directory: choose another .GPUTOP_DIR"):
            store.start(Launch(("true",), {}, "/", "first"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_parent_of_another_user_is_refused(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (tmp_path / "link").symlink_to(theirs)
    os.chown(theirs, FOREIGN_UID, -1)
    for path in (theirs / "runs", tmp_path / "link" / "runs"):
        with pytest.raises(PermissionError, match=r"theirs|link belongs to another user"):
            make_private_dir(path)
    with pytest.raises(PermissionError, match="not a directory of this user"):
        make_private_dir(theirs)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to a group and another user")
def test_a_group_that_can_write_a_parent_is_trusted_and_still_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a project directory of a cluster: its members can take gputop's files away, and not put any of theirs there."""
    project, ran = tmp_path / "project", tmp_path / "ran"
    project.mkdir()
    os.chown(project, -1, FOREIGN_UID)
    project.chmod(0o2775)
    monkeypatch.setenv("GPUTOP_DIR", str(project / "gputop"))
    job = ended(store.start(Launch(("touch", str(ran)), {}, "/", "touch")))
    ran.unlink()
    command = [sys.executable, "-m", "gputop.jobs.supervisor", str(job.directory)]
    shutil.move(project / "gputop", project / "away")
    shutil.copytree(project / "away", project / "gputop")
    for place in (job.directory / record.SPEC, project / "gputop"):
        os.chown(place, FOREIGN_UID, -1)
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        assert (done.returncode, "contains no job that can be run" in done.stderr) == (2, True)
        assert not ran.exists()
    with pytest.raises(GputopError, match="belongs to another user"):
        store.start(Launch(("true",), {}, "/", "second"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
def test_a_link_of_another_user_is_refused(tmp_path: Path) -> None:
    shared, own, between = tmp_path / "shared", tmp_path / "own", tmp_path / "between"
    shared.mkdir()
    shared.chmod(0o1777)
    own.mkdir()
    link = shared / "link"
    link.symlink_to(own)
    between.symlink_to("shared/link")  # a link of this user through one of theirs
    make_private_dir(between / "runs").rmdir()
    os.chown(link, FOREIGN_UID, -1, follow_symlinks=False)
    for path in (link / "runs", between / "runs"):
        with pytest.raises(PermissionError, match="shared/link is a link of another user"):
            make_private_dir(path)
    assert not list(own.iterdir())
    shared.chmod(0o755)  # only root can put a link there, and did
    make_private_dir(between / "runs")


@pytest.mark.parametrize("change", ["file", "folder"])
def test_a_supervisor_runs_nothing_that_others_may_have_written(change: str, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    job = ended(store.start(Launch(("touch", str(ran)), {}, "/", "touch")))
    ran.unlink()
    (job.directory / record.SPEC).chmod(0o622) if change == "file" else job.directory.chmod(0o777)
    command = [sys.executable, "-m", "gputop.jobs.supervisor", str(job.directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 2
    assert "contains no job that can be run" in done.stderr
    assert not ran.exists()


def test_the_state_directory_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUTOP_DIR", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    for home in ("a", "b"):
        monkeypatch.setenv("HOME", str(tmp_path / home))
        assert state_dir() == tmp_path / home / ".local" / "state" / "gputop"
        monkeypatch.setenv("GPUTOP_DIR", "~/runs")
        assert state_dir() == tmp_path / home / "runs"
        monkeypatch.delenv("GPUTOP_DIR")
    assert state_dir({"HOME": "/home/c"}) == Path("/home/c/.local/state/gputop")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


OTHER_KINDS: Mapping[str, Callable[[Path], object]] = {
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
    "socket": _socket,
    "link": lambda path: path.symlink_to("/etc/passwd"),
    "link to nowhere": lambda path: path.symlink_to("/nowhere"),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "link to itself": lambda path: path.symlink_to(path),
}


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_nothing_but_a_file_is_opened_as_one(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one reader waits for a pipe, follows a link, or leaves a descriptor open. A screen reads these files for days."""
    monkeypatch.setenv("GPUTOP_DIR", str(tmp_path))
    run, job = tmp_path / "runs" / "r", jobs_dir() / "j"
    for directory in (run, job):
        directory.mkdir(parents=True, mode=0o700)
    squatted = (
        tmp_path / "layout.json",
        *(job / name for name in (record.SPEC, record.STATUS)),
        *(run / name for name in ("labels.json", "rank-00000.gpr", "rank-00000.gpr.kept", "GPU-0.gpu", "request")),
    )
    for path in squatted:
        OTHER_KINDS[kind](path)
        with pytest.raises(OSError, match=re.escape(str(path))):
            open_regular(path)
    before = open_descriptors()
    reader = RunReader()
    assert read_layout() == Layout()
    assert record.read_json(job / record.STATUS) is None
    assert (job_end("j"), recipe_of("j")) == (UNKNOWN, None)
    assert reader.poll().runs == ()
    assert "rank-00000.gpr" in reader.unreadable()["r"]
    assert kept.load(run / "rank-00000.gpr", 2) is None
    assert gpu_record.read(run) == {}
    assert exchange.take_request(run / "request") is None
    reader.close()
    assert open_descriptors() == before
