"""The user's own commands: saved, checked, and launched with tracking, as by ``gputop run``.

They are saved as JSON next to the settings. A command uses a subset of shell syntax: words and quotes, leading variables
(``LR=0.1 python train.py``), and ``{gpus}`` for the number of chosen GPUs. Checking a command runs nothing.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gputop import places
from gputop.errors import GputopError, UsageError
from gputop.places import working_dir
from gputop.recipes import run_command
from gputop.recipes.catalogue import Launch, device_environment
from gputop.snapshot import Device
from gputop.wire import parse_json

GPUS = "{gpus}"
"""In a command: the number of chosen GPUs."""
KEPT_MOST = 100
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_STARTERS: Mapping[str, frozenset[str]] = {
    "chrt": frozenset(("-D", "--sched-deadline", "-P", "--sched-period", "-T", "--sched-runtime")),
    "ionice": frozenset(("-c", "--class", "-n", "--classdata")),
    "nice": frozenset(("-n", "--adjustment")),
    "nohup": frozenset(),
    "numactl": frozenset(
        (
            *("-C", "--physcpubind", "-N", "--cpunodebind", "-i", "--interleave", "-w", "--weighted-interleave"),
            *("-m", "--membind", "-p", "--preferred", "-P", "--preferred-many"),
        )
    ),
    "setsid": frozenset(),
    "stdbuf": frozenset(("-e", "--error", "-i", "--input", "-o", "--output")),
    "taskset": frozenset(),
    "time": frozenset(("-f", "--format", "-o", "--output")),
}
"""Programs that start their arguments as a command, and pass on their environment -> options with a value in the next word."""
_WITH_OPERAND = frozenset(("chrt", "taskset"))
"""Those of them that expect a word of their own before the command: a priority, or the cores."""


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """A command of the user. ``environment`` is added to gputop's own environment."""

    name: str
    command: str
    cwd: str
    environment: Mapping[str, str] = field(default_factory=dict)
    gpus: int = 1
    """How many GPUs were chosen last time."""
    sbatch: str = ""
    """Options of sbatch, for a Slurm job; empty to run on this machine."""


def file() -> Path:
    """Return the path of the saved commands."""
    return places.config_path().with_name("commands.json")


def load() -> tuple[OwnCommand, ...]:
    """Return the saved commands, last used first. Skips unreadable entries and never changes the file.

    Of a file that another user can replace, it returns none: they would run as this user.
    """
    try:
        places.check_parents(file(), "$GPUTOP_CONFIG")
        data = parse_json(places.read_text(file(), private=True))
    except (OSError, ValueError):
        return ()
    listed = data.get("commands") if isinstance(data, dict) else None
    return tuple(found for item in listed if (found := _read(item)) is not None) if isinstance(listed, list) else ()


def problem() -> str | None:
    """Return why saved commands are not offered, as sentences; None if all of them are."""
    if not os.path.lexists(file()):
        return None
    try:
        places.check_parents(file(), "$GPUTOP_CONFIG")
        _known()
    except OSError as error:
        return f"Your own commands are not offered: {error}."
    except GputopError as error:
        return str(error)
    return None


def remember(command: OwnCommand) -> None:
    """Save a command, replacing one with the same name.

    Raises:
        GputopError: the file cannot be written, or contains data that would be lost.
    """
    _write((command, *(other for other in _known() if other.name != command.name))[:KEPT_MOST])


def forget(name: str) -> None:
    """Remove a command.

    Raises:
        UsageError: there is no command with this name.
        GputopError: the file cannot be written.
    """
    known = _known()
    left = tuple(other for other in known if other.name != name)
    if len(left) == len(known):
        raise UsageError(f"There is no command named {name!r}.", "The launch screen lists them.")
    _write(left)


def prepare(own: OwnCommand, devices: Sequence[Device]) -> Launch:
    """Return the tracked command that runs on ``devices``; without devices it sees all of them.

    Raises:
        UsageError: the line is not a command, its program, script or folder is missing, or the devices are mixed.
    """
    variables, words = split(own.command)
    cwd = Path(working_dir()) / Path(own.cwd).expanduser()
    if not cwd.is_dir():
        raise UsageError(f"There is no folder {cwd}.", "Choose the folder that the command runs in.")
    words = [word.replace(GPUS, str(max(1, len(devices)))) for word in words]
    added = {**own.environment, **variables}
    base = {**os.environ, **added}
    _check_script(words, cwd)
    program = _program(words[0], cwd, base.get("PATH"))
    tracked = run_command.environment(base, own.name or None, None)
    changed = {name: value for name, value in tracked.items() if os.environ.get(name) != value}
    chosen = device_environment(devices) if devices else {}
    return Launch(
        argv=(program, *words[1:]),
        env={**chosen, **changed, **{name: chosen[name] for name in chosen if name.endswith("_DEVICES")}},
        cwd=str(cwd),
        name=own.name or named_after(words),
        device_uuids=tuple(device.uuid for device in devices),
        values={"command": own.command, "gpus": str(len(devices))},
    )


def for_elsewhere(own: OwnCommand) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the variables and the words of a command that runs on other machines; checks nothing on this one.

    Raises:
        UsageError: the line is not a command, it depends on the GPUs chosen here, or a variable has an odd name.
    """
    variables, words = split(own.command)
    if any(GPUS in word for word in words):
        raise UsageError(f"{GPUS} counts the GPUs of this machine.", "Write torchrun --nproc-per-node=gpu: all of each node.")
    added = {**own.environment, **variables}
    for name in added:
        if not _VARIABLE.fullmatch(f"{name}="):
            raise UsageError(f"{name!r} is not the name of a variable.", "Write NAME=value, with spaces between them.")
    return added, tuple(words)


def split(command: str) -> tuple[dict[str, str], list[str]]:
    """Return a command's leading variables and its words; a bare script runs with this Python.

    Raises:
        UsageError: the command is empty, has an unclosed quote, or needs a shell.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"The command cannot be read: {error}.", "Close every quote.") from error
    variables, words = apart(words)
    if not words:
        raise UsageError("There is no command.", "Write it as in a terminal: python train.py --lr 0.1")
    for sign in ("|", "||", "&&", ";", "&", ">", ">>", "<", "2>&1"):
        if sign in words:
            raise UsageError(f"{sign} needs a shell.", f"Write: bash -c {shlex.quote(command)}")
    if words[0].endswith(".py"):
        words = [sys.executable, "-u", *words]
    return variables, words


