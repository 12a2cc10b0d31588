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
import stat
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

from gputop.hosts.state import HostState
from gputop.hosts.stream import CONNECTING_MOST, HostStream
from gputop.hosts.transport import Transport
from gputop.terminal_text import printable

ASKING_STATES: frozenset[HostState] = frozenset({"permission_denied", "unknown_host_key"})
"""What a login that may ask nothing ends with where one that asks may succeed."""
WAIT_S = 5.0
QUIET_S = 2.0
"""How long to wait for a login that needs an answer, and how long if no host connects or fails in the meantime, once one has: a
host that does not answer must not keep the screen from opening. Both begin anew after each login."""
TELL_S = 0.5
"""After this long, gputop says what it waits for."""
UNASKED_MOST = 3
"""After so many logins in a row that failed without a question, the user has no answer to give for the others."""
NAMED_MOST = 5
"""How many hosts a line names."""
LOOK_S = 0.02
PERSIST_S = 60
"""How long a master outlives its last stream, if gputop is killed and cannot end it."""
CONFIG_S, EXIT_S = 10.0, 5.0
PATH_MAX_BYTES = 80
"""A socket's path has at most 107 bytes, and ssh appends 17 to it while it makes one."""
Outcome = Literal["logged in", "failed", "failed unasked", "skipped"]
_TERMINAL = "/dev/tty"
_GONE = (OSError, termios.error)
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
        """Log in to the hosts whose login needs an answer, and have their streams try again.

        Ctrl-C skips a host, and a second one all others; while none is asked, it ends the wait for them. Do nothing where there
        is no terminal, or the hosts are not reached by ssh.
        """
        if streams and self._transport.can_ask and has_terminal():
            with contextlib.suppress(KeyboardInterrupt):
                self._ask_each(_Waiting(streams))

    def _ask_each(self, waiting: _Waiting) -> None:
        unasked, skipped = 0, False
        while (refused := waiting.next_refused()) is not None:
            host = refused.status.host
            others = len(waiting.open())
            _say(f"gputop: logging in to {host}; Ctrl-C skips it{' and all others' if skipped and others else ''}.")
            outcome = self.log_in(host)
            if outcome == "logged in":
                refused.try_again()
            else:
                _say(f"gputop: not logged in to {host}.")
            if skipped and outcome == "skipped":
                return
            skipped = outcome == "skipped"
            unasked = unasked + 1 if outcome == "failed unasked" else 0
            if unasked == UNASKED_MOST and others:
                left = f"{others} other hosts" if others > 1 else "other host"
                _say(f"gputop: {unasked} logins in a row failed without a question, so none is tried for the {left}.")
                return
        late = waiting.open()
        if late:
            names = _names([stream.status.host for stream in late])
            _say(f"gputop: no answer yet from {names}. If a login there asks something, start gputop again.")

    def log_in(self, host: str) -> Outcome:
        """Let ssh ask on the terminal. Once it is logged in, there is a connection that others can share.

        Raises:
            KeyboardInterrupt: a second Ctrl-C came while the first one was ending it.
        """
        try:
            options, socket = self._sharing(host)
            with _terminal_kept():
                process = subprocess.Popen(
                    [*self._transport.asking(host, options), "true"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
                )
                try:
                    asked = _asks_before_its_end(process)
                finally:
                    _end(process)
        except KeyboardInterrupt:
            return "skipped"
        except OSError as error:
            _say(f"gputop: {error.filename}: {error.strerror}.")
            return "failed unasked"
        if process.returncode != 0:
            return "failed" if asked else "failed unasked"
        if socket is not None:
            self._transport.sockets[host] = str(socket)
        return "logged in"

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
            place = os.environ.get("XDG_RUNTIME_DIR", "")
            is_usable = _PLAIN.fullmatch(place) and len(place) < PATH_MAX_BYTES - 20 and _is_ours(place)
            self._directory = Path(tempfile.mkdtemp(prefix="gputop-", dir=place if is_usable else "/tmp"))
        path = self._directory / str(len(self._made))
        self._made[path] = host
        return path


def has_terminal() -> bool:
    """Return whether ssh can ask the user, who reads what gputop says."""
    try:
        os.close(os.open(_TERMINAL, os.O_RDWR | os.O_CLOEXEC))
        return sys.stderr.isatty()
    except (OSError, ValueError, AttributeError):
        return False


class _Waiting:
    """The hosts whose logins may still need an answer, and how long to wait for them."""

    def __init__(self, streams: Sequence[HostStream]) -> None:
        self._left = list(streams)
        self._all = len(streams)
        self._began = time.monotonic()
        self._is_told = False

    def open(self) -> list[HostStream]:
        """Return the hosts that refuse a login, or have neither connected nor failed so far."""
        states = {*ASKING_STATES, "connecting"}
        return [stream for stream in self._left if not stream.reached and stream.status.state in states]

    def next_refused(self) -> HostStream | None:
        """Wait for a host whose login needs an answer; None if none comes within ``WAIT_S`` and ``QUIET_S``."""
        began = changed = time.monotonic()
        count = self._all
        while True:
            refused = next((stream for stream in self._left if stream.status.state in ASKING_STATES), None)
            if refused is not None:
                self._left.remove(refused)
                return refused
            now, before, count = time.monotonic(), count, len(self.open())
            changed = now if count < before else changed
            if not count or now - began >= WAIT_S or (count < self._all and now - changed >= QUIET_S):
                return None
            self._tell(now, count)
            time.sleep(LOOK_S)

    def _tell(self, now: float, count: int) -> None:
        if not self._is_told and now - self._began >= TELL_S:
            self._is_told = True
            _say(f"gputop: connecting to {count} host{'s' if count > 1 else ''}; Ctrl-C opens the screen at once.")


def _asks_before_its_end(process: subprocess.Popen[bytes]) -> bool:
    """Wait for the end of an ssh; return whether it has asked something, or may have."""
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_S)
            return False
        if _has_open(process.pid, _TERMINAL) and process.poll() is None:  # one that has just ended is not readable
            process.wait()
            return True


