"""Ranks that diverge: they wait for each other in different collectives (C08)."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.doctor.evidence import stacks
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.ddp import standstill
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.outputs import first_logged, outputs_of
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, Judgement, Rule, Suspicion
from gputop.facts.standing import Stalled
from gputop.snapshot import Communicator, Rank

COUNTS_HOLD_S = 15.0
"""Counts normally differ between ranks during a run; judge them once they no longer change (docs/rules.md#measures)."""


def different_paths(evidence: Evidence) -> dict[str, Judgement]:
    """C08: the ranks wait for each other in different collectives because their code took different paths."""
    judged = {group.key: _different_paths(evidence, group) for group in evidence.groups}
    for output in outputs_of(evidence):
        match = output.first("param_shape")
        if match is not None and output.group is None:
            judged[output.subject] = tracked.from_text(
                output,
                match,
                "C08",
                "The ranks built different models",
                "DDP compares the shapes of all parameters when it wraps the model, and here they differ between ranks. "
                "The model depends on the rank, or on data that only this rank has seen (a vocabulary, a number of "
                "classes).",
                "# the sizes that the model is built from must be the same on all ranks\n"
                "sizes = [len(classes)]; dist.broadcast_object_list(sizes, src=0); model = Net(sizes[0])",
                "Another rank failed first, and this rank received its incomplete data.",
            )
    return judged


C08 = Rule(
    id="C08",
    order=1400,
    family="ddp",
    title="Ranks wait in different collectives",
    severities=("error", "warning"),
    confidences=("certain", "likely", "possible"),
    needs=("journal: stalled", "NCCL RAS", "the run's output"),
    window_s=COUNTS_HOLD_S,
    every_s=EVERY_SNAPSHOT,
    threshold=(
        f"every rank waits, in collectives called from different lines; or NCCL's counts cross for {COUNTS_HOLD_S:.0f} s, "
        "with no step for a minute; or the text param_shape"
    ),
    hides=("G01", "F01", "F04", "F05"),
    mechanism=(
        "A collective ends when every rank calls it. Code under `if rank == 0`, or a break or an exception on one rank, "
        "makes the ranks call different collectives."
    ),
    signature=(
        "All ranks wait, at different lines; NCCL's counts cross and no longer change; or DDP reports models of different "
        "shapes."
    ),
    look_alike="Counts that differ for a moment while the run is in progress; G04 (a rank is gone).",
    fix="Run code that communicates on every rank, and code that only writes files on rank 0.",
    judge_machine=different_paths,
)


def _different_paths(evidence: Evidence, group: RankGroup) -> Judgement:
    if tracked.world(group) < 2:
        return None
    ranks = tracked.ranks_of(group)
    waiting = [(rank, stall) for rank in ranks if (stall := standstill(rank)) is not None]
    if len(waiting) == len(ranks) >= 2:
        found = _in_different_collectives(group, waiting)
        if found is not None:
            return found
    waiting = [(rank, stall) for rank, stall in waiting if not stall.early]
    match = first_logged(evidence, group, "coll_mismatch")
    crossed = _crossed(evidence.communicators(group))
    if crossed is None or evidence.progressing(group) or not evidence.is_warm(group):
        return None
    facts = [crossed]
    if match is not None:
        facts.append(Fact(" ".join(match.line.split())[:160], match.line, match.file or "the run's output"))
    finding = tracked.about(
        group,
        "C08",
        "error",
        "certain" if match is not None or waiting else "likely",
        "The ranks wait in different collectives",
        facts,
        _PATHS_CAUSE,
        _PATHS_FIX,
        "The counts still change.",
    )
    return Suspicion(finding, COUNTS_HOLD_S)


_PATHS_CAUSE = (
    "A collective ends when every rank calls it. Here different ranks call different ones: code under `if rank == 0` "
    "(evaluation through DDP, FSDP's state_dict, a barrier), or a break or an exception on one rank."
)
_PATHS_FIX = """\
# code that communicates runs on every rank; only code that writes is for rank 0
state = model.state_dict()  # FSDP: on all ranks
if rank == 0:
    torch.save(state, path)
    evaluate(model.module)  # on a single rank, only without the DDP wrapper
dist.barrier()  # on all ranks
# to see which call it is: TORCH_DISTRIBUTED_DEBUG=DETAIL"""


def _in_different_collectives(group: RankGroup, waiting: Sequence[tuple[Rank, Stalled]]) -> Suspicion | None:
    if any(not stacks.communicates(stall) for _, stall in waiting):
        return None
    places: dict[str, list[int]] = {}
    for rank, stall in waiting:
        places.setdefault(_place(stall), []).append(rank.rank)
    phases = {stall.phase for _, stall in waiting}
    if len(places) < 2 or (len(phases) < 2 and len({_line(place) for place in places}) < 2):
        return None
    early = any(stall.early for _, stall in waiting)
    if early and any(stacks.compiles(stall) or stall.phase == "checkpoint" for _, stall in waiting):
        return None
    few = min(places.items(), key=lambda item: len(item[1]))
    size = tracked.world(group)
    facts = [
        Fact(f"{tracked.who(numbers, size)} wait{'s' if len(numbers) == 1 else ''} at {place}", place, "journal: stalled")
        for place, numbers in sorted(places.items(), key=lambda item: item[1])[:4]
    ]
    finding = tracked.about(
        group,
        "C08",
        "warning" if early else "error",
        "possible" if early else "certain",
        f"{tracked.capital(tracked.who(few[1], size))} took a different path: "
        f"{words.agree(len(few[1]), 'waits', 'wait')} at {few[0]}",
        facts,
        _PATHS_CAUSE,
        _PATHS_FIX,
        "The ranks continue.",
    )
    return Suspicion(finding)


def _place(stall: Stalled) -> str:
    """Return the innermost line of the user's own code, or the innermost line of all if there is none."""
    return stacks.own_line(stall) or (stall.stack[0] if stall.stack else stall.phase or "N/A")


def _line(place: str) -> str:
    return place.partition(" ")[0]


def _crossed(communicators: Sequence[Communicator]) -> Fact | None:
    """Return ranks that are ahead in one operation and behind in another, which no correct call order shows for long."""
    for communicator in communicators:
        ranks = [rank for rank in communicator.ranks if rank.counts]
        for one in ranks:
            for other in ranks:
                ahead = [name for name, count in one.counts.items() if count > other.counts.get(name, 0)]
                behind = [name for name, count in other.counts.items() if count > one.counts.get(name, 0)]
                if ahead and behind:
                    text = (
                        f"rank {one.rank} is ahead in {ahead[0]}, rank {other.rank} in {behind[0]}, and neither count changes"
                    )
                    return Fact(text, [ahead[0], behind[0]], "NCCL RAS")
    return None
