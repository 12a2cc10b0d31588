"""``gputop doctor -H``: what is wrong on each of several machines, and in the runs over them."""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gputop.errors import EXIT_OK, EXIT_PROBLEM, UsageError
from gputop.terminal_text import printable

if TYPE_CHECKING:
    from gputop.doctor.diagnosis import Doctor
    from gputop.doctor.findings.finding import Finding, Undecided
    from gputop.doctor.findings.reaching import Reach
    from gputop.doctor.watch import Outcome
    from gputop.hosts.fleet import Fleet
    from gputop.hosts.state import HostStatus
    from gputop.hosts.stream import Heard
    from gputop.joined.launches import JoinedLaunch
    from gputop.joined.rendezvous import Rendezvous
    from gputop.joined.runs import JoinedRun, Seen
    from gputop.joined.untracked import JoinedProcessRun


class _Watched:
    """What the doctor knows about one host, and about the runs over all of them."""

    def __init__(self, hosts: Sequence[str], reach: Reach | None = None) -> None:
        from gputop.doctor.diagnosis import Doctor
        from gputop.doctor.findings.reaching import plainly
        from gputop.joined.stream import JoinedStream

        self._reach = reach or plainly
        self.doctors: dict[str, Doctor] = {}
        self.add(hosts)
        self.outcomes: dict[str, Outcome] = {}
        self.seen: dict[str, Seen] = {}
        self.over = Doctor()
        self.over_outcome: Outcome | None = None
        self.runs: tuple[JoinedRun, ...] = ()
        self.failed_apart: tuple[JoinedRun, ...] = ()
        """Runs that failed on the hosts that were read, and that may have had ranks on the others."""
        self._stream = JoinedStream()
        self._launch_pending = False
        """Whether a launch or a torchrun will count as waiting for a host soon, if nothing changes."""
        self._untracked_since_s: float | None = None
        """When an untracked run over hosts was first seen."""

    def add(self, hosts: Iterable[str]) -> None:
        """Also report on these hosts."""
        from gputop.doctor.diagnosis import Doctor

        for host in hosts:
            if host not in self.doctors:
                self.doctors[host] = Doctor()

    def take(self, heard: Heard, run: str | None) -> None:
        """Process a change from a host."""
        from gputop.doctor.watch import standing
        from gputop.joined.runs import Seen

        host, snapshot = heard.status.host, heard.snapshot
        if snapshot is None:
            return
        self.add([host])
        offset_s = heard.status.clock_offset_s or 0.0
        self.outcomes[host] = standing(self.doctors[host], snapshot, run)
        self.seen[host] = Seen(host, snapshot, offset_s)
        self._stream.take(host, [snapshot], offset_s)

    def join(self, run: str | None, statuses: Sequence[HostStatus]) -> None:
        """Judge the runs over hosts by what has arrived so far."""
        from gputop.doctor.watch import standing
        from gputop.joined.launches import HOLD_S, waiting_launches
        from gputop.joined.machines import once_each
        from gputop.joined.rendezvous import waiting_rendezvous
        from gputop.joined.runs import shared_runs
        from gputop.joined.troubles import failed_apart
        from gputop.joined.untracked import untracked_runs
        from gputop.process import NODES_START_S

        self.add(status.host for status in statuses)
        seen = once_each(self._read(statuses))
        self.runs = shared_runs(seen)
        if self._untracked_since_s is None and untracked_runs(seen):
            self._untracked_since_s = time.monotonic()
        now = time.time()
        self._launch_pending = waiting_launches(seen, now) != waiting_launches(seen, now + HOLD_S) or len(
            waiting_rendezvous(seen, now)
        ) != len(waiting_rendezvous(seen, now + NODES_START_S))
        self.failed_apart = failed_apart(seen, now) if len(seen) < len(self.doctors) else ()
        if self.runs or any(one.snapshot.paths for one in seen):
            whole = self._stream.snapshot(self.runs, seen, time.time(), time.monotonic())
            found = standing(self.over, whole, run)
            reached = [self._reached(findings) for findings in (found.findings, found.suppressed)]
            self.over_outcome = replace(found, findings=reached[0], suppressed=reached[1])

    def _reached(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        from gputop.doctor.findings.reaching import reached

        hosts = {run.run.run_id: run.hosts for run in self.runs}
        return tuple(reached(finding, hosts.get(finding.run or "", ()), self._reach) for finding in findings)

    def name_hosts(self) -> None:
        """Let the commands in each host's findings reach that host from here."""
        from gputop.doctor.findings.reaching import from_afar

        hosts = [host for host in self.doctors if host in self.outcomes and host not in self.twice()]
        for host, outcome in self.outcomes.items():
            each = [
                tuple(from_afar(finding, host, hosts, self._reach) for finding in findings)
                for findings in (outcome.findings, outcome.suppressed)
            ]
            self.outcomes[host] = replace(outcome, findings=each[0], suppressed=each[1])

    def tell_once(self, rendezvous: Sequence[Rendezvous]) -> list[Finding]:
        """Take out what each host's doctor says about waiting launchers that ``rendezvous`` reports; return the findings among
        it.
        """
        reported: list[Finding] = []
        for host, outcome in self.outcomes.items():

            def is_reported(item: Finding | Undecided, host: str = host) -> bool:
                return any(one.tells_of(host, item.pids) for one in rendezvous)

            reported += filter(is_reported, outcome.findings)
            findings = tuple(item for item in outcome.findings if not is_reported(item))
            undecided = tuple(item for item in outcome.undecided if not is_reported(item))
            self.outcomes[host] = replace(outcome, findings=findings, undecided=undecided)
        return reported

    def _read(self, statuses: Sequence[HostStatus]) -> list[Seen]:
        """Return the newest reading of each host that was read."""
        from gputop.hosts.state import SHOWING_STATES

        current = {status.host: status.state in SHOWING_STATES for status in statuses}
        return [replace(self.seen[host], current=current[host]) for host in self.doctors if host in self.seen]

    def twice(self) -> dict[str, str]:
        """Return the hosts that are a machine which another name stands for, each with that name."""
        from gputop.joined.machines import named_twice

        return named_twice(self.seen[host] for host in self.doctors if host in self.seen)

    @property
    def unread(self) -> list[str]:
        """The hosts without a reading."""
        return [host for host in self.doctors if host not in self.seen]

    def launches(self, statuses: Sequence[HostStatus], run: str | None) -> tuple[JoinedLaunch, ...]:
        """Return the launches that wait for a host; only ``run`` if one is named."""
        from gputop.joined.launches import waiting_launches

        found = waiting_launches(self._read(statuses), time.time(), self.unread)
        return tuple(launch for launch in found if run in (None, launch.id, launch.name))

    def rendezvous(self, statuses: Sequence[HostStatus], run: str | None) -> tuple[Rendezvous, ...]:
        """Return the torchruns that wait for other nodes; only those of the script ``run`` if one is named."""
        from gputop.joined.machines import once_each
        from gputop.joined.rendezvous import waiting_rendezvous

        found = waiting_rendezvous(once_each(self._read(statuses)), time.time())
        return tuple(one for one in found if run in (None, one.name))

    def untracked(self, statuses: Sequence[HostStatus]) -> tuple[JoinedProcessRun, ...]:
        """Return the untracked runs over hosts, judging by what has arrived."""
        from gputop.joined.machines import once_each
        from gputop.joined.untracked import untracked_runs

        return untracked_runs(once_each(self._read(statuses)))

    def troubles(self) -> list[tuple[JoinedRun, tuple[str, ...]]]:
        """Return the runs over hosts, and what is wrong between the hosts of each."""
        from gputop.joined.troubles import troubles

        return [(run, troubles(run, self.unread)) for run in (*self.runs, *self.failed_apart)]

    def settled(self, lost: int) -> bool:
        """Return whether waiting longer would change nothing on the hosts that are read and in the runs over them."""
        from gputop.doctor.watch import settled

        if len(self.outcomes) + lost < len(self.doctors) or self._launch_pending:
            return False
        each = all(settled(self.doctors[host], outcome) for host, outcome in self.outcomes.items())
        if self.over_outcome is None:
            since_s = self._untracked_since_s
            return each and (since_s is None or time.monotonic() - since_s >= NETWORK_S)
        return each and self.over.observed_s >= OVER_S


OVER_S = 100.0
"""How long to watch runs over hosts: a hang shows only after a minute without a step."""
NETWORK_S = 15.0
"""How long to wait for the network traffic of an untracked run's hosts: they read it every 5 s, if their kernels report it."""
JOINED_EVERY_S = 1.0
LOST_AFTER_S = 5.0
"""How long to wait for a host that cannot be reached: its sshd may refuse only the first connection."""


def diagnose(options: argparse.Namespace, fleet: Fleet, reach_all: str, reach: Reach) -> int:
    """Watch until nothing is undecided on any host, then report on each host and on the runs over them.

    ``reach_all`` are the options that name and reach all hosts, for the commands that it prints; ``reach`` returns those for
    some of them.

    Raises:
        UsageError: an option applies only to this machine.
    """
    from gputop.doctor.findings.finding import is_problem
    from gputop.doctor.watch import LONGEST_S
    from gputop.units import parse_duration

    if options.replay or options.before or options.watch or options.log or options.rules is not None:
        raise UsageError("-H reads other machines live.", "Leave out --replay, --before, --watch, --log and --rules.")
    longest_s = parse_duration(options.seconds) if options.seconds is not None else LONGEST_S
    watched = _Watched([stream.status.host for stream in fleet.streams], reach)
    with contextlib.closing(fleet):
        fleet.start()
        began = joined_at = time.monotonic()
        while (now := time.monotonic()) - began < longest_s:
            heard = fleet.take(0.5)
            if heard is not None:
                watched.take(heard, options.run)
            if now - joined_at >= JOINED_EVERY_S:
                joined_at = now
                watched.join(options.run, [stream.status for stream in fleet.streams])
                lost = sum(stream.status.last_heard_at is None and stream.failures > 0 for stream in fleet.streams)
                if watched.settled(lost if now - began > LOST_AFTER_S else 0):
                    break
        statuses = [stream.status for stream in fleet.streams]
    watched.add(status.host for status in statuses)
    launches = watched.launches(statuses, options.run)
    rendezvous = watched.rendezvous(statuses, options.run)
    watched.name_hosts()
    reported = watched.tell_once(rendezvous)
    _print(options, watched, statuses, launches, rendezvous, reported, reach_all)
    outcomes = [*watched.outcomes.values(), *([watched.over_outcome] if watched.over_outcome is not None else [])]
    own_wait = any(one.user is None for one in rendezvous)
    wrong = any(text for _, texts in watched.troubles() for text in texts) or any(
        outcome.undecided or any(map(is_problem, outcome.findings)) for outcome in outcomes
    )
    return EXIT_PROBLEM if wrong or launches or own_wait or len(watched.outcomes) < len(statuses) else EXIT_OK


def _print(
    options: argparse.Namespace,
    watched: _Watched,
    statuses: Sequence[HostStatus],
    launches: Sequence[JoinedLaunch],
    rendezvous: Sequence[Rendezvous],
    reported: Sequence[Finding],
    reach: str,
) -> None:
    from gputop.cli.across.doctor_texts import launch_text, run_text, untracked_text, waiting_text
    from gputop.doctor.findings.finding import findings_json
    from gputop.doctor.findings.subjects import add_process_runs
    from gputop.doctor.report import text_report
    from gputop.joined.machines import same_machine

    over, untracked = watched.over_outcome, watched.untracked(statuses)
    if options.as_json:
        data = {
            host: None
            if (outcome := watched.outcomes.get(host)) is None
            else findings_json(outcome.findings, outcome.suppressed, watched.doctors[host].abstained, outcome.undecided)
            for host in (status.host for status in statuses)
        }
        for host, rows in data.items():
            if rows is not None:
                add_process_runs(rows["findings"], watched.outcomes[host].findings, watched.outcomes[host].snapshot)
                add_process_runs(rows["suppressed"], watched.outcomes[host].suppressed, watched.outcomes[host].snapshot)
        joined = None if over is None else findings_json(over.findings, over.suppressed, watched.over.abstained, over.undecided)
        over_hosts: dict[str, object] = {"runs_over_hosts": joined, "incomplete_runs": _incomplete(watched)}
        over_hosts["incomplete_launches"] = [launch.as_data() for launch in launches]
        over_hosts["waiting_for_nodes"] = [one.as_data() for one in rendezvous]
        over_hosts["untracked_runs"] = [run.as_data() for run in untracked]
        print(json.dumps({"hosts": data, "same_machine_as": watched.twice(), **over_hosts}))
        return
    blocks, twice = [], watched.twice()
    for status in statuses:
        host, outcome = status.host, watched.outcomes.get(status.host)
        if outcome is None:
            blocks.append(status.sentence)
            continue
        if host in twice:
            blocks.append(f"{host}: {same_machine(twice[host])}.")
            continue
        abstained = watched.doctors[host].abstained
        report = text_report(outcome.findings, abstained, outcome.snapshot, outcome.suppressed, outcome.undecided)
        blocks.append(f"{host}:\n\n{report}")
    for run, texts in watched.troubles():
        blocks.append(run_text(run, texts, over, list(watched.seen)))
    blocks += [untracked_text(run, over) for run in untracked]
    blocks += [launch_text(launch, watched.unread, reach) for launch in launches]
    blocks += [waiting_text(one, reported, watched.unread) for one in rendezvous]
    print("\n\n".join("\n".join(map(printable, block.split("\n"))) for block in blocks))


def _incomplete(watched: _Watched) -> list[dict[str, object]]:
    """Return the runs over hosts with ranks that are missing, failed or out of reach, as JSON."""
    return [
        {
            "run_id": run.run.run_id,
            "name": run.run.name,
            "world_size": run.run.world_size,
            "missing_ranks": list(run.missing),
            "failed_ranks": {host: list(ranks) for host, ranks in run.failed},
            "lost_hosts": list(run.silent),
            "unread_hosts": watched.unread,
        }
        for run, texts in watched.troubles()
        if texts
    ]