def _has_open(pid: int, path: str) -> bool:
    """Return whether a process or a child of it, as the ssh to a jump host is, has opened a file; True if that is not readable.

    ssh has the terminal open only while it asks.
    """
    try:
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                if int(descriptor) > 2 and os.readlink(f"/proc/{pid}/fd/{descriptor}") == path:
                    return True
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        return True
    return any(_has_open(int(child), path) for child in children)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(EXIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _is_ours(place: str) -> bool:
    """Return whether a directory is this user's alone: under ``sudo -E``, it may be somebody else's."""
    try:
        found = os.stat(place)
    except OSError:
        return False
    others = stat.S_IWGRP | stat.S_IWOTH
    is_alone = found.st_uid == os.geteuid() and not found.st_mode & others
    return stat.S_ISDIR(found.st_mode) and is_alone and os.access(place, os.W_OK | os.X_OK)


@contextlib.contextmanager
def _terminal_kept() -> Iterator[None]:
    """Put the terminal back as it was, unless it is gone: an ssh that is killed at its question leaves it without an echo."""
    with contextlib.ExitStack() as kept:
        with contextlib.suppress(*_GONE):
            terminal = kept.enter_context(open(_TERMINAL, "rb", buffering=0))
            kept.callback(_restore, terminal.fileno(), termios.tcgetattr(terminal))
        yield


def _restore(terminal: int, attributes: list[Any]) -> None:
    with contextlib.suppress(*_GONE):
        termios.tcsetattr(terminal, termios.TCSADRAIN, attributes)


def _names(hosts: Sequence[str]) -> str:
    """Return "a, b and 3 others"."""
    if len(hosts) <= NAMED_MOST:
        return " and ".join(filter(None, (", ".join(hosts[:-1]), hosts[-1])))
    return f"{', '.join(hosts[:NAMED_MOST])} and {len(hosts) - NAMED_MOST} others"


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        print(printable(text), file=sys.stderr, flush=True)  # noqa: T201 - between the questions of ssh, on the terminal
