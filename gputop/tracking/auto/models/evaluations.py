"""How often, how long and how the modules of a run are evaluated: the fact ``evaluation``."""

from __future__ import annotations

from typing import Any

from gputop.facts.measured import Evaluation
from gputop.tracking import parts
from gputop.tracking.auto.readings.graphs import Graphs
from gputop.tracking.journal.handlers import let_through
from gputop.tracking.unseen import unseen


class Evaluations:
    """The evaluations of a run's modules: their outermost calls that do not train."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.calls = 0
        self._seconds = 0.0
        self._device: str | None = None
        self._wrapped = False

    def add(self, took_s: float) -> None:
        """Count an evaluation that took this many seconds."""
        self._seconds += took_s
        self.calls += 1

    def note(self, module: Any, wrapped: bool) -> None:
        """Note where a module was evaluated, and whether by a call of its wrapper, if it has one."""
        device = None
        try:
            with unseen(self._torch):
                first = next(iter(parts.parameters(module)), None)
                device = None if first is None else str(first.device)
        except Exception as error:  # noqa: BLE001 - the script's evaluation continues, whatever its module returns
            let_through(error)
        self._device, self._wrapped = device, wrapped

    def mark(self, graphs: Graphs, result: Any, step: int) -> None:
        """Mark what a call with gradients in evaluation mode returned, if it is time for that."""
        try:
            with unseen(self._torch):
                graphs.mark(result, step)
        except Exception as error:  # noqa: BLE001 - as above
            let_through(error)

    def fact(self, has_wrapper: bool) -> dict[str, Any] | None:
        """Return the fact; None before the first evaluation."""
        if not self.calls:
            return None
        return Evaluation.filled(
            calls=self.calls,
            seconds=self._seconds,
            parameter_device=self._device,
            wrapped=self._wrapped if has_wrapper else None,
        )
