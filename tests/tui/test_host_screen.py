"""The dashboard of another machine, in a real terminal over a real sshd: the same screen, without actions on this machine."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.hosts.machines.sshd import Lab, gputop_there, lab, needs_sshd
from tests.patience import DEADLINE_S
from tests.terminal import Terminal
from tests.tracking.kit import eventually

assert lab
pytestmark = needs_sshd


def children(pid: int) -> list[int]:
    """The processes that any thread of a process started."""
    listed = (task / "children" for task in Path(f"/proc/{pid}/task").iterdir())
    return [int(child) for path in listed for child in path.read_text().split()]


def arguments(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def command(lab: Lab, host: str, state: Path) -> list[str]:
    there = ["--via", lab.via, "--remote", gputop_there(state), "--virtual", "1", "-i", "300ms"]
    return [sys.executable, "-m", "gputop", "-H", host, *there]


def test_the_screen_of_a_host_names_it_and_comes_back(lab: Lab, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('gpus = ["7"]\n')  # of this machine
    environment = {"GPUTOP_DIR": str(tmp_path / "here"), "HOME": str(tmp_path), "GPUTOP_CONFIG": str(config)}
    with Terminal(command(lab, "a", tmp_path / "there"), environment) as terminal:
        assert "launch a demo" not in terminal.wait_for("ON a")
        (connection,) = children(terminal.process.pid)
        terminal.press("l")
        terminal.wait_for("on a, as one run")
        terminal.press("escape")
        terminal.wait_for("2 Training")
        terminal.press("?")
        assert "ON a" in terminal.wait_for("help  ")
        terminal.press("escape")
        os.kill(connection, signal.SIGKILL)  # jobs that were asked for on the way have connections of their own
        terminal.wait_for("link to a lost")
        terminal.wait_for(lambda text: "link to a lost" not in text and "STALE" not in text)
        terminal.press("q")
        assert terminal.wait_exit() == 0
    assert not (tmp_path / "here" / "runs").exists()


def test_two_hosts_share_a_screen_and_a_lost_link_takes_nothing_from_the_other(lab: Lab, tmp_path: Path) -> None:
    environment = {"GPUTOP_DIR": str(tmp_path / "here"), "HOME": str(tmp_path)}
    with Terminal(command(lab, "a,b", tmp_path / "there"), environment, columns=120, rows=30) as terminal:
        terminal.wait_for(lambda text: text.count(" live ") == 2 and "2 hosts · 2 GPUs" in text)
        reached = {child: arguments(child) for child in children(terminal.process.pid)}
        (connection,) = (child for child, words in reached.items() if b"b" in words)
        os.kill(connection, signal.SIGKILL)
        text = terminal.wait_for("no link to b")
        assert "lost" not in next(line for line in text.splitlines() if line.startswith(" a "))
        terminal.wait_for(lambda text: "no link" not in text and text.count(" live ") == 2)
        assert {child for child, words in reached.items() if b"a" in words} <= set(children(terminal.process.pid))
        terminal.press("/", *"host:b", "enter", "enter")  # other texts of a machine may hold a b, too
        assert "Esc hosts" in terminal.wait_for("ON b")
        terminal.press("escape")
        terminal.wait_for("1 of 2")
        terminal.press("q")
        assert terminal.wait_exit() == 0
    assert not (tmp_path / "here" / "runs").exists()


def test_a_host_that_does_not_answer_is_waited_for_by_name(lab: Lab, tmp_path: Path) -> None:
    with Terminal(command(lab, "silent", tmp_path / "there"), {"HOME": str(tmp_path)}) as terminal:
        terminal.wait_for("connecting to silent …")
        terminal.press("l")
        terminal.wait_for("1 Recipes")
        terminal.press("escape")
        terminal.wait_for("connecting to silent …")
        terminal.press("q")
        assert terminal.wait_exit() == 0


@pytest.mark.parametrize(("host", "said"), [("changed", "changed: changed host key."), ("refusing", "connection refused.")])
def test_a_host_that_cannot_be_reached_ends_the_screen_with_a_sentence(lab: Lab, tmp_path: Path, host: str, said: str) -> None:
    environment = {"GPUTOP_DIR": str(tmp_path / "here"), "HOME": str(tmp_path)}
    with Terminal(command(lab, host, tmp_path / "there"), environment) as terminal:
        assert terminal.wait_exit() == 1
        assert said in terminal.text()


def test_a_connection_that_is_being_made_ends_with_the_terminal(lab: Lab, tmp_path: Path) -> None:
    """ssh would wait a minute for the host that says nothing."""
    with Terminal(command(lab, "silent", tmp_path / "there"), {"HOME": str(tmp_path)}) as terminal:
        process = terminal.process
        begun = eventually(lambda: [pid for pid in children(process.pid) if b"silent" in arguments(pid)], "ssh connects")
        terminal.hang_up()
        process.wait(DEADLINE_S)
        eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in begun), "ssh ends, too")
