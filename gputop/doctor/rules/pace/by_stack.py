"""What the main threads of an untracked run do, by their stacks: prepare data (D01), write or evaluate (E07).

Between batches, a main thread is seen to compute, or to do something else for which the GPU waits. On a GPU, kernels run on
after the calls that queue them, so its utilization counts, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from gputop.doctor.evidence import windows
from gputop.doctor.evidence.doings import COMPUTES, Seen
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.pace.between_phases import PREPARE_IN_WORKERS
from gputop.doctor.rules.pace.saves import SAVE_FIX
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.doctor.rules.support.shared import utilization
from gputop.whereabouts.records import Activity

SPAN_S = 40.0
LOOKS_MIN = 20
"""With so few looks, a share of 0.4 is known to within 0.22 (two standard deviations of a binomial share)."""
DATA_SHARE = 0.4
"""Twice the share that a journal is asked for, because looks are few (our choice)."""
TIMES_MIN = 4
"""It must begin so often: a data set that is prepared once, before training, is none of this."""
PAUSE_SHARE, PAUSE_SURE_SHARE = 0.25, 0.4
"""Share of the time that checkpoints take: possible, likely. As by the times of ``torch.save``."""
EVALUATION_SHARE = 0.5
EVALUATION_MAX_SHARE = 0.8
"""With more, evaluation is the work itself (our choice, as by the journal)."""
BESIDE_SHARE = 0.5
"""Share of the time in one function that computes nothing, from which this function explains a slow step (our choice)."""
BUSY_PERCENT = 60.0
"""Busier GPUs do not wait for the main threads (our choice)."""
ENVIRONMENT_SHARE = 0.1
_PAUSES: tuple[tuple[Activity, float, float, float], ...] = (
    ("checkpoint", PAUSE_SHARE, PAUSE_SURE_SHARE, 1.0),
    ("evaluation", EVALUATION_SHARE, EVALUATION_SHARE, EVALUATION_MAX_SHARE),
)
"""What pauses a loop, and its share of all looks: from which it is possible, from which likely, and up to which at all."""
_POLICIES = ("reward", "return", "episod")
_EVALUATE_LESS = (
    "if step % 1000 == 0: evaluate(...)  # less often, or on a part of the validation set\n"
    "with torch.inference_mode(): ...  # and with a larger batch: no gradients are kept"
)
_WORKERS = "DataLoader(..., num_workers=4, pin_memory=True, persistent_workers=True)  # workers prepare batches meanwhile"


def prepares_by_stack(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge D01 for an untracked run: the main threads of all ranks are mostly seen to prepare data, or to wait for it."""
    found = _seen_of_all(evidence, group)
    if not found or min(seen.share("data") for _, seen in found) < DATA_SHARE or not _gpus_wait(evidence, group):
        return None
    if any(not seen.trains or seen.times("data") < TIMES_MIN for _, seen in found):
        return None
    member, seen = min(found, key=lambda item: item[1].share("data"))
    assert member.process is not None
    at = seen.mostly_at("data")
    has_workers = member.process.workers is not None and member.process.workers.count > 0
    place = f", mostly at {at[0].line}{f' in {at[0].function}' if at[0].function else ''}" if at is not None else ""
    finding = tracked.about(
        group,
        "D01",
        "warning",
        "likely",
        f"The GPUs wait for data: the training {'waits for' if has_workers else 'prepares'} it in {seen.share('data'):.0%} of "
        "the time",
        [
            Fact(
                f"the main thread of {_name(member)} {'waited for' if has_workers else 'prepared'} data in "
                f"{seen.share('data'):.0%} of {words.count(len(seen.looks), 'look')} at its stack{place}",
                round(seen.share("data"), 2),
                f"/proc/{member.process.pid}/mem",
            ),
            _share_of_computing(member, seen),
            *utilization(evidence, tracked.used_devices(group)),
        ],
        "The workers do not prepare batches as fast as the training uses them."
        if has_workers
        else "The training process prepares each batch itself, and the GPU waits until it has.",
        f"{_WORKERS if has_workers or at is None else PREPARE_IN_WORKERS}\n"
        f"gputop run -- {fixes.own_command(group)}  # shows how long each step waits, and for what",
        "What it does there does not prepare data. With gputop run, the share of phase/data in step_s is below 15%.",
    )
    return Suspicion(finding, 3.0)


