"""What the main threads of an untracked run do, by their stacks: prepare data (D01), write, evaluate, or pause otherwise (E07).

Between batches, a main thread is seen to compute, or to do something else for which the GPU waits. On a GPU, kernels run on
after the calls that queue them, so its utilization counts, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gputop.doctor.evidence import windows
from gputop.doctor.evidence.doings import COMPUTES, Seen, lasting
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.pace.beside import (
    EVALUATION_MAX_SHARE,
    EVALUATION_SHARE,
    LONG_SPANS_S,
    LOOKS_MIN,
    PAUSE_SHARE,
    SPANS,
    TIMES_LONG_MIN,
    Pause,
    busy_beside,
    name_of,
    pause_of,
    repeated,
    seen_of_all,
    seen_to_save,
)
from gputop.doctor.rules.pace.between_phases import PREPARE_IN_WORKERS
from gputop.doctor.rules.pace.other_work import (
    EVALUATE_LESS,
    PAUSE_SURE_SHARE,
    WORKERS_FIX,
    WORKS,
    Late,
    growth_of,
    late_by_stack,
    share_of_computing,
    waits_of_others,
)
from gputop.doctor.rules.pace.saves import SAVE_FIX
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.only_loss import only_loss
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.doctor.rules.support.shared import utilization
from gputop.whereabouts.records import Activity, Doing

DATA_SHARE = 0.4
"""Twice the share that a journal is asked for, because looks are few (our choice)."""
BUSY_PERCENT = 60.0
"""Busier GPUs do not wait for the main threads (our choice)."""
PRINTED_SHARE, PRINTED_SPAN_S, PRINTS_MIN = 0.8, 60.0, 4
"""A single main thread that is at data in this share of the looks may never be seen to compute. If it prints this many losses
in this time, it trains (our choice)."""
WRITTEN_SURE_BYTES = 2**29
"""Within a minute: a small model that is kept at its best writes less (our choice)."""
_PAUSES: tuple[tuple[Activity, float, float, float], ...] = (
    ("checkpoint", PAUSE_SHARE, PAUSE_SURE_SHARE, 1.0),
    ("evaluation", EVALUATION_SHARE, math.inf, EVALUATION_MAX_SHARE),
)
"""What pauses a loop, and its share of all looks: from which it is possible, from which likely, and up to which at all. An
evaluation is never likely: some protocols test longer than they train."""


def prepares_by_stack(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge D01 for an untracked run: the main threads of all ranks are mostly seen to prepare data, or to wait for it."""
    found = _prepares_again_and_again(evidence, group) or _prints_losses(evidence, group)
    if _data_share(found) < DATA_SHARE or not _gpus_wait(evidence, group):
        return None
    member, seen = min(found, key=lambda item: item[1].share("data"))
    assert member.process is not None
    at = seen.mostly_at("data")
    has_workers = member.process.workers is not None and member.process.workers.count > 0
    place = f", mostly at {at[0].place}" if at is not None else ""
    finding = tracked.about(
        group,
        "D01",
        "warning",
        "likely",
        f"The GPUs wait for data: the training {'waits for' if has_workers else 'prepares'} it in {seen.share('data'):.0%} of "
        "the time",
        [
            Fact(
                f"the main thread of {name_of(member)} {'waited for' if has_workers else 'prepared'} data in "
                f"{seen.share('data'):.0%} of {words.count(len(seen.looks), 'look')} at its stack{place}",
                round(seen.share("data"), 2),
                f"/proc/{member.process.pid}/mem",
            ),
            share_of_computing(member, seen),
            *utilization(evidence, tracked.used_devices(group)),
        ],
        "The workers do not prepare batches as fast as the training uses them."
        if has_workers
        else "The training process prepares each batch itself, and the GPU waits until it has.",
        f"{WORKERS_FIX if has_workers or at is None else PREPARE_IN_WORKERS}\n"
        f"gputop run -- {fixes.own_command(group)}  # shows how long each step waits, and for what",
        "What it does there does not prepare data. With gputop run, the share of phase/data in step_s is below 15%.",
    )
    return Suspicion(finding, 3.0)


def _prepares_again_and_again(evidence: Evidence, group: RankGroup) -> Sequence[tuple[Member, Seen]]:
    """Return the looks at the main threads if they are often at data, and at the computation in between."""
    if _data_share(seen_of_all(evidence, group)) < DATA_SHARE:
        return ()
    # If data takes nearly all the time, few looks are at the computation: then a longer span shows whether it goes on.
    spans = ((seen_of_all(evidence, group, span_s), times_min) for span_s, times_min in SPANS)
    return next((looks for looks, times_min in spans if _goes_on(looks, times_min)), ())


