"""``gputop run -- CMD``: becomes the command, with automatic tracking ready for every Python in it.

This process is replaced (exec), so exit code, signals, standard streams, terminal and process group are the command's
own. It differs by environment variables alone: PYTHONPATH gets gputop's directory in front, GPUTOP_AUTO=1 adds the
automatic values to scripts that use gputop themselves, GPUTOP_LAUNCH_ID joins ranks that no launcher gave an id.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from gputop.errors import GputopError, UsageError

SITE = Path(__file__).parent.parent / "tracking" / "site"
"""The directory that goes on PYTHONPATH; its ``sitecustomize`` arms tracking."""
NOT_FOUND = 127
NOT_EXECUTABLE = 126


class CommandError(GputopError):
    """The command cannot be started; exit codes are those of a shell."""

    def __init__(self, message: str, hint: str, exit_code: int) -> None:
        super().__init__(message, hint)
        self.exit_code = exit_code


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split ``run``'s arguments into its own options and the command: at the first "--", else at the first word.

    By hand, because argparse drops "--" in ways that differ between Python versions, and a command may hold its own.
    """
    own: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest[0]
        if word == "--":
            return own, rest[1:]
        if not word.startswith("-"):
            return own, rest
        own.append(rest.pop(0))
        if word in ("--name", "--project") and rest:
            own.append(rest.pop(0))
    return own, rest


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].upper()}{message[1:]}.", "Write gputop run [--name N] [--project P] -- CMD.")


def main(arguments: Sequence[str]) -> NoReturn:
    """Parse ``run``'s arguments and become the command.

    Raises:
        UsageError, CommandError: see ``run``.
    """
    own, command = split(arguments)
    parser = _Parser(
        prog="gputop run",
        usage="gputop run [--name N] [--project P] -- CMD …",
        description="Run any training command, tracked without a change to it.",
        allow_abbrev=False,
    )
    parser.add_argument("--name", metavar="N", help="what the run is called (else the script's name)")
    parser.add_argument("--project", metavar="P", help="a name over several runs")
    options = parser.parse_args(own)
    run(command, options.name, options.project)


def environment(base: Mapping[str, str], name: str | None, project: str | None) -> dict[str, str]:
    """Return the environment of a tracked command; ``GPUTOP=0`` leaves it as it is."""
    if base.get("GPUTOP") == "0":
        return dict(base)
    theirs = base.get("PYTHONPATH")
    # An empty entry among others is the working directory: scripts live by "PYTHONPATH=$PYTHONPATH:…" that begins with one.
    entries = [entry for entry in theirs.split(os.pathsep) if entry != str(SITE)] if theirs else []
    found = {**base, "PYTHONPATH": os.pathsep.join([str(SITE), *entries])}
    found.setdefault("GPUTOP_AUTO", "1")
    found["GPUTOP_LAUNCH_ID"] = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}"
    if name:
        found["GPUTOP_NAME"] = name
    if project:
        found["GPUTOP_PROJECT"] = project
    return found


def run(command: Sequence[str], name: str | None = None, project: str | None = None) -> NoReturn:
    """Become the command.

    Raises:
        UsageError: there is no command.
        CommandError: it is not found (127) or cannot be executed (126).
    """
    if not command:
        raise UsageError("There is no command to run.", "Write gputop run -- python train.py.")
    # Python ignores these two for itself, and a command would inherit that: "gputop run -- yes | head" has to end.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], list(command), environment(os.environ, name, project))
    except FileNotFoundError:
        hint = "Write gputop run -- python SCRIPT for a script." if command[0].endswith(".py") else "Is it on PATH?"
        raise CommandError(f"{command[0]}: command not found.", hint, NOT_FOUND) from None
    except OSError as error:
        hint = f"Write gputop run -- python {command[0]}." if command[0].endswith(".py") else "Check the file."
        raise CommandError(f"{command[0]}: {error.strerror}.", hint, NOT_EXECUTABLE) from None
