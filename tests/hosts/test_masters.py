"""One login at a time: an ssh that asks or does not, what ends it, and where its socket lies. Without a host."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gputop.hosts import masters as masters_module
from gputop.hosts.masters import Masters
from gputop.hosts.transport import Transport, transport_of
from tests.tracking.kit import eventually


@pytest.fixture
def fake_ssh(tmp_path: Path) -> Callable[[str], Transport]:
    """A transport with an ssh that is this script; ``-G`` and ``-V`` are answered with nothing."""

    def make(script: str) -> Transport:
        ssh = tmp_path / "ssh"
        ssh.write_text(f'#!/bin/sh\ncase "$1" in -G|-V) exit 0;; esac\n{script}\n')
        ssh.chmod(0o755)
        return transport_of(f"{shlex.quote(str(ssh))} {{host}}")

    return make


@pytest.mark.parametrize(("version", "knows"), [("7.4p1", False), ("7.6", True), ("10.0p2", True)])
def test_an_ssh_gets_no_option_that_it_is_too_old_for(version: str, knows: bool, tmp_path: Path) -> None:
    """It would refuse to run: "Bad configuration option: remotecommand"."""
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\ncase "$1" in -V) echo "OpenSSH_{version}, OpenSSL 1.0.2k-fips" >&2;; esac\n')
    ssh.chmod(0o755)
    transport = transport_of(f"{shlex.quote(str(ssh))} {{host}}")
    for words in (transport.login("a"), transport.ssh("a", [])):
        assert ("-oRemoteCommand=none" in words) == knows
        assert "-oRequestTTY=no" in words


def test_a_login_that_asks_nothing(fake_ssh: Callable[[str], Transport]) -> None:
    with closing(Masters(fake_ssh("exit 0"))) as masters:
        assert masters.log_in("a") == "logged in"
    with closing(Masters(fake_ssh("exit 255"))) as masters:
        assert masters.log_in("a") == "failed unasked"


def test_a_login_that_asks_and_fails_has_asked(
    fake_ssh: Callable[[str], Transport], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question, seen = tmp_path / "question", tmp_path / "seen"
    question.write_text("")
    has_open = masters_module._has_open

    def look(pid: int, path: str) -> bool:
        if has_open(pid, path):
            seen.write_text("")
        return seen.exists()

    monkeypatch.setattr(masters_module, "_TERMINAL", str(question))
    monkeypatch.setattr(masters_module, "_has_open", look)
    with closing(Masters(fake_ssh(f"exec 3<{question}; until [ -e {seen} ]; do sleep 0.05; done; exit 255"))) as masters:
        assert masters.log_in("a") == "failed"


@pytest.mark.parametrize("where", ["_sharing", "_end"])
def test_ctrl_c_anywhere_in_a_login_skips_it(
    where: str, fake_ssh: Callable[[str], Transport], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    owner = Masters if where == "_sharing" else masters_module
    monkeypatch.setattr(owner, where, interrupt)
    with closing(Masters(fake_ssh("exit 0"))) as masters:
        assert masters.log_in("a") == "skipped"


def test_an_ssh_that_cannot_be_started_ends_nothing(fake_ssh: Callable[[str], Transport], tmp_path: Path) -> None:
    transport = fake_ssh("exit 0")
    (tmp_path / "ssh").unlink()
    with closing(Masters(transport)) as masters:
        assert masters.log_in("a") == "failed unasked"


def test_a_terminal_that_is_gone_ends_nothing(fake_ssh: Callable[[str], Transport], monkeypatch: pytest.MonkeyPatch) -> None:
    master, terminal = os.openpty()
    attributes = termios.tcgetattr(terminal)
    os.close(master)
    masters_module._restore(terminal, attributes)
    os.close(terminal)
    monkeypatch.setattr(masters_module, "_TERMINAL", "/nonexistent/tty")
    with closing(Masters(fake_ssh("exit 0"))) as masters:
        assert masters.log_in("a") == "logged in"


def test_a_question_of_a_jump_host_is_seen_too(tmp_path: Path) -> None:
    """The process that asks is a child of the one that gputop started."""
    question = tmp_path / "question"
    question.write_text("")
    script = f"({shlex.quote(sys.executable)} -c 'import sys; sys.stdin.read()' 3<{question}; true); true"
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE) as process:
        eventually(lambda: masters_module._has_open(process.pid, str(question)), "the child has it open")
        assert not masters_module._has_open(process.pid, str(tmp_path / "other"))
    assert not masters_module._has_open(process.pid, str(question)), "it has ended"


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime directory, with the short path that a socket needs."""
    with tempfile.TemporaryDirectory(prefix="gt-", dir="/tmp") as place:
        monkeypatch.setenv("XDG_RUNTIME_DIR", place)
        yield Path(place)


def directory_of_sockets() -> Path:
    with closing(Masters(Transport(("ssh", "{host}")))) as masters:
        found = masters._socket(lambda options: ["ssh", *options, "a"]).parent
        assert stat.S_IMODE(found.stat().st_mode) == 0o700
        return found.parent


def test_a_runtime_directory_of_our_own_holds_the_sockets(runtime: Path) -> None:
    assert directory_of_sockets() == runtime


@pytest.mark.parametrize("mode", [0o770, 0o1777])
def test_a_runtime_directory_that_others_can_write_to_is_not_used(runtime: Path, mode: int) -> None:
    runtime.chmod(mode)
    assert directory_of_sockets() == Path("/tmp")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_the_runtime_directory_of_another_user_is_not_used(runtime: Path) -> None:
    os.chown(runtime, 12345, -1)
    assert directory_of_sockets() == Path("/tmp")
