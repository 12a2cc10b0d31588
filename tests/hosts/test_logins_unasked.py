"""When logins are asked for, in which order and until when, without a terminal and without a host."""

from __future__ import annotations

import itertools
import os
import shlex
import stat
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gputop.hosts import logins as logins_module
from gputop.hosts.logins import Logins, Outcome
from gputop.hosts.state import HostState, HostStatus
from gputop.hosts.transport import Transport, transport_of
from tests.tracking.kit import eventually

FOREVER_S = 3600.0


class Host:
    """The stream of a host that is in one state after another, each for one look; it keeps the last one."""

    def __init__(self, host: str, *states: HostState) -> None:
        self.host = host
        self.states = list(states)
        self.tried_again = False
        self.reached = False

    @property
    def status(self) -> HostStatus:
        return HostStatus(self.host, self.states.pop(0) if len(self.states) > 1 else self.states[0])

    def try_again(self) -> None:
        self.tried_again = True


class Interrupted(Host):
    """A host at whose sight the user presses Ctrl-C."""

    @property
    def status(self) -> HostStatus:
        raise KeyboardInterrupt


Asking = Callable[..., list[str]]


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Asking:
    """Ask these hosts, with an outcome for each login; return the hosts that were asked."""
    monkeypatch.setattr(logins_module, "has_terminal", lambda: True)
    monkeypatch.setattr(logins_module, "LOOK_S", 0.0)
    monkeypatch.setattr(logins_module, "WAIT_S", FOREVER_S)
    monkeypatch.setattr(logins_module, "QUIET_S", FOREVER_S)

    def ask(hosts: Sequence[Host], *outcomes: Outcome) -> list[str]:
        asked: list[str] = []
        coming = itertools.chain(outcomes, itertools.repeat("failed"))

        def log_in(host: str) -> Any:
            asked.append(host)
            return next(coming)

        logins = Logins(Transport(("ssh", "{host}")))
        monkeypatch.setattr(logins, "log_in", log_in)
        streams: Any = hosts
        logins.ask(streams)
        return asked

    return ask


def denied(count: int) -> list[Host]:
    return [Host(f"n{number}", "permission_denied") for number in range(count)]


def test_the_first_answer_of_a_host_may_take_longer_than_the_others(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins_module, "QUIET_S", 0.0)
    late = Host("late", *["connecting"] * 40, "permission_denied")
    assert asking([late], "logged in") == ["late"]
    assert late.tried_again


def test_hosts_that_are_denied_during_a_question_are_asked_for_too(asking: Asking) -> None:
    hosts = [Host(f"n{number}", *["connecting"] * 50 * number, "permission_denied") for number in range(12)]
    assert sorted(asking(hosts)) == sorted(host.host for host in hosts)


def test_a_host_that_was_busy_is_asked_for_once_it_refuses(asking: Asking) -> None:
    busy = Host("busy", *["busy"] * 3, "permission_denied")
    waited = Host("waited", *["connecting"] * 40, "permission_denied")
    assert set(asking([busy, waited])) == {"busy", "waited"}


def test_hosts_that_were_not_waited_for_are_named(
    asking: Asking, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logins_module, "QUIET_S", 0.0)
    hosts = [*denied(1), *(Host(f"mute{number}", "connecting") for number in range(7))]
    assert asking(hosts) == ["n0"]
    assert "no answer yet from mute0, mute1, mute2, mute3, mute4 and 2 others." in capsys.readouterr().err
    assert asking([Host("a", "refused"), Host("b", "connecting"), Host("c", "connecting")]) == []
    assert "no answer yet from b and c." in capsys.readouterr().err


def test_nothing_is_said_where_every_host_answers(asking: Asking, capsys: pytest.CaptureFixture[str]) -> None:
    assert asking([Host("a", "live"), Host("b", "refused")]) == []
    assert capsys.readouterr().err == ""


def test_a_wait_says_so_once_and_ctrl_c_ends_it(
    asking: Asking, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logins_module, "TELL_S", 0.0)
    assert asking([Host("a", *["connecting"] * 50, "live")]) == []
    assert capsys.readouterr().err == "gputop: connecting to 1 host; Ctrl-C opens the screen at once.\n"
    assert asking([Interrupted("a", "connecting"), *denied(1)]) == []


