"""What a rule is: a row of the table. A rule judges one job by the evidence; it keeps no state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gputop.doctor.evidence import Evidence
from gputop.doctor.finding import Abstained, Finding
from gputop.doctor.jobs import Job


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A rule holds now; it is told once it has held for ``hold_s`` seconds."""

    finding: Finding
    hold_s: float = 0.0


Judgement = Suspicion | Abstained | None
"""None: judged, and nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One cause. ``threshold`` says in words when it holds, and where the numbers come from."""

    id: str
    family: str
    sources: tuple[str, ...]
    window_s: float
    threshold: str
    judge: Callable[[Evidence, Job], Judgement]
