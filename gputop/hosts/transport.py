"""How to reach a host: any command that runs a shell there and passes on its input and output.

How to quote depends on the shell there, which is unknown. So the remote command is just ``sh``, and the line that it
runs arrives on its standard input. The user's own ssh and configuration do the rest; gputop sets no key and no host-key policy.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Protocol

from gputop.errors import UsageError
from gputop.hosts import jumps, traveling
from gputop.hosts.state import Failure

SSH = "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3 -o LogLevel=ERROR {host}"
"""The default. BatchMode asks nothing (``logins`` does); the others end a connection that no longer answers."""
ANY_SSH = ("RemoteCommand=none", "RequestTTY=no", "ClearAllForwardings=yes")
"""Settings for every ssh, whatever the user's configuration says for their own sessions. A forwarded port would be taken from
those sessions, and end with gputop."""
_SINCE = {"RemoteCommand": (7, 6)}
"""Option of ``ANY_SSH`` -> the OpenSSH that knows it; an older one, as CentOS 7 has, refuses to run with it."""
_VERSION = re.compile(r"OpenSSH_(\d+)\.(\d+)")
VERSION_S = 5.0
"""Time limit for ``ssh -V``."""
STREAM = ("ControlMaster=no", *ANY_SSH)
"""A stream may share a connection, but must not become the one that the user's sessions share: they would end with it."""
PATIENT = ("ServerAliveInterval=15", "ServerAliveCountMax=8")
"""For a login of plain ssh that asks: the other side may be silent while the user looks for a code, or confirms on a phone."""
HELLO = b"gputop-connected"
"""The first words of the other side: everything before them is noise of its login, and the host is connected from here on."""

_PLACE = "{host}"
_PORT = re.compile(r"(?P<user>[^:]+@)?(?:\[(?P<address>[0-9A-Fa-f:.%\w]+)\]|(?P<name>[^:@]+))(?::(?P<port>\d{1,5}))?")
_EXAMPLE = "Write it like --via 'kubectl exec -i {host} --'."
_PYTHONS = "python3 python3.14 python3.13 python3.12 python3.11 python3.10"
_FIND = (
    'PATH="$PATH:$HOME/.local/bin"; export PATH; '
    "if command -v gputop >/dev/null 2>&1; then echo {hello}; exec gputop {words}; fi; "
    "for python in {pythons}; do "
    "if $python -c 'import importlib.util as u, sys; sys.path[:] = filter(None, sys.path); "
    'sys.exit(sys.version_info < {own} or u.find_spec("gputop") is None)\' </dev/null >/dev/null 2>&1; '
    "then echo {hello}; exec $python -m gputop {words}; fi; done; "
)
"""Looks for gputop where a login without a terminal does not: such a shell reads no profile. As a module, it does not count in
the login's folder: a clone in the user's home has the same name."""
_TRAVEL = (
    "for least in '{own}' '{least}'; do "
    'for python in {pythons} python3.9 python3.8 /usr/local/bin/python3 /opt/*/bin/python3 "$HOME"/*conda3/bin/python3 '
    '"$HOME"/*forge*/bin/python3; do '
    'if "$python" -c "import sys; sys.exit(sys.version_info < $least)" </dev/null >/dev/null 2>&1; '
    'then echo {wanted}; exec "$python" -c {loader} {words}; fi; done; done; '
    "there=$(python3 -c 'import platform; print(platform.python_version())' </dev/null 2>/dev/null); there=${{there:-none}}; "
)
"""Takes the gputop of this machine where there is none: any Python that can run it will do, including one that only a profile
puts on the path. One that needs no help is preferred."""
_NOT_FOUND = 'echo {hello}; echo "gputop: not found${{there:+; Python $there is there}}" >&2; exit 127'


