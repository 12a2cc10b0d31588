"""Logins that ask something, answered by a user at a real terminal: passphrases and unknown keys of a real sshd."""

from __future__ import annotations

import getpass
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputop.hosts.transport import Transport, transport_of
from tests import REPOSITORY
from tests.hosts.machines.sshd import Lab, gputop_there, key, lab, needs_sshd, sessions_of
from tests.terminal import Terminal
from tests.tracking.kit import eventually

assert lab
pytestmark = needs_sshd
SECRET = "open sesame"
QUESTION = "Enter passphrase for key"
UNKNOWN = "Are you sure you want to continue connecting"
PATIENT = """
import sys
from gputop.hosts import logins, masters
logins.WAIT_S = logins.QUIET_S = 60.0
masters.PERSIST_S = 10
from gputop.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""A gputop that waits for hosts as long as a busy machine needs, and whose connections do not outlive it for long."""


class Places:
    """Hosts of the lab, reached with a configuration of their own: ``open``, ``locked``, ``shared`` and ``stranger``."""

    def __init__(self, lab: Lab, folder: Path, runtime: Path) -> None:
        self.lab = lab
        self.runtime = runtime
        self.folder = folder
        self.known = folder / "known"
        self.known.write_text("")
        locked = lab.folder / "locked"
        if not locked.exists():
            key(locked, SECRET)
            with (lab.folder / "authorized_keys").open("a") as keys:
                keys.write(Path(f"{locked}.pub").read_text())
        self.config = folder / "config"
        all_known, mine = f"UserKnownHostsFile {lab.folder}/known", f"IdentityFile {lab.user_key}"
        shared = ("ControlMaster auto", f"ControlPath {runtime}/user-%n")
        self.config.write_text(
            "\n".join(
                [
                    *lab.host("open", lab.ports["b"], all_known, mine),
                    *lab.host("locked", lab.ports["a"], all_known, f"IdentityFile {locked}"),
                    *lab.host("locked2", lab.ports["b"], all_known, f"IdentityFile {locked}"),
                    *lab.host("shared", lab.ports["a"], all_known, f"IdentityFile {locked}", *shared),
                    *lab.host("stranger", lab.ports["a"], f"UserKnownHostsFile {self.known}", mine),
                    *lab.host("denied1 denied2 denied3 denied4", lab.ports["a"], all_known, "PubkeyAuthentication no"),
                    *("Host *", f"  User {getpass.getuser()}", "  GlobalKnownHostsFile /dev/null", "  IdentitiesOnly yes"),
                    *("  IdentityAgent none", "  StrictHostKeyChecking ask"),
                ]
            )
        )
        self.there = gputop_there(folder / "there")

    def screen(self, hosts: str) -> Terminal:
        words = ["-H", hosts, "--via", f"ssh -F {self.config} {{host}}", "--remote", self.there, "-i", "300ms"]
        command = [sys.executable, "-c", PATIENT, *words, "--virtual", "1", "--no-nccl-ras"]
        places = {"GPUTOP_DIR": str(self.folder / "here"), "HOME": str(self.folder), "PYTHONPATH": str(REPOSITORY)}
        return Terminal(command, {**places, "XDG_RUNTIME_DIR": str(self.runtime), "SSH_ASKPASS_REQUIRE": "never"})

    def sockets(self) -> list[Path]:
        return [path for path in self.runtime.rglob("*") if path.is_socket()]

    def masters(self) -> list[str]:
        """The command lines of every ssh whose socket is here."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(self.runtime) in line and line.startswith("ssh"):
                found.append(line)
        return found


@pytest.fixture
def places(lab: Lab, tmp_path: Path) -> Iterator[Places]:
    with tempfile.TemporaryDirectory(prefix="gt-", dir="/tmp") as runtime:  # a socket's path is short
        found = Places(lab, tmp_path, Path(runtime))
        yield found
        eventually(lambda: not found.masters(), "no connection is left")


def live(*hosts: str) -> Callable[[str], bool]:
    """Whether a screen shows readings of these hosts."""

    def shows(text: str) -> bool:
        rows = [line for line in text.splitlines() if " live " in line]
        return all(any(host in row for row in rows) for host in hosts)

    return shows


def leave(terminal: Terminal) -> None:
    terminal.press("q")
    assert terminal.wait_exit() == 0


def test_a_passphrase_is_asked_before_the_screen_and_the_connection_ends_with_it(places: Places) -> None:
    with places.screen("open,locked") as terminal:
        said = terminal.wait_for(QUESTION)
        assert "logging in to locked; Ctrl-C skips it." in said
        assert "logging in to open" not in said, "it needs no answer"
        assert not places.sockets()
        eventually(lambda: sessions_of(places.lab.servers[1].pid), "the other host connects meanwhile")
        terminal.press(SECRET, "enter")
        terminal.wait_for(live("open", "locked"))
        (socket,) = places.sockets()
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
        leave(terminal)
    assert not list(places.runtime.iterdir()), "nothing is left of the connection"


def test_a_connection_ends_by_itself_if_gputop_is_killed(places: Places) -> None:
    with places.screen("locked,open") as terminal:
        terminal.wait_for(QUESTION)
        terminal.press(SECRET, "enter")
        terminal.wait_for(live("open", "locked"))
        assert places.sockets()
        os.kill(terminal.process.pid, signal.SIGKILL)
        terminal.wait_exit()
    eventually(lambda: not places.sockets(), "the connection has ended")


def test_a_single_host_is_shown_after_its_login_and_named_without_it(places: Places) -> None:
    with places.screen("locked") as terminal:
        terminal.wait_for(QUESTION)
        terminal.press(SECRET, "enter")
        terminal.wait_for("ON locked")
        leave(terminal)
    with places.screen("locked") as terminal:
        terminal.wait_for(QUESTION)
        terminal.press("ctrl+c")
        assert terminal.wait_exit() == 1
        said = terminal.received.decode(errors="replace")  # a first frame may be drawn over it
        assert "not logged in to locked" in said
        assert "locked: permission denied." in said


def test_ctrl_c_skips_a_host(places: Places) -> None:
    with places.screen("locked,open") as terminal:
        terminal.wait_for(QUESTION)
        terminal.press("ctrl+c")
        shown = terminal.wait_for(live("open"))
        assert "permission denied" in shown
        leave(terminal)


def test_a_key_that_an_agent_has_taken_is_asked_for_once(places: Places) -> None:
    agent = places.runtime / "agent"
    running = subprocess.Popen(["ssh-agent", "-D", "-a", str(agent)], stdout=subprocess.DEVNULL)
    try:
        eventually(agent.is_socket, "the agent listens")
        changed = places.config.read_text().replace("IdentityAgent none", f"IdentityAgent {agent}\n  AddKeysToAgent yes")
        places.config.write_text(changed)
        with places.screen("locked,locked2") as terminal:
            terminal.wait_for(QUESTION)
            terminal.press(SECRET, "enter")
            terminal.wait_for(live("locked ", "locked2"))
            assert terminal.received.count(QUESTION.encode()) == 1
            leave(terminal)
    finally:
        running.terminate()
        running.wait()


def test_the_shared_connection_of_the_users_configuration_is_used(places: Places) -> None:
    with places.screen("shared,open") as terminal:
        terminal.wait_for(QUESTION)
        terminal.press(SECRET, "enter")
        terminal.wait_for(live("open", "shared"))
        assert [path.name for path in places.sockets()] == ["user-shared"]
        leave(terminal)
    eventually(lambda: not places.sockets(), "nobody uses it any more")


def test_a_second_ctrl_c_skips_all_other_hosts(places: Places) -> None:
    with places.screen("locked,locked2,shared,open") as terminal:
        terminal.wait_for(QUESTION)
        terminal.press("ctrl+c")
        terminal.wait_for("skips it and all others")
        terminal.wait_for(lambda _: terminal.received.count(QUESTION.encode()) == 2)
        terminal.press("ctrl+c")
        terminal.wait_for(live("open"))
        assert terminal.received.count(b"logging in to") == 2
        leave(terminal)


def test_logins_that_fail_without_a_question_end_the_questions(places: Places) -> None:
    with places.screen("denied1,denied2,denied3,denied4,open") as terminal:
        terminal.wait_for(live("open"))
        said = terminal.received.decode(errors="replace")
        assert said.count("logging in to") == 3
        # On a busy machine the host that needs no login may still be connecting then.
        left = "3 logins in a row failed without a question, so none is tried for the (other host|2 other hosts)\\."
        assert re.search(left, said), said
        leave(terminal)


@pytest.mark.parametrize(("answer", "state"), [("yes", " live "), ("no", "unknown host key")])
def test_the_user_decides_about_an_unknown_key(places: Places, answer: str, state: str) -> None:
    with places.screen("stranger,open") as terminal:
        terminal.wait_for(UNKNOWN)
        terminal.press(answer, "enter")
        terminal.wait_for(live("open"))
        terminal.wait_for(lambda text: any("stranger" in line and state in line for line in text.splitlines()))
        leave(terminal)
    assert bool(places.known.read_text()) == (answer == "yes")


def test_without_a_terminal_nothing_is_asked(places: Places) -> None:
    """As a daemon would run it: the terminal is not the program's own."""
    words = shlex.join([sys.executable, "-c", PATIENT, "-H", "locked,open", "--via", f"ssh -F {places.config} {{host}}"])
    command = f"setsid -w {words} --remote {shlex.quote(places.there)} --virtual 1 --no-nccl-ras -i 300ms"
    environment = {"GPUTOP_DIR": str(places.folder / "here"), "HOME": str(places.folder), "PYTHONPATH": str(REPOSITORY)}
    with Terminal(["sh", "-c", command], environment) as terminal:
        shown = terminal.wait_for(lambda text: live("open")(text) and "permission denied" in text)
        assert "logging in" not in shown
        leave(terminal)


def test_a_login_that_asks_nothing_needs_no_terminal() -> None:
    asks = {"ssh {host}": True, "ssh -F my.config me@{host} sudo -n": True, "ssh -o BatchMode=yes {host}": False}
    asks |= {"kubectl exec -i {host} --": False, "ssh -o HostName={host}.lab gate": False}
    transports = {via: Transport(tuple(shlex.split(via))) for via in asks}
    assert {via: transport.can_ask for via, transport in transports.items()} == asks
    assert transport_of().can_ask
    words = transports["ssh -F my.config me@{host} sudo -n"].ssh("gpu1", ["ControlPath=/x"])
    assert (words[:2], words[-3:]) == (["ssh", "-oControlPath=/x"], ["-F", "my.config", "me@gpu1"])
