"""``-H`` and ``--hosts``: one reading, a stream, a recording or the dashboard of other machines."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gputop.cli.terminal import told
from gputop.errors import EXIT_OK, EXIT_PROBLEM, GputopError, UsageError
from gputop.terminal_text import printable

if TYPE_CHECKING:
    from gputop.hosts.fleet import Fleet
    from gputop.hosts.state import HostStatus
    from gputop.hosts.stream import Heard
    from gputop.hosts.transport import Transport
    from gputop.sources.recording import Recorder


def asked(options: argparse.Namespace) -> bool:
    """Return whether the command line names other machines.

    Raises:
        UsageError: it says how to reach them, and names none.
    """
    named = options.host is not None or options.hosts is not None
    if not named and (options.via is not None or options.remote is not None):
        raise UsageError("--via and --remote say how to reach other machines.", "Name them with -H a,b or --hosts FILE.")
    return named


def hosts_of(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the hosts that ``-H`` and ``--hosts`` name, each once.

    Raises:
        GputopError: a list or the file cannot be read.
    """
    from gputop.hosts.names import parse_hosts, read_hosts

    listed = parse_hosts(options.host) if options.host is not None else ()
    return tuple(dict.fromkeys((*listed, *(read_hosts(options.hosts) if options.hosts is not None else ()))))


def transport_of(options: argparse.Namespace) -> Transport:
    """Return how to reach them.

    Raises:
        UsageError: ``--via`` or ``--remote`` cannot work.
    """
    from gputop.hosts.transport import transport_of as transport

    return transport(options.via, options.remote)


def source_words(options: argparse.Namespace, gpus: Sequence[str], *, ask_nccl: bool) -> list[str]:
    """Return the options that say what to read there."""
    words = ["--virtual", str(options.virtual)] if options.virtual is not None else []
    words += ["-g", ",".join(gpus)] if gpus else []
    return words if ask_nccl else [*words, "--no-nccl-ras"]


def agent_words(interval_s: float, source: Sequence[str]) -> list[str]:
    """Return what gputop is asked for there: a stream, until its input closes."""
    return ["agent", "--no-stand-in", "-i", f"{interval_s}s", *source]


def once(options: argparse.Namespace, source: Sequence[str]) -> int:
    """Print one reading of each host: tables, then the runs of all; or one JSON object a host."""
    from gputop.hosts.fleet import read_once

    heard = read_once(hosts_of(options), transport_of(options), ["--once", "--json", *source])
    if options.json:
        for one in heard:
            print(json_line(one))
    else:
        from gputop.cli.hosts_text import hosts_text

        print(hosts_text(heard))
    return EXIT_OK if all(one.snapshot is not None for one in heard) else EXIT_PROBLEM


def stream(options: argparse.Namespace, interval_s: float, source: Sequence[str]) -> int:
    """Print a JSON object for each snapshot of each host, and for each change of how it stands with a host."""
    from gputop.agent.sampler import write_line

    fleet = _fleet(options, agent_words(interval_s, source))
    written = 0
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError), contextlib.closing(fleet):
        fleet.start()
        while options.count is None or written < options.count:
            heard = fleet.take(1.0)
            if heard is not None and (heard.snapshot is not None or heard.status.message is not None):
                with told():
                    write_line(json_line(heard))
                written += 1
    return _code(fleet)


def record(options: argparse.Namespace, interval_s: float, source: Sequence[str], for_s: float | None) -> int:
    """Write the stream of each host to a file of its own: one host to FILE, several to FILE with the host's name in it."""
    from gputop.sources.recording import Recorder

    end = time.monotonic() + for_s if for_s is not None else None
    fleet = _fleet(options, agent_words(interval_s, source))
    hosts = [stream.status.host for stream in fleet.streams]
    paths = {host: _path(options.file, host, len(hosts) > 1) for host in hosts}
    for path in paths.values():
        if path.exists():
            raise GputopError(f"{path} already exists.", "Choose another name, or remove it first.")
    print(printable(f"recording to {', '.join(map(str, paths.values()))}; Ctrl-C ends it"), file=sys.stderr)
    recorders: dict[str, Recorder] = {}
    with contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as open_files, contextlib.closing(fleet):
        fleet.start()
        while end is None or time.monotonic() < end:
            heard = fleet.take(0.2)
            if heard is None:
                continue
            host = heard.status.host
            if heard.snapshot is None:
                _say(heard.status)
                continue
            if host not in recorders:
                recorders[host] = open_files.enter_context(Recorder(paths[host]))
            recorders[host].write(heard.snapshot.to_json())
    return EXIT_OK if recorders.keys() == paths.keys() else EXIT_PROBLEM


def screen_host(options: argparse.Namespace) -> str:
    """Return the host that the dashboard shows.

    Raises:
        GputopError: several are named.
    """
    hosts = hosts_of(options)
    if len(hosts) > 1:
        raise UsageError("The dashboard shows one host.", "Name one, or print all with gputop --once -H a,b.")
    return hosts[0]


def json_line(heard: Heard) -> str:
    """Return news of a host as one JSON object: how it stands with it, and its snapshot or null."""
    from gputop.wire import encode

    status = json.dumps(encode(heard.status))
    snapshot = heard.snapshot.to_json() if heard.snapshot is not None else "null"
    return f'{status[:-1]}, "snapshot": {snapshot}}}'


def _fleet(options: argparse.Namespace, arguments: Sequence[str]) -> Fleet:
    from gputop.hosts.fleet import Fleet

    return Fleet(hosts_of(options), transport_of(options), arguments)


def _say(status: HostStatus) -> None:
    if status.message is not None:
        print(printable(status.sentence), file=sys.stderr, flush=True)


def _code(fleet: Fleet) -> int:
    return EXIT_OK if all(stream.status.last_heard_at is not None for stream in fleet.streams) else EXIT_PROBLEM


def _path(file: Path, host: str, several: bool) -> Path:
    return file.with_name(f"{file.stem}.{host.replace('/', '_')}{file.suffix}") if several else file
