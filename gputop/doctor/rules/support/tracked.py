"""Helpers for rules that depend on journals: the live ranks, findings about a whole group, and abstentions."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Abstained, Confidence, Fact, Finding, Severity
from gputop.doctor.rules.support.outputs import Output, command_of, quoted, soften
from gputop.doctor.rules.support.rule import Suspicion
from gputop.snapshot import AUTOMATIC_PREFIX, Device, LogMatch, Rank, is_training_loss, loss_metric


def ranks_of(group: RankGroup) -> tuple[Rank, ...]:
    """Return the group's live ranks that write a journal, including those on other machines."""
    return group.live_ranks


def world(group: RankGroup) -> int:
    """Return the group's number of ranks: from the run, else from the launcher, else the number observed."""
    return group.world_size


def all_speak(group: RankGroup) -> bool:
    """Return whether the group has several ranks and each of them is alive and writes a journal."""
    ranks = ranks_of(group)
    return len(ranks) >= 2 and len(ranks) >= world(group)


def loss_of(ranks: Sequence[Rank]) -> str | None:
    """Return the training loss that all ranks report; None if they report none or different ones.

    The automatic loss of a rank whose script opened the run counts as the same loss: ``Evidence.series`` finds it.
    """
    reported = ({*rank.metrics, *(name.removeprefix(AUTOMATIC_PREFIX) for name in rank.metrics)} for rank in ranks)
    names = set.intersection(*reported) if ranks else set()
    found = loss_metric(names)
    return found if found is not None and is_training_loss(found) else None


def used_devices(group: RankGroup) -> tuple[Device, ...]:
    """Return the devices that the group computes on, by index."""
    return tuple(device for device in group.pool if device.uuid in group.used)


def about(
    group: RankGroup,
    rule: str,
    severity: Severity,
    confidence: Confidence,
    title: str,
    evidence: Sequence[Fact],
    cause: str,
    fix: str,
    refuted_by: str,
    devices: Sequence[Device] | None = None,
    pids: Sequence[int] | None = None,
) -> Finding:
    """Return a finding about a group: about all its devices and ranks, unless some are given."""
    named = used_devices(group) if devices is None else devices
    return Finding(
        id=rule,
        severity=severity,
        confidence=confidence,
        title=title,
        evidence=tuple(evidence),
        cause=cause,
        fix=fix,
        refuted_by=refuted_by,
        devices=tuple(device.uuid for device in named),
        pids=tuple(group.pids if pids is None else pids),
        run=group.run_id,
    )


def untracked(rule: str, group: RankGroup, why: str) -> Abstained:
    """Return the abstention of a rule that cannot judge a group from outside, with the command that makes it possible."""
    return Abstained(rule, why, f"gputop run -- {fixes.own_command(group)}", group.run_id)


def unseen_ranks(evidence: Evidence, group: RankGroup) -> bool:
    """Return whether a group trains on several GPUs without a journal, so gputop cannot see what its ranks do."""
    return group.run is None and len(group.members) > 1 and not group.virtual and len(group.used) > 1 and evidence.trains(group)


def who(numbers: Sequence[int], world_size: int) -> str:
    """Return "all 4 ranks", "both ranks" or "ranks 1, 3"."""
    if len(set(numbers)) == world_size and world_size > 1:
        return "both ranks" if world_size == 2 else f"all {world_size} ranks"
    return words.ranks(numbers)


def capital(sentence: str) -> str:
    """Return the sentence with a capital first letter."""
    return f"{sentence[:1].upper()}{sentence[1:]}"


def at(where: str | None) -> str:
    """Return " (train.py:41)"; an empty string if the line is unknown."""
    return f" ({where})" if where is not None else ""


def from_text(
    output: Output,
    match: LogMatch,
    rule: str,
    title: str,
    cause: str,
    fix: str,
    refuted_by: str,
    *,
    confidence: Confidence = "certain",
    also: Sequence[Fact] = (),
) -> Suspicion:
    """Return a finding that rests on a run's output; at most "possible" if the run survived."""
    finding = Finding(
        id=rule,
        severity="error",
        confidence=confidence,
        title=title,
        evidence=(quoted(match), *also),
        cause=cause,
        fix=f"{fix}\n{command_of(output)}" if output.group is None else fix,
        refuted_by=refuted_by,
        devices=output.devices,
        pids=output.pids,
        run=output.run_id,
    )
    return Suspicion(soften(output, finding))
