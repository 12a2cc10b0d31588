"""The definition of a rule: one object that names a cause, judges a group of ranks or the machine by the evidence, and explains
itself.

A rule keeps no state. Each one is a module-level constant next to the function that judges; ``gputop.doctor.rules`` finds
them all. docs/rules.md, ``gputop doctor --rules`` and the doctor's engine read the same objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Abstained, Confidence, Finding, Severity

EVERY_SNAPSHOT = 0.0
"""Judge every snapshot: for rules about what ends or stops a run, and for the root causes of most other findings."""
SELDOM_S = 3.0
"""The default: launch settings do not change, and ranks write at most every 2 seconds."""
RARELY_S = 5.0
"""For rules that judge a minute of readings, or hundreds of steps."""
EVERYTHING = ("*",)
"""Marks a rule that hides every other rule except those that hide it."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A rule holds now; its finding is shown once the rule has held for ``hold_s`` seconds."""

    finding: Finding
    hold_s: float = 0.0


Judgement = Suspicion | Abstained | None
"""None: judged, and nothing is wrong."""
Subject = Literal["group", "machine"]
Family = Literal[
    "cpu",
    "data parallel",
    "ddp",
    "efficiency",
    "frameworks",
    "hangs",
    "hardware",
    "hosts",
    "input",
    "launching",
    "learning",
    "logs",
    "lost ranks",
    "memory",
    "placement",
    "settings",
    "spread",
    "stragglers",
    "visibility",
]
"""What a rule is about, for people. Its folder may have another name: there, rules share computations."""


@dataclass(frozen=True, slots=True)
class Case:
    """One way in which a rule's cause shows, for a rule with so many conditions that nobody would read them as one list."""

    name: str
    """A heading: it has no full stop."""
    conditions: tuple[str, ...]


def case(name: str, *conditions: str) -> Case:
    """Return a case: rules read better without a tuple in a tuple."""
    return Case(name, conditions)


def needs_tracking(need: str) -> bool:
    """Return whether an entry of ``Rule.needs`` is available only for a run that gputop tracks.

    This applies to the journal. The output of any run is followed where it goes to a file or a pane. "journal: X, else Y" is
    available without tracking.
    """
    if ", else " in need or need.startswith("NVML contexts or"):
        return False
    return need.startswith("journal") or need.endswith("(journal)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One cause, how gputop finds it, and which findings it explains.

    ``judge`` judges one group; ``judge_machine`` returns a judgement per subject: a device's UUID, a run id, or "machine". A
    subject that is no longer returned counts as judged and clean. A rule has exactly one of the two.
    """

    id: str
    order: int
    """Unique position in root order: of two findings with equal weight, the one with the lower number explains the other."""
    family: Family
    title: str
    severities: tuple[Severity, ...]
    """Possible severities of its findings, worst first."""
    confidences: tuple[Confidence, ...]
    """Possible confidences of its findings, surest first."""
    needs: tuple[str, ...]
    """The evidence that it uses."""
    window_s: float = 0.0
    """Approximate seconds of evidence that it needs; 0 if a single observation is enough."""
    every_s: float = SELDOM_S
    """Interval between judgements, in seconds, while nothing is suspected."""
    from_printed: bool = False
    """Whether the metrics that a run prints are enough evidence, so that it also judges a log."""
    texts: tuple[str, ...] = ()
    """Ids of the texts in a log that its finding makes redundant."""
    estimated: bool = False
    """Whether its limits are estimates that nobody has measured on a GPU."""
    threshold: str | tuple[str, ...] | tuple[Case, ...]
    """When it reports, in words and with its limits: one sentence, or several conditions and what limits them, if they are many
    then by cases. The names of texts come from ``doctor/logs/patterns``."""
    hides: tuple[str, ...] = ()
    """Ids of the rules whose findings it explains, in the same group or on the same device; or ``EVERYTHING``."""
    hides_in_logs: tuple[str, ...] = ()
    """The same of a log, whose few printed values may mislead another rule."""
    hides_if: Callable[[Finding], bool] | None = None
    """Which of its own findings explain those of ``hides``; None: all."""
    hides_when: str = ""
    """``hides_if`` in words."""
    mechanism: str
    signature: str
    look_alike: str
    fix: str
    judge: Callable[[Evidence, RankGroup], Judgement] | None = None
    judge_machine: Callable[[Evidence], Mapping[str, Judgement]] | None = None

    def __post_init__(self) -> None:
        """Check that there is exactly one judging function, and words for a condition.

        Raises:
            ValueError: the rule has no judging function or two, or a condition without words or words without a condition.
        """
        if (self.judge is None) == (self.judge_machine is None):
            raise ValueError(f"Rule {self.id} needs either judge or judge_machine.")
        if (self.hides_if is None) != (not self.hides_when):
            raise ValueError(f"Rule {self.id} needs hides_if and hides_when together.")

    @property
    def cases(self) -> tuple[Case, ...]:
        """The conditions of ``threshold`` by cases; those that have none are one case without a name."""
        if isinstance(self.threshold, str):
            return (Case("", (self.threshold,)),)
        named = tuple(part for part in self.threshold if isinstance(part, Case))
        return named or (Case("", tuple(part for part in self.threshold if isinstance(part, str))),)

    @property
    def conditions(self) -> tuple[str, ...]:
        """All conditions of ``threshold``; a single one is the whole sentence."""
        return tuple(condition for case in self.cases for condition in case.conditions)

    @property
    def without_tracking(self) -> Literal["whole", "part", "none"]:
        """How much of its evidence is available for a run that gputop does not track."""
        missing = sum(needs_tracking(need) for need in self.needs)
        return "whole" if not missing else "none" if missing == len(self.needs) else "part"

    def declares(self, finding: Finding) -> bool:
        """Return whether the rule declares the severity and the confidence of this finding."""
        return finding.severity in self.severities and finding.confidence in self.confidences

    @property
    def subject(self) -> Subject:
        """Whether it judges one group at a time, or the machine as a whole."""
        return "group" if self.judge is not None else "machine"