def works_beside(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge D01 for an untracked run: main threads are mostly seen in a function that computes nothing, whatever it is for."""
    fact = busy_beside(evidence, group)
    if fact is None or not _gpus_wait(evidence, group):
        return None
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
    found = _seen_of_all(evidence, group)
    return bool(found) and all(seen.share(*COMPUTES) > 0.5 for _, seen in found)


def busy_beside(evidence: Evidence, group: RankGroup) -> Fact | None:
    """Return in which function main threads are seen most of the time while they compute nothing; None if in none.

    A step that grows on purpose, with thawed layers or longer sequences, grows where it computes.
    """
    found = _seen_of_all(evidence, group)
    for member, seen in found:
        beside = seen.mostly_beside()
        if beside is not None and beside[1] >= BESIDE_SHARE and seen.trains and member.process is not None:
            at, share = beside
            text = f"the main thread of {_name(member)} is in {at.function} in {share:.0%} of "
            text += f"{words.count(len(seen.looks), 'look')} at its stack, mostly at {at.line}"
            return Fact(text, round(share, 2), f"/proc/{member.process.pid}/mem")
    return None


def pauses_by_stack(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge E07 for an untracked run: a main thread is seen to write checkpoints, or to evaluate, again and again."""
    found = _seen_of_all(evidence, group)
    for activity, share_min, share_sure, share_max in _PAUSES:
        for member, seen in found:
            share = seen.share(activity)
            if share_min <= share <= share_max and seen.trains and seen.times(activity) >= TIMES_MIN:
                return Suspicion(_pauses(group, member, seen, activity, share >= share_sure), 3.0)
    return None


def _pauses(group: RankGroup, member: Member, seen: Seen, activity: Activity, is_sure: bool) -> Finding:
    assert member.process is not None
    at, share = seen.mostly_at(activity), seen.share(activity)
    saves = activity == "checkpoint"
    place = f", mostly at {at[0].line}" if at is not None else ""
    return tracked.about(
        group,
        "E07",
        "warning",
        "likely" if is_sure else "possible",
        f"{'Checkpoints' if saves else 'Evaluations'} take {share:.0%} of the time",
        [
            Fact(
                f"the main thread of {_name(member)} {'wrote checkpoints' if saves else 'evaluated'} in {share:.0%} of "
                f"{words.count(len(seen.looks), 'look')} at its stack{place}",
                round(share, 2),
                f"/proc/{member.process.pid}/mem",
            ),
            Fact(f"it began at least {words.count(seen.times(activity), 'time')}", seen.times(activity), "as above"),
            _share_of_computing(member, seen),
        ],
        "The loop waits while each checkpoint is written, and only the newest of them will be used."
        if saves
        else "The loop waits while each evaluation runs.",
        SAVE_FIX if saves else _EVALUATE_LESS,
        "The training is meant to pause that often.",
        pids=(member.process.pid,),
    )


def _seen_of_all(evidence: Evidence, group: RankGroup) -> Sequence[tuple[Member, Seen]]:
    """Return the looks at the main threads of all ranks of an untracked run; nothing unless there are enough of each.

    Where an environment takes part of the time, its data comes from there.
    """
    if group.run is not None or not group.members or not evidence.is_warm(group):
        return ()
    if any(word in name.lower() for rank in logged.ranks_of(group) for name in rank.metrics for word in _POLICIES):
        return ()
    found = [(member, evidence.doings.seen(member.process, SPAN_S)) for member in group.members if member.process is not None]
    if len(found) < len(group.members) or any(len(seen.looks) < LOOKS_MIN for _, seen in found):
        return ()
    return () if any(seen.share("environment") >= ENVIRONMENT_SHARE for _, seen in found) else found


def _gpus_wait(evidence: Evidence, group: RankGroup) -> bool:
    if group.virtual:
        return True
    devices = tracked.used_devices(group)
    loads = [windows.mean_utilization(evidence, device.uuid) for device in devices]
    return bool(devices) and all(load is not None and load < BUSY_PERCENT for load in loads)


def _share_of_computing(member: Member, seen: Seen) -> Fact:
    share = seen.share("forward", "backward", "optimizer")
    assert member.process is not None
    return Fact(f"it computed in {share:.0%} of them", round(share, 2), f"/proc/{member.process.pid}/mem")


def _name(member: Member) -> str:
    assert member.process is not None
    return f"rank {member.rank}" if member.rank is not None else f"process {member.process.pid}"
