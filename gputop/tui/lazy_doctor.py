"""The screen's doctor, loaded once the first GPUs are drawn, and then fed every snapshot that arrived before.

Importing its rules takes as long as importing all the screens together, and the first frame needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.snapshot import Snapshot
from gputop.startup.gc_freeze import long_lived

if TYPE_CHECKING:
    from gputop.doctor.diagnosis import Doctor
    from gputop.doctor.findings.finding import Abstained, Finding, Undecided
    from gputop.history.metrics import MetricMemory


class LateDoctor:
    """Buffers snapshots until ``load``, then judges them and every later one."""

    def __init__(self, memory: MetricMemory | None = None) -> None:
        """``memory``: the metrics of this stream, if a screen keeps them; it observes each snapshot first."""
        self._memory = memory
        self.doctor: Doctor | None = None
        self.findings: tuple[Finding, ...] = ()
        self._waiting: list[Snapshot] = []

    def observe(self, snapshot: Snapshot) -> None:
        """Observe the next snapshot."""
        if self.doctor is None:
            self._waiting.append(snapshot)
        else:
            self.findings = self.doctor.observe(snapshot)

    def begin_anew(self, memory: MetricMemory | None) -> None:
        """Forget everything observed: the stream begins again, and ``memory`` with it."""
        self._memory, self.findings = memory, ()
        self._waiting.clear()
        if self.doctor is not None:
            from gputop.doctor.diagnosis import Doctor

            self.doctor = Doctor(memory)

    def restore(self, memory: MetricMemory, doctor: Doctor, findings: tuple[Finding, ...]) -> None:
        """Go on with what a doctor knew earlier, and with its metrics."""
        self._memory, self.doctor, self.findings = memory, doctor, findings
        self._waiting.clear()

    @property
    def abstained(self) -> tuple[Abstained, ...]:
        """Rules that could not judge the last snapshot."""
        return self.doctor.abstained if self.doctor is not None else ()

    @property
    def undecided(self) -> tuple[Undecided, ...]:
        """Suspicions that are not decided yet."""
        return self.doctor.undecided if self.doctor is not None else ()

    def load(self) -> bool:
        """Import the rules and judge the buffered snapshots; return False if the doctor is already loaded."""
        if self.doctor is not None:
            return False
        with long_lived():
            from gputop.doctor.diagnosis import Doctor
        self.doctor = Doctor(self._memory)
        for snapshot in self._waiting:
            self.findings = self.doctor.observe(snapshot)
        self._waiting.clear()
        return True
