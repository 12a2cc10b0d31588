"""The doctor: a pure function of the sequence of snapshots it has observed. No I/O, no clock, no driver.

This module decides when each rule judges, and keeps the results; ``cases`` decides when a suspicion is a finding, ``roots``
which findings another one explains.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from typing import ClassVar, NamedTuple

from gputop.doctor.cases import Case, updated
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import (
    EVIDENCE,
    STATES,
    Abstained,
    Episode,
    Finding,
    State,
    Undecided,
    Verdict,
)
from gputop.doctor.roots import explained, sort_key
from gputop.doctor.rules import BY_ID, GROUP_RULES, MACHINE_RULES, Judgement, Rule, Suspicion
from gputop.doctor.rules.support.rule import Family
from gputop.doctor.turns import Turns
from gputop.doctor.undecided import knows_few_steps, undecided
from gputop.errors import PLEASE_REPORT, describe_unexpected
from gputop.history.interrupted import is_interrupted
from gputop.history.metrics import MetricMemory
from gputop.snapshot import NOT_READ, Snapshot

LOST_KEPT_S = 120.0
"""How long the doctor reports that something could not be judged."""
EPISODES_KEPT = 200
"""How many findings that have ended are remembered."""
SETTLED_S = 8.0
"""After this observation time, every rule judges, even those that judge rarely: with the start of the command, that makes ten
seconds, after which a healthy run is settled."""
_JITTER_S = 0.25
"""Tolerance for snapshots that arrive a little early or late."""
_PHASE_OFFSET: Mapping[Family, float] = {"stragglers": 2 / 3, "ddp": 2 / 3, "input": 1 / 3, "spread": 1 / 3, "learning": 1 / 3}
"""Stagger the expensive families: the fraction of its interval that a rule waits between its first and second judgement.
All other families judge together, so that a root and its symptoms appear at the same moment."""


class _Judged(NamedTuple):
    """The judgements of a machine rule on its subjects, and when they expire, by ``Snapshot.monotonic_s``."""

    until: float
    judgements: tuple[tuple[tuple[str, str], Judgement], ...]
    """Without the subjects that have no judgement: replaying them between two judgements would change nothing."""


class _GroupJudged(NamedTuple):
    """What the rules reported on a group when it was last judged."""

    until: dict[str, float]
    """When each rule that judges rarely judges it next, by ``Snapshot.monotonic_s``."""
    reported: dict[str, Judgement]
    """What these rules report until then; most report nothing."""
    abstained: tuple[tuple[tuple[str, str], Judgement], ...]
    """Repeated while it is not the group's turn, so that abstentions do not flicker."""
    known: tuple[object, ...]
    """What was known of the group: once there is more, every rule judges it at once."""


def _known_of(group: RankGroup) -> tuple[object, ...]:
    """Return what changes only while a run starts: its ranks, their devices, and of which facts their journals tell."""
    try:
        ranks = [(member.pid, member.main, tuple(member.journal.facts) if member.journal else ()) for member in group.members]
    except Exception:  # noqa: BLE001 - facts that cannot be looked at: each rule that asks for them says so
        return ()
    return (group.visible_count, len(group.processes), *ranks)


def _next_judgement_s(now: float, rule: Rule, until: float | None) -> float:
    """Return when a rule judges next. The rules of one family judge together because they share computations.

    A judgement before its time (``SETTLED_S``) does not move the next one: families stay apart.
    """
    if until is not None and now < until:
        return until
    return now + (rule.every_s if until is not None else rule.every_s * _PHASE_OFFSET.get(rule.family, 1.0)) - _JITTER_S


