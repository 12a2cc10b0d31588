"""Recognizes programs that start ranks by their command line, and finds them among a process's ancestors.

Also reads the numbers that a script gets on its own command line, as that of torch's ImageNet example.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from gputop.command_line import PYTHON_FLAGS_WITH_VALUE
from gputop.process import Ancestor, StatedRank
from gputop.sources.host import procfs

if TYPE_CHECKING:
    from gputop.sources.host.process_cache import Facts

_MAX_ANCESTORS = 64
"""Where to stop walking up: real trees of processes are far less deep."""

_PROGRAMS = {
    "torchrun": "torchrun",
    "torch-distributed": "torchrun",
    "accelerate-launch": "accelerate",
    "deepspeed": "deepspeed",
    "srun": "srun",
    "mpirun": "mpirun",
    "mpiexec": "mpirun",
    "mpiexec.hydra": "mpirun",
    "orterun": "mpirun",
    "orted": "mpirun",
    "prterun": "mpirun",
    "prted": "mpirun",
    "hydra_pmi_proxy": "mpirun",
}
_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "torch.distributed.launcher": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed": "deepspeed",
    "deepspeed.launcher.runner": "deepspeed",
    "deepspeed.launcher.launch": "deepspeed",
}
_FILES = {f"/{module.replace('.', '/')}.py": name for module, name in _MODULES.items() if "." in module}
_WITH_SUBCOMMAND = {"accelerate": "launch", "accelerate.commands.accelerate_cli": "launch"}
_OF_PYTHON = ("torchrun", "accelerate", "deepspeed")
PROGRAMS = frozenset(program for program, name in _PROGRAMS.items() if name not in _OF_PYTHON)
"""The names of program files that start ranks: srun, mpirun and the like. Others are scripts that Python runs."""
_NUMBERS = {
    "rank": ("rank", "dist-rank", "distributed-rank", "global-rank"),
    "world_size": ("world-size", "dist-world-size", "distributed-world-size"),
    "local_rank": ("local-rank",),
    "node": ("node-rank", "machine-rank", "nr"),
    "nodes": ("nnodes", "nodes", "num-nodes", "num-machines"),
    "address": ("dist-url", "init-method", "dist-init-method", "distributed-init-method"),
    "host": ("master-addr", "master-address", "dist-addr"),
    "port": ("master-port", "dist-port", "distributed-port"),
}
"""For each number or address of a rank, the options that scripts name it by, with dashes for underscores. ``--rank`` alone
may be the rank of a matrix, as in LoRA."""
_SAYS = {option: what for what, options in _NUMBERS.items() for option in options}
_SPAWNS = "multiprocessing-distributed"
"""With this option, the ImageNet example and its descendants spawn the ranks: then the numbers are those of the node."""
_NUMBER_DIGITS = 5
_STEPS_WITHOUT_RANKS = (".batch]", ".extern]", ".interactive]")
"""Slurm steps that run the job's script or a shell just once."""


def launcher_name(command: Sequence[str] | None) -> str | None:
    """Return "torchrun", "accelerate", "deepspeed", "srun" or "mpirun" for a command that starts ranks, else ``None``."""
    if not command:
        return None
    if command[0].startswith("slurmstepd:"):
        title = " ".join(command).rstrip()
        return None if title.endswith(_STEPS_WITHOUT_RANKS) else "srun"
    program, rest = os.path.basename(command[0]), command[1:]
    if program.startswith(("python", "pypy")):
        return _of_python(rest)
    return _of_program(program, rest)


def _of_program(program: str, rest: Sequence[str]) -> str | None:
    subcommand = _WITH_SUBCOMMAND.get(program)
    if subcommand:
        return "accelerate" if rest and rest[0] == subcommand else None
    return _PROGRAMS.get(program)


def _of_python(arguments: Sequence[str]) -> str | None:
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        rest = arguments[position + 1 :]
        if argument == "-c":
            return None
        if argument == "-m" or (argument.startswith("-") and not argument.startswith("--") and argument.endswith("m")):
            return _of_module(rest[0], rest[1:]) if rest else None
        if not argument.startswith("-"):
            return _of_script(argument, rest)
        position += 2 if argument in PYTHON_FLAGS_WITH_VALUE else 1
    return None


