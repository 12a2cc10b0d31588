"""What a rule is: one object that names a cause, judges a job or the machine by the evidence, and explains itself.

A rule keeps no state. Each one is a module-level constant beside the function that judges; ``gputop.doctor.rules`` finds them
all. docs/rules.md, ``gputop doctor --rules`` and the doctor's engine read the same objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.jobs import Job
from gputop.doctor.findings.finding import Abstained, Confidence, Finding, Severity

EVERY_LOOK = 0.0
"""For rules about what ends or stops a run, and for the roots of most others: they judge every snapshot."""
SELDOM_S = 3.0
"""The default: a launch stays what it is, and ranks write every 2 seconds at most."""
RARELY_S = 5.0
"""For rules that weigh a minute of readings, or hundreds of steps."""
EVERYTHING = ("*",)
"""A rule that hides every other one, but for those that hide it."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A rule holds now; its finding is shown once the rule has held for ``hold_s`` seconds."""

    finding: Finding
    hold_s: float = 0.0


Judgement = Suspicion | Abstained | None
"""None: judged, and nothing is wrong."""
Subject = Literal["job", "machine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One cause, how gputop finds it, and what it explains.

    ``judge`` judges one job; ``judge_machine`` returns a judgement for each subject that it looked at: a device's UUID, a run
    id, or "machine". A subject that is no longer returned counts as judged and clean. A rule has one of the two.
    """

    id: str
    order: int
    """Place among the roots, unique: of findings that weigh the same, the one with the lower number explains the other."""
    family: str
    title: str
    severities: tuple[Severity, ...]
    """What its findings can be, worst first."""
    confidences: tuple[Confidence, ...]
    """What its findings can be, surest first."""
    needs: tuple[str, ...]
    """The evidence that it judges by."""
    window_s: float = 0.0
    """About how many seconds of this evidence it needs; 0 where a single observation is enough."""
    every_s: float = SELDOM_S
    """While nothing is suspected, the rule looks only this often."""
    estimated: bool = False
    """Its limits are estimates: nobody has measured them on a GPU."""
    threshold: str
    """When it reports, in words and with its limits; names of texts are those of ``doctor/logs/patterns``."""
    hides: tuple[str, ...] = ()
    """Ids of the rules whose findings it explains, in the same job or on the same device; or ``EVERYTHING``."""
    hides_if: Callable[[Finding], bool] | None = None
    """Which of its findings explain them; None: all."""
    hides_when: str = ""
    """``hides_if`` in words."""
    mechanism: str
    signature: str
    look_alike: str
    fix: str
    judge: Callable[[Evidence, Job], Judgement] | None = None
    judge_machine: Callable[[Evidence], Mapping[str, Judgement]] | None = None

    def __post_init__(self) -> None:
        """Check that there is one function to judge, and words for a condition.

        Raises:
            ValueError: the rule has no such function or two, or a condition without words or words without a condition.
        """
        if (self.judge is None) == (self.judge_machine is None):
            raise ValueError(f"Rule {self.id} needs either judge or judge_machine.")
        if (self.hides_if is None) != (not self.hides_when):
            raise ValueError(f"Rule {self.id} needs hides_if and hides_when together.")

    def declares(self, finding: Finding) -> bool:
        """Return whether the rule says of itself that its findings can be this severe and this sure."""
        return finding.severity in self.severities and finding.confidence in self.confidences

    @property
    def subject(self) -> Subject:
        """Whether it judges one job at a time, or the machine as a whole."""
        return "job" if self.judge is not None else "machine"
