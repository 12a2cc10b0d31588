"""The curves of untracked runs: follows each with a ``FollowedRun``, and returns their values as runs and points.

If several runs may have written a file, it is shown as a separate curve that belongs to none of them.
Nothing is read while there is no such run.
"""

from __future__ import annotations

import time
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from gputop.process import OUTPUT, ProcessCurve, ProcessRun
from gputop.snapshot import LogMatch, Points, Rank, Run
from gputop.sources.host import procfs
from gputop.untracked.ended import Ended, EndedOutput, EndedRuns, SharedOutput, as_ended
from gputop.untracked.followed import FollowedRun
from gputop.untracked.kinds import ORDER
from gputop.untracked.run_curves import Curve, Key

FIRST_WAIT_S = 0.3
"""How long the first poll that sees a run waits for its curve, so that the first picture has most of them."""
ONLY_WAIT_S = 3.0
"""The same for a command that polls once, such as ``gputop runs``: on a busy machine, the first search takes longer."""
RECENT_S = 600.0
"""How long the output of an ended run is explained, as for jobs (``jobs/output/matches.py``)."""
ENDED_MAX = 8
"""Number of recently ended runs whose explanations are kept; those without an error text do not count."""
OVER_S = 60.0
"""A curve without a value for this long, while a later curve has some, belongs to an earlier training in the process."""
RUNS_MAX = 8
"""Maximum number of runs that are followed, the largest first; threads that hang in a file system count."""


class Curves(NamedTuple):
    """The untracked runs with their curves, and those curves as runs and points."""

    process_runs: tuple[ProcessRun, ...]
    runs: tuple[Run, ...]
    points: tuple[Points, ...]
    logs: tuple[LogMatch, ...] = ()
    """The error texts in the output of the runs, including those that ended recently."""
    ended_runs: tuple[ProcessRun, ...] = ()
    """The runs that have ended since the first poll, the newest first; their curves are in ``runs``, too."""


class UntrackedCurves:
    """Follows the runs of each poll, and forgets those that have ended."""

    def __init__(self, *, explained: bool = True, first_wait_s: float = FIRST_WAIT_S) -> None:
        """Nothing is read before ``poll``.

        Args:
            explained: whether to search the output for error texts, too.
            first_wait_s: how long the first poll that sees a run waits for its curve.
        """
        self._explained, self._first_wait_s = explained, first_wait_s
        self._followed: dict[str, FollowedRun] = {}
        self._stuck: list[FollowedRun] = []
        self._ended: dict[str, tuple[FollowedRun, float]] = {}
        self._shared_output: set[str] = set()
        self._shared = SharedOutput()
        self._ids: dict[tuple[str, int, float | None], str | None] = {}
        self._over = EndedRuns()

    def poll(
        self, found: Sequence[ProcessRun], tracked: Collection[int] = (), lost: Callable[[Exception], object] | None = None
    ) -> Curves:
        """Return the runs, their curves and the points since the last poll. No file's contents make it raise.

        Args:
            found: the untracked runs.
            tracked: processes of tracked runs.
            lost: is called with an unexpected error in reading one run; the others are still read.
        """
        known = self._follow(found, tracked)
        until = time.monotonic() + self._first_wait_s
        for run in found:
            if run.key in known:
                known[run.key].ask(run, tracked)
        for followed in known.values():
            if followed.is_new:
                followed.wait(max(0.0, until - time.monotonic()))
            failure, followed.failure = followed.failure, None
            if failure is not None and lost is not None:
                lost(failure)
        claims = Counter(name for followed in known.values() for name in _claims(followed))
        owned = frozenset[Path]().union(*(_owned(followed) for followed in known.values()))
        process_runs: list[ProcessRun] = []
        runs: dict[str, Run] = {}
        points: list[Points] = []
        for run in found:
            followed_run = known.get(run.key)
            if followed_run is None:
                process_runs.append(run)
                continue
            curves = _curves_of(followed_run, run, claims, owned, runs, points)
            run = followed_run.completed(run)
            process_runs.append(_with_curves(run, curves))
        self._over.see(process_runs, runs, known, tracked)
        logs = self._logs(claims)
        failed = {match.run_id for match in logs if match.job_state == "failed"}
        ended_runs = [_last_of(item, claims, owned, failed, runs, points) for item in self._over]
        return Curves(tuple(process_runs), tuple(runs.values()), tuple(points), logs, tuple(ended_runs))

    def _logs(self, claims: Counter[str | tuple[int, int]]) -> tuple[LogMatch, ...]:
        """Return the error texts of the runs; of those that share their output with another one, only if they have failed."""
        ended = {run_id: followed for run_id, (followed, _) in self._ended.items()}
        every = ended | self._followed
        self._shared_output &= every.keys()
        self._shared_output |= {
            run_id for run_id, item in self._followed.items() if any(claims[name] > 1 for name in item.printed_to)
        }
        own = (followed for run_id, followed in every.items() if run_id not in self._shared_output)
        over = [
            EndedOutput(run_id, followed.error_texts, not followed.lingers)
            for run_id, (followed, _) in self._ended.items()
            if run_id in self._shared_output
        ]
        shared = self._shared.texts(over, any_alive=not self._shared_output.isdisjoint(self._followed))
        return (*(match for followed in own for match in followed.error_texts), *shared)

    def _follow(self, found: Sequence[ProcessRun], tracked: Collection[int]) -> dict[str, FollowedRun]:
        """Return the follower of each run, by the run's key; start and end followers as needed."""
        before, self._followed = self._followed, {}
        self._stuck = [followed for followed in self._stuck if followed.is_stuck]
        known: dict[str, FollowedRun] = {}
        ids, self._ids = self._ids, {}
        for run in found:
            pid = run.launcher.pid if run.launcher is not None else run.ranks[0].pid
            key = run.key, pid, run.started_at
            run_id = self._ids[key] = ids.get(key) or _id_of(pid)
            if run_id is None or run_id in self._followed:
                continue
            if run_id not in before and len(self._followed) + len(self._stuck) >= RUNS_MAX:
                continue
            known[run.key] = self._followed[run_id] = before.get(run_id) or self._new(run_id)
        for run_id, followed in before.items():
            if run_id not in self._followed:
                is_tracked = not followed.pids.isdisjoint(tracked)
                followed.end(dropped=is_tracked)
                self._stuck.append(followed)
                if not is_tracked:
                    self._ended[run_id] = followed, time.monotonic()
        since = time.monotonic() - RECENT_S
        recent = [(run_id, item) for run_id, item in self._ended.items() if item[1] >= since and run_id not in self._followed]
        with_text = [run_id for run_id, (followed, _) in recent if followed.error_texts][-ENDED_MAX:]
        self._ended = {run_id: item for run_id, item in recent if run_id in with_text or item[0].lingers}
        return known

    def _new(self, run_id: str) -> FollowedRun:
        ended = self._ended.get(run_id)
        return FollowedRun(run_id, explained=self._explained, ends=ended[0].ends if ended is not None else None)


