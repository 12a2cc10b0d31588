"""How to reach a host: any command that runs a shell there and passes on its input and output.

How to quote depends on the shell over there, which we do not know. So the remote command is just ``sh``, and the line that it
runs arrives on its standard input. The user's own ssh and configuration do the rest; gputop sets no key and no host-key policy.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gputop.errors import UsageError
from gputop.hosts import traveling

SSH = "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3 -o LogLevel=ERROR {host}"
"""The default. BatchMode asks nothing (``logins`` does); the others end a connection that no longer answers."""
HELLO = b"gputop-connected"
"""What the other side says first: all before it is noise of its login, and a host is connected from here on."""

_PLACE = "{host}"
_PORT = re.compile(r"([^:]+):(\d{1,5})")
_EXAMPLE = "Write it like --via 'kubectl exec -i {host} --'."
_FIND = (
    'PATH="$PATH:$HOME/.local/bin"; export PATH; '
    "if command -v gputop >/dev/null 2>&1; then echo {hello}; exec gputop {words}; fi; "
    "if python3 -c 'import importlib.util as u, sys; sys.path[:] = filter(None, sys.path); "
    'sys.exit(u.find_spec("gputop") is None)\' </dev/null >/dev/null 2>&1; '
    "then echo {hello}; exec python3 -m gputop {words}; fi; "
)
"""Looks for gputop where a login without a terminal does not: such a shell reads no profile. As a module, it does not count
in the folder of the login: a clone in somebody's home has its name."""
_TRAVEL = (
    "for python in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do "
    "if $python -c 'import sys; sys.exit(sys.version_info < {least})' </dev/null >/dev/null 2>&1; "
    "then echo {wanted}; exec $python -c {loader} {words}; fi; done; "
    "there=$(python3 -c 'import platform; print(platform.python_version())' </dev/null 2>/dev/null); there=${{there:-none}}; "
)
"""Takes the gputop of this machine where there is none: any Python that can run it will do."""
_NOT_FOUND = 'echo {hello}; echo "gputop: not found${{there:+; Python $there is there}}" >&2; exit 127'


@dataclass(frozen=True, slots=True)
class Transport:
    """A way to hosts. ``template`` are the words of a command with {host} in them, and ``remote`` runs gputop there, as a
    shell reads it; empty: looked for."""

    template: tuple[str, ...]
    remote: str = ""
    sockets: dict[str, str] = field(default_factory=dict, compare=False)
    """Host -> the socket of an ssh that is logged in there, and shares its connection."""

    def login(self, host: str) -> list[str]:
        """Return the command up to what it runs there."""
        shared = [f"-oControlPath={self.sockets[host]}"] if host in self.sockets else []
        words = self._words(host)
        return [*words[:1], *shared, *words[1:]]

    @property
    def can_ask(self) -> bool:
        """Whether this is an ssh, whose login may ask the user something, unless the user's ``--via`` forbids it."""
        forbidden = not self.is_default and any("batchmode=yes" in word.lower() for word in self.template)
        return Path(self.template[0]).name == "ssh" and any(map(_is_destination, self.template)) and not forbidden

    def asking(self, host: str, options: Sequence[str]) -> list[str]:
        """Return the command of an ssh that may ask the user, with these options and before what it runs there."""
        words = self._words(host)
        end = len(words) if self.is_default else next(n for n, word in enumerate(self.template, 1) if _is_destination(word))
        given = [*(("BatchMode=no", "LogLevel=INFO") if self.is_default else ()), *options]
        # ssh takes the first of two values of an option.
        return [words[0], *(f"-o{option}" for option in given), *words[1:end]]

    def _words(self, host: str) -> list[str]:
        port: list[str] = []
        found = _PORT.fullmatch(host) if self.is_default else None
        if found:
            host, port = found[1], ["-p", found[2]]
        words = [word.replace(_PLACE, host) for word in self.template]
        return words[:-1] + port + words[-1:]

    @property
    def is_default(self) -> bool:
        """Whether this is plain ssh."""
        return " ".join(self.template) == SSH

    def shown_login(self, host: str) -> str:
        """Return the command that the user types to log in there: "ssh node1"."""
        words = self._words(host)
        if self.is_default:
            words = ["ssh", *(words[-3:] if words[-3:-2] == ["-p"] else words[-1:])]
        return shlex.join(words)

    def line(self, arguments: Sequence[str], *, travels: bool = False) -> bytes:
        """Return the line for the shell there: it says ``HELLO`` and becomes gputop with these arguments.

        ``travels``: where there is no gputop, it says ``traveling.WANTED`` first, and waits for ``traveling.message``.
        """
        words, hello = shlex.join(arguments), HELLO.decode()
        if self.remote:
            return f"echo {hello}; exec {self.remote} {words}\n".encode()
        find = _FIND + (_TRAVEL if travels else "there=; ") + _NOT_FOUND
        loader, wanted = shlex.quote(traveling.LOADER), traveling.WANTED.decode()
        return f"{find.format(words=words, hello=hello, least=traveling.LEAST_PYTHON, loader=loader, wanted=wanted)}\n".encode()

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
    return Transport(tuple(words), remote or "")