@pytest.mark.parametrize(
    ("outcomes", "asked"),
    [
        (["skipped", "skipped"], 2),
        (["skipped", "failed", "skipped", "logged in", "skipped"], 6),
        (["failed unasked"] * 3, 3),
        (["failed unasked", "failed unasked", "failed", "failed unasked", "failed unasked"], 6),
        (["failed unasked", "failed unasked", "logged in", "failed unasked"], 6),
    ],
)
def test_the_questions_end_where_the_user_or_ssh_gives_up(outcomes: list[Outcome], asked: int, asking: Asking) -> None:
    assert len(asking(denied(6), *outcomes)) == asked


def test_the_number_of_hosts_that_are_not_tried_is_told(asking: Asking, capsys: pytest.CaptureFixture[str]) -> None:
    asking(denied(64), *["failed unasked"] * 3)
    assert "so none is tried for the 61 other hosts." in capsys.readouterr().err


@pytest.fixture
def fake_ssh(tmp_path: Path) -> Callable[[str], Transport]:
    """A transport with an ssh that is this script; ``-G`` is answered with nothing."""

    def make(script: str) -> Transport:
        ssh = tmp_path / "ssh"
        ssh.write_text(f'#!/bin/sh\ncase "$1" in -G) exit 0;; esac\n{script}\n')
        ssh.chmod(0o755)
        return transport_of(f"{shlex.quote(str(ssh))} {{host}}")

    return make


def test_a_login_that_asks_nothing(fake_ssh: Callable[[str], Transport]) -> None:
    with Logins(fake_ssh("exit 0")) as logins:
        assert logins.log_in("a") == "logged in"
    with Logins(fake_ssh("exit 255")) as logins:
        assert logins.log_in("a") == "failed unasked"


def test_a_login_that_asks_and_fails_has_asked(
    fake_ssh: Callable[[str], Transport], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question, seen = tmp_path / "question", tmp_path / "seen"
    question.write_text("")
    has_open = logins_module._has_open

    def look(pid: int, path: str) -> bool:
        if has_open(pid, path):
            seen.write_text("")
        return seen.exists()

    monkeypatch.setattr(logins_module, "_TERMINAL", str(question))
    monkeypatch.setattr(logins_module, "_has_open", look)
    with Logins(fake_ssh(f"exec 3<{question}; until [ -e {seen} ]; do sleep 0.05; done; exit 255")) as logins:
        assert logins.log_in("a") == "failed"


@pytest.mark.parametrize("where", ["_sharing", "_end"])
def test_ctrl_c_anywhere_in_a_login_skips_it(
    where: str, fake_ssh: Callable[[str], Transport], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    owner = Logins if where == "_sharing" else logins_module
    monkeypatch.setattr(owner, where, interrupt)
    with Logins(fake_ssh("exit 0")) as logins:
        assert logins.log_in("a") == "skipped"


def test_an_ssh_that_cannot_be_started_ends_nothing(fake_ssh: Callable[[str], Transport], tmp_path: Path) -> None:
    transport = fake_ssh("exit 0")
    (tmp_path / "ssh").unlink()
    with Logins(transport) as logins:
        assert logins.log_in("a") == "failed unasked"


def test_a_terminal_that_is_gone_ends_nothing(fake_ssh: Callable[[str], Transport], monkeypatch: pytest.MonkeyPatch) -> None:
    master, terminal = os.openpty()
    attributes = termios.tcgetattr(terminal)
    os.close(master)
    logins_module._restore(terminal, attributes)
    os.close(terminal)
    monkeypatch.setattr(logins_module, "_TERMINAL", "/nonexistent/tty")
    with Logins(fake_ssh("exit 0")) as logins:
        assert logins.log_in("a") == "logged in"


def test_a_question_of_a_jump_host_is_seen_too(tmp_path: Path) -> None:
    """The process that asks is a child of the one that gputop started."""
    question = tmp_path / "question"
    question.write_text("")
    script = f"({shlex.quote(sys.executable)} -c 'import sys; sys.stdin.read()' 3<{question}; true); true"
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE) as process:
        eventually(lambda: logins_module._has_open(process.pid, str(question)), "the child has it open")
        assert not logins_module._has_open(process.pid, str(tmp_path / "other"))
    assert not logins_module._has_open(process.pid, str(question)), "it has ended"


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime directory, with the short path that a socket needs."""
    with tempfile.TemporaryDirectory(prefix="gt-", dir="/tmp") as place:
        monkeypatch.setenv("XDG_RUNTIME_DIR", place)
        yield Path(place)


def directory_of_sockets() -> Path:
    with Logins(Transport(("ssh", "{host}"))) as logins:
        found = logins._socket("a").parent
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
