"""``gputop run -- CMD``: replaces itself with the command, with automatic tracking enabled for every Python process in it.

Because of exec, the exit code, signals, standard streams, terminal and process group are the command's own. Only environment
variables differ: PYTHONPATH starts with gputop's directory, GPUTOP_AUTO=1 says that automatic tracking is on, GPUTOP_NAME and
GPUTOP_PROJECT name the run, GPUTOP_LAUNCH_ID groups ranks that have no id from a launcher, and GPUTOP_END_LINE makes the first
Python process say at its end what was recorded.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from gputop.errors import GputopError, UsageError

SITE = Path(__file__).parent.parent / "tracking" / "site"
"""The directory to put on PYTHONPATH; its ``sitecustomize`` enables tracking."""
_PYTHON = re.compile(r"(python|pypy)[\d.]*t?")
_FLAGS_WITH_VALUE = "cmWX"
_UNTRACKED = frozenset("IES")
"""Flags that keep Python from reading PYTHONPATH or from importing sitecustomize."""
_WITH_VALUE = ("--name", "--project", "-H", "--host", "--hosts", "--slurm", "--pods", "--via", "--remote")
NOT_FOUND = 127
NOT_EXECUTABLE = 126
"""The exit codes of a shell whose command does not exist, or cannot be executed (POSIX, "Shell Command Language")."""


class CommandError(GputopError):
    """The command cannot be started. The exit codes are those of a shell."""

    def __init__(self, message: str, hint: str, exit_code: int) -> None:
        super().__init__(message, hint)
        self.exit_code = exit_code


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split ``run``'s arguments into its own options and the command: at the first "--", else at the first word.

    argparse cannot do this: Python versions differ in how they drop "--", and the command may contain another.
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
        if word in _WITH_VALUE and rest:
            own.append(rest.pop(0))
    return own, rest


def environment(base: Mapping[str, str], name: str | None, project: str | None) -> dict[str, str]:
    """Return the environment of a tracked command; ``GPUTOP=0`` leaves it unchanged."""
    if base.get("GPUTOP") == "0":
        return dict(base)
    theirs = base.get("PYTHONPATH")
    # Keep empty entries: they mean the working directory, and "PYTHONPATH=$PYTHONPATH:…" often creates one.
    entries = [entry for entry in theirs.split(os.pathsep) if entry != str(SITE)] if theirs else []
    found = {**base, "PYTHONPATH": os.pathsep.join([str(SITE), *entries])}
    found.setdefault("GPUTOP_AUTO", "1")
    found["GPUTOP_LAUNCH_ID"] = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}"
    for variable, value in (("GPUTOP_NAME", name), ("GPUTOP_PROJECT", project)):
        if value:
            # The command line overrides what a script passes to init; the variable alone is only a default.
            found |= {variable: value, f"{variable}_WINS": "1"}
    return found


def _end_line(base: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that makes the command report what was recorded when it ends; nothing inside a job."""
    off = base.get("GPUTOP") == "0" or base.get("GPUTOP_MODE") == "disabled" or base.get("GPUTOP_JOB_ID")
    if off or base.get("GPUTOP_SILENT", "0") not in ("", "0"):
        return {}
    return {"GPUTOP_END_LINE": str(os.getpid())}


def untracked_flag(command: Sequence[str]) -> str | None:
    """Return the argument that makes the command's Python ignore its environment, so that gputop cannot track it."""
    if not command or not _PYTHON.fullmatch(os.path.basename(command[0])):
        return None
    arguments = iter(command[1:])
    for word in arguments:
        if word.startswith("--"):
            continue
        if not word.startswith("-") or word == "-":
            return None
        for place, flag in enumerate(word[1:], 2):
            if flag in _UNTRACKED:
                return word
            if flag in _FLAGS_WITH_VALUE:
                if flag in "cm":
                    return None
                if place == len(word):
                    next(arguments, None)
                break
    return None


def run(command: Sequence[str], name: str | None = None, project: str | None = None) -> NoReturn:
    """Replace this process with the command.

    Raises:
        UsageError: there is no command.
        CommandError: it is not found (127) or cannot be executed (126).
    """
    if not command:
        raise UsageError("There is no command to run.", "Write gputop run -- python train.py.")
    # Python ignores these signals, and the command would inherit this: "gputop run -- yes | head" would never end.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], list(command), {**environment(os.environ, name, project), **_end_line(os.environ)})
    except FileNotFoundError:
        hint = "Write gputop run -- python SCRIPT for a script." if command[0].endswith(".py") else "Is it on PATH?"
        raise CommandError(f"{command[0]}: command not found.", hint, NOT_FOUND) from None
    except OSError as error:
        hint = f"Write gputop run -- python {command[0]}." if command[0].endswith(".py") else "Check the file."
        raise CommandError(f"{command[0]}: {error.strerror}.", hint, NOT_EXECUTABLE) from None