def _prints_losses(evidence: Evidence, group: RankGroup) -> Sequence[tuple[Member, Seen]]:
    """Return the looks at a single main thread that is nearly always at data, if it prints losses: it may never be seen to
    compute."""
    process, now = group.main_process, evidence.snapshot
    if process is None or now is None or len(group.members) != 1 or group.run is not None or not evidence.is_warm(group):
        return ()
    seen = evidence.doings.seen_at_all(process, PRINTED_SPAN_S)
    if len(seen.looks) < LOOKS_MIN or seen.share("data") < PRINTED_SHARE:
        return ()
    found = only_loss(evidence, group)
    if found is None:
        return ()
    times = evidence.series(logged.run_id(group), found[0].rank, found[1]).times
    printed = sum(at > now.time - PRINTED_SPAN_S for at in times)
    return ((group.members[0], seen),) if printed >= PRINTS_MIN else ()


def _data_share(found: Sequence[tuple[Member, Seen]]) -> float:
    """Return the smallest share of looks at which a main thread was at data; 0 without looks."""
    return min((seen.share("data") for _, seen in found), default=0.0)


def _goes_on(found: Sequence[tuple[Member, Seen]], times_min: int) -> bool:
    """Return whether all main threads train, and begin to prepare data, or to wait for it, at least this often."""
    return bool(found) and all(seen.trains and seen.times("data") >= times_min for _, seen in found)


