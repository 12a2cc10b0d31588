"""A rank that died or left while the others wait for it (G04)."""

from __future__ import annotations

from collections.abc import Sequence

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts import model as model_facts
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.commands import filled
from gputop.doctor.findings.finding import Confidence, Fact, Finding, Severity
from gputop.doctor.rules.standstill import left_early
from gputop.doctor.rules.standstill.killed_alone import KERNEL_LOG, killed_alone
from gputop.doctor.rules.standstill.left_early import LATE_S, STILL_S
from gputop.doctor.rules.standstill.missing_ranks import STOOD_S, missing_ranks
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.outputs import (
    Output,
    command_of,
    is_consequence,
    latest_of_commands,
    outputs_of,
    quoted,
)
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, Judgement, Rule, Suspicion
from gputop.snapshot import FAILED_STATES, LIVE_STATES, Rank, Run

G04_COUNTS_S = 10.0
"""A run that ends normally loses its ranks one by one, but faster than this."""
STILL_STEPS = 3.0
"""Ranks count as waiting for a dead one after ``STILL_S``, and at least this many step times, without a step (our choice)."""
REPORTED_S = 600.0
"""A run that ended longer ago, or whose command was started again since, is no longer reported."""
DATED_S = 5.0
"""A killed rank dates its end by nothing that it did: what started it again may have begun this long before (our choice)."""
_DEATH_ONLY = ("sigkill",)
"""Texts that report a rank's death but not its cause, such as torchrun's exit code -9."""


def dead_rank(evidence: Evidence) -> dict[str, Judgement]:
    """G04: a rank died, and the others wait for it or failed with it."""
    if evidence.snapshot is None:
        return {}
    outputs = {item.run_id: item for item in outputs_of(evidence) if item.run_id is not None}
    groups = {group.run_id: group for group in evidence.groups if group.run_id is not None}
    found: dict[str, Judgement] = {}
    untracked = evidence.snapshot.untracked_ids
    begun = latest_of_commands(evidence.snapshot.runs)
    for run in evidence.snapshot.runs:
        if not run.ranks or run.state in ("finished", "stopped"):
            continue
        alone = len(run.ranks) == 1
        bad = [rank for rank in run.ranks if rank.state in FAILED_STATES]
        if alone and (not bad or run.run_id in untracked):
            continue
        alive = [rank for rank in run.ranks if rank.state in LIVE_STATES]
        if not bad:
            waiting = left_early.others_wait(evidence, run, alive, groups.get(run.run_id))
            if waiting is not None:
                found[f"dead:{run.run_id}"] = waiting
            continue
        ended = run.ended_at or max((rank.last_log_at for rank in run.ranks if rank.last_log_at is not None), default=None)
        if not alive and (ended is None or evidence.snapshot.time - ended > REPORTED_S):
            continue
        if not alive and ended is not None and begun.get(run.command or (), 0.0) > ended - DATED_S:
            continue
        output, group = outputs.get(run.run_id), groups.get(run.run_id)
        judgement = killed_alone(run, output, group) if alone else _dead(evidence, run, bad, alive, output, group)
        if judgement is not None:
            found[f"dead:{run.run_id}"] = judgement
    for output in outputs_of(evidence):
        subject = f"dead:{output.subject}"
        if subject not in found and (left := left_early.only_consequences(output)) is not None:
            found[subject] = left
    for group in evidence.groups:
        subject = f"dead:{group.run_id or group.key}"
        if subject not in found and (lost := _lost(evidence, group) or missing_ranks(evidence, group)) is not None:
            found[subject] = lost
    return found


def _others_wait(finding: Finding) -> bool:
    """Return False if the others continue without the rank or may not be waiting for it: then it explains none of their
    findings.
    """
    return finding.severity != "info" and finding.confidence != "possible"


G04 = Rule(
    id="G04",
    order=1002,
    family="lost ranks",
    title="A rank died or left, and others wait for it",
    severities=("error", "warning", "info"),
    confidences=("certain", "likely", "possible"),
    needs=("journal", "logs", "NCCL RAS"),
    window_s=2.0,
    every_s=EVERY_SNAPSHOT,
    threshold=(
        f"a rank has failed or was killed while others are alive and complete no step for {STILL_S:.0f} s (likely if the end "
        "of each such rank follows from another rank's, which was not seen)",
        "one rank has finished, and all others wait in a collective",
        "the only rank was killed or crashed, and neither an exception nor its output says why (likely if a "
        "signal shows a crash, else possible)",
        "all have ended and nothing else explains it (from outside, or if other ranks are on other machines: what they print "
        "only follows from a rank that was gone; likely if their launcher reports a failure, else possible)",
        f"NCCL reports a rank dead, and no count changes for {G04_COUNTS_S:.0f} s",
        "from outside: ranks that were seen (or whose GPUs are free) have no process, none of the others runs backward for "
        f"{STOOD_S:.0f} s, and all of those wait: they use no CPU and no disk, or their GPU polls (likely; possible if only "
        "one is left)",
    ),
    hides=("G01", "G02", "G03", "A02", "LOG", "K02", "K03"),
    hides_if=_others_wait,
    hides_when="the others wait for the rank, and the finding is more than possible",
    mechanism=(
        'When one rank dies or leaves the loop, the others stop at the next exchange: with "connection closed by '
        'peer", or silently until a timeout. The first rank that died shows the cause.'
    ),
    signature=(
        "A rank has failed, was killed or has finished, while the others are alive but complete no step; or NCCL reports "
        "it dead."
    ),
    look_alike="Ranks that exit one by one at the end of a run while rank 0 still evaluates or uploads; ranks in another "
    "container; tasks of a sweep, which do not need each other.",
    fix="Read the last output of the first rank that failed, and look for the OOM killer and Xid errors in dmesg.",
    judge_machine=dead_rank,
)


