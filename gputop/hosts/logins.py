"""Logins that ask the user something: a passphrase, a second factor, whether an unknown host key is right.

The streams' own connections ask nothing (BatchMode), and so show which hosts need an answer. The user's ssh then asks on the
terminal, one host after another, and keeps each connection as a master that the streams share. This must happen before a screen
takes the terminal.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gputop.hosts.state import HostState
from gputop.hosts.stream import CONNECTING_MOST, HostStream
from gputop.hosts.transport import Transport
from gputop.terminal_text import printable

ASKING_STATES: frozenset[HostState] = frozenset({"permission_denied", "unknown_host_key"})
"""What a login that may ask nothing ends with where one that asks may succeed."""
WAIT_S = 5.0
QUIET_S = 2.0
"""How long to wait for the hosts before the first question, and how long if none of them connects or fails in the meantime: a
host that does not answer must not keep the screen from opening."""
LOOK_S = 0.02
PERSIST_S = 60
"""How long a master outlives its last stream, if gputop is killed and cannot end it."""
CONFIG_S, EXIT_S = 10.0, 5.0
PATH_MAX_BYTES = 80
"""A socket's path has at most 107 bytes, and ssh appends 17 to it while it makes one."""
_PLAIN = re.compile(r"[\w./-]+", re.ASCII)
"""Paths that mean themselves in an option of ssh."""


class Logins:
    """The masters that were made for one command; ``close`` ends them."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._directory: Path | None = None
        self._made: dict[Path, str] = {}
        """Socket of a master of our own -> its host."""

    def __enter__(self) -> Logins:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def ask(self, streams: Sequence[HostStream]) -> None:
        """Log in to the hosts whose login needs an answer, and have their streams try again; Ctrl-C skips a host.

        Do nothing where there is no terminal, or the hosts are not reached by ssh.
        """
        if not streams or not self._transport.can_ask or not has_terminal():
            return
        with contextlib.suppress(KeyboardInterrupt):
            _wait(streams)
        left = list(streams)
        while (refused := next((stream for stream in left if stream.status.state in ASKING_STATES), None)) is not None:
            left.remove(refused)
            if self.log_in(refused.status.host):
                refused.try_again()

    def log_in(self, host: str) -> bool:
        """Let ssh ask on the terminal; return whether there is a connection now that others can share."""
        _say(f"gputop: logging in to {host}; Ctrl-C skips it.")
        try:
            options, socket = self._sharing(host)
        except OSError as error:
            _say(f"gputop: no directory for the connection: {error.strerror}.")
            return False
        with _terminal_kept():
            process = subprocess.Popen(
                [*self._transport.asking(host, options), "true"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
            try:
                is_in = process.wait() == 0
            except KeyboardInterrupt:
                process.terminate()
                process.wait()
                is_in = False
        if not is_in:
            _say(f"gputop: not logged in to {host}.")
        elif socket is not None:
            self._transport.sockets[host] = str(socket)
        return is_in

    def close(self) -> None:
        """End the masters of our own; those of the user's configuration end as it says."""
        if self._directory is None:
            return
        with ThreadPoolExecutor(CONNECTING_MOST) as pool:
            list(pool.map(self._end, self._made))
        self._transport.sockets.clear()
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory = None

    def _end(self, socket: Path) -> None:
        if socket.exists():
            self._run(self._made[socket], [f"ControlPath={socket}"], ["-O", "exit"], EXIT_S)

    def _sharing(self, host: str) -> tuple[list[str], Path | None]:
        """Return the options that make a login a master, and its socket unless the user's configuration names one.

        Raises:
            OSError: there is no place for the socket.
        """
        lines = self._run(host, [], ["-G"], CONFIG_S).decode(errors="replace").splitlines()
        configured = {name: value for name, _, value in (line.partition(" ") for line in lines)}
        persist = f"ControlPersist={PERSIST_S}"
        if configured.get("controlpath", "none") == "none" or configured.get("controlmaster", "false") == "false":
            socket = self._socket(host)
            return ["ControlMaster=yes", f"ControlPath={socket}", persist], socket
        return [persist] if configured.get("controlpersist", "no") == "no" else [], None

    def _run(self, host: str, options: Sequence[str], words: Sequence[str], within_s: float) -> bytes:
        """Return what an ssh prints that connects to nothing; nothing where it fails."""
        ssh, *others = self._transport.asking(host, options)
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            command = [ssh, *words, *others]
            return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=within_s, check=False).stdout
        return b""

    def _socket(self, host: str) -> Path:
        """Return a path for the socket of a host's master, in a directory that only this user can enter.

        Raises:
            OSError: there is no place for it.
        """
        if self._directory is None:
            places = (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir())
            known = (place for place in places if place and _PLAIN.fullmatch(place) and len(place) < PATH_MAX_BYTES - 20)
            place = next((place for place in known if os.access(place, os.W_OK | os.X_OK)), "/tmp")
            self._directory = Path(tempfile.mkdtemp(prefix="gputop-", dir=place))
        path = self._directory / str(len(self._made))
        self._made[path] = host
        return path


def has_terminal() -> bool:
    """Return whether ssh can ask the user, who reads what gputop says."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC))
        return sys.stderr.isatty()
    except (OSError, ValueError, AttributeError):
        return False


def _wait(streams: Sequence[HostStream]) -> None:
    """Wait until all hosts are connected or have failed, within ``WAIT_S`` and ``QUIET_S``."""
    began = changed = time.monotonic()
    left = len(streams)
    while left and (now := time.monotonic()) - began < WAIT_S and now - changed < QUIET_S:
        time.sleep(LOOK_S)
        before, left = left, sum(not stream.reached and stream.status.state == "connecting" for stream in streams)
        if left < before:
            changed = now


@contextlib.contextmanager
def _terminal_kept() -> Iterator[None]:
    """Put the terminal back as it was: an ssh that is killed at its question leaves it without an echo."""
    with open("/dev/tty", "rb", buffering=0) as terminal:
        was = termios.tcgetattr(terminal)
        try:
            yield
        finally:
            termios.tcsetattr(terminal, termios.TCSADRAIN, was)


def _say(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)  # noqa: T201 - between the questions of ssh, on the terminal