def works_beside(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge D01 for an untracked run: main threads are mostly seen in a function that computes nothing, whatever it is for."""
    fact = busy_beside(evidence, group)
    if fact is None or not _gpus_wait(evidence, group) or pause_of(evidence, group) is not None:
        return None
    if late_by_stack(evidence, group) is not None:
        return None  # one rank does it, and the others wait for that rank: F01 or F05 name it
    if all(seen.pauses.last for _, seen in seen_of_all(evidence, group)) or growth_of(evidence, group) is not None:
        return None  # no step waits: E07 judges once enough pauses were seen; or E10 does
    finding = tracked.about(
        group,
        "D01",
        "warning",
        "possible",
        "The GPUs may wait for data: most of the time passes in a function that computes nothing",
        [fact, *utilization(evidence, tracked.used_devices(group))],
        "The training process may prepare its data itself between two steps, or do other work there.",
        f"{PREPARE_IN_WORKERS}\ngputop run -- {fixes.own_command(group)}  # shows how long each step waits, and for what",
        "The code there is meant to take this long, like an environment or a search.",
    )
    return Suspicion(finding, 3.0)


def mostly_computes(evidence: Evidence, group: RankGroup) -> bool:
    """Return whether the main threads of all ranks are seen to compute for most of the time; False if they are not seen."""
    found = seen_of_all(evidence, group)
    return bool(found) and all(seen.share(*COMPUTES) > 0.5 for _, seen in found)


def pauses_by_stack(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge E07 for an untracked run: a main thread is seen to write checkpoints, or to evaluate, again and again."""
    for span_s, times_min in SPANS:
        found = seen_of_all(evidence, group, span_s)
        for activity, share_min, share_sure, share_max in _PAUSES:
            for member, seen in found or (seen_to_save(evidence, group, span_s) if activity == "checkpoint" else ()):
                share, lengths = seen.share(activity), seen.lengths(activity)
                if share_min <= share <= share_max and seen.trains and repeated(lengths, times_min):
                    late = late_by_stack(evidence, group)
                    waited_for = late if late is not None and late.member is member else None
                    sure = share >= share_sure and (activity != "checkpoint" or _is_no_trifle(evidence, member, seen))
                    return Suspicion(_pauses(group, member, seen, activity, sure, waited_for), 3.0)
    return None


def works_by_stack(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge E07: a main thread is seen at other work again and again, or, of an untracked run, in each step."""
    pause = pause_of(evidence, group)
    if pause is None or late_by_stack(evidence, group) is not None or growth_of(evidence, group) is not None:
        return None
    return Suspicion(_works(group, pause), 3.0)


def calls_by_stack(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge E07 for an untracked run: a main thread calls the model again and again for long, and trains elsewhere."""
    for span_s in LONG_SPANS_S:  # among few looks, chance makes as much
        for member, seen in seen_of_all(evidence, group, span_s):
            found = seen.called_alone()
            if found is None or not seen.trains or not repeated(found[1], TIMES_LONG_MIN):
                continue
            share = sum(found[1]) / len(seen.looks)
            if EVALUATION_SHARE <= share <= EVALUATION_MAX_SHARE and late_by_stack(evidence, group) is None:
                return Suspicion(_calls(group, member, seen, *found), 3.0)
    return None


def _is_no_trifle(evidence: Evidence, member: Member, seen: Seen) -> bool:
    """Return whether checkpoints take long, or are large: of a toy, the best model may be saved in each of its quick steps."""
    assert member.process is not None
    written = evidence.still.moved_bytes(member.process)[1]
    return lasting(seen.lengths("checkpoint"), len(seen.looks)) or written >= WRITTEN_SURE_BYTES


def _works(group: RankGroup, pause: Pause) -> Finding:
    member, seen, pauses, at = pause
    assert member.process is not None
    work = WORKS[at.activity]
    source = f"/proc/{member.process.pid}/mem"
    return tracked.about(
        group,
        "E07",
        "warning",
        "possible",
        f"{work.title} {pauses.share:.0%} of the time",
        [
            Fact(
                f"the main thread of {name_of(member)} {work.did} in {pauses.share:.0%} of "
                f"{words.count(len(seen.looks), 'look')} at its stack{f', mostly at {at.place}' if at.line else ''}",
                round(pauses.share, 2),
                source,
            ),
            Fact(f"it began at least {words.count(len(pauses.lengths), 'time')}", len(pauses.lengths), "as above"),
            share_of_computing(member, seen),
        ],
        "The loop waits for this work, and the GPU for the loop.",
        f"{work.fix}\ngputop run -- {fixes.own_command(group)}  # shows how long each step waits"
        if group.run is None
        else work.fix,
        "The code there is meant to take this long, like a search.",
        pids=(member.process.pid,),
    )


def _pauses(
    group: RankGroup, member: Member, seen: Seen, activity: Activity, is_sure: bool, waited_for: Late | None
) -> Finding:
    assert member.process is not None
    at, share = seen.mostly_at(activity), seen.share(activity)
    saves = activity == "checkpoint"
    place = f", mostly at {at[0].place}" if at is not None else ""
    return tracked.about(
        group,
        "E07",
        "warning",
        "likely" if is_sure else "possible",
        f"{'Checkpoints' if saves else 'Evaluations'} take {share:.0%} of the time"
        f"{f' of {name_of(member)}, and the others wait for it' if waited_for is not None else ''}",
        [
            Fact(
                f"the main thread of {name_of(member)} {'wrote checkpoints' if saves else 'evaluated'} in {share:.0%} of "
                f"{words.count(len(seen.looks), 'look')} at its stack{place}",
                round(share, 2),
                f"/proc/{member.process.pid}/mem",
            ),
            Fact(f"it began at least {words.count(seen.times(activity), 'time')}", seen.times(activity), "as above"),
            share_of_computing(member, seen),
            *(waits_of_others(waited_for) if waited_for is not None else ()),
        ],
        "The loop waits while each checkpoint is written, and only the newest of them will be used."
        if saves
        else "The loop waits while each evaluation runs.",
        SAVE_FIX if saves else EVALUATE_LESS,
        "The training is meant to pause that often.",
        pids=(member.process.pid,),
    )


def _calls(group: RankGroup, member: Member, seen: Seen, at: Doing, stays: Sequence[int]) -> Finding:
    assert member.process is not None
    share = sum(stays) / len(seen.looks)
    return tracked.about(
        group,
        "E07",
        "warning",
        "possible",
        f"Calls of the model between the steps take {share:.0%} of the time",
        [
            Fact(
                f"the main thread of {name_of(member)} called the model, without a backward pass, in {share:.0%} of "
                f"{words.count(len(seen.looks), 'look')} at its stack, mostly at {at.place}",
                round(share, 2),
                f"/proc/{member.process.pid}/mem",
            ),
            Fact(f"it began {words.count(len(stays), 'time')}", len(stays), "as above"),
        ],
        "The training stops while the model is called there, as for an evaluation.",
        EVALUATE_LESS,
        "What is computed there is meant to take this long, such as labels or samples for the next steps.",
        pids=(member.process.pid,),
    )


def _gpus_wait(evidence: Evidence, group: RankGroup) -> bool:
    if group.virtual:
        return True
    devices = tracked.used_devices(group)
    loads = [windows.mean_utilization(evidence, device.uuid) for device in devices]
    return bool(devices) and all(load is not None and load < BUSY_PERCENT for load in loads)