def _of_module(module: str, rest: Sequence[str]) -> str | None:
    if module in _WITH_SUBCOMMAND:
        return "accelerate" if rest and rest[0] == _WITH_SUBCOMMAND[module] else None
    return _MODULES.get(module)


def _of_script(path: str, rest: Sequence[str]) -> str | None:
    for ending, name in _FILES.items():
        if path.endswith(ending):
            return name
    return _of_program(os.path.basename(path), rest)


class PythonLaunchers:
    """Knows which Python processes are launchers: torchrun, accelerate or deepspeed. Reads each command once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int], bool] = {}

    def find(self, pythons: Iterable[Facts]) -> frozenset[int]:
        """Return the PIDs of the launchers among these processes."""
        before, self._known = self._known, {}
        for facts in pythons:
            key = facts.program
            known = before.get(key)
            self._known[key] = launcher_name(procfs.command_line_of(facts.stat.pid)) in _OF_PYTHON if known is None else known
        return frozenset(pid for (pid, _, _), is_launcher in self._known.items() if is_launcher)


def ancestry(pid: int, ppid: int) -> tuple[tuple[Ancestor, ...], Ancestor | None]:
    """Walk up to init. A launcher is listed by its own name ("torchrun"), other ancestors by the kernel's."""
    found: list[Ancestor] = []
    launcher = None
    seen = {pid}
    while ppid > 0 and ppid not in seen and len(found) < _MAX_ANCESTORS:
        seen.add(ppid)
        try:
            stat = procfs.read_stat(ppid)
            command = procfs.read_command(ppid)
        except OSError:
            break
        if stat is None:
            break
        name = launcher_name(command)
        found.append(Ancestor(ppid, name or stat.comm))
        launcher = launcher or (found[-1] if name else None)
        ppid = stat.ppid
    return tuple(found), launcher


def stated_rank(command: Sequence[str] | None) -> StatedRank | None:
    """Return the numbers of a rank, or of a node, on a script's own command line; None if it does not give both of a pair.

    Both are needed, the number and how many there are, and there must be two or more.
    """
    if not command or launcher_name(command) is not None:
        return None
    said, words = _options_of(command)
    rank, world = _pair(said, "rank", "world_size")
    node, nodes = _pair(said, "node", "nodes")
    option = words.get("rank" if rank is not None else "node")
    if rank is not None and _SPAWNS in said and said[_SPAWNS].lower() not in ("false", "0"):
        rank, world, node, nodes = None, None, rank, world
    if rank is None and node is None:
        return None
    return StatedRank(rank, world, _number(said.get("local_rank")), node, nodes, option, _meeting_of(said))


def _options_of(command: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the value of each option in ``_NUMBERS``, by the key there, and the option as the command line spells it."""
    said: dict[str, str] = {}
    words: dict[str, str] = {}
    for position, item in enumerate(command[1:], 1):
        word, equals, value = item.partition("=")
        name = word.lstrip("-").replace("_", "-").lower()
        what = _SPAWNS if name == _SPAWNS else _SAYS.get(name if word.startswith("-") else name.rpartition(".")[2])
        if what is None or not (equals or word.startswith("-")):
            continue
        if not equals and position + 1 < len(command) and not command[position + 1].startswith("--"):
            value = command[position + 1]
        said[what], words[what] = value, word
    return said, words


def _pair(said: Mapping[str, str], number: str, total: str) -> tuple[int | None, int | None]:
    one, many = _number(said.get(number)), _number(said.get(total))
    return (one, many) if one is not None and many is not None and one < many > 1 else (None, None)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS else None


def _meeting_of(said: Mapping[str, str]) -> str | None:
    """Return where the ranks meet, "127.0.0.1:23456"; None for what the command leaves to the environment."""
    scheme, found, place = said.get("address", "").partition("://")
    if found and scheme == "tcp":
        return place.partition("?")[0].rstrip("/") or None
    if found or "host" not in said:
        return None
    return f"{said['host']}:{said['port']}" if said.get("port") else said["host"]
