"""The command with which the user started a training, for a process that this command started in turn.

A child of multiprocessing has multiprocessing's own command line, and a notebook's kernel has ipykernel's. The user's command
belongs to the Python process above them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

ARGUMENTS_MAX = 200
ARGUMENT_CHARACTERS = 500
_LEVELS_MAX = 8
KERNELS = ("ipykernel_launcher", "ipykernel", "colab_kernel_launcher")
"""What runs the cells of a notebook."""


def users_command() -> list[str]:
    """Return the user's command line; if its process is gone or cannot be read, this process's own."""
    own = list(getattr(sys, "orig_argv", ()))
    found, pid = own, os.getppid()
    for _ in range(_LEVELS_MAX):
        if not is_started_for_us(found):
            break
        above = _parent_and_command(pid) if pid > 1 else None
        if above is None or "python" not in os.path.basename(above[1][0]):
            found = own
            break
        pid, found = above
    return [argument[:ARGUMENT_CHARACTERS] for argument in found[:ARGUMENTS_MAX]]


def is_started_for_us(command: Sequence[str]) -> bool:
    """Return whether a command line belongs to a process that another process starts on the user's behalf."""
    arguments = iter(command[1:])
    for argument in arguments:
        if argument == "-c":
            return next(arguments, "").startswith("from multiprocessing.")
        if argument == "-m" or not argument.startswith("-"):
            program = next(arguments, "") if argument == "-m" else argument
            return os.path.basename(program).removesuffix(".py") in KERNELS
        if argument in ("-X", "-W"):
            next(arguments, "")
    return False


def _parent_and_command(pid: int) -> tuple[int, list[str]] | None:
    """Return the parent and the command line of a process of this user; None if they cannot be read."""
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return None
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = [os.fsdecode(part) for part in file.read().split(b"\0")[:-1]]
        with open(f"/proc/{pid}/stat", "rb") as file:
            parent = int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return (parent, command) if command else None
