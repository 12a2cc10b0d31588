"""An untracked rank that does something other than wait while the others wait, as ``gputop where`` finds it (G01)."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.doctor.evidence.evidence import PROGRESS_S, Evidence
from gputop.doctor.evidence.group_past import has_run_backward, uses_no_processor
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.evidence.stillness import RUNS
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.standstill import at_rest
from gputop.doctor.rules.standstill.progress import STOOD_MIN_S, Standing, standing
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.doctor.rules.support.shared import seen_at
from gputop.snapshot import Process
from gputop.whereabouts.records import RankPlace
from gputop.whereabouts.verdict import Perhaps, perhaps_behind
from gputop.whereabouts.words import agree, who
from gputop.whereabouts.words import wait as waits

_SERVED = ("child", "socket", "pipe", "file", "file lock")
"""Waits for something outside the process. Events count as well, unless its loader workers make them."""


def one_named(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge G01 for untracked ranks: all others wait for another thread, and one does something else or entered nothing.

    It may evaluate or save for all. So it is no more than possible, unless no step has ended for long and it does nothing.
    """
    found = _behind(evidence, group)
    if found is None:
        return None
    processes = {m.process.pid: m.process for m in group.members if m.process is not None}
    if len(processes) < len(group.members) or not all(map(at_rest.has_met_others, processes.values())):
        return None
    late = [processes[place.pid] for place in found.late if place.pid in processes]
    ahead = [processes[place.pid] for place in found.ahead if place.pid in processes]
    if not all(uses_no_processor(process) and at_rest.is_locked(evidence, process) for process in ahead):
        return None
    stands, run = standing(evidence, group), logged.run_id(group)
    if stands is None and run is not None and evidence.has_moved(run, PROGRESS_S):
        return None
    if stands is None and not all(_may_train(group, process) for process in processes.values()):
        return None
    rests = all(_rests(evidence, process) for process in late)
    fed = at_rest.may_be_fed(evidence, group)
    sure = stands is not None and rests and not fed and stands.stood_s >= at_rest.SURE_AFTER_S
    finding = tracked.about(
        group,
        "G01",
        "error" if sure else "warning",
        "likely" if sure else "possible",
        f"The training {'hangs' if sure else 'may hang'}: {who(found.ahead)} {waits(found.ahead)} for {_them(found.late)}",
        [*_facts(found, stands), *seen_at(evidence, [*late[:3], *ahead[:1]], STOOD_MIN_S)],
        f"A collective operation ends once every rank has called it, and {_them(found.late)} "
        f"{agree(found.late, 'has', 'have')} not: it took another path through the code, its data ended, or it waits for "
        "something itself. Or it evaluates or saves for all, and the others wait in a barrier.",
        f"py-spy dump --pid {late[0].pid}  # where is it?\n# every rank must call the same collective operations",
        "Steps continue once it is done, or the ranks wait for requests, like a server.",
        pids=[process.pid for process in (*late, *ahead)],
    )
    return Suspicion(finding, _hold_s(evidence, group, stands, late, rests=rests, fed=fed))


def _behind(evidence: Evidence, group: RankGroup) -> Perhaps | None:
    """Return for which ranks of an untracked run the others may wait; None if nothing shows it, or for a tracked run."""
    if group.run is not None or evidence.snapshot is None:
        return None
    known: dict[int, RankPlace] | None = evidence.memo.get("untracked places")
    if known is None:
        ranks = (rank for run in evidence.snapshot.process_runs for rank in run.ranks)
        known = {rank.pid: rank.place for rank in ranks if rank.place is not None and rank.place.at is None}
        evidence.memo["untracked places"] = known
    places = [known[pid] for pid in group.pids if pid in known]
    return perhaps_behind(places) if len(places) >= max(2, len(group.members)) else None


def _hold_s(
    evidence: Evidence, group: RankGroup, stands: Standing | None, late: Sequence[Process], *, rests: bool, fed: bool
) -> float:
    """Return for how long this must hold: the less speaks against a pause of the training, the longer."""
    if fed or (stands is None and not rests):
        return at_rest.FED_HOLD_S
    if stands is not None:
        asleep = all(at_rest.is_asleep(evidence, process) for process in late)
        return at_rest.BESIDE_HOLD_S if asleep else at_rest.STANDS_HOLD_S if rests else at_rest.WORKS_HOLD_S
    worked = all(at_rest.has_worked(evidence, group, m.process) for m in group.members if m.process is not None)
    hold_s = at_rest.LOCK_HOLD_S if worked else at_rest.REST_HOLD_S
    return max(hold_s, at_rest.LONGER_THAN_BEFORE * evidence.past.longest_rest_s(group))


def _may_train(group: RankGroup, process: Process) -> bool:
    """Return whether a rank may train: on a GPU it has run backward, which a server never does."""
    return has_run_backward(process) or group.virtual or not process.devices


def _rests(evidence: Evidence, process: Process) -> bool:
    """Return whether neither a rank nor its loader workers do anything, and nothing outside is waited for."""
    workers = process.workers
    if not uses_no_processor(process) or not at_rest.is_still(evidence, process) or (workers is not None and workers.blocked):
        return False
    samples = evidence.still.samples(process, STOOD_MIN_S, at_rest.SAMPLES_MIN)
    # On a crowded machine, a rank that computes may get less of a core than one that rests.
    works = sum(samples[word] for word in (RUNS, *_SERVED)) + (samples["events"] if workers is None else 0)
    return samples.total() >= at_rest.SAMPLES_MIN and works < at_rest.SERVED_SHARE * samples.total()


def _them(late: Sequence[RankPlace]) -> str:
    return f"{'' if len(late) == 1 else 'one of '}{who(late)}"


def _facts(found: Perhaps, stands: Standing | None) -> list[Fact]:
    first = [stands.fact] if stands is not None else []
    pids = [place.pid for place in found.late]
    return [
        *first,
        Fact(f"{_them(found.late)} {found.does}", pids, "/proc/<pid>, sock_diag"),
        Fact(
            f"{who(found.ahead)} {waits(found.ahead)} for another thread and {agree(found.ahead, 'uses', 'use')} no CPU",
            [place.pid for place in found.ahead],
            "/proc/<pid>/syscall",
        ),
    ]
