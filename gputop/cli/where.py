"""``gputop where``: where every rank of a run is now, and which one the others wait for. Also over several machines."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gputop.cli.stored.shelf import Shelf
from gputop.errors import EXIT_OK, EXIT_PROBLEM, UsageError
from gputop.places import state_dir
from gputop.snapshot import LIVE_STATES, ProcessRun, Run, Snapshot, encode
from gputop.terminal_text import printable
from gputop.where import before_steps, py_spy
from gputop.where.asking import ask_run
from gputop.where.untracked import ask_process, ask_processes
from gputop.whereabouts.records import RankPlace, Whereabouts
from gputop.whereabouts.verdict import judged, summary
from gputop.whereabouts.words import folded, sentence, way_to_lines, who

if TYPE_CHECKING:
    from gputop.agent.sampler import Sampler
    from gputop.hosts.fleet import Fleet

_MARK = "> "
_STOPPED = ("T", "t")
"""The states of processes that a signal has stopped, or a debugger."""


def where(
    options: argparse.Namespace,
    make_sampler: Callable[[argparse.Namespace], Sampler],
    exit_with: Callable[[Sampler, int], int],
) -> int:
    """Print where every rank is; return 1 if ranks wait for another one, or for one another.

    ``make_sampler`` finds untracked runs; it is called only if no tracked run is live. ``exit_with`` closes the
    sampler's source and returns the exit code.

    Raises:
        UsageError: there is no such run or process, or py-spy is not installed.
    """
    if options.py_spy:
        py_spy.program()
    if options.run is not None:
        try:
            return _tell(_answer(options.run), options)
        except UsageError as error:
            ask = partial(_named_untracked, options.run, error)
            return _tell_untracked(ask, options, make_sampler, exit_with)
    live = live_runs(Shelf(backlog_points=None).poll().runs)
    newest = _before_steps(live[0] if live else None)
    if newest is not None:
        return _tell(newest, options)
    if live:
        return _tell(ask_run(live[0]), options)
    return _tell_untracked(_newest_untracked, options, make_sampler, exit_with)


def _tell_untracked(
    ask: Callable[[Snapshot], Whereabouts],
    options: argparse.Namespace,
    make_sampler: Callable[[argparse.Namespace], Sampler],
    exit_with: Callable[[Sampler, int], int],
) -> int:
    sampler = make_sampler(options)
    return exit_with(sampler, _tell(ask(sampler.take()), options))


def live_runs(runs: Sequence[Run]) -> list[Run]:
    """Return the live runs in their order, those with a rank on this machine first: only they can be asked here."""
    live = [run for run in runs if run.state in LIVE_STATES]
    here = [run for run in live if any(rank.local_pid is not None and rank.state in LIVE_STATES for rank in run.ranks)]
    return [*here, *(run for run in live if run not in here)]


def where_of_hosts(options: argparse.Namespace, fleet: Fleet) -> int:
    """Print where every rank of a run over ``fleet`` is; return 1 if ranks wait for one another or a host was not read.

    Raises:
        UsageError: the hosts have no such run, or py-spy is asked for.
    """
    from gputop.cli.across.where import ask_hosts

    if options.py_spy:
        raise UsageError("py-spy reads only processes of this machine.", "Leave out --py-spy, or run this there.")
    answer, hosts = ask_hosts(fleet, options.run)
    unread = [host for host in hosts if host.last_heard_at is None]
    if options.as_json:
        print(json.dumps({**encode(answer), "hosts": encode(hosts)}))
    else:
        print("\n".join(map(printable, lines(answer, by_host=True))))
        for host in unread:
            print(printable(host.sentence), file=sys.stderr)
    return EXIT_PROBLEM if answer.verdict is not None or unread else EXIT_OK


def _tell(answer: Whereabouts, options: argparse.Namespace) -> int:
    if options.py_spy:
        places = [py_spy.ask(place) if place.source is None and place.is_there else place for place in answer.ranks]
        answer = judged(answer.run_id, answer.name, answer.taken_at, places)
    print(json.dumps(encode(answer)) if options.as_json else "\n".join(map(printable, lines(answer))))
    return EXIT_PROBLEM if answer.verdict is not None else EXIT_OK


def _before_steps(run: Run | None) -> Whereabouts | None:
    """Return where the newest launch without a step is; None if there is none, or none newer than ``run``."""
    found = before_steps.find(state_dir())
    try:
        for waiting in found if run is None else before_steps.unrelated(found, run):
            if run is None or waiting.created_ns / 1e9 > (run.created_at or 0.0):
                return before_steps.ask_waiting(waiting)
        return None
    finally:
        for waiting in found:
            waiting.close()


def _newest_untracked(snapshot: Snapshot) -> Whereabouts:
    """Return where the newest untracked run is: one of this user if possible, and of these, one that is not stopped."""
    found = [run for run in snapshot.process_runs if run.ranks]
    if not found:
        raise UsageError("There is no live run.", "gputop where PID asks about any process.")
    processes = {process.pid: process for process in snapshot.processes}

    def preferred(run: ProcessRun) -> tuple[bool, bool, float]:
        ranks = [processes[rank.pid] for rank in run.ranks if rank.pid in processes]
        own = any(process.uid == os.getuid() for process in ranks)
        return own, any(process.state not in _STOPPED for process in ranks), run.started_at or 0.0

    return _ask_untracked(max(found, key=preferred))


def _named_untracked(name: str, unknown: UsageError, snapshot: Snapshot) -> Whereabouts:
    """Return where an untracked run is, by its name, its launcher or one of its ranks, else where a process is.

    Raises:
        UsageError: there is neither: ``unknown``, unless ``name`` is that of a process.
    """
    found = [run for run in snapshot.process_runs if name in (run.name, *_pids(run))]
    if found:
        return _ask_untracked(max(found, key=lambda run: run.started_at or 0.0))
    if not name.isdigit():
        raise unknown
    return ask_process(int(name))


def _pids(run: ProcessRun) -> Iterator[str]:
    if run.launcher is not None:
        yield str(run.launcher.pid)
    yield from (str(rank.pid) for rank in run.ranks)


def _ask_untracked(run: ProcessRun) -> Whereabouts:
    return ask_processes([rank.pid for rank in run.ranks], run.name)


def _answer(name: str) -> Whereabouts:
    """Return where a tracked run, or a launch without a step, is.

    Raises:
        UsageError: gputop tracks none of this name or process.
    """
    runs = Shelf(backlog_points=None)
    found = runs.poll().runs
    if name.isdigit() and not any(name in (run.run_id, run.name) for run in found):
        run = _run_of(int(name), found)
        if run is not None:
            return ask_run(run)
        launch = before_steps.ask_launch((int(name),))
        if launch is not None:
            return launch
    try:
        return ask_run(runs.find(name, found))
    except UsageError:
        answer = before_steps.ask_named(name)
        if answer is None:
            raise
        return answer


def _run_of(pid: int, runs: tuple[Run, ...]) -> Run | None:
    return next((run for run in runs for rank in run.ranks if rank.local_pid == pid and rank.state in LIVE_STATES), None)


def lines(answer: Whereabouts, *, by_host: bool = False) -> list[str]:
    """Return the answer as text: the verdict, then one line for the ranks at each place; ``by_host`` names their hosts."""
    head = f"{answer.name}  {answer.run_id}" if answer.run_id is not None else answer.name
    known = summary(answer)
    found = [f"{head}: {known}." if known is not None else head]
    for places in folded(answer.ranks):
        behind = any(place.rank in answer.behind for place in places)
        them = _who_where(places) if by_host else who(places)
        found.append(f"{_MARK if behind else '  '}{them}: {sentence(places, max(answer.taken_at, time.time()))}")
        if behind:
            pids = [str(place.pid) for place in places if place.pid is not None]
            one = len(places) == 1
            whose = "its stack" if one else f"the stack of {who(places[:1])}"
            found.append(f"    process{'' if one else 'es'} {', '.join(pids)}; {whose}: {' < '.join(places[0].stack) or 'N/A'}")
    command = None if by_host else way_to_lines(answer.ranks)
    return [*found, f"{command}  # reads the lines with ptrace, if py-spy is installed"] if command is not None else found


def _who_where(places: Sequence[RankPlace]) -> str:
    """Return "ranks 0-3 on a; ranks 4-7 on b"."""
    hosts: dict[str, list[RankPlace]] = {}
    for place in places:
        hosts.setdefault(place.hostname or "N/A", []).append(place)
    return "; ".join(f"{who(there)} on {host}" for host, there in hosts.items())
