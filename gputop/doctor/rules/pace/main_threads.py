"""What the main threads of ranks wait for, sampled from outside: data (D01), or one rank (F01, F05).

A rank's main thread runs while it computes or launches kernels. It waits for a lock while another thread works for it: a
collective operation, the backward pass. In all other waits, the training itself stands still.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from gputop.doctor.evidence import windows
from gputop.doctor.evidence.doings import COMPUTES
from gputop.doctor.evidence.evidence import PROGRESS_S, Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.evidence.stillness import RUNS
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.pace.beside import seen_of_all
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.policies import learns_policy
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.doctor.rules.support.shared import seen_at, utilization
from gputop.snapshot import Process

SAMPLES_MIN = 15
MOVES_EVERY_S = 5.0
"""A step must have ended within this time, or twice the longest time between two: ranks that wait for none may hang."""
SPAN_S = 30.0
"""How far back samples count. Imports at the start of a run are not among them."""
WAITS_SHARE = 0.5
"""A thread that waits in half of all samples waits for half of the time."""
LITTLE_SHARE = 0.15
LATE_SHARE = 0.35
"""The rank that the others wait for must itself be seen waiting this often more than they are (our choice)."""
LOCK_SHARE = 0.35
SERVES_SHARE = 0.85
"""A rank that waits more often has little to do by design, such as a parameter server (our choice)."""
RUNS_SHARE = 0.8
IN_MODEL_SHARE = 0.7
"""Ranks that only differ in the size of their batches are seen in the model most of the time (our choice)."""
LONGER_SHARE = 0.2
"""One rank is seen in forward in this much more of its looks; with twenty looks, less is chance (our choice)."""
SPIN_PERCENT = 90.0
"""NCCL's kernels poll, so the GPU of a rank that waits for another one is fully used."""
BUSY_PERCENT = 60.0
"""Busier GPUs do not wait for the main threads (our choice)."""
HOLD_S = 5.0
SLEEPS_PERCENT = 50.0
"""A process that uses less of a core than this has no other thread that works for its main thread (our choice)."""
LOCK = "lock"
_ALONE = ("sleep", "file", "socket")
_WITH_WORKERS = ("events", "pipe")
"""A DataLoader's workers answer through a pipe. Without workers, other processes do: environments, actors, a server."""
_OTHERS = (
    "The training loop waits for others that prepare its batches: a pool of processes, or a thread that reads them. They are "
    "slower than the training."
)
_CAUSES = {
    "sleep": "The training loop sleeps: its data set waits for something to arrive, tries again after an error, or is limited "
    "to a rate.",
    "file": "The training process reads or writes files itself, and the GPU waits until it has.",
    "socket": "The training process waits for another machine or service, such as a storage server, in each step.",
    LOCK: _OTHERS,
}
_WORKERS = "The loader's workers do not prepare batches as fast as the training uses them."
_TEXTS = {
    "sleep": "slept",
    "file": "waited for a file",
    "socket": "waited for a socket",
    "events": "waited for its workers",
    "pipe": "waited for its workers",
    LOCK: "waited for another thread or process",
}


class Waits(NamedTuple):
    """What the main thread of one rank does, as shares of all samples."""

    member: Member
    samples: int
    own: float
    """Waits in which the training stands still, of which ``word`` is the most frequent. A lone process that uses little of a
    core waits in a lock for others, too: no thread of its own works for it.
    """
    word: str
    lock: float
    runs: float


