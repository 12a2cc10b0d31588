"""What people have in their ``~/.ssh/config``, and at the other end of it: none of it keeps a host from being read."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputop.hosts import stream as stream_module
from gputop.hosts.fleet import read_once
from gputop.hosts.state import failure_of_login
from gputop.hosts.stream import Heard, HostStream
from gputop.hosts.transport import Transport, transport_of
from tests import REPOSITORY
from tests.hosts.machines.sshd import Lab, free_port, gputop_there, key, lab, needs_sshd, sessions_of
from tests.tracking.kit import eventually

assert lab
pytestmark = needs_sshd
ONCE = ("--once", "--json", "--virtual", "1", "--no-nccl-ras")
AGENT = ("agent", "-i", "200ms", "--virtual", "1", "--no-nccl-ras")
Plain = Callable[..., Transport]


@pytest.fixture
def plain(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plain:
    """Plain ``ssh``, with these lines for the host ``mine`` in its configuration: ssh takes its home from no variable."""

    def make(*settings: str, port: int | None = None) -> Transport:
        config = tmp_path / "config"
        config.write_text("\n".join([*lab.host("mine", port or lab.ports["a"], *settings), f"Include {lab.config}"]))
        ssh = tmp_path / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {config} "$@"\n')
        ssh.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return transport_of(remote=gputop_there(tmp_path / "there"))

    return make


@pytest.fixture
def follow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., HostStream]]:
    """Follow a host, once its readings arrive, until the test ends."""
    monkeypatch.setattr(stream_module, "LATE_S", 60.0)
    streams: list[HostStream] = []

    def start(transport: Transport, host: str = "mine") -> HostStream:
        streams.append(HostStream(host, transport, AGENT, lambda heard: None))
        streams[-1].start()
        eventually(lambda: streams[-1].status.state == "live", "readings arrive", 60.0)
        return streams[-1]

    yield start
    for one in streams:
        one.close()


def once(transport: Transport, host: str = "mine") -> Heard:
    (heard,) = read_once([host], transport, ONCE)
    return heard


def test_settings_for_the_users_own_sessions_keep_no_host_from_being_read(plain: Plain) -> None:
    settings = ("RemoteCommand tmux new -A -s main", "RequestTTY force", "ExitOnForwardFailure yes")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        heard = once(plain(*settings, f"LocalForward {taken.getsockname()[1]} localhost:8888"))
    assert heard.status.state == "live", heard.status


def test_a_stream_takes_no_port_from_the_users_sessions(plain: Plain, follow: Callable[..., HostStream]) -> None:
    port = free_port()
    follow(plain(f"LocalForward 127.0.0.1:{port} localhost:8888"))
    socket.create_server(("127.0.0.1", port)).close()


@pytest.fixture
def sockets() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gt-", dir="/tmp") as place:  # a socket's path is short
        yield Path(place)


def test_a_stream_shares_the_users_connection_and_is_never_the_one_they_share(
    plain: Plain, follow: Callable[..., HostStream], sockets: Path, lab: Lab
) -> None:
    """Their sessions would end with it."""
    transport = plain("ControlMaster auto", f"ControlPath {sockets}/%n")
    stream = follow(transport)
    assert not list(sockets.iterdir())
    stream.close()
    server = lab.servers[0].pid
    eventually(lambda: not sessions_of(server), "it has logged out")
    subprocess.run(["ssh", "-f", "-N", "-o", "ControlPersist=60", "mine"], check=True, timeout=60)
    try:
        follow(transport)
        assert len(sessions_of(server)) == 1
    finally:
        subprocess.run(["ssh", "-O", "exit", "mine"], check=True, timeout=60, stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("noise", ["Welcome", "Welcome\\n", "\\033[2J\\a"])
def test_what_a_profile_prints_hides_nothing(noise: str, lab: Lab, tmp_path: Path) -> None:
    command = f"ForceCommand printf '{noise}'; exec sh -c \"$SSH_ORIGINAL_COMMAND\""
    port = lab.serve(f"noisy{len(lab.servers)}", command)
    options = "-o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no"
    via = f"ssh -F {lab.config} {options} -p {port} -i {lab.user_key} {getpass.getuser()}@{{host}}"
    heard = once(transport_of(via, gputop_there(tmp_path)), "127.0.0.1")
    assert heard.status.state == "live", heard.status


def test_a_shared_connection_that_is_gone_is_not_why_a_host_is_unreachable(plain: Plain, sockets: Path) -> None:
    settings = ("ControlMaster auto", f"ControlPath {sockets}/%n")
    gone = socket.socket(socket.AF_UNIX)
    gone.bind(f"{sockets}/mine")
    gone.close()
    transport = plain(*settings)
    assert once(transport).status.state == "live"
    said = subprocess.run([*transport.login("mine"), "true"], capture_output=True, text=True, check=True).stderr.splitlines()
    assert "refused" in said[0], "ssh says so, and goes on"
    found = failure_of_login(255, [*said, "ssh: Could not resolve hostname mine: Name or service not known"], "ssh mine")
    assert found.state == "not_resolved"


def test_jump_hosts_are_written_as_a_command_that_asks_nothing(plain: Plain) -> None:
    words = shlex.join(plain("ProxyJump me@gate:2222,[::1]:22").login("mine"))
    assert words.count("-oBatchMode=yes") == 2, "one for each jump host"
    assert "%%h" in words, "for the inner one"
    via = transport_of("ssh -J gate -F my.config {host} sudo -J")
    assert via.template == ("ssh", "-o", "ProxyJump=gate", "-F", "my.config", "{host}", "sudo", "-J")
    assert transport_of("ssh -Jgate {host}").template == ("ssh", "-oProxyJump=gate", "{host}")


def test_an_address_in_brackets_has_a_port(plain: Plain) -> None:
    words = {
        "[::1]:2222": ["-p", "2222", "::1"],
        "me@[fe80::1%eth0]:22": ["-p", "22", "me@fe80::1%eth0"],
        "[::1]": ["LogLevel=ERROR", "::1"],
        "::1": ["LogLevel=ERROR", "::1"],
        "me@a@b:22": ["-p", "22", "me@a@b"],
        "ssh://me@d:22": ["LogLevel=ERROR", "ssh://me@d:22"],
    }
    transport = plain()
    assert {host: transport.login(host)[-len(wanted) :] for host, wanted in words.items()} == words
    assert transport.shown_login("me@[::1]:2222") == "ssh -p 2222 me@::1"


def test_a_login_that_asks_waits_for_a_phone(plain: Plain) -> None:
    """ssh gives up where the other side is silent for ServerAliveInterval times ServerAliveCountMax."""
    words = plain().ssh("mine", [])
    said = subprocess.run(["ssh", "-G", *words[1:]], capture_output=True, text=True, check=True).stdout
    settings = dict(line.split(" ", 1) for line in said.splitlines() if " " in line)
    assert int(settings["serveraliveinterval"]) * int(settings["serveralivecountmax"]) >= 120
    assert settings["batchmode"] == "no"


def test_a_shared_connection_without_room_for_a_session_says_so(
    plain: Plain, follow: Callable[..., HostStream], sockets: Path, lab: Lab, tmp_path: Path
) -> None:
    """What shares it asks for a login of its own then, which needs an answer."""
    locked = key(tmp_path / "locked", "open sesame")
    with (lab.folder / "authorized_keys").open("a") as keys:
        keys.write(Path(f"{locked}.pub").read_text())
    name = f"narrow{len(lab.servers)}"
    port = lab.serve(name, "MaxSessions 1")
    with (lab.folder / "known").open("a") as known:
        known.write(f"[127.0.0.1]:{port} {(lab.folder / f'host_{name}.pub').read_text()}")
    mine = f"IdentityFile {lab.user_key}"
    transport = plain(mine, port=port)
    shared = f"ControlPath={sockets}/s"
    subprocess.run(["ssh", "-f", "-N", "-o", "ControlMaster=yes", "-o", shared, "-o", "ControlPersist=60", "mine"], check=True)
    try:
        config = Path(os.environ["PATH"].split(":")[0]) / "config"
        config.write_text(config.read_text().replace(mine, "PubkeyAuthentication no"))
        transport.shared["mine"] = (shared,)
        follow(transport)
        heard = once(transport)
        assert heard.status.state == "permission_denied"
        assert "MaxSessions" in str(heard.status.hint)
    finally:
        subprocess.run(["ssh", "-O", "exit", "-o", shared, "mine"], check=True, timeout=60, stderr=subprocess.DEVNULL)


def test_a_home_and_a_temporary_directory_that_take_no_file_are_no_obstacle(tmp_path: Path) -> None:
    """Also for root, whom no mode keeps from writing."""
    nowhere = ["HOME=/proc/none", "TMPDIR=/proc/none", "GPUTOP_DIR=/proc/none/gputop", "XDG_STATE_HOME=/proc/none"]
    there = shlex.join(["env", *nowhere, *shlex.split(gputop_there(tmp_path))[2:]])
    heard = once(transport_of("env GPUTOP_TEST_HOST={host}", there))
    assert heard.status.state == "live", heard.status


def test_a_python_that_only_a_profile_puts_on_the_path_is_found(tmp_path: Path) -> None:
    home = tmp_path / "home"
    there = home / "miniconda3" / "bin"
    there.mkdir(parents=True)
    (there / "python3").symlink_to(Path(sys.executable).resolve())
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sh").symlink_to(str(shutil.which("sh")))
    (programs / "python3").write_text('#!/bin/sh\ncase "$2" in *python_version*) echo 3.8.18;; *) exit 1;; esac\n')
    (programs / "python3").chmod(0o755)
    words = shlex.join([str(shutil.which("env")), "-i", f"HOME={home}", f"PATH={programs}"])
    heard = once(transport_of(f"{words} GPUTOP_TEST_HOST={{host}}"), "a")
    assert heard.status.state == "live", heard.status


def test_gputop_is_found_as_a_module_of_another_python(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sh").symlink_to(str(shutil.which("sh")))
    (programs / "python3.11").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    (programs / "python3.11").chmod(0o755)
    words = shlex.join([str(shutil.which("env")), "-i", f"HOME={tmp_path}", f"PATH={programs}", f"PYTHONPATH={REPOSITORY}"])
    process = subprocess.run(
        [*shlex.split(words), "sh"],
        input=transport_of(f"{words} X={{host}}").line(["--version"]),
        capture_output=True,
        check=True,
    )
    assert process.stdout.split()[:2] == [b"gputop-connected", b"gputop"]
