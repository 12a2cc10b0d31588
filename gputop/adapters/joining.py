"""How an adapter gets its run. Imports only gputop's training side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputop.tracking import session
from gputop.tracking.auto.training.records import claim, release
from gputop.tracking.run import Run

_ended_run: Run | None = None
"""The run of a training that has ended; the next training starts a new one."""


class Membership:
    """An adapter's membership in a run.

    If the script has started a run (``gputop.init`` before the training), the adapter uses it. Otherwise the first adapter of
    a training starts one, and the others join it. That run ends with the process, or when the next training starts its own:
    what a script logs after the training, such as an evaluation, still belongs to it.
    """

    def __init__(self, init: Mapping[str, Any], names: tuple[str, ...] = ()) -> None:
        """Keep ``gputop.init``'s keywords for the start, and the ``names`` that automatic tracking leaves to the adapter."""
        self._names = names
        self._init = {name: value for name, value in init.items() if value is not None}
        self._run: Run | None = None
        self._started_here = False

    def begin(self, **defaults: Any) -> Run:
        """Start or join the run when a training begins; ``defaults`` are keywords that the user's own override."""
        claim(*self._names)
        active = session.current()
        if active.disabled or active is _ended_run:
            self._run = session.init(**{**defaults, **self._init})
            self._started_here = True
        elif active is not self._run:
            self._run, self._started_here = active, False
        return self._run or active

    @property
    def run(self) -> Run:
        """The run, started or joined on first use. If another adapter has started a run since, this follows it."""
        if self._run is None:
            return self.begin()
        if self._run.disabled and not session.current().disabled:
            self._run, self._started_here = session.current(), False
        return self._run

    def training_ended(self) -> None:
        """Let the next training start a run of its own, unless the script started this one."""
        global _ended_run
        release()
        if self._started_here:
            _ended_run = self._run

    def finish(self) -> None:
        """End the run now, unless the script started it."""
        if self._run is not None and self._started_here:
            self._run.finish()
