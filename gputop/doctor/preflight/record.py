"""What one check of a machine found. A plain record."""

from __future__ import annotations

from dataclasses import dataclass

from gputop.doctor.findings.finding import Finding


@dataclass(frozen=True, slots=True)
class Check:
    """One row: what was looked at, "fine", "problem" or "unknown", what was seen, and the finding if one came of it."""

    name: str
    state: str
    text: str
    finding: Finding | None = None
