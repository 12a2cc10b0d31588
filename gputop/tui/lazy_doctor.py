"""The doctor as the screen keeps it: loaded once the first GPUs are on the screen, and told then of all that came before.

Its rules take as long to import as all the screens together, and nothing else on the first frame needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.snapshot import Snapshot
from gputop.tui.gc_freeze import lasting

if TYPE_CHECKING:
    from gputop.doctor.diagnosis import Doctor
    from gputop.doctor.findings.finding import Abstained, Finding


class LateDoctor:
    """Takes every snapshot; judges from ``load`` on, and then those that waited as well."""

    def __init__(self) -> None:
        self.doctor: Doctor | None = None
        self.findings: tuple[Finding, ...] = ()
        self._waiting: list[Snapshot] = []

    def observe(self, snapshot: Snapshot) -> None:
        """Take in the next snapshot."""
        if self.doctor is None:
            self._waiting.append(snapshot)
        else:
            self.findings = self.doctor.observe(snapshot)

    @property
    def abstained(self) -> tuple[Abstained, ...]:
        """Rules that could not judge the last snapshot."""
        return self.doctor.abstained if self.doctor is not None else ()

    def load(self) -> bool:
        """Import the rules and judge what waited; False when that is done already."""
        if self.doctor is not None:
            return False
        with lasting():
            from gputop.doctor.diagnosis import Doctor
        self.doctor = Doctor()
        for snapshot in self._waiting:
            self.findings = self.doctor.observe(snapshot)
        self._waiting.clear()
        return True
