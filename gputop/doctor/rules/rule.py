"""What a rule is: a row of the table. A rule judges one job by the evidence; it keeps no state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.jobs import Job
from gputop.doctor.findings.finding import Abstained, Finding

EVERY_LOOK = 0.0
"""Of rules for what ends or stops a run, for the roots of most others, and for what a run said: they look at every snapshot."""
SELDOM_S = 3.0
"""How often rules look by default: a launch stays what it is, and ranks say what they do every 2 seconds at most."""
RARELY_S = 5.0
"""How often rules look that weigh a minute, or hundreds of steps."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A rule holds now; it is told once it has held for ``hold_s`` seconds."""

    finding: Finding
    hold_s: float = 0.0


Judgement = Suspicion | Abstained | None
"""None: judged, and nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One cause. ``threshold`` says in words when it holds, and where the numbers come from.

    ``every_s``: while nothing is suspected, a rule looks only so often.
    """

    id: str
    family: str
    sources: tuple[str, ...]
    window_s: float
    threshold: str
    judge: Callable[[Evidence, Job], Judgement]
    every_s: float = SELDOM_S


@dataclass(frozen=True, slots=True)
class MachineRule:
    """One cause that lies in the machine and in no job. ``judge`` returns a judgement for each subject that it looked at.

    A subject is a device's UUID, a run id, or "machine"; one that is no longer returned counts as judged and clean.
    ``every_s`` as that of ``Rule``.
    """

    id: str
    family: str
    sources: tuple[str, ...]
    window_s: float
    threshold: str
    judge: Callable[[Evidence], Mapping[str, Judgement]]
    every_s: float = SELDOM_S
