"""Connections that the user's ssh has logged in to, and that streams share; ssh calls them masters.

Only here may an ssh ask something. It asks on the terminal itself, so an answer never passes through gputop.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
import termios
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal

from gputop.hosts import jumps
from gputop.hosts.connection import CONNECTING_MOST
from gputop.hosts.jumps import Command
from gputop.hosts.transport import PATIENT, Transport
from gputop.terminal_text import printable

Outcome = Literal["logged in", "failed", "failed unasked", "skipped"]
POLL_S = 0.02
"""How often to check whether an ssh has ended, or asks something."""
PERSIST_S = 60
"""How long a master outlives its last stream, if gputop is killed and cannot end it."""
EXIT_S = 5.0
"""Time limit for a command to a master, and for an ssh to end after it was asked to."""
PATH_MAX_BYTES = 80
"""A socket's path has at most 107 bytes, and ssh appends 17 while it creates one."""
_TERMINAL = "/dev/tty"
_GONE = (OSError, termios.error)
_TO_MASTER = "ControlMaster=no"
"""For a command to a master: an ssh that may be a master itself connects instead."""
_PLAIN = re.compile(r"[\w./-]+", re.ASCII)
"""Paths that mean themselves in an option of ssh."""


class Masters:
    """The masters that were made for one command; ``close`` ends them."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._directory: Path | None = None
        self._made: dict[Path, Command] = {}
        """Socket of a master that gputop started -> its ssh."""
        self._proxies: dict[str, tuple[str, ...]] = {}
        """Jump host that is logged in -> the options of an ssh to a host behind it."""

    def log_in(self, host: str) -> Outcome:
        """Let ssh ask on the terminal. After the login, there is a connection that others can share.

        Raises:
            KeyboardInterrupt: a second Ctrl-C came while the first one was ending it.
        """
        through = self._transport.shared.get(host, ())
        outcome, shared = self._log_in(lambda options: self._transport.ssh(host, [*options, *through]))
        if shared:
            self._transport.shared[host] = shared
        if outcome == "logged in" and jumps.is_jump(host):
            self._proxies[host] = jumps.through(jumps.command_to(host, self._transport.template), shared)
        return outcome

    def log_in_jump(self, jump: str) -> Outcome:
        """Do the same at a jump host, as ``jump_of`` returns it, so that it asks once for all hosts behind it.

        Raises:
            KeyboardInterrupt: as ``log_in`` does.
        """
        to_jump = jumps.command_to(jump, self._transport.template)
        outcome, shared = self._log_in(lambda options: to_jump((*options, *PATIENT)))
        if outcome == "logged in":
            self._proxies[jump] = jumps.through(to_jump, shared)
            self._transport.shared.setdefault(jump, shared)  # it may be a host of its own
        return outcome

    def jump_of(self, host: str) -> str | None:
        """Return the jump host of a host, as the user's configuration names it; None if there is none."""
        return jumps.jump_in(jumps.configured(partial(self._transport.ssh, host)))

    def go_through(self, jump: str, host: str) -> bool:
        """Have the streams of a host use the connection to its jump host; return whether that is new to them."""
        proxy = self._proxies.get(jump)
        if proxy is None or host in self._transport.shared:
            return False
        self._transport.shared[host] = proxy
        return True

    def close(self) -> None:
        """End gputop's own masters; those from the user's configuration end as it says."""
        if self._directory is None:
            return
        with ThreadPoolExecutor(CONNECTING_MOST) as pool:
            list(pool.map(self._end, self._made))
        self._transport.shared.clear()
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory = None

    def _end(self, socket: Path) -> None:
        if socket.exists():
            jumps.run(self._made[socket]([_TO_MASTER, f"ControlPath={socket}"]), ["-O", "exit"], EXIT_S)

    def _log_in(self, command: Command) -> tuple[Outcome, tuple[str, ...]]:
        """Run an ssh that may ask; return how that ended, and what lets others share its connection, unless the user's
        configuration does."""
        try:
            options, shared = self._sharing(command)
            with _terminal_kept():
                process = subprocess.Popen([*command(options), "true"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
                try:
                    asked = _asks_before_its_end(process)
                finally:
                    _end(process)
        except KeyboardInterrupt:
            return "skipped", ()
        except OSError as error:
            say(f"gputop: {error.filename}: {error.strerror}.")
            return "failed unasked", ()
        # A jump host may run no command at all.
        if process.returncode != 0 and not jumps.run(command((_TO_MASTER, *options)), ["-O", "check"], EXIT_S)[0]:
            return ("failed" if asked else "failed unasked"), ()
        return "logged in", shared

    def _sharing(self, command: Command) -> tuple[list[str], tuple[str, ...]]:
        """Return the options that make a login a master, and those that share it unless the user's configuration names one.

        Raises:
            OSError: there is no place for the socket.
        """
        configured = jumps.configured(command)
        persist = f"ControlPersist={PERSIST_S}"
        if configured.get("controlpath", "none") == "none" or configured.get("controlmaster", "false") == "false":
            shared = f"ControlPath={self._socket(command)}"
            return ["ControlMaster=yes", shared, persist], (shared,)
        return [persist] if configured.get("controlpersist", "no") == "no" else [], ()

    def _socket(self, command: Command) -> Path:
        """Return a path for the socket of a master, in a directory that only this user can enter.

        Raises:
            OSError: there is no place for it.
        """
        if self._directory is None:
            place = os.environ.get("XDG_RUNTIME_DIR", "")
            is_usable = _PLAIN.fullmatch(place) and len(place) < PATH_MAX_BYTES - 20 and _is_ours(place)
            self._directory = Path(tempfile.mkdtemp(prefix="gputop-", dir=place if is_usable else "/tmp"))
        path = self._directory / str(len(self._made))
        self._made[path] = command
        return path


def has_terminal() -> bool:
    """Return whether ssh can ask the user: there is a terminal, and this command has its foreground."""
    with contextlib.suppress(OSError):
        terminal = os.open(_TERMINAL, os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        finally:
            os.close(terminal)
    return False


def say(text: str) -> None:
    """Print a line for the user between the questions of ssh. It goes to the terminal: stdout and stderr may be files."""
    with contextlib.suppress(OSError), open(_TERMINAL, "w") as terminal:
        terminal.write(f"{printable(text)}\n")


def _asks_before_its_end(process: subprocess.Popen[bytes]) -> bool:
    """Wait for the end of an ssh; return whether it has asked something, or may have."""
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(POLL_S)
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
    """Return whether only this user can use a directory: under ``sudo -E``, it may be another user's."""
    try:
        found = os.stat(place)
    except OSError:
        return False
    others = stat.S_IWGRP | stat.S_IWOTH
    is_alone = found.st_uid == os.geteuid() and not found.st_mode & others
    return stat.S_ISDIR(found.st_mode) and is_alone and os.access(place, os.W_OK | os.X_OK)


@contextlib.contextmanager
def _terminal_kept() -> Iterator[None]:
    """Restore the terminal's settings, unless it is gone: an ssh that is killed while it asks leaves echo off."""
    with contextlib.ExitStack() as kept:
        with contextlib.suppress(*_GONE):
            terminal = kept.enter_context(open(_TERMINAL, "rb", buffering=0))
            kept.callback(_restore, terminal.fileno(), termios.tcgetattr(terminal))
        yield


def _restore(terminal: int, attributes: list[Any]) -> None:
    with contextlib.suppress(*_GONE):
        termios.tcsetattr(terminal, termios.TCSADRAIN, attributes)