class Doctor:
    """Observe a stream of snapshots and diagnose the training in it."""

    raises: ClassVar[bool] = False
    """For tests: raise if a rule fails, returns something it does not declare, or evidence is lost."""

    def __init__(self, memory: MetricMemory | None = None) -> None:
        """``memory``: the metrics of this stream if a screen keeps them; it observes each snapshot first."""
        self._memory = memory
        self._evidence = Evidence(self._record_unprocessed, memory)
        self._failures: dict[str, Abstained] = {}
        self._lost: dict[str, tuple[Abstained, float]] = {}
        """Lost evidence: what -> (the first report on it, stream time of the last loss)."""
        self._cases: dict[tuple[str, str], Case] = {}
        self._judged: dict[str, _Judged] = {}
        """The judgements of the machine rules that judge rarely."""
        self._groups_judged: dict[str, _GroupJudged] = {}
        self._turns = Turns()
        self._observed_before_s = 0.0
        self._all_now = False
        """Whether rules that judge rarely judge this snapshot, too."""
        self._few_steps: set[str] = set()
        """The groups of which too few steps were known then."""
        self._last: Snapshot | None = None
        self._wall: float | None = None
        self._abstained: tuple[Abstained, ...] = ()
        self._current: dict[tuple[str, str], Episode] = {}
        self._past: deque[Episode] = deque(maxlen=EPISODES_KEPT)

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """Every finding shown since the observation began, in order of its start; of those that ended, at most the last 200."""
        return tuple(sorted((*self._past, *self._current.values()), key=lambda episode: episode.began_at))

    def verdicts(self) -> tuple[Verdict, ...]:
        """Return the outcome of each rule at the last snapshot: group rules first, then machine rules, each in root order."""
        hidden = explained(self._cases)
        states: dict[str, State] = {item.rule: "not_judged" for item in self._abstained}
        roots: dict[str, set[str]] = {}
        for key, case in self._cases.items():
            state: State = "explained" if key in hidden and case.shown else "found" if case.shown else "watching"
            if STATES.index(state) < STATES.index(states.get(key[0], "clean")):
                states[key[0]] = state
            if state == "explained":
                roots.setdefault(key[0], set()).update(hidden[key])
        return tuple(
            Verdict(
                rule.id,
                rule.family,
                states.get(rule.id, "clean"),
                "; ".join(rule.conditions),
                tuple(sorted(roots.get(rule.id, ()))) if states.get(rule.id) == "explained" else (),
            )
            for rule in (*GROUP_RULES, *MACHINE_RULES)
        )

    @property
    def abstained(self) -> tuple[Abstained, ...]:
        """Rules that could not judge the last snapshot, why, and what they would need.

        Entries with the id ``EVIDENCE`` report losses in the snapshots that the rules look back on.
        """
        return self._abstained

    def observe(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """Process the next snapshot and return the current findings, verdict first."""
        if not math.isfinite(snapshot.monotonic_s):
            return self._current_findings()
        if is_interrupted(self._last, snapshot):
            self._evidence, self._cases = Evidence(self._record_unprocessed, self._memory), {}
            self._judged, self._groups_judged = {}, {}
            self._lost.clear()
        self._last = snapshot
        self._wall = snapshot.time
        now = snapshot.monotonic_s
        self._evidence.observe(snapshot)
        self._all_now = self._evidence.observed_s >= SETTLED_S - _JITTER_S > self._observed_before_s
        self._observed_before_s = self._evidence.observed_s
        if self._all_now:
            self._few_steps = {group.key for group in self._evidence.groups if knows_few_steps(self._evidence, group)}
        for note in snapshot.notes:
            if note.code == NOT_READ:
                self._record_loss(note.message, Abstained(EVIDENCE, note.message, note.hint))
        self._lost = {what: item for what, item in self._lost.items() if now - item[1] <= LOST_KEPT_S}
        abstained = dict.fromkeys(item for item, _ in self._lost.values())
        missing: Judgement = next((item for item, at in self._lost.values() if at == now), None)
        judged = set()
        for key, judgement in self._judgements(now):
            judged.add(key)
            if judgement is None and key not in self._cases:
                continue
            self._consider(key, judgement, now)
            if isinstance(judgement, Abstained):
                abstained[judgement] = None
        for key in self._cases.keys() - judged:
            # A group that is missing because it could not be read has not ended.
            self._consider(key, missing, now)
        self._abstained = tuple(abstained)
        return self._current_findings()

    def _judgements(self, now: float) -> Iterator[tuple[tuple[str, str], Judgement]]:
        """Yield each rule's judgement on each of its subjects. A rule that judges rarely repeats its last one in between."""
        suspected = {rule for rule, _ in self._cases}
        yield from self._judge_groups(now, suspected)
        yield from self._judge_machines(now, suspected)

    def _judge_groups(self, now: float, suspected: Set[str]) -> Iterator[tuple[tuple[str, str], Judgement]]:
        groups = self._evidence.groups
        in_turn = self._turns.take(groups, {subject for _, subject in self._cases})
        kept: dict[str, _GroupJudged] = {}
        for group in groups:
            last = self._groups_judged.get(group.key)
            if last is not None and group.key not in in_turn:
                kept[group.key] = last
                yield from last.abstained
                continue
            known_of = _known_of(group)
            is_anew = self._all_now or (last is not None and last.known != known_of)
            until, reported = (last.until, last.reported) if last is not None else ({}, {})
            abstained = []
            for rule in GROUP_RULES:
                rule_id = rule.id
                if until.get(rule_id, now) > now and not is_anew and rule_id not in suspected:
                    if rule_id not in reported:
                        continue  # most rules, in most snapshots
                    judgement = reported[rule_id]
                else:
                    judgement = self._judge_group(rule, group)
                    reported.pop(rule_id, None)
                    if not rule.every_s or rule_id in suspected:
                        until.pop(rule_id, None)
                    else:
                        until[rule_id] = _next_judgement_s(now, rule, until.get(rule_id))
                        if judgement is None:
                            continue
                        reported[rule_id] = judgement
                key = rule_id, group.key
                if isinstance(judgement, Abstained):
                    abstained.append((key, judgement))
                yield key, judgement
            kept[group.key] = _GroupJudged(until, reported, tuple(abstained), known_of)
        self._groups_judged = kept

    def _judge_machines(self, now: float, suspected: Set[str]) -> Iterator[tuple[tuple[str, str], Judgement]]:
        kept: dict[str, _Judged] = {}
        for rule in MACHINE_RULES:
            known = self._judged.get(rule.id) if rule.every_s and rule.id not in suspected else None
            if known is None or now >= known.until or self._all_now:
                judged = [
                    ((rule.id, subject), judgement)
                    for subject, judgement in self._judge_machine(rule).items()
                    if judgement is not None or (rule.id, subject) in self._cases  # a rule may name hundreds of clean groups
                ]
                yield from judged
                until = _next_judgement_s(now, rule, known.until if known is not None else None)
                known = _Judged(until, tuple(item for item in judged if item[1] is not None))
            else:
                yield from known.judgements
            kept[rule.id] = known
        self._judged = kept

    def _judge_group(self, rule: Rule, group: RankGroup) -> Judgement:
        assert rule.judge is not None
        self._evidence.early = False
        try:
            judgement = rule.judge(self._evidence, group)
            if judgement is None and group.printed is not None and rule.from_printed:
                # A file with a value for each epoch hides a course that is printed every few steps.
                judgement = rule.judge(self._evidence, replace(group, shown=group.printed))
            return self._in_time(judgement) if self._evidence.early else judgement
        except Exception as error:  # noqa: BLE001 - one failing rule stops neither the others nor the screen
            return self._failed(rule, error)

    def _judge_machine(self, rule: Rule) -> Mapping[str, Judgement]:
        assert rule.judge_machine is not None
        self._evidence.early = False
        try:
            judged = rule.judge_machine(self._evidence)
            return {subject: self._in_time(item) for subject, item in judged.items()} if self._evidence.early else judged
        except Exception as error:  # noqa: BLE001 - as above
            subjects = {subject for known, subject in self._cases if known == rule.id} or {""}
            return dict.fromkeys(subjects, self._failed(rule, error))

    def _in_time(self, judgement: Judgement) -> Judgement:
        """Return the judgement; only a suspicion to watch if it rests on too short a time."""
        if not self._evidence.early or judgement is None:
            return judgement
        return replace(judgement, hold_s=math.inf) if isinstance(judgement, Suspicion) else None

    def _failed(self, rule: Rule, error: Exception) -> Abstained:
        """Return the report on a failed rule. It keeps the text of the first failure, so that it appears only once."""
        if self.raises:
            raise error
        if rule.id not in self._failures:
            self._failures[rule.id] = Abstained(rule.id, f"This rule failed: {describe_unexpected(error)}.", PLEASE_REPORT)
        return self._failures[rule.id]

    def _record_unprocessed(self, what: str, error: Exception) -> None:
        """Record that a part of the newest snapshot could not be processed."""
        if self.raises:
            raise error
        why = f"{what[0].upper()}{what[1:]} of a snapshot could not be processed: {describe_unexpected(error)}."
        self._record_loss(what, Abstained(EVIDENCE, why, PLEASE_REPORT))

    def _record_loss(self, what: str, report: Abstained) -> None:
        """Record a loss. It is reported once, with its first text, for as long as the evidence reaches back."""
        known = self._lost.get(what)
        self._lost[what] = (known[0] if known is not None else report, self._evidence.now)

    def _consider(self, key: tuple[str, str], judgement: Judgement, now: float) -> None:
        if self.raises and isinstance(judgement, Suspicion) and not BY_ID[key[0]].declares(judgement.finding):
            raise ValueError(f"Rule {key[0]} reported something that it does not declare: {judgement.finding}")
        case = updated(self._cases.get(key), judgement, now, self._wall)
        if case is not None:
            self._cases[key] = case
        else:
            self._cases.pop(key, None)

    def _current_findings(self) -> tuple[Finding, ...]:
        hidden = explained(self._cases)
        current = {key: case.finding for key, case in self._cases.items() if case.shown and key not in hidden}
        self._remember(current)
        return tuple(sorted(current.values(), key=sort_key))

    def _remember(self, current: Mapping[tuple[str, str], Finding]) -> None:
        now = self._wall if self._wall is not None else 0.0
        for key in self._current.keys() - current.keys():
            self._past.append(replace(self._current.pop(key), ended_at=now))
        for key, finding in current.items():
            known = self._current.get(key)
            began = known.began_at if known is not None else finding.began_at if finding.began_at is not None else now
            self._current[key] = Episode(finding, began)

    @property
    def observed_s(self) -> float:
        """The seconds of the stream observed without an interruption."""
        return self._evidence.observed_s if self._last is not None else 0.0

    @property
    def undecided(self) -> tuple[Undecided, ...]:
        """Suspicions not yet reported, and runs that warm up, in descending order of the time they still need.

        Suspicions that another finding explains, or that would be information only, are left out.
        """
        return undecided(self._cases, self._evidence, self._few_steps, self.observed_s) if self._last is not None else ()

    @property
    def suppressed(self) -> tuple[Finding, ...]:
        """Findings that hold but are explained by another current one (``suppressed_by``); not returned by ``observe``."""
        hidden = explained(self._cases)
        found = [
            replace(case.finding, suppressed_by=tuple(sorted(hidden[key])))
            for key, case in self._cases.items()
            if case.shown and key in hidden
        ]
        return tuple(sorted(found, key=sort_key))
