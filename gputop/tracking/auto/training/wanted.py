"""What the facts of a run need from the next steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gputop.tracking.auto.readings.gpu import Clock


class Wanted:
    """What is wanted of a step. Only ``Facts`` writes it."""

    __slots__ = ("batches_from", "clock", "facts_due")

    def __init__(self) -> None:
        self.facts_due = 0
        """The step after which facts are next collected."""
        self.batches_from = 0
        """Batches are checksummed from this step on, because the fact will soon be recorded."""
        self.clock: Clock | None = None
        """Times the parts of a step on the GPU."""