def waits_itself(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge D01 for an untracked run: the main threads of all ranks wait for at least half of the time."""
    found = _waits_of_all(evidence, group)
    if not found or min(item.own for item in found) < WAITS_SHARE:
        return None
    devices = tracked.used_devices(group)
    loads = [windows.mean_utilization(evidence, device.uuid) for device in devices]
    if not devices or any(load is None or load >= BUSY_PERCENT for load in loads):
        return None
    word = Counter(item.word for item in found).most_common(1)[0][0]
    finding = tracked.about(
        group,
        "D01",
        "warning",
        "possible",
        "The GPUs may wait for data: the training process itself waits most of the time",
        [*(_fact(item) for item in found[:4]), *seen_at(evidence, _process(found[0]), SPAN_S), *utilization(evidence, devices)],
        _CAUSES.get(word, _WORKERS),
        f"DataLoader(..., num_workers=4, persistent_workers=True, prefetch_factor=4)  # prepare batches meanwhile\n"
        f"gputop run -- {fixes.own_command(group)}  # shows how long each step waits, and for what",
        "It waits on purpose, or for something else. With gputop run, the share of phase/data in step_s is below 15%.",
    )
    return Suspicion(finding, HOLD_S)


def waits_for_one(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge F01 for an untracked run: one rank waits outside collective operations, and all others wait for a rank."""
    found = _waits_of_all(evidence, group)
    if len(found) < 2:
        return None
    late = max(found, key=lambda item: item.own)
    others = [item for item in found if item is not late]
    if late.own < LATE_SHARE or max(item.own for item in others) > LITTLE_SHARE:
        return None
    if not all(_waits_for_a_rank(evidence, group, item) for item in others):
        return None
    rank = late.member.rank if late.member.rank is not None else found.index(late)
    finding = tracked.about(
        group,
        "F01",
        "warning",
        "possible",
        f"All ranks may wait for rank {rank}, which waits for its data",
        [_fact(late), *seen_at(evidence, _process(late), SPAN_S), *(_fact(item) for item in others[:3])],
        "Its share of the data arrives more slowly: another disk, fewer cores, larger files. In DDP, the slowest rank sets "
        "the pace.",
        f"gputop run -- {fixes.own_command(group)}  # shows how long each rank waits, and for what\n"
        f"taskset -pc {late.member.pid}  # the cores that it may use",
        f"Rank {rank} does different work from the others on purpose, or waits for something other than data.",
    )
    return Suspicion(finding, HOLD_S)


def computes_alone(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge F05 for an untracked run without a GPU that polls: one rank always computes, and all others wait for a rank."""
    alone = _alone(evidence, group)
    if alone is None:
        return None
    late, others = alone
    rank = _number(group, late)
    finding = tracked.about(
        group,
        "F05",
        "warning",
        "possible",
        f"All ranks may wait for rank {rank}, which does more in each step",
        [
            _runs(late, rank),
            *seen_at(evidence, _process(late), SPAN_S),
            *(_fact(item) for item in others[:3]),
        ],
        "It does work that the others do not do, such as logging, images or metrics, or has larger batches, and the others "
        "wait for its gradients.",
        f"gputop run -- {fixes.own_command(group)}  # shows what takes its time\npy-spy dump --pid {late.member.pid}",
        f"Rank {rank} does different work from the others on purpose, as in a pipeline or with a parameter server.",
    )
    return Suspicion(finding, HOLD_S)


def computes_longer(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge F03 for an untracked run: as for F05, but all ranks are only seen in the model, and that one longer in forward."""
    alone = _alone(evidence, group)
    if alone is None:
        return None
    late, others = alone
    seen = {member.pid: looks for member, looks in seen_of_all(evidence, group)}
    looks = seen.get(late.member.pid)
    if looks is None or any(found.share(*COMPUTES) < IN_MODEL_SHARE for found in seen.values()):
        return None
    forward, at = looks.share("forward"), looks.mostly_at("forward")
    most = max(seen[item.member.pid].share("forward") for item in others)
    functions = {item.member.pid: {look.function for look in seen[item.member.pid].looks} for item in others}
    if at is None or forward - most < LONGER_SHARE or any(at[0].function not in found for found in functions.values()):
        return None
    rank = _number(group, late)
    finding = tracked.about(
        group,
        "F03",
        "warning",
        "possible",
        f"All ranks may wait for rank {rank}, which computes for longer by the same code",
        [
            Fact(
                f"all ranks are seen in the same code, and rank {rank} in forward in {forward:.0%} of the looks, the others in "
                f"{most:.0%} at most",
                round(forward - most, 2),
                f"/proc/{late.member.pid}/mem",
            ),
            _runs(late, rank),
            *(_fact(item) for item in others[:3]),
        ],
        "Its samples are longer or its batches larger than those of the others, or it gets less of the cores. A step ends when "
        "the rank with the most work is done.",
        "# group samples by length, fill batches by tokens, and give each rank a share of every source\n"
        f"gputop run -- {fixes.own_command(group)}  # shows the size of each rank's batches",
        f"Rank {rank} holds more of the model on purpose, or its cores are slower.",
    )
    return Suspicion(finding, HOLD_S)


def _alone(evidence: Evidence, group: RankGroup) -> tuple[Waits, list[Waits]] | None:
    """Return the rank that always computes, and the others, if all of these wait for a rank, and no GPU polls."""
    found = _waits_of_all(evidence, group) if group.virtual else []
    if len(found) < 2:
        return None
    late = max(found, key=lambda item: item.runs)
    others = [item for item in found if item is not late]
    if late.runs < RUNS_SHARE or late.lock > LITTLE_SHARE:
        return None
    return (late, others) if all(LOCK_SHARE <= item.lock <= SERVES_SHARE for item in others) else None


def _number(group: RankGroup, late: Waits) -> int:
    return late.member.rank if late.member.rank is not None else group.members.index(late.member)


def _runs(late: Waits, rank: int) -> Fact:
    name = f"rank {rank}" if late.member.rank is not None else f"process {late.member.pid}"
    share = f"the main thread of {name} ran in {late.runs:.0%} of {words.count(late.samples, 'sample')}"
    return Fact(share, round(late.runs, 2), f"/proc/{late.member.pid}/stat")


def _waits_of_all(evidence: Evidence, group: RankGroup) -> list[Waits]:
    """Return the waits of all ranks of an untracked run whose steps advance; nothing if they are not known of each."""
    ranks = logged.ranks_of(group)
    run = logged.run_id(group)
    if group.run is not None or run is None or not ranks or not evidence.has_moved(run, PROGRESS_S):
        return []
    longest_s = max(evidence.pauses(run, rank.rank)[1] for rank in ranks)
    if min(evidence.stood_s(run, rank.rank) for rank in ranks) > max(MOVES_EVERY_S, 2 * longest_s):
        return []
    if learns_policy(ranks):  # it waits for its environments or actors on purpose
        return []
    if not evidence.is_warm(group):
        return []
    found = [_waits_of(evidence, member, lone=len(group.members) == 1) for member in group.members]
    return [item for item in found if item is not None] if None not in found else []


def _waits_of(evidence: Evidence, member: Member, lone: bool) -> Waits | None:
    process = member.process
    if process is None:
        return None
    samples = evidence.still.samples(process, SPAN_S)
    if samples.total() < SAMPLES_MIN:
        return None
    with_workers = process.workers is not None and process.workers.count
    sleeps = lone and process.cpu_percent is not None and process.cpu_percent < SLEEPS_PERCENT
    counted = (*_ALONE, *(_WITH_WORKERS if with_workers else ()), *((LOCK,) if sleeps else ()))
    own = Counter({word: samples[word] for word in counted})
    word, _ = own.most_common(1)[0]
    return Waits(
        member,
        samples.total(),
        own.total() / samples.total(),
        word,
        samples[LOCK] / samples.total(),
        samples[RUNS] / samples.total(),
    )


def _waits_for_a_rank(evidence: Evidence, group: RankGroup, item: Waits) -> bool:
    if group.virtual:
        return item.lock >= LOCK_SHARE
    if item.member.main is None:
        return False
    load = windows.mean_utilization(evidence, item.member.main)
    return load is not None and load >= SPIN_PERCENT


def _fact(item: Waits) -> Fact:
    process = item.member.process
    assert process is not None
    name = f"rank {item.member.rank}" if item.member.rank is not None else f"process {process.pid}"
    own = f"the main thread of {name} {_TEXTS[item.word]} in {item.own:.0%} of {words.count(item.samples, 'sample')}"
    waits = f"the main thread of {name} waited for another thread in {item.lock:.0%} of {words.count(item.samples, 'sample')}"
    share = item.own if item.own >= item.lock else item.lock
    return Fact(own if item.own >= item.lock else waits, round(share, 2), f"/proc/{process.pid}/syscall")


def _process(item: Waits) -> list[Process]:
    return [item.member.process] if item.member.process is not None else []
