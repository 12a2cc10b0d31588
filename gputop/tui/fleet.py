"""Several hosts that one screen watches: a machine for each, and the view of all.

It must not import Textual: the app and the tests drive it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from gputop.doctor.findings.finding import Finding
from gputop.doctor.findings.reaching import Reach, plainly, reached
from gputop.hosts.feed import HostFeed
from gputop.hosts.state import SHOWING_STATES
from gputop.joined.launches import JoinedLaunch, waiting_launches
from gputop.joined.machines import named_twice
from gputop.joined.rendezvous import Rendezvous, waiting_rendezvous
from gputop.joined.runs import JoinedRun, Seen, is_shared, one_by_one
from gputop.joined.stream import JoinedStream
from gputop.joined.untracked import JoinedProcessRun, untracked_runs
from gputop.settings.values import Settings
from gputop.tui.lazy_doctor import LateDoctor
from gputop.tui.machine import Machine
from gputop.tui.state.fleet import FleetView, HostView
from gputop.tui.state.own_cost import Cost

JUDGED_EVERY_S, JUDGED_SELDOM_S = 1.0, 4.0
"""How often the runs over hosts are joined and judged: as often as the hosts are read, within these limits."""
TURN_S = 0.03
"""After this time, the screen gets its turn before further hosts are processed: keys must not wait for a burst of snapshots."""


class Fleet:
    """The machines of several hosts, in the order of their feeds."""

    def __init__(self, feeds: Sequence[HostFeed]) -> None:
        self.feeds = tuple(feeds)
        self.machines = tuple(Machine(feed, shared_by=len(feeds)) for feed in feeds)
        self.doctor = LateDoctor()
        """Judges the runs over hosts; each host has a doctor of its own."""
        self.runs: tuple[JoinedRun, ...] = ()
        self.untracked: tuple[JoinedProcessRun, ...] = ()
        self.launches: tuple[JoinedLaunch, ...] = ()
        self.rendezvous: tuple[Rendezvous, ...] = ()
        self.twice: dict[str, str] = {}
        """Host that is not shown -> the name under which the same machine is shown."""
        self.reach: Reach = plainly
        self._stream = JoinedStream()
        self._joined_at = -JUDGED_SELDOM_S
        self._joining: Iterator[float] | None = None
        """The steps that are left of a joining."""
        self._judged_in_s = 0.0
        """How long the doctor took for the runs over hosts."""
        self._next = 0
        self.judging = False
        """Whether the doctor is loaded, and judges each snapshot as it arrives."""

    def add(self, feeds: Sequence[HostFeed]) -> None:
        """Show these hosts too, below the others."""
        self.feeds += tuple(feeds)
        self.machines += tuple(Machine(feed, shared_by=len(self.feeds)) for feed in feeds)

    def take_in(self) -> bool:
        """Process waiting snapshots, one host after another, and join the runs; return whether there may be more to do after
        ``TURN_S``.
        """
        until = time.monotonic() + TURN_S
        if self._joining is not None:
            self._join(until)
        more = False
        for _ in self.machines:
            feed, machine = self.feeds[self._next], self.machines[self._next]
            self._next = (self._next + 1) % len(self.machines)
            snapshots = machine.take_in()
            if self.judging and machine.latest is not None:
                machine.doctor.load()
            self._stream.take(str(machine.feed.host), snapshots, _offset_s(feed))
            if time.monotonic() > until:
                more = True
                break
        now = time.monotonic()
        if self._joining is None and now - self._joined_at >= self._join_every_s():
            self._joined_at, self._joining = now, self._joined(now)
            if not more:
                self._join(until)
        return more or self._joining is not None

    def _join(self, until: float) -> None:
        """Take the next step of joining, and more steps as long as they will probably end before this time (of
        ``time.monotonic``)."""
        for next_s in self._joining or ():
            if time.monotonic() + next_s > until:
                return
        self._joining = None

    def _joined(self, now: float) -> Iterator[float]:
        """Join the runs of all hosts, and have those on several hosts judged, in steps; yield how long the next one may take,
        in seconds. Of a hundred hosts, all at once would keep a key waiting.
        """
        seen = [
            Seen(str(feed.host), machine.latest, _offset_s(feed), current=feed.link.state in SHOWING_STATES)
            for feed, machine in zip(self.feeds, self.machines, strict=True)
            if machine.latest is not None
        ]
        twice = named_twice(seen)
        seen = [one for one in seen if one.host not in twice]
        runs = []
        for run in one_by_one(seen):
            if is_shared(run):
                runs.append(run)
            yield 0.0
        unread = [str(machine.feed.host) for machine in self.machines if machine.latest is None]
        # Together: what is drawn between two steps is one state.
        self.twice, self.runs, self.untracked = twice, tuple(runs), untracked_runs(seen)
        self.launches, self.rendezvous = waiting_launches(seen, time.time(), unread), waiting_rendezvous(seen, time.time())
        if self.runs or self.doctor.findings or any(one.snapshot.paths for one in seen):
            yield 0.0
            snapshot = self._stream.snapshot(self.runs, seen, time.time(), now)
            yield self._judged_in_s
            began = time.monotonic()
            self.doctor.observe(snapshot)
            self._judged_in_s = time.monotonic() - began

    def _join_every_s(self) -> float:
        return min(JUDGED_SELDOM_S, max(JUDGED_EVERY_S, self._interval_s()))

    def _interval_s(self) -> float:
        return max((machine.latest.interval_s for machine in self.machines if machine.latest is not None), default=0.0)

    def judge(self) -> None:
        """Have the doctor judge every host from the next turns on: loading it takes longer than the first frame should."""
        self.judging = True
        self.doctor.load()

    def machine(self, host: str) -> Machine | None:
        """Return the machine of a host."""
        return next((machine for machine in self.machines if machine.feed.host == host), None)

    def view(self, settings: Settings, *, paused: bool = False, own_cost: Cost | None = None) -> FleetView:
        """Return what the hosts screen shows now, and what showing it costs."""
        twice = self._read_twice() | self.twice.keys()
        hosts = tuple(
            HostView(feed.link, machine.view(settings, paused=paused))
            for feed, machine in zip(self.feeds, self.machines, strict=True)
            if feed.host not in twice
        )
        over = (self.runs, self.untracked, self.launches, self.rendezvous, self._findings())
        return FleetView(time.time(), hosts, settings, paused, *over, self.twice, own_cost)

    def _findings(self) -> tuple[Finding, ...]:
        hosts = {run.run.run_id: run.hosts for run in self.runs}
        return tuple(reached(finding, hosts.get(finding.run or "", ()), self.reach) for finding in self.doctor.findings)

    def _read_twice(self) -> set[str | None]:
        """Return the hosts from Prometheus that a gputop also reports, whatever their names, as long as it reports them."""
        scraped = [machine for machine in self.machines if _is_of_prometheus(machine)]
        if not scraped:
            return set()
        own = frozenset[str]().union(
            *(
                _gpus(machine)
                for feed, machine in zip(self.feeds, self.machines, strict=True)
                if not _is_of_prometheus(machine) and feed.link.state in SHOWING_STATES
            )
        )
        return {machine.feed.host for machine in scraped if (found := _gpus(machine)) and found <= own}


def _is_of_prometheus(machine: Machine) -> bool:
    return machine.latest is not None and machine.latest.host.source == "prometheus"


def _gpus(machine: Machine) -> frozenset[str]:
    return frozenset(device.uuid for device in machine.latest.devices) if machine.latest is not None else frozenset()


def _offset_s(feed: HostFeed) -> float:
    return feed.link.clock_offset_s or 0.0
