"""Real sshds on free ports of the loopback interface, with their own keys and client configuration."""

from __future__ import annotations

import contextlib
import getpass
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import REPOSITORY
from tests.patience import DEADLINE_S

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")

needs_sshd = pytest.mark.skipif(
    SSHD is None or shutil.which("ssh") is None, reason="sshd is not installed (Debian: openssh-server)"
)


def gputop_there(state: Path) -> str:
    """Return the command that runs this gputop on "another machine" with its state in ``state``."""
    words = ["env", f"GPUTOP_DIR={state}", f"PYTHONPATH={REPOSITORY}", sys.executable, "-m", "gputop"]
    return shlex.join(words)


def gputop_at_home() -> str:
    """Return the same with the state directory that the host gives its logins, see ``Lab.state``."""
    return shlex.join(["env", f"PYTHONPATH={REPOSITORY}", sys.executable, "-m", "gputop"])


def key(path: Path, passphrase: str = "") -> Path:
    """Create a key."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(path)], check=True)
    return path


def silent_port() -> tuple[socket.socket, int]:
    """A port that accepts every connection and says nothing."""
    listener = socket.create_server(("127.0.0.1", 0))
    return listener, listener.getsockname()[1]


def free_port() -> int:
    """Return a port on which nothing listens."""
    listener, port = silent_port()
    listener.close()
    return port


def sessions_of(server: int) -> list[int]:
    """The processes of an sshd for those who are logged in."""
    return [int(pid) for pid in Path(f"/proc/{server}/task/{server}/children").read_text().split()]


class Lab:
    """Hosts ``a`` and ``b``, one that accepts one login at a time, and names for everything that can go wrong with hosts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "ssh_config"
        self.servers: list[subprocess.Popen[bytes]] = []
        self.user_key = key(folder / "user")
        key(folder / "other")
        shutil.copy(f"{self.user_key}.pub", folder / "authorized_keys")
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        self.ports = ports = {name: self.serve(name) for name in ("a", "b")}
        ports["crowded"] = self.serve("crowded", "MaxStartups 1:100:1")
        known = [f"[127.0.0.1]:{ports[name]} {(folder / f'host_{name}.pub').read_text()}" for name in ports]
        (folder / "known").write_text("".join(known))
        wrong = f"[127.0.0.1]:{ports['a']} {(folder / 'other.pub').read_text()}"
        (folder / "wrong").write_text(wrong)
        self.silent, silent_port_ = silent_port()
        self.config.write_text(
            "\n".join(
                [
                    *self.host("a", ports["a"]),
                    *self.host("b", ports["b"]),
                    *self.host("crowded", ports["crowded"]),
                    *self.host("behind", ports["b"], "ProxyJump a"),
                    *self.host("stranger", ports["a"], f"UserKnownHostsFile {folder}/none"),
                    *self.host("changed", ports["a"], f"UserKnownHostsFile {folder}/wrong"),
                    *self.host("denied", ports["a"], "PubkeyAuthentication no"),
                    *self.host("refusing", free_port()),
                    *self.host("mute", silent_port_, "ConnectTimeout 1"),
                    *self.host("silent", silent_port_),
                    "Host *",
                    f"  User {getpass.getuser()}",
                    f"  IdentityFile {self.user_key}",
                    f"  UserKnownHostsFile {folder}/known",
                    *("  GlobalKnownHostsFile /dev/null", "  IdentitiesOnly yes", "  IdentityAgent none", "  LogLevel ERROR"),
                    *("  StrictHostKeyChecking ask", "  ConnectTimeout 60"),
                ]
            )
        )

    def host(self, name: str, port: int, *more: str) -> list[str]:
        return [f"Host {name}", *("  HostName 127.0.0.1", f"  Port {port}"), *(f"  {line}" for line in more)]

    def serve(self, name: str, *more: str, program: str | None = SSHD) -> int:
        """Start a server with these lines before those of its configuration; return its port."""
        host_key = key(self.folder / f"host_{name}")
        port = free_port()
        config = self.folder / f"sshd_{name}"
        config.write_text(
            "".join(f"{line}\n" for line in more)  # the first of two values counts
            + f"Port {port}\nListenAddress 127.0.0.1\nHostKey {host_key}\nPidFile none\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nStrictModes no\n"
            "PermitRootLogin prohibit-password\n"
            f'SetEnv "GPUTOP_DIR={self.state(name)}"\n'
        )
        self.listen(name, port, program)
        return port

    def listen(self, name: str, port: int, program: str | None = SSHD) -> None:
        """Start the server of a host that ``serve`` has set up."""
        assert program is not None
        log = self.folder / f"log_{name}"
        self.servers.append(subprocess.Popen([program, "-D", "-f", str(self.folder / f"sshd_{name}"), "-E", str(log)]))
        deadline = time.monotonic() + DEADLINE_S
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            assert self.servers[-1].poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)

    @contextlib.contextmanager
    def cut_off(self, name: str) -> Iterator[None]:
        """Take a host off the network: its server and all its sessions end, and it refuses connections meanwhile."""
        server = self.servers[list(self.ports).index(name)]
        sessions = sessions_of(server.pid)
        server.kill()
        server.wait()
        for pid in sessions:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            yield
        finally:
            self.listen(name, self.ports[name])

    def state(self, name: str) -> Path:
        """Where gputop keeps its files on a host, unless a command says otherwise."""
        return self.folder / f"state_{name}"

    @property
    def via(self) -> str:
        """The template that a user gives."""
        return f"ssh -F {self.config} {{host}}"

    def refusal(self) -> str | None:
        """Return what ssh says if a plain login fails; None if it succeeds."""
        command = ["ssh", "-F", str(self.config), "-o", "BatchMode=yes", "a", "true"]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
        return None if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"

    def close(self) -> None:
        self.silent.close()
        for server in self.servers:
            server.kill()
            server.wait()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Both hosts, for the tests of a module."""
    found = Lab(tmp_path_factory.mktemp("lab"))
    try:
        refused = found.refusal()
        if refused is not None:
            pytest.skip(f"sshd lets nobody in on this machine, as with a locked account: {refused}")
        yield found
    finally:
        found.close()
