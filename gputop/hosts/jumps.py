"""Jump hosts. ssh starts another ssh for them, to which it passes none of its options: that ssh may ask, or, without a
terminal, give an empty answer, which counts as a failed login. So gputop writes its command.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

Command: TypeAlias = Callable[[Sequence[str]], list[str]]
"""Returns the command of an ssh with these options, without the remote command."""
BATCH = ("BatchMode=yes", "LogLevel=ERROR", "ControlMaster=no")
CONFIG_S = 10.0
"""Time limit for ssh to read its configuration, which may run commands."""
DEPTH_MOST = 8
"""Maximum number of consecutive jump hosts: a configuration may be circular."""
_JUMP = re.compile(r"(?:(?P<before>.+),)?(?:(?P<user>[^,]+)@)?(?:\[(?P<address>[^]]+)\]|(?P<name>[^,:@]+))(?::(?P<port>\d+))?")
"""What ``ssh -G`` prints as ``proxyjump``: the last host, and those before it."""


def configured(command: Command) -> dict[str, str]:
    """Return the user's configuration of a host; empty if ssh cannot read it."""
    lines = run(command(()), ["-G"], CONFIG_S)[1].splitlines()
    return {name: value for name, _, value in (line.partition(" ") for line in lines)}


def jump_in(settings: dict[str, str]) -> str | None:
    """Return the jump host in a configuration; None if there is none."""
    jump = settings.get("proxyjump", "none")
    return jump if jump != "none" and is_jump(jump) else None


def is_jump(text: str) -> bool:
    """Return whether this can be a jump host, or a list of them."""
    return _JUMP.fullmatch(text) is not None


def command_to(jump: str, template: Sequence[str]) -> Command:
    """Return the ssh to a jump host, as ``jump_in`` returns it. Of the user's own command, ssh passes on only ``-F``."""
    found = _JUMP.fullmatch(jump)
    assert found is not None
    parts = {"-J": found["before"], "-l": found["user"], "-p": found["port"]}
    given = [word for place, word in enumerate(template) if word.startswith("-F") or template[place - 1] == "-F"]

    def command(options: Sequence[str]) -> list[str]:
        proxied = any(option.startswith("ProxyCommand=") for option in options)  # replaces what comes before
        words = [word for name, value in parts.items() if value and not (proxied and name == "-J") for word in (name, value)]
        name = found["address"] or found["name"]
        return [template[0], *(f"-o{option}" for option in options), *given, *words, name]

    return command


def unasking(command: Command, template: Sequence[str], depth: int = 0) -> tuple[str, ...]:
    """Return the options that keep the jump hosts of an ssh from asking anything."""
    settings = configured(command)
    jump = jump_in(settings)
    if jump is not None and depth < DEPTH_MOST:
        to_jump = command_to(jump, template)
        return through(to_jump, unasking(to_jump, template, depth + 1))
    program, _, rest = settings.get("proxycommand", "none").partition(" ")
    return (f"ProxyCommand={program} -oBatchMode=yes {rest}",) if Path(program).name == "ssh" else ()


def through(to_jump: Command, options: Sequence[str]) -> tuple[str, ...]:
    """Return the options of an ssh that goes through a jump host; the ssh to that host has these options and asks nothing."""
    # A shell reads the command, and ssh replaces percent signs in it.
    ssh, *words = (word.replace("%", "%%") for word in to_jump((*BATCH, *options)))
    return (f"ProxyCommand={shlex.join([ssh, '-W', '[%h]:%p', *words])}",)


def run(command: Sequence[str], words: Sequence[str], within_s: float) -> tuple[bool, str]:
    """Run an ssh that connects to no host; return whether it succeeds, and what it prints."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [command[0], *words, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=within_s,
            check=False,
            start_new_session=True,  # Ctrl-C is meant for gputop, not for this ssh
        )
        return done.returncode == 0, done.stdout.decode(errors="replace")
    return False, ""
