"""A host with a second factor: a real sshd asks for a password and a code, and a user answers at a real terminal."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import REPOSITORY
from tests.hosts.machines.second_factor import CODE, CODE_QUESTION, PASSWORD, PASSWORD_QUESTION, two_factors
from tests.hosts.machines.sshd import Lab, lab, needs_sshd, sessions_of
from tests.hosts.test_logins import PATIENT, Places, leave, live
from tests.terminal import Terminal
from tests.tracking.kit import eventually

assert lab
pytestmark = needs_sshd


class Factors(Places):
    """The same, with the host ``factor``; each command reads virtual GPUs."""

    log = Path()
    """What the sshd of ``factor`` has done."""

    def command(self, words: list[str], hosts: str = "factor", before: str = "") -> Terminal:
        """Run a command with its output in files, as ``gputop … > out 2> err`` does."""
        reach = ["-H", hosts, "--via", f"ssh -F {self.config} {{host}}", "--remote", self.there]
        place = words.index("--") if "--" in words else len(words)
        command = shlex.join(
            [sys.executable, "-c", PATIENT, "--virtual", "1", "--no-nccl-ras", *words[:place], *reach, *words[place:]]
        )
        places = {"GPUTOP_DIR": str(self.folder / "here"), "HOME": str(self.folder), "PYTHONPATH": str(REPOSITORY)}
        runtime = {"XDG_RUNTIME_DIR": str(self.runtime), "SSH_ASKPASS_REQUIRE": "never"}
        script = f"cd {shlex.quote(str(self.folder))}; {before} {command} > out 2> err; echo ended with $?; read -r"
        return Terminal(["bash", "-c", script], {**places, **runtime})

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text()

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text()


@pytest.fixture
def factors(request: pytest.FixtureRequest, lab: Lab, tmp_path: Path) -> Iterator[Factors]:
    """``factor``, with lines of its configuration as the parameter; ``behind`` it and ``behind2``, ``far`` behind those."""
    more = getattr(request, "param", ())
    name = f"factor{len(lab.servers)}"
    with two_factors(lab, name, *more) as port, tempfile.TemporaryDirectory(prefix="gt-", dir="/tmp") as runtime:
        found = Factors(lab, tmp_path, Path(runtime))
        found.log = lab.folder / f"log_{name}"
        mine = (f"UserKnownHostsFile {lab.folder}/known", f"IdentityFile {lab.user_key}")
        config = [*lab.host("factor", port, *mine), *lab.host("behind", lab.ports["b"], "ProxyJump factor", *mine)]
        config += lab.host("behind2", lab.ports["a"], "ProxyJump factor", *mine)
        config += lab.host("far", lab.ports["b"], "ProxyJump behind", *mine)
        config += lab.host("old", lab.ports["b"], f"ProxyCommand ssh -F {found.config} -W %h:%p factor", *mine)
        found.config.write_text("\n".join([*config, found.config.read_text()]))
        yield found
        eventually(lambda: not found.masters(), "no connection is left")


def answer(terminal: Terminal, code: str = CODE) -> None:
    terminal.wait_for(PASSWORD_QUESTION)
    terminal.press(PASSWORD, "enter")
    terminal.wait_for(CODE_QUESTION)
    terminal.press(code, "enter")


def asked(terminal: Terminal) -> int:
    """How often a code was asked for."""
    return terminal.received.count(CODE_QUESTION.encode())


def test_both_are_asked_for_once_before_the_screen(factors: Factors) -> None:
    server = factors.lab.servers[-1].pid
    with factors.screen("factor,open") as terminal:
        answer(terminal)
        terminal.wait_for(live("factor", "open"))
        terminal.press("l")  # lists the jobs there, over a session of its own
        terminal.wait_for("gputop › launch")
        eventually(lambda: factors.log.read_text().count("Starting session: command") > 2, "a login, a stream, and the jobs")
        assert len(sessions_of(server)) == 1, "one connection for all"
        assert factors.log.read_text().count("Accepted keyboard-interactive") == 1
        assert asked(terminal) == 1
        assert not {PASSWORD.encode(), CODE.encode()} & set(terminal.received.split()), "an answer was shown"
        terminal.press("escape")
        leave(terminal)
    for path in factors.folder.rglob("*"):
        if path.is_file() and path.name != "config":
            assert CODE.encode() not in path.read_bytes(), f"{path} holds an answer"


def test_wrong_answers_leave_the_host_out(factors: Factors) -> None:
    with factors.screen("factor,open") as terminal:
        for tries in range(1, 4):
            terminal.wait_for(lambda _, tries=tries: terminal.received.count(PASSWORD_QUESTION.encode()) == 2 * tries - 1)
            terminal.press(PASSWORD, "enter")
            terminal.wait_for(lambda _, tries=tries: asked(terminal) == tries)
            terminal.press("000000", "enter")
        terminal.wait_for(live("open"))
        assert b"gputop: not logged in to factor." in terminal.received
        terminal.wait_for(lambda text: any("factor" in line and "permission denied" in line for line in text.splitlines()))
        leave(terminal)


def test_ctrl_c_at_the_second_question_skips_the_host(factors: Factors) -> None:
    with factors.screen("factor,open") as terminal:
        terminal.wait_for(PASSWORD_QUESTION)
        terminal.press(PASSWORD, "enter")
        terminal.wait_for(CODE_QUESTION)
        terminal.press("ctrl+c")
        terminal.wait_for(live("open"))
        leave(terminal)


COMMANDS = {"once": ["--once", "--json"], "stream": ["--stream", "-n", "3"], "jobs": ["jobs", "--json"]}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_asks_on_the_terminal_and_prints_only_what_it_found(name: str, factors: Factors) -> None:
    with factors.command(COMMANDS[name]) as terminal:
        answer(terminal)
        terminal.wait_for("ended with 0")
        assert asked(terminal) == 1
        assert "logging in to factor; Ctrl-C skips it." in terminal.text()
    for text in (factors.out, factors.err):
        assert "Password" not in text
        assert "logging in" not in text
        assert "permission" not in text, "what was refused before the question is no news"
    assert all("factor" in json.loads(line) or json.loads(line)["host"] == "factor" for line in factors.out.splitlines())
    assert factors.out
    assert not factors.sockets()


@pytest.mark.parametrize("factors", [(), ("ForceCommand /bin/false",)], indirect=True)
def test_a_jump_host_asks_once_for_all_hosts_behind_it(factors: Factors) -> None:
    with factors.command(["--once", "--json"], "behind,behind2,factor") as terminal:
        answer(terminal)
        terminal.wait_for("ended with ")
        assert asked(terminal) == 1
    states = [json.loads(line)["state"] for line in factors.out.splitlines()]
    assert states[:2] == ["live", "live"]
    assert states[2] != "permission_denied", "it takes part, whether it runs commands or not"


@pytest.mark.parametrize("host", ["behind", "far", "old"])
def test_a_jump_host_gets_no_empty_answers(host: str, factors: Factors) -> None:
    """They would count as failed logins there, after which many refuse the user's address."""
    with factors.command(["--once"], host, before="setsid -w") as terminal:
        terminal.wait_for("ended with 1")
    assert f"{host}: permission denied." in factors.out
    said = factors.log.read_text()
    assert "Partial publickey" in said, "it was reached"
    assert "keyboard-interactive" not in said


