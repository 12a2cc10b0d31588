"""``-H``, ``--hosts`` and ``--prometheus``: one reading, a stream, a recording, or the dashboard of other machines."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gputop.cli.output.terminal import output_errors
from gputop.errors import EXIT_OK, EXIT_PROBLEM, GputopError, UsageError
from gputop.terminal_text import printable

if TYPE_CHECKING:
    from gputop.hosts.fleet import Fleet
    from gputop.hosts.following import Links
    from gputop.hosts.prometheus.watch import Watch
    from gputop.hosts.state import HostStatus
    from gputop.hosts.stream import Heard
    from gputop.hosts.transport import Transport
    from gputop.sources.recording import Recorder

NAME_MAX_BYTES = 255
"""Longest file name that Linux's file systems allow."""
HOSTS_PER_S = 32
"""How many hosts a screen can process per second, unless the user sets an interval (benchmarks/hosts.py)."""


def asked(options: argparse.Namespace) -> bool:
    """Return whether the command line names other machines.

    Raises:
        UsageError: it says how to reach them but names none, or names them in two ways.
    """
    if options.prometheus is None and options.prometheus_auth is not None:
        raise UsageError("--prometheus-auth says how to ask a Prometheus server.", "Name the server with --prometheus URL.")
    named = options.host is not None or options.hosts is not None
    short = [f"--{name}" for name in ("slurm", "pods") if getattr(options, name) is not None]
    if short:
        if named or options.via is not None or len(short) > 1:
            raise UsageError(
                f"{short[0]} names the hosts and how to reach them.",
                "Leave out -H, --hosts and --via, and give only one of --slurm and --pods.",
            )
        return True
    if not named and (options.via is not None or options.remote is not None):
        raise UsageError("--via and --remote say how to reach other machines.", "Name them with -H a,b or --hosts FILE.")
    return named or options.prometheus is not None


