"""The result of one check of a machine. A plain record."""

from __future__ import annotations

from dataclasses import dataclass

from gputop.doctor.findings.finding import Finding


@dataclass(frozen=True, slots=True)
class Check:
    """One row: what was checked, "fine", "problem" or "unknown", what was found, and the finding if any."""

    name: str
    state: str
    text: str
    finding: Finding | None = None