def test_a_host_behind_two_jump_hosts_is_reached(factors: Factors) -> None:
    with factors.command(["--once", "--json"], "far,open") as terminal:
        answer(terminal)
        terminal.wait_for("ended with 0")
        assert asked(terminal) == 1
    assert [json.loads(line)["state"] for line in factors.out.splitlines()] == ["live", "live"]


def test_ctrl_c_ends_a_command_for_one_host_with_a_sentence(factors: Factors) -> None:
    with factors.command(["--once"]) as terminal:
        terminal.wait_for(PASSWORD_QUESTION)
        terminal.press("ctrl+c")
        terminal.wait_for("not logged in to factor")
        terminal.wait_for("ended with")
    assert "factor: permission denied." in factors.out


@pytest.mark.parametrize("before", ["setsid -w", 'set -m; f() { "$@" & wait $!; }; f'])
def test_without_a_terminal_a_sentence_says_what_to_do(before: str, factors: Factors) -> None:
    """Neither in another session nor in the background, where a question would stop the command."""
    with factors.command(["--once"], before=before) as terminal:
        terminal.wait_for("ended with 1")
        assert not asked(terminal)
    said = "If it needs an answer, such as a passphrase or a code, run gputop in a terminal, where ssh can ask: ssh -F "
    assert said in factors.out