def _lost(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge by NCCL: the other ranks can no longer reach one rank, and wait."""
    communicators = evidence.communicators(group)
    if not communicators or evidence.progressing(group):
        return None
    for item in communicators:
        dead = [rank for rank in item.ranks if rank.state == "dead"]
        alive = [rank for rank in item.ranks if rank.state == "running"]
        if not dead or not alive or evidence.still.counts_s(item) < G04_COUNTS_S:
            continue
        numbers, left = words.ranks([rank.rank for rank in dead]), words.ranks([rank.rank for rank in alive])
        text = (
            f"{numbers} {'does' if len(dead) == 1 else 'do'} not answer and {'is' if len(dead) == 1 else 'are'} considered dead"
        )
        facts = [Fact(text, [rank.pid for rank in dead], "NCCL RAS")]
        gone = [rank.pid for rank in dead if rank.pid is not None and rank.pid not in group.pids]
        if gone:
            facts.append(Fact(f"{words.processes(gone)} no longer {words.agree(len(gone), 'exists', 'exist')}", gone, "/proc"))
        them = words.agree(len(dead), "it", "them")
        facts.append(Fact(f"{left} {words.agree(len(alive), 'waits', 'wait')} for {them}", len(alive), "NCCL RAS"))
        finding = tracked.about(
            group,
            "G04",
            "error",
            "certain" if gone else "likely",
            f"{tracked.capital(numbers)} died, {words.agree(len(alive), 'the other waits', 'the others wait')}",
            facts,
            _CAUSE,
            f"{KERNEL_LOG}\n{fixes.own_command(group)}",
            "The process exists and answers again.",
            pids=[rank.pid for rank in alive if rank.pid is not None],
        )
        return Suspicion(finding, 2.0)
    return None


def _dead(
    evidence: Evidence, run: Run, bad: list[Rank], alive: list[Rank], output: Output | None, group: RankGroup | None
) -> Judgement:
    texts = output.matches if output is not None else ()
    first = min(
        bad,
        key=lambda rank: (
            is_consequence(rank, texts),
            not _was_killed(rank),
            rank.last_log_at or 0.0,
            rank.rank,
        ),
    )
    failure = model_facts.failure(first)
    early = any(rank.state == "finished" for rank in run.ranks)
    if not alive and early and all(is_consequence(rank, texts) for rank in bad):
        return left_early.others_failed(run, bad, group)
    if not alive and (failure is not None or (not _was_killed(first) and first.exit_code is None)):
        return None  # Another rule judges the text that ended it, or nothing is known.
    if (
        not alive
        and output is not None
        and any(not match.cascade and match.pattern not in _DEATH_ONLY for match in output.matches)
    ):
        return None
    others = _others_state(evidence, run, first, alive)
    if others == "not watched for long enough":
        return None
    others_go_on = others == "go on"
    # Whoever sent a SIGTERM to one rank of several has ended just that rank.
    follows = is_consequence(first, texts) and (not alive or first.exit_code != -15) and not others_go_on
    how = _how(first)
    facts = _facts_of_end(evidence, run, first, bad, alive, output, follows=follows, others_go_on=others_go_on)
    title = f"Rank {first.rank} {how}, {_TITLES[others]}{'; the first cause was not seen' if follows else ''}"
    command = (
        fixes.own_command(group)
        if group is not None
        else command_of(output)
        if output is not None
        else fixes.shell_join(run.command or ())
    )
    severity, confidence = _WEIGHTS[others]
    if follows and confidence == "certain":
        confidence = "likely"
    finding = Finding(
        "G04",
        severity,
        confidence,
        title,
        tuple(facts),
        _CAUSE_ALONE if others_go_on else _CAUSE,
        f"{_look_for_the_first(run) if follows else _fix(run, first, others_go_on)}\n{command}".rstrip(),
        "The rank is alive."
        if others == "gone"
        else "The ranks do exchange gradients."
        if others_go_on
        else "The other ranks complete steps.",
        devices=tuple(sorted(group.used)) if group is not None else (),
        pids=_pids(first) if group is not None else (),
        run=run.run_id,
    )
    # That the others wait has been watched for STILL_S. A run that is gone may still be printing why.
    return Suspicion(finding, 0.0 if others == "wait" else 2.0)


def _facts_of_end(
    evidence: Evidence,
    run: Run,
    first: Rank,
    bad: list[Rank],
    alive: list[Rank],
    output: Output | None,
    *,
    follows: bool,
    others_go_on: bool,
) -> list[Fact]:
    """Return how the first rank ended, what the others do since, and what was printed about it."""
    failure = model_facts.failure(first)
    facts = [Fact(f"rank {first.rank} (process {first.pid}) {_how(first)}", first.exit_code, "journal")]
    if failure is not None:
        facts.append(Fact(f"its error: {failure.type}: {failure.message}", failure.where, "journal: error"))
    if follows:
        facts.append(Fact("that follows from the end of another rank, which nothing here recorded", None, "journal, output"))
    if alive:
        names, one = words.ranks([rank.rank for rank in alive]), len(alive) == 1
        does = "goes on" if one and others_go_on else "go on" if others_go_on else "lives" if one else "live"
        still = min(evidence.stood_s(run.run_id, rank.rank) for rank in alive)
        facts.append(
            Fact(f"{names} {does}: steps advance", len(alive), "journal")
            if others_go_on
            else Fact(f"{names} {does}, without a step for {still:.0f} s", len(alive), "journal")
        )
    later = [rank.rank for rank in bad if rank is not first]
    if later and not others_go_on:
        consequence = words.agree(len(later), "its error is a consequence", "their errors are a consequence")
        facts.append(Fact(f"{words.ranks(later)} ended after it, so {consequence}", later, "journal"))
    if output is not None:
        facts += [quoted(match) for match in output.matches[:1] if match.cascade or match.pattern in _DEATH_ONLY]
    return facts


_TITLES = {
    "gone": "and the run with it",
    "go on": "the others continue without it",
    "may wait": "the others may be waiting for it",
    "wait": "the others wait for it",
}
_WEIGHTS: dict[str, tuple[Severity, Confidence]] = {
    "gone": ("error", "certain"),
    "go on": ("info", "likely"),
    "may wait": ("warning", "possible"),
    "wait": ("error", "certain"),
}


def _others_state(evidence: Evidence, run: Run, dead: Rank, alive: list[Rank]) -> str:
    """Return what the live ranks have done since one died. Ranks of a sweep started by one srun do not depend on each other."""
    if not alive:
        return "gone"
    ended = evidence.ended_s(run.run_id, dead.rank)
    stood = [evidence.stood_s(run.run_id, rank.rank) for rank in alive]
    if ended - min(stood) > LATE_S:
        return "go on"
    quiet = min(ended, *stood)
    if quiet < STILL_S:
        return "not watched for long enough"
    usual = [took for rank in alive if (took := _usual_s(evidence, run, rank)) is not None]
    return "wait" if quiet >= STILL_STEPS * max(usual, default=0.0) else "may wait"


def _usual_s(evidence: Evidence, run: Run, rank: Rank) -> float | None:
    """Return the mean time between a rank's newest steps, by whatever it logs; None if there are too few."""
    series = max((evidence.series(run.run_id, rank.rank, name) for name in rank.metrics), key=len, default=None)
    times: Sequence[float] = series.times[-20:] if series is not None else ()
    return (times[-1] - times[0]) / (len(times) - 1) if len(times) > 2 else None


def _look_for_the_first(run: Run) -> str:
    away = left_early.elsewhere(run)
    return (
        left_early.look_there(run, away).rstrip() if away else "# find out which rank ended first: read what each printed last"
    )


def _fix(run: Run, rank: Rank, others_go_on: bool) -> str:
    failure = model_facts.failure(rank)
    if failure is not None:
        return filled("# fix {line} first", {"line": failure.where or "that"}) + (
            "" if others_go_on else ": the other errors then disappear"
        )
    if _was_killed(rank):
        return f"{KERNEL_LOG}\n# use fewer loader workers or less memory per rank, then start it again"
    advice = (
        f"gputop logs {fixes.shell_join((run.job_id,))}  # its last output" if run.job_id else "# its last output shows why"
    )
    return f"{advice}: rank {rank.rank} left by itself, with exit code {rank.exit_code}"


_CAUSE = (
    "When one rank dies, the others stop at the next exchange: with 'connection closed by peer', or silently until a "
    "timeout. The first rank that died shows the cause."
)


_CAUSE_ALONE = (
    "One of several tasks ended, and the others continue without it: they exchange nothing, like the tasks of a sweep that "
    "one srun started."
)


def _pids(rank: Rank) -> tuple[int, ...]:
    return (rank.pid,) if rank.pid is not None else ()


def _was_killed(rank: Rank) -> bool:
    return rank.state == "killed" or (rank.exit_code or 0) < 0


def _how(rank: Rank) -> str:
    code = rank.exit_code
    if code is not None and code < 0:
        return f"was ended by {units.signal_name(-code)}"
    if rank.state == "killed":
        return "was killed"
    return f"failed (exit code {code})" if code is not None else "failed"