def _with_curves(run: ProcessRun, curves: Sequence[ProcessCurve]) -> ProcessRun:
    own = next((curve for curve in curves if not curve.shared), None)
    run_id, outputs = (own.run_id, own.files) if own is not None else (None, ())
    if (run.curves, run.run_id, run.outputs) == (tuple(curves), run_id, outputs):
        return run  # the same record is neither compared nor sent again
    return replace(run, curves=tuple(curves), run_id=run_id, outputs=outputs)


def _last_of(
    item: Ended,
    claims: Counter[str | tuple[int, int]],
    owned: frozenset[Path],
    failed: Collection[str | None],
    runs: dict[str, Run],
    points: list[Points],
) -> ProcessRun:
    """Return a run that has ended, and add its curves to ``runs`` and ``points``, with what was read after its end."""
    followed = item.followed
    if followed is not None:
        is_read = not followed.lingers
        last: dict[str, Run] = {}
        new: list[Points] = []
        known = item.run.curve_ids
        curves = [
            curve
            for curve in _curves_of(followed, item.run, claims, owned, last, new)
            if curve.run_id in known or not (known or curve.shared)
        ]
        if curves:
            item.run = _with_curves(item.run, curves)
            item.curves |= {curve.run_id: as_ended(last[curve.run_id], item.run.ended_at) for curve in curves}
            points += [each for each in new if each.run_id in item.curves and each.run_id not in runs]
        elif not known:
            item.run = replace(item.run, outputs=followed.curves.printed_files)
        if followed.run_id in failed:
            item.run = replace(item.run, failed=True)
        item.followed = None if is_read else followed
    for run_id, curve in item.curves.items():
        runs.setdefault(run_id, curve)
    return item.run


def _claims(followed: FollowedRun) -> set[str | tuple[int, int]]:
    """Return the names of the files that a run may have written, and of those that it prints to."""
    with followed.curves.lock:
        names: set[str | tuple[int, int]] = {curve.key.root for curve in followed.curves.by_key.values() if not curve.certain}
        return names.union(*(curve.identities for curve in followed.curves.by_key.values()))


