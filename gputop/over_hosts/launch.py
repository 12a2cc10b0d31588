"""Starts one command as a job on each of several hosts: together they are one run, and all start or none."""

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
"""How long a host may take to get ready: without persistence mode, its driver initializes every GPU first."""
STARTED_S = 60.0
NOTHING_STARTED = "Nothing was started."
LEAVE_S = 1.0
"""How long hosts have to notice a canceled launch before their connections are closed."""
T = TypeVar("T")


class Cancellation:
    """Cancels a launch from another thread, until all hosts have started it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._errands: Errands | None = None
        self._all_started = False
        self.canceled = False

    def cancel(self) -> bool:
        """Close the connections, so that each host stops what it has started; return False if all hosts have already started
        it."""
        with self._lock:
            if self._all_started:
                return False
            self.canceled = True
            errands = self._errands
        if errands is not None:
            errands.leave(LEAVE_S)
        return True

    def begin(self, errands: Errands) -> None:
        """Start the errands, unless the launch has been canceled already."""
        with self._lock:
            if not self.canceled:
                self._errands = errands
                errands.start()

    def all_started(self) -> None:
        """Record that all hosts have started it: from now on it cannot be canceled.

        Raises:
            GputopError: it has been canceled.
        """
        with self._lock:
            if self.canceled:
                raise GputopError("The launch was canceled.", "")
            self._all_started = True


def launch_over(
    hosts: Sequence[str],
    transport: Transport,
    order: NodeOrder,
    rendezvous: str | None,
    say: Callable[[str], object],
    cancellation: Cancellation | None = None,
) -> None:
    """Start ``order`` on each host; ``say`` takes a sentence once all hosts are ready.

    If anything ends this before all hosts have started, the jobs are stopped on all of them. ``cancellation`` ends it from
    another thread and waits for no host: each stops by itself what it has started.

    Raises:
        UsageError: ``rendezvous`` is not an address.
        GputopError: a host cannot start it, or it was canceled. Then it runs on no host, unless the hint names some.
    """
    cancellation = cancellation if cancellation is not None else Cancellation()
    if rendezvous is not None:
        nodes.parse_endpoint(rendezvous)
    orders = {host: replace(order, node=node, nodes=len(hosts)) for node, host in enumerate(hosts)}
    first = {host: _line("order", encode(wanted)) for host, wanted in orders.items()}
    errands = Errands(transport, hosts, ("launch", "--as-node"), first)
    with contextlib.closing(errands):
        try:
            cancellation.begin(errands)
            ready = _answers(errands, hosts, "ready", NodeReady, READY_S, cancellation)
            _check(hosts, ready, errands.ends, NOTHING_STARTED)
            endpoint = nodes.endpoint_of(ready[hosts[0]], rendezvous)
            say(f"Starting {order.id} on {', '.join(hosts)}.")
        except KeyboardInterrupt:
            say(NOTHING_STARTED)
            raise
        try:
            for word, value, answer in (("go", endpoint, "started"), ("keep", order.id, "kept")):
                if word == "keep":
                    cancellation.all_started()
                for host in hosts:
                    errands.send(host, _line(word, value))
                answers = _answers(errands, hosts, answer, str, STARTED_S, cancellation)
                where = " on the other hosts" if len(hosts) > 1 else ""
                _check(hosts, answers, errands.ends, f"The run was stopped{where}.")
        except BaseException as error:
            if cancellation.canceled:
                raise
            errands.close()  # a host that starts it after this stops it by itself
            left: Mapping[str, End] = {}
            try:
                with contextlib.suppress(UsageError):  # no host knows the job, so none has started it
                    left = stop_over(hosts, transport, order.id)
            except KeyboardInterrupt:
                say(may_still_run(hosts, transport, order.id))
                raise
            if not left:
                if isinstance(error, KeyboardInterrupt):
                    say("It was canceled, and runs on no host.")
                raise
            where = may_still_run(left, transport, order.id)
            if isinstance(error, GputopError):
                raise GputopError(error.message, where) from error
            say(where)
            raise


def _answers(
    errands: Errands, hosts: Sequence[str], key: str, kind: type[T], within_s: float, cancellation: Cancellation
) -> dict[str, T]:
    """Return each host's answer under ``key``; hosts that end or take longer than ``within_s`` seconds are left out."""
    found: dict[str, T] = {}
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline and not cancellation.canceled:
        if all(host in found or host in errands.ends for host in hosts):
            break
        said = errands.take(0.2)
        if said is None or said.end is not None:
            continue
        with contextlib.suppress(FormatError, LookupError, TypeError):
            found[said.host] = decode(kind, checked.data_in(said.line)[key])
    return found


def _check(hosts: Sequence[str], answers: Mapping[str, object], ends: Mapping[str, End], so: str) -> None:
    """Raise GputopError, with a sentence for each host that has not answered; ``so`` says what follows from that."""
    missing = [host for host in hosts if host not in answers]
    if missing:
        said = [ends[host].sentence(host) if host in ends else f"{host}: it did not answer in time." for host in missing]
        raise GputopError("\n".join(said), so)


def _line(key: str, value: object) -> bytes:
    return json.dumps({key: value}).encode() + b"\n"
