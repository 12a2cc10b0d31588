"""Starts one command on several hosts, as a job on each and one run: all start it, or none."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from gputop.errors import GputopError, UsageError
from gputop.hosts import checked
from gputop.hosts.errand import End, Errands
from gputop.hosts.transport import Transport
from gputop.over_hosts.jobs import may_still_run, stop_over
from gputop.recipes import nodes
from gputop.recipes.nodes import NodeOrder, NodeReady
from gputop.wire import FormatError, decode, encode

READY_S = 180.0
"""How long a host may take until it could start: a driver without persistence mode starts every GPU first."""
STARTED_S = 60.0
STOPPED_S = 120.0
"""How long a launch that failed waits until it is stopped: the host that hangs may be why it failed."""
LEAVE_S = 1.0
"""How long hosts have to take note that a launch is called off, before their connections are closed."""
T = TypeVar("T")


class CallOff:
    """Calls a launch off from another thread, as long as not all hosts have started it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._errands: Errands | None = None
        self._all_started = False
        self.called = False

    def call(self) -> bool:
        """Close the connections, so that a host which has started it stops it; return False if it is too late for that."""
        with self._lock:
            if self._all_started:
                return False
            self.called = True
            errands = self._errands
        if errands is not None:
            errands.leave(LEAVE_S)
        return True

    def begin(self, errands: Errands) -> None:
        """Start the errands, unless it has been called off already."""
        with self._lock:
            if not self.called:
                self._errands = errands
                errands.start()

    def all_started(self) -> None:
        """Note that each host has started it, unless it has been called off.

        Raises:
            GputopError: it has.
        """
        with self._lock:
            if self.called:
                raise GputopError("The launch was called off.", "")
            self._all_started = True


def launch_over(
    hosts: Sequence[str],
    transport: Transport,
    order: NodeOrder,
    rendezvous: str | None,
    say: Callable[[str], object],
    off: CallOff | None = None,
) -> None:
    """Start ``order`` on each host; ``say`` takes a sentence once all could start it.

    Whatever ends this before all hosts have started it stops it on all of them. ``off`` can end it from another thread, without
    a wait for hosts: each of them stops by itself what it has begun.

    Raises:
        UsageError: ``rendezvous`` is no address.
        GputopError: a host cannot start it, or it was called off; then it runs on none of them.
    """
    off = off if off is not None else CallOff()
    if rendezvous is not None:
        nodes.parse_endpoint(rendezvous)
    orders = {host: replace(order, node=node, nodes=len(hosts)) for node, host in enumerate(hosts)}
    first = {host: _line("order", encode(wanted)) for host, wanted in orders.items()}
    errands = Errands(transport, hosts, ("launch", "--as-node"), first)
    with contextlib.closing(errands):
        off.begin(errands)
        ready = _answers(errands, hosts, "ready", NodeReady, READY_S, off)
        _check(hosts, ready, errands.ends, "Nothing was started.")
        endpoint = nodes.endpoint_of(ready[hosts[0]], rendezvous)
        say(f"Starting {order.id} on {', '.join(hosts)}.")
        try:
            for word, value, answer in (("go", endpoint, "started"), ("keep", order.id, "kept")):
                if word == "keep":
                    off.all_started()
                for host in hosts:
                    errands.send(host, _line(word, value))
                answers = _answers(errands, hosts, answer, str, STARTED_S, off)
                _check(hosts, answers, errands.ends, "The run was stopped on the other hosts.")
        except BaseException as error:
            if off.called:
                raise
            errands.close()  # a host that starts it only from now on stops it by itself
            left: Mapping[str, End] = {}
            with contextlib.suppress(UsageError):  # no host has such a job: none had started it
                left = stop_over(hosts, transport, order.id, within_s=STOPPED_S)
            if not left:
                raise
            where = may_still_run(left, order.id)
            if isinstance(error, GputopError):
                raise GputopError(error.message, where) from error
            say(where)
            raise


def _answers(errands: Errands, hosts: Sequence[str], key: str, kind: type[T], within_s: float, off: CallOff) -> dict[str, T]:
    """Return what each host says under ``key``; those that end, or say it too late, are left out."""
    found: dict[str, T] = {}
    deadline = time.monotonic() + within_s
    while (
        not off.called and time.monotonic() < deadline and any(host not in found and host not in errands.ends for host in hosts)
    ):
        said = errands.take(0.2)
        if said is None or said.end is not None:
            continue
        with contextlib.suppress(FormatError, LookupError, TypeError):
            found[said.host] = decode(kind, checked.data_in(said.line)[key])
    return found


def _check(hosts: Sequence[str], answers: Mapping[str, object], ends: Mapping[str, End], so: str) -> None:
    """Raise GputopError if a host has not answered."""
    missing = [host for host in hosts if host not in answers]
    if missing:
        said = [ends[host].sentence(host) if host in ends else f"{host}: it did not answer in time." for host in missing]
        raise GputopError("\n".join(said), so)


def _line(key: str, value: object) -> bytes:
    return json.dumps({key: value}).encode() + b"\n"
