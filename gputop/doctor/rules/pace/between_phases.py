"""Steps that spend their time in the script's own code, between data, forward, backward and optimizer (D01, possible)."""

from __future__ import annotations

from typing import NamedTuple

from gputop.doctor.evidence.data_waits import DATA
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.one_by_one import averages_one_by_one
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.pace.beside import seen_beside
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.at_a_call import in_collectives
from gputop.doctor.rules.support.outside_phases import share_outside
from gputop.doctor.rules.support.policies import learns_policy
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.doctor.rules.support.shared import utilization
from gputop.snapshot import Rank

OWN_WORK_SHARE, KNOWN_WORK_SHARE = 0.5, 0.3
OWN_WORK_MIN_S = 0.02
"""Share of a step, and seconds; anything shorter is bookkeeping, printing and metric tracking (our choice). The smaller share
is enough if the name of the function in which the time passes says what it does."""
_KNOWN_WORK = ("data", "metrics")
BUSY_PERCENT = 40.0
"""A busier GPU is still computing: its kernels run on after forward and backward have returned (our choice)."""
HOLD_S = 10.0
SEEN_MIN = 3
SEEN_SHARE = 0.6
"""A line is reported if the script was seen there this often, and in this share of all looks at its own code (our choice)."""


def own_work(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge D01 without waits for a loader: most of a step passes outside all phases while the GPUs idle."""
    ranks = tracked.ranks_of(group)
    if not ranks or not evidence.is_warm(group) or averages_one_by_one(ranks) is not None:
        return None
    loads = [evidence.load(device.uuid) for device in tracked.used_devices(group)]
    if not group.virtual and (not loads or any(load is None or load.mean_percent >= BUSY_PERCENT for load in loads)):
        return None
    shares = []
    for rank in ranks:
        found = _own_share(evidence, group, rank)
        if found is None or found[0] < KNOWN_WORK_SHARE or found[1] < OWN_WORK_MIN_S:
            return None
        shares.append(found)
    if in_collectives(evidence, group) is not None:
        return None  # the ranks exchange gradients by hand: E06
    share, seconds = min(shares)
    loads_itself = not any(evidence.series(group.run_id, rank.rank, DATA) for rank in ranks)
    beside = seen_beside(evidence, group)
    if beside is not None and beside.at.function == "__getitem__" and not loads_itself:
        beside = None  # the loader calls it, in the phase of its own
    if share < OWN_WORK_SHARE and (beside is None or beside.at.activity not in _KNOWN_WORK):
        return None
    if beside is None and not any(evidence.series(group.run_id, rank.rank, "phase/optimizer") for rank in ranks):
        return None  # it updates the weights by hand, outside all phases
    pid = group.pids[0] if group.pids else "PID"
    seen = _Seen(f"in {beside.at.function} ({beside.at.line})", beside.fact) if beside is not None else None
    seen = seen or next((place for rank in ranks if (place := _seen_at(rank)) is not None), None)
    facts = [
        Fact(
            f"{seconds * 1e3:.0f} ms of a step belong to no phase (not data, forward, backward or optimizer)",
            round(seconds, 4),
            "journal: step_s, phase/*",
        ),
        *([Fact("no torch DataLoader is in use", None, "journal: phase/data")] if loads_itself else []),
        *([seen.fact] if seen is not None else []),
        *utilization(evidence, tracked.used_devices(group)),
    ]
    where = f"mostly {seen.place}" if seen is not None else "in the script's own code"
    fix = f"# what does the script do {seen.place}, in each step?\n" if seen is not None else ""
    fix += f"py-spy top --pid {pid}  # which lines take the time\n"
    activity = beside.at.activity if beside is not None else "data" if loads_itself else "other"
    cause, remedy = _REMEDIES.get(activity, _REMEDIES["other"])
    finding = tracked.about(
        group,
        "D01",
        "warning",
        "possible",
        f"{share:.0%} of each step passes {where} while nothing trains",
        facts,
        cause,
        f"{fix}{remedy}",
        "The code there is meant to take this long, like an environment or a search.",
    )
    return Suspicion(finding, HOLD_S)


PREPARE_IN_WORKERS = (
    "class Batches(torch.utils.data.IterableDataset): ...  # move the code that prepares a batch into its __iter__\n"
    "DataLoader(Batches(), batch_size=None, num_workers=4)  # workers prepare batches while the previous step runs"
)


_REMEDIES = {
    "data": (
        "The training process prepares its data itself between two steps (reads, unpacks, tokenizes), or does other work "
        "there.",
        PREPARE_IN_WORKERS,
    ),
    "metrics": (
        "In each step, the training process computes a metric, on the CPU or in plain Python, and nothing trains meanwhile.",
        "if step % 100 == 0: ...  # less often, or over what an evaluation has seen\n"
        "# count on the device, and read the result once (torchmetrics does)",
    ),
    "other": (
        "Between two steps, the training process does other work than the loader's: metrics, copies, files, or logging.",
        "# do it less often, on the GPU, or in another thread or process",
    ),
}
"""The cause and the fix, by what the function in which the time passes is for."""


class _Seen(NamedTuple):
    """Where a rank is mostly seen between its phases."""

    place: str
    fact: Fact


def _seen_at(rank: Rank) -> _Seen | None:
    known = facts_of(rank).own_lines
    if known is None or not known.samples or not known.lines:
        return None
    count, line, function = known.lines[0]
    if function != "<module>":  # which is all of a script
        count = sum(found for found, _, name in known.lines if name == function)
    if count < max(SEEN_MIN, SEEN_SHARE * sum(found for found, _, _ in known.lines)):
        return None
    named = function not in ("", "<module>")
    text = f"in {count} of {known.samples} looks at its stack, it was {f'in {function}, mostly ' if named else ''}at {line}"
    return _Seen(f"in {function} ({line})" if named else f"at {line}", Fact(text, line, "the ranks: own_lines"))


def _own_share(evidence: Evidence, group: RankGroup, rank: Rank) -> tuple[float, float] | None:
    """Return the share and the seconds of a typical step outside all phases; None if an environment takes them."""
    if learns_policy([rank]):
        return None
    return share_outside(evidence, group, rank)