def apart(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables before a command, including those after ``env``, and its words.

    The variables may be secrets, and every user of a machine sees the words of a process, such as Slurm's srun. An ``env``
    with options stays as it is: ``-i`` and ``-u`` do more than set variables.
    """
    before: list[str] = []
    variables, rest = _leading(words)
    while True:
        while rest and Path(rest[0]).name in _STARTERS:
            count = _words_of_starter(rest)
            before, rest = [*before, *rest[:count]], rest[count:]
        given = _given_to_env(rest)
        if given is None:
            return variables, [*before, *rest]
        added, rest = given
        variables |= added


def _words_of_starter(words: Sequence[str]) -> int:
    """Return how many words are the starter's own: itself, its options and their values."""
    name = Path(words[0]).name
    valued = _STARTERS[name]
    count = 1
    while count < len(words) and words[count].startswith("-"):
        option = words[count]
        count += 2 if option in valued else 1
        if option == "--":
            break
    return min(count + (name in _WITH_OPERAND), len(words))


def _given_to_env(words: Sequence[str]) -> tuple[dict[str, str], list[str]] | None:
    """Return the variables and the command of a plain ``env``; None for any other words."""
    if len(words) < 2 or Path(words[0]).name != "env":
        return None
    added, rest = _leading(words[2:] if words[1] == "--" else words[1:])
    has_options = bool(rest) and rest[0].startswith("-") and words[1] == rest[0]
    is_plain = not has_options and not (rest and "=" in rest[0])
    return (added, rest) if is_plain and (added or rest) else None


def _leading(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables at the start of the words, and the rest."""
    count = next((place for place, word in enumerate(words) if not _VARIABLE.match(word)), len(words))
    return dict(word.split("=", 1) for word in words[:count]), list(words[count:])


def named_after(words: Sequence[str]) -> str:
    """Return a name for an unnamed command: that of its script, else its first word."""
    return Path(_script(words) or words[0]).stem


def variables_of(text: str) -> dict[str, str]:
    """Parse variables written as "A=1 B='x y'".

    Raises:
        UsageError: a word is not of the form NAME=value.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"The variables cannot be read: {error}.", "Close every quote.") from error
    for word in words:
        if not _VARIABLE.match(word):
            raise UsageError(f"{word!r} is not a variable.", "Write NAME=value, with spaces between them.")
    return dict(word.split("=", 1) for word in words)


def _program(word: str, cwd: Path, path: str | None) -> str:
    if os.sep in word:
        found = cwd / word
        if not os.access(found, os.X_OK) or found.is_dir():
            raise UsageError(f"{found} is not a program.", "Write python SCRIPT for a script.")
        return str(found)
    # Fall back to the python and tools of gputop's own environment.
    which = shutil.which(word, path=path) or shutil.which(word, path=str(Path(sys.executable).parent))
    if which is None:
        raise UsageError(f"{word} is not found.", "Write its path, or install it where gputop runs.")
    return which


def _script(words: Sequence[str]) -> str | None:
    """Return the first Python script among the words."""
    return next((word for word in words if word.endswith(".py") and not word.startswith("-")), None)


def _check_script(words: Sequence[str], cwd: Path) -> None:
    script = _script(words)
    if script is not None and not (cwd / script).is_file():
        raise UsageError(f"There is no {script} in {cwd}.", "Choose the folder that contains the script.")


def _read(item: Any) -> OwnCommand | None:
    if not isinstance(item, dict):
        return None
    name, command, cwd, sbatch = item.get("name"), item.get("command"), item.get("cwd"), item.get("sbatch", "")
    environment, gpus = item.get("environment", {}), item.get("gpus", 1)
    if not (isinstance(name, str) and isinstance(command, str) and isinstance(cwd, str) and isinstance(environment, dict)):
        return None
    if not all(isinstance(value, str) for value in environment.values()):
        return None
    sbatch = sbatch if isinstance(sbatch, str) else ""
    return OwnCommand(name, command, cwd, environment, gpus if isinstance(gpus, int) and gpus > 0 else 1, sbatch)


def _known() -> tuple[OwnCommand, ...]:
    """Return the commands; raise GputopError if writing them back would lose data."""
    path = file()
    if path.exists():
        try:
            listed = parse_json(places.read_text(path, private=True))["commands"]
            if not isinstance(listed, list) or any(_read(item) is None for item in listed):
                raise ValueError("an entry is not a command")
        except (OSError, ValueError, KeyError, TypeError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise GputopError(f"{path} cannot be read: {why}.", "Repair it, or move it away.") from error
    return load()


def _write(commands: Sequence[OwnCommand]) -> None:
    path = file()
    text = json.dumps({"commands": [asdict(command) for command in commands]}, indent=1) + "\n"
    try:
        places.check_parents(path, "$GPUTOP_CONFIG")
        places.create_dirs(path.parent)
        places.replace_file(path, text.encode(), keep_link=True)
    except OSError as error:
        raise GputopError(f"{path} cannot be written: {error.strerror or error}.", "The command starts anyway.") from error
