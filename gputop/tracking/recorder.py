"""The part of a ``Run`` that modules reporting facts need. ``run`` imports those modules; they never import ``run``."""

from __future__ import annotations

from typing import Any, Protocol


class Recorder(Protocol):
    """A run, as seen by the modules that report facts to it."""

    facts: dict[str, Any]
    """The last value of each fact."""

    @property
    def disabled(self) -> bool:
        """Whether this run records nothing."""

    @property
    def step(self) -> int:
        """The step of the next ``log`` call without a ``step``."""

    def fact(self, name: str, value: Any) -> None:
        """Record something that holds for this rank from now on."""

    def end(self, exit_code: int | None = None) -> None:
        """End the run because its process ends."""

    def note_end(self, exit_code: int | None) -> None:
        """Note that the process ends now with this exit code, if it has one; waits for nothing."""

    def take_back_end(self) -> None:
        """Undo ``note_end``: the process continues."""