class Asking(Protocol):
    """Asks the user where a login needs an answer (``logins``). A host's own thread calls ``refused`` and ``settled``."""

    def ask(self, hosts: Sequence[str]) -> None:
        """Ask for the logins of these hosts, which are connecting now, one after another. Call it in the main thread."""

    def refused(self, host: str, failure: Failure, closed: threading.Event) -> Failure | None:
        """Wait until the user was asked, or ``closed``; return None if it can be tried again, else the failure to report."""

    def settled(self, host: str) -> None:
        """Note that a host is connected, failed for good, or is no longer wanted."""


class _Nobody:
    """Asks nothing."""

    def ask(self, hosts: Sequence[str]) -> None: ...

    def refused(self, host: str, failure: Failure, closed: threading.Event) -> Failure | None:
        return failure

    def settled(self, host: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Transport:
    """A way to hosts. ``template`` are the words of a command with {host} in them, and ``remote`` runs gputop there, as a
    shell reads it; empty: looked for."""

    template: tuple[str, ...]
    remote: str = ""
    shared: dict[str, tuple[str, ...]] = field(default_factory=dict, compare=False)
    """Host -> the options of ssh for an existing login, there or at its jump host."""
    asking: Asking = field(default=_Nobody(), compare=False)
    via: str | None = None
    """The template as the user wrote it; None for plain ssh."""
    _proxies: dict[str, tuple[str, ...]] = field(default_factory=dict, compare=False)
    """Host -> the options that keep its jump hosts from asking."""

    def look_up(self, host: str) -> None:
        """Read once what the user's configuration says about jump hosts; it may run commands that take time."""
        if self.is_ssh and host not in self._proxies:
            self._proxies[host] = jumps.unasking(partial(self.ssh, host), self.template)

    def is_behind_another(self, host: str) -> bool:
        """Return whether a connection goes through another host, whose sshd turns away many connections at a time."""
        self.look_up(host)
        return bool(self._proxies.get(host))

    def login(self, host: str) -> list[str]:
        """Return the command up to what it runs there. Neither it nor a jump host asks anything."""
        words = self._words(host)
        if not self.is_ssh:
            return words
        self.look_up(host)
        options = (*self.shared.get(host, ()), *self._proxies[host], *STREAM)
        return [*words[:1], *_as_words(options, words[0]), *words[1:]]

    @property
    def is_ssh(self) -> bool:
        """Whether this is an ssh, which takes its options and may ask the user something."""
        return Path(self.template[0]).name == "ssh" and any(map(_is_destination, self.template))

    @property
    def can_ask(self) -> bool:
        """Whether a login may ask the user something: an ssh, unless the user's ``--via`` forbids it."""
        return self.is_ssh and (self.is_default or not any("batchmode=yes" in word.lower() for word in self.template))

    def ssh(self, host: str, options: Sequence[str]) -> list[str]:
        """Return the command of an ssh that may ask the user, with these options and before what it runs there."""
        words = self._words(host)
        end = len(words) if self.is_default else next(n for n, word in enumerate(self.template, 1) if _is_destination(word))
        # ssh takes the first of two values of an option.
        given = (*options, *(("BatchMode=no", "LogLevel=INFO", *PATIENT) if self.is_default else ()), *ANY_SSH)
        return [words[0], *_as_words(given, words[0]), *words[1:end]]

    def _words(self, host: str) -> list[str]:
        """Return the words of the template for a host. Plain ssh takes the port separately from the name or address."""
        port: list[str] = []
        found = _PORT.fullmatch(host) if self.is_default else None
        if found and (found["port"] or found["address"]):
            host = (found["user"] or "") + (found["address"] or found["name"])
            port = ["-p", found["port"]] if found["port"] else []
        words = [word.replace(_PLACE, host) for word in self.template]
        return words[:-1] + port + words[-1:]

    @property
    def is_default(self) -> bool:
        """Whether this is plain ssh."""
        return " ".join(self.template) == SSH

    def options(self, hosts: Sequence[str]) -> str:
        """Return the options of another command line that reach these hosts in the same way: "-H a,b --via 'ssh {host}'"."""
        given = (("-H", ",".join(hosts)), ("--via", self.via), ("--remote", self.remote))
        return shlex.join(word for option, value in given if value for word in (option, value))

    def shown_login(self, host: str) -> str:
        """Return the command that the user types to log in there: "ssh node1"."""
        words = self._words(host)
        if self.is_default:
            words = ["ssh", *(words[-3:] if words[-3:-2] == ["-p"] else words[-1:])]
        return shlex.join(words)

    def line(self, arguments: Sequence[str], *, travels: bool = False) -> bytes:
        """Return the line for the shell there: it says ``HELLO`` and becomes gputop with these arguments.

        ``travels``: if there is no gputop, it says ``traveling.WANTED`` first, and waits for ``traveling.message``.
        """
        words, hello = shlex.join(arguments), HELLO.decode()
        if self.remote:
            return f"echo {hello}; exec {self.remote} {words}\n".encode()
        find = _FIND + (_TRAVEL if travels else "there=; ") + _NOT_FOUND
        given = {
            "words": words,
            "hello": hello,
            "wanted": traveling.WANTED.decode(),
            "loader": shlex.quote(traveling.LOADER),
            "own": traveling.OWN_PYTHON,
            "least": traveling.LEAST_PYTHON,
            "pythons": _PYTHONS,
        }
        return f"{find.format(**given)}\n".encode()

    def open(self, host: str) -> subprocess.Popen[bytes]:
        """Start the command, in a session of its own: it can ask nothing on the terminal, and Ctrl-C does not reach it.

        Raises:
            OSError: it cannot be started.
        """
        return subprocess.Popen(
            [*self.login(host), "sh"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "SSH_ASKPASS_REQUIRE": "never"},
        )


def is_said(line: bytes, word: bytes) -> bool:
    """Return whether a line is this word of the other side; noise of the login may precede it on the same line."""
    return line.rstrip().endswith(word)


def _as_words(options: Sequence[str], ssh: str) -> list[str]:
    unknown = _unknown_to(ssh)
    return [f"-o{option}" for option in options if option.partition("=")[0] not in unknown]


@cache
def _unknown_to(ssh: str) -> frozenset[str]:
    """Return which options this ssh is too old for; none if its version is unknown."""
    found = None
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run([ssh, "-V"], stdin=subprocess.DEVNULL, capture_output=True, timeout=VERSION_S, check=False)
        found = _VERSION.search(done.stderr.decode(errors="replace"))
    return frozenset(name for name, least in _SINCE.items() if found and (int(found[1]), int(found[2])) < least)


def _is_destination(word: str) -> bool:
    return word == _PLACE or word.endswith(f"@{_PLACE}")


def transport_of(via: str | None = None, remote: str | None = None) -> Transport:
    """Return the transport that ``--via`` and ``--remote`` describe; ssh without them.

    Raises:
        UsageError: the template has no {host}, is not readable, or its program does not exist; or ``remote`` is not one line.
    """
    try:
        words = shlex.split(via if via is not None else SSH)
    except ValueError as error:
        raise UsageError(f"--via cannot be read: {str(error).lower()}.", _EXAMPLE) from error
    if not any(_PLACE in word for word in words):
        raise UsageError("--via does not say where the host goes.", _EXAMPLE)
    if shutil.which(words[0]) is None:
        raise UsageError(f"There is no command {words[0]!r} here.", "Install it, or name another one with --via.")
    if remote is not None and (not remote.strip() or not remote.isprintable()):
        raise UsageError("--remote is not a command in one line.", "Write it like --remote /opt/gputop/bin/gputop.")
    return Transport(tuple(_jump_as_option(words)), remote or "", via=via)


def _jump_as_option(words: Sequence[str]) -> list[str]:
    """Return the words with ``-J`` of ssh in its long form, which options before it replace, and do not contradict."""
    found, waiting = list(words), Path(words[0]).name == "ssh"
    for place, word in enumerate(words):
        waiting = waiting and not _is_destination(word)
        if waiting and word == "-J" and place + 1 < len(words):
            found[place : place + 2] = ["-o", f"ProxyJump={words[place + 1]}"]
        elif waiting and word.startswith("-J"):
            found[place] = f"-oProxyJump={word[2:]}"
    return found
