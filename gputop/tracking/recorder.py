"""What takes facts about a rank: a ``Run``, as seen by the modules that report to it. A run imports them, never they it."""

from __future__ import annotations

from typing import Any, Protocol


class Recorder(Protocol):
    """A run, as far as what reports to it needs one."""

    facts: dict[str, Any]
    """The last value of each fact."""

    @property
    def disabled(self) -> bool:
        """Whether nothing is recorded."""

    @property
    def step(self) -> int:
        """The step of the next ``log`` that names none."""

    def fact(self, name: str, value: Any) -> None:
        """Record something that is true of this rank from now on."""

    def finish(self, exit_code: int | None = None) -> None:
        """End the run."""