def _owned(followed: FollowedRun) -> set[Path]:
    """Return the files that a run is known to write."""
    with followed.curves.lock:
        sure = [curve for curve in followed.curves.by_key.values() if curve.certain]
        return {path for curve in sure for paths in curve.files.values() for path in paths}


def _curves_of(
    followed: FollowedRun,
    run: ProcessRun,
    claims: Counter[str | tuple[int, int]],
    owned: frozenset[Path],
    runs: dict[str, Run],
    points: list[Points],
) -> list[ProcessCurve]:
    """Return a run's curves, the best first, and add them to ``runs`` and ``points``; leave out those without a value."""

    def is_shared(curve: Curve) -> bool:
        return not curve.certain and (curve.contested or claims[curve.key.root] > 1)

    found = []
    with followed.curves.lock:
        over = _curves_that_are_over([curve for curve in followed.curves.by_key.values() if not is_shared(curve)])
        in_order = sorted(
            followed.curves.by_key.values(),
            key=lambda curve: (is_shared(curve), ORDER.index(curve.key.label), curve.key in over, curve.key.root),
        )
        for curve in in_order:
            if not any(collected.metrics for collected in curve.ranks.values()):
                continue
            if not curve.certain and any(path in owned for paths in curve.files.values() for path in paths):
                continue  # another run is known to write it
            if any(claims[identity] > 1 for identity in curve.identities):
                continue  # two runs print to one file: which run wrote a line is unknown
            shared = is_shared(curve)
            run_id = _curve_id(followed.run_id, curve, shared)
            files = tuple(str(path) for number in sorted(curve.files) for path in curve.files[number])
            found.append(ProcessCurve(run_id, curve.key.label, files, shared))
            fresh = [
                item for number, collected in sorted(curve.ranks.items()) for item in collected.take_points(run_id, number)
            ]
            if run_id not in runs:
                runs[run_id] = _as_run(run, curve, run_id, shared)
                points += fresh
    return found


def _curves_that_are_over(curves: Sequence[Curve]) -> set[Key]:
    """Return the curves that a later one of the same kind followed: earlier trainings of a notebook or a sweep."""
    times: dict[Key, tuple[float, float]] = {}
    for curve in curves:
        known = [rank for rank in curve.ranks.values() if rank.first_log_at is not None and rank.last_log_at is not None]
        if known:
            first, last = min(rank.first_log_at or 0.0 for rank in known), max(rank.last_log_at or 0.0 for rank in known)
            times[curve.key] = first, last
    return {
        key
        for key, (_, last) in times.items()
        if any(other.label == key.label and first > last and end > last + OVER_S for other, (first, end) in times.items())
    }


def _curve_id(run_id: str, curve: Curve, shared: bool) -> str:
    """Return an id that no other curve has until the next boot."""
    if curve.key.label == OUTPUT:
        return run_id
    mark = f"{zlib.crc32(' '.join(curve.key).encode('utf-8', 'replace')):08x}"
    return f"file-{mark}" if shared else f"{run_id}-{mark}"


def _id_of(pid: int) -> str | None:
    """Return an id that no other run has until the next boot; None if the process that represents the run is gone."""
    try:
        started = procfs.read_stat(pid)
    except OSError:
        return None
    return f"pid-{pid}-{started.start_ticks}" if started is not None else None


def _as_run(run: ProcessRun, curve: Curve, run_id: str, shared: bool) -> Run:
    members = {rank.rank if rank.rank is not None else place: rank for place, rank in enumerate(run.ranks)}
    # Often only rank 0 writes: the others are also ranks of the run, without known values.
    silent = () if shared else {rank.rank for rank in run.ranks if rank.rank is not None} - curve.ranks.keys()
    ranks = []
    for number, collected in sorted([*curve.ranks.items(), *((number, None) for number in silent)]):
        member = None if shared else members.get(number)
        known = Rank(
            rank=number,
            pid=member.pid if member is not None else None,
            local_rank=member.local_rank if member is not None else None,
            world_size=run.world_size,
            state="running",
            facts={"source": curve.key.label},
        )
        ranks.append(collected.rank(known) if collected is not None else known)
    return Run(
        run_id=run_id,
        name=run.name,
        state="running",
        created_at=run.started_at,
        world_size=None if shared else run.world_size,
        command=run.command or None,
        ranks=tuple(ranks),
    )
