"""torchruns that wait for other nodes. They have started no rank, so nothing else shows them.

torchrun starts its ranks once as many nodes as it needs have come to the rendezvous. Until then it sleeps, ten minutes by
default. ``accelerate launch`` runs torchrun's code in its own process. Imports only the standard library, gputop's records
and its neighbors.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from gputop.process import WaitingLauncher
from gputop.sources.host import procfs
from gputop.sources.host.accelerate_config import ConfigFiles, config_path
from gputop.sources.host.launchers import launcher_name
from gputop.sources.host.process_cache import Facts

WAITING_AGE_S = 20.0
"""A younger torchrun may still be importing torch, which takes this long on a busy machine or a slow disk (our choice)."""
RANKS_CPU_S = 1.0
"""Ended children that used more CPU time than this were ranks, because importing torch alone takes more. Such a torchrun waits
for the ranks of other nodes to end, or restarts its own."""
_ACCELERATE = """
cpu debug downcast-bf16 dynamo-use-dynamic dynamo-use-fullgraph dynamo-use-regional-compilation enable-cpu-affinity
fp8-use-autocast-during-eval m module multi-gpu no-python no-tpu-cluster q quiet same-network tpu tpu-cluster tpu-use-
sudo use-deepspeed use-fsdp use-megatron-lm use-parallelism-config use-xpu
"""
WITHOUT_VALUE = {
    "torchrun": frozenset({"m", "module", "no-python", "run-path", "standalone", "virtual-local-rank"}),
    "accelerate": frozenset(_ACCELERATE.split()),
}
"""Options that take no value, with dashes for underscores, by the launcher."""
_STANDALONE = "standalone"


class WaitingLaunchers:
    """Knows which of this user's Python processes are such torchruns; reads the command of each process once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int], WaitingLauncher | None] = {}
        self._configs = ConfigFiles()

    def find(self, pythons: Iterable[Facts]) -> tuple[WaitingLauncher, ...]:
        """Return the torchruns that need other nodes and have no child, by PID."""
        before, self._known = self._known, {}
        found, parents = [], set()
        for facts in pythons:
            parents.add(facts.stat.ppid)
            if facts.age_s < WAITING_AGE_S:
                continue
            key = facts.program
            try:
                launcher = self._known[key] = before[key] if key in before else self._launcher(facts)
            except _NotReadYetError:
                continue
            if launcher is not None and is_waiting(facts):
                found.append(launcher)
        return tuple(sorted((one for one in found if one.pid not in parents), key=lambda launcher: launcher.pid))

    def _launcher(self, facts: Facts) -> WaitingLauncher | None:
        """Return what a process's command, environment and configuration say.

        Raises:
            _NotReadYetError: the configuration is being read.
        """
        pid, command = facts.stat.pid, procfs.command_line_of(facts.stat.pid)
        if command is None or (launcher := launcher_name(command)) not in WITHOUT_VALUE:
            return None
        environment = facts.try_read((), procfs.read_environ) or {}
        path = config_path(pid, _options(command)[1], environment) if launcher == "accelerate" else None
        config = self._configs.entries(path) if path is not None else {}
        if config is None:
            raise _NotReadYetError
        return read_launcher(pid, command, environment, time.time() - facts.age_s, config)


class _NotReadYetError(Exception):
    """What a launcher needs is not known yet."""


def is_waiting(facts: Facts) -> bool:
    """Return whether a launcher has started no rank, and has had the time to."""
    old, ran = facts.age_s >= WAITING_AGE_S, _ended_children_s(facts.line) >= RANKS_CPU_S
    return old and not ran and not procfs.read_children(facts.stat.pid)


def _ended_children_s(stat_line: bytes) -> float:
    """Return how many seconds of CPU time a process's ended children have used, by its line in /proc."""
    fields = stat_line[stat_line.rfind(b")") + 1 :].split()
    return (int(fields[13]) + int(fields[14])) / procfs.TICKS_PER_S if len(fields) > 14 else 0.0


def read_launcher(
    pid: int,
    command: Sequence[str],
    environment: Mapping[str, str],
    started_at: float | None,
    config: Mapping[str, str] = MappingProxyType({}),
) -> WaitingLauncher | None:
    """Return what a launcher's command and environment say about its nodes; None if it needs no other node.

    ``config`` are the entries of accelerate's configuration file.
    """
    launcher, options, script = _options(command)
    if _STANDALONE in options or not script:
        return None

    def value(name: str) -> str | None:
        return options.get(name) or environment.get(f"PET_{name.upper().replace('-', '_')}") or None

    if launcher == "accelerate":
        names = ("num_machines", "main_process_ip", "main_process_port")
        count, address, port = (options.get(name.replace("_", "-"), config.get(name)) for name in names)
        endpoint = None
    else:
        count, address, port = value("nnodes"), value("master-addr"), value("master-port")
        endpoint = value("rdzv-endpoint")
    fewest = (count or "1").partition(":")[0]
    nodes = int(fewest) if fewest.isascii() and fewest.isdigit() and len(fewest) <= 6 else 1
    if nodes < 2:
        return None
    if endpoint is None and address is not None:
        endpoint = f"{address}:{port or 29500}"
    return WaitingLauncher(
        pid,
        os.path.basename(script[1] if script[0] in ("-m", "--module") and len(script) > 1 else script[0]),
        nodes,
        endpoint,
        value("rdzv-id"),
        environment.get("SLURM_JOB_ID") or None,
        environment.get("GPUTOP_JOB_ID") or None,
        started_at,
        launcher,
    )


def _options(command: Sequence[str]) -> tuple[str, dict[str, str], Sequence[str]]:
    """Return the launcher, its own options, with dashes for underscores, and the words from the script on."""
    found: dict[str, str] = {}
    launcher, words = _own_words(command)
    module = False
    while words and words[0].startswith("-"):
        name, equals, given = words.pop(0).lstrip("-").partition("=")
        name = name.replace("_", "-")
        if equals or name in WITHOUT_VALUE[launcher]:
            found[name] = given
            module = module or name in ("m", "module")
        elif words:
            found[name] = words.pop(0)
    return launcher, found, ("-m", *words) if module and words else words


def _own_words(command: Sequence[str]) -> tuple[str, list[str]]:
    """Return the launcher, and the words after its name and subcommand; none if the command has no launcher."""
    for place, word in enumerate(command):
        rest = list(command[place:])
        for way in (["python", *rest], ["python", "-m", *rest]):
            launcher = None if word.startswith("-") else launcher_name(way)
            if launcher in WITHOUT_VALUE:
                alone = launcher_name([*way[: -len(rest)], word]) == launcher
                return str(launcher), rest[1 if alone else 2 :]
    return "", []