def named_of(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the hosts that a command reaches: none if only a Prometheus server is to be asked.

    Raises:
        GputopError: a list or the file cannot be read.
    """
    named = any(getattr(options, name) is not None for name in ("host", "hosts", "slurm", "pods"))
    return hosts_of(options) if named else ()


def hosts_of(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the hosts that ``-H`` and ``--hosts`` name, each once; or those of ``--slurm`` or ``--pods``.

    Raises:
        GputopError: a list or the file cannot be read.
    """
    from gputop.hosts.names import parse_hosts, read_hosts
    from gputop.hosts.shortcuts import pods_hosts, slurm_hosts

    if options.slurm is not None:
        return slurm_hosts(options.slurm)
    if options.pods is not None:
        return pods_hosts(options.pods)
    listed = parse_hosts(options.host) if options.host is not None else ()
    return tuple(dict.fromkeys((*listed, *(read_hosts(options.hosts) if options.hosts is not None else ()))))


def reach(options: argparse.Namespace) -> str:
    """Return the options that name and reach these hosts, for another command line."""
    given = {"-H": options.host} | {f"--{name}": getattr(options, name) for name in ("hosts", "slurm", "pods", "via", "remote")}
    return shlex.join(word for option, value in given.items() if value is not None for word in (option, str(value)))


def transport_of(options: argparse.Namespace) -> Transport:
    """Return how to reach the hosts.

    Raises:
        UsageError: ``--via`` or ``--remote`` cannot work.
    """
    from gputop.hosts.shortcuts import PODS_VIA, slurm_via
    from gputop.hosts.transport import transport_of as transport

    if options.slurm is not None:
        return transport(slurm_via(options.slurm), options.remote)
    return transport(PODS_VIA if options.pods is not None else options.via, options.remote)


def source_words(options: argparse.Namespace, gpus: Sequence[str], *, ask_nccl: bool) -> list[str]:
    """Return the options that say what to read on the hosts."""
    words = ["--virtual", str(options.virtual)] if options.virtual is not None else []
    words += ["-g", ",".join(gpus)] if gpus else []
    return words if ask_nccl else [*words, "--no-nccl-ras"]


def agent_words(interval_s: float, source: Sequence[str]) -> list[str]:
    """Return gputop's arguments on the host: write a stream until the input closes."""
    return ["agent", "--no-stand-in", "-i", f"{interval_s}s", *source]


def once(options: argparse.Namespace, source: Sequence[str]) -> int:
    """Print one reading of each host: tables, then the runs of all; or one JSON object per host."""
    from gputop.hosts.fleet import read_once

    words = ["--once", "--json", *source]
    named = named_of(options)
    heard: tuple[Heard, ...] = ()
    if named:
        with reached(options) as transport:
            heard = read_once(named, transport, words)
    watch = watch_of(options, 1.0)
    if watch is not None:
        uuids = frozenset[str]().union(*map(_gpus, heard))
        without = others_than(one.status.host for one in heard)
        read = [one for one in watch.once() if not without(one.status.host)]
        heard += tuple(one for one in read if not (found := _gpus(one)) or not found <= uuids)
    if options.json:
        from gputop.cli.output.hosts_json import once_lines

        print(*once_lines(heard), sep="\n")
    else:
        from gputop.cli.output.hosts_text import hosts_text

        print(hosts_text(heard))
    is_whole = options.prometheus is None or watch is not None
    return EXIT_OK if is_whole and all(one.snapshot is not None for one in heard) else EXIT_PROBLEM


def _gpus(heard: Heard) -> frozenset[str]:
    return frozenset(device.uuid for device in heard.snapshot.devices) if heard.snapshot is not None else frozenset()


def stream(options: argparse.Namespace, interval_s: float, source: Sequence[str]) -> int:
    """Print a JSON object for each snapshot of each host, and for each change of a host's state."""
    from gputop.agent.serving import write_line
    from gputop.cli.output.hosts_json import StreamLines

    lines = StreamLines()
    written = 0
    with fleet(options, agent_words(interval_s, source), interval_s, grows=True, live=True) as following:
        with contextlib.suppress(KeyboardInterrupt, BrokenPipeError), contextlib.closing(following):
            following.start()
            while options.count is None or written < options.count:
                heard = following.take(1.0)
                if heard is not None and (heard.snapshot is not None or heard.status.message is not None):
                    with output_errors():
                        write_line(lines.line(heard, [stream.status for stream in following.streams]))
                    written += 1
        return _code(following)


def record(options: argparse.Namespace, interval_s: float, source: Sequence[str], for_s: float | None) -> int:
    """Write the stream of each host to its own file: one host to FILE, several to FILE with the host's name in it."""
    with fleet(options, agent_words(interval_s, source), interval_s, grows=True, live=True) as following:
        return _record(options.file, following, for_s)


def _record(file: Path, following: Fleet, for_s: float | None) -> int:
    from gputop.sources.recording import Recorder

    hosts = [stream.status.host for stream in following.streams]
    paths = paths_of(file, hosts)
    for path in paths.values():
        if os.path.lexists(path):
            raise GputopError(f"{path} already exists.", "Choose another name, or remove it first.")
    print(printable(f"recording to {', '.join(map(str, paths.values()))}; Ctrl-C ends it"), file=sys.stderr)
    recorders: dict[str, Recorder] = {}
    with contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as open_files, contextlib.closing(following):
        following.start()
        end = time.monotonic() + for_s if for_s is not None else None
        while end is None or time.monotonic() < end:
            heard = following.take(0.2)
            if heard is None:
                continue
            host = heard.status.host
            if heard.snapshot is None:
                _report(heard.status)
                continue
            if host not in paths:
                paths[host] = _free_path(file, host, paths.values())
                print(printable(f"also recording to {paths[host]}"), file=sys.stderr, flush=True)
            if host not in recorders:
                recorders[host] = open_files.enter_context(Recorder(paths[host]))
            recorders[host].write(heard.snapshot.to_json())
    return EXIT_OK if recorders.keys() == paths.keys() else EXIT_PROBLEM


def screen_interval_s(chosen_s: float, hosts: int) -> float:
    """Return the interval in seconds for a screen of this many hosts: 1 s for up to 32, longer for more, within one core."""
    return max(chosen_s, float(-(-hosts // HOSTS_PER_S)))


@contextlib.contextmanager
def fleet(
    options: argparse.Namespace,
    arguments: Sequence[str],
    interval_s: float = 1.0,
    *,
    grows: bool = False,
    live: bool = False,
) -> Iterator[Fleet]:
    """Yield the streams of the named hosts, and end them; ``arguments`` are those of gputop on each host.

    If it ``grows``, hosts that a Prometheus server finds later are added. ``live``: see ``reached``.

    Raises:
        GputopError: the list of hosts cannot be read, or they cannot be reached in this way.
    """
    from gputop.hosts.fleet import Fleet

    names, watch = named_of(options), watch_of(options, interval_s)
    with contextlib.ExitStack() as stack:
        transport = stack.enter_context(reached(options, live=live)) if names else None
        ask = partial(transport.asking.ask, names) if transport is not None else None
        found = stack.enter_context(contextlib.closing(Fleet(links_of(names, transport, arguments, watch), ask)))
        if grows and watch is not None:
            watch.announce(found.add, others_than(names))
        yield found


def watch_of(options: argparse.Namespace, interval_s: float) -> Watch | None:
    """Return the reader of the named Prometheus server, after a first reading; None if none is named.

    If the server cannot be read but other hosts are named, print a message and return None.

    Raises:
        UsageError: GPUs are chosen, or the URL is not valid.
        GputopError: it cannot be read or knows no GPU, and no other host is named.
    """
    if options.prometheus is None:
        return None
    if options.gpus:
        raise UsageError("--prometheus shows all GPUs of a host.", "Leave out -g.")
    from gputop.hosts.prometheus.client import server_of
    from gputop.hosts.prometheus.watch import Watch

    server = server_of(options.prometheus, options.prometheus_auth)
    try:
        watch = Watch(server, interval_s)
    except GputopError as error:
        if not named_of(options):
            raise
        print(printable(f"gputop: {error}"), file=sys.stderr)
        return None
    if watch.left_out:
        what = f"gputop: Prometheus knows {watch.left_out} more hosts than gputop shows ({len(watch.hosts)})."
        print(what, file=sys.stderr)
    return watch


def links_of(names: Sequence[str], transport: Transport | None, arguments: Sequence[str], watch: Watch | None) -> Links:
    """Return the streams of the named hosts, which ``transport`` reaches, and of the others that a Prometheus server knows."""
    from gputop.hosts.following import links_by

    reached = links_by(names, transport, arguments) if transport is not None else {}
    return {**reached, **(watch.links(others_than(names)) if watch is not None else {})}


@contextlib.contextmanager
def reached(options: argparse.Namespace, *, live: bool = False, screen: bool = False) -> Iterator[Transport]:
    """Yield how to reach the hosts. If a login needs an answer, the user is asked; those connections end with the block.

    A command that is ``live``, as a ``screen`` is, does not wait for the last host.

    Raises:
        UsageError: ``--via`` or ``--remote`` cannot work.
    """
    from gputop.hosts.connection import ending_with_us
    from gputop.hosts.logins import Logins

    with ending_with_us(), Logins(transport_of(options), live=live, screen=screen) as logins:
        yield logins.transport


def others_than(names: Iterable[str]) -> Callable[[str], bool]:
    """Return a function that checks whether a host is among ``names``, with or without its domain."""
    plain = {name.rpartition("@")[2].partition(":")[0] for name in names}
    short = {name for name in plain if "." not in name} | {name.partition(".")[0] for name in plain}

    def is_among(host: str) -> bool:
        return host in plain or ("." not in host and host in short) or host.partition(".")[0] in plain

    return is_among


def _report(status: HostStatus) -> None:
    if status.message is not None:
        print(printable(status.sentence), file=sys.stderr, flush=True)


def _code(following: Fleet) -> int:
    return EXIT_OK if all(stream.status.last_heard_at is not None for stream in following.streams) else EXIT_PROBLEM


def paths_of(file: Path, hosts: Sequence[str]) -> dict[str, Path]:
    """Return the file for each host's recording: ``file`` for a single host, else with the host's name in it, perhaps cut."""
    if len(hosts) < 2:
        return dict.fromkeys(hosts, file)
    found: dict[str, Path] = {}
    for host in hosts:
        found[host] = next(path for path in _paths(file, host) if path not in found.values())
    return found


def _free_path(file: Path, host: str, taken: Iterable[Path]) -> Path:
    """Return a file that does not exist yet, for a host that was found later."""
    others = set(taken)
    return next(path for path in _paths(file, host) if path not in others and not os.path.lexists(path))


def _paths(file: Path, host: str) -> Iterator[Path]:
    """Yield ``file`` with the host's name in it, then with a number too."""
    for number in itertools.count(1):
        end = f"-{number}{file.suffix}" if number > 1 else file.suffix
        name = _cut(f"{file.stem}.{host.replace('/', '_')}", NAME_MAX_BYTES - len(_encoded(end)))
        yield file.with_name(name + end)


def _encoded(name: str) -> bytes:
    return name.encode(errors="surrogateescape")


def _cut(name: str, most_bytes: int) -> str:
    while len(_encoded(name)) > most_bytes:
        name = name[:-1]
    return name
