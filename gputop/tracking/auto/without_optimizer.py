"""Takes the steps of a training that has no optimizer, which ``manual_steps`` finds, as long as no optimizer has stepped.

The first of them are held back until it is certain that they are steps: they may be a check before the training.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gputop.tracking import early_failure
from gputop.tracking.auto.training.state import Training
from gputop.tracking.journal.handlers import let_through
from gputop.tracking.manual_steps import ManualSteps


class WithoutOptimizer:
    """The steps without an optimizer of one process. Its methods are its only writers."""

    def __init__(self, training: Training, stepped: Callable[[ManualSteps], None]) -> None:
        """``stepped`` writes the record of a step."""
        self._training = training
        self._stepped = stepped
        self._manual: ManualSteps | None = ManualSteps()
        """None once an optimizer has stepped."""

    @property
    def is_possible(self) -> bool:
        """Whether there may be such steps: no optimizer has stepped yet."""
        return self._manual is not None

    def before_backward(self, site: object, loss: Any) -> None:
        """End a step if one ended before this backward, which the line ``site`` runs on ``loss``."""
        manual = self._manual
        if manual is None or self._training.stepping or not manual.ended_before(site, loss):
            return
        training = self._training
        if training.run is None and not manual.is_certain:
            if not manual.held:
                early_failure.record_unseen(lambda: training.off or training.run is not None)
            earlier = [(site, site.total, site.parts) for site in training.sites.pending]
            manual.hold(training.sites.take(), earlier)
            training.iteration.begin()
            return
        training.without_fast_path()  # which ends where an optimizer steps
        self._stepped(manual)

    def after_backward(self) -> None:
        """Check what a backward has left."""
        try:
            if self._manual is not None and not self._training.stepping:
                self._manual.after_backward()
        except Exception as error:  # noqa: BLE001 - a tensor of any kind: then only an optimizer's steps are known
            let_through(error)
            self._manual = None

    def ended_by(self, optimizer: Any) -> None:
        """Forget the backwards before an optimizer's first step: they were not steps of the training."""
        manual = self._manual
        if manual is None or optimizer is manual:
            return
        sites = self._training.sites
        if manual.held and len(sites.pending) > 1 and sites.pending[0] is manual.site and manual.is_over:
            sites.drop(sites.pending[0])
        for site, total, parts in manual.earlier:
            site.begin_steps(total, parts)
        kept = manual.keeps_gradients if manual.held else False
        for site in sites.pending if kept is not False else ():
            site.has_no_earlier() if kept else site.may_have_earlier()
        manual.release()
        self._manual = None

    def write_held(self) -> None:
        """Write the losses of the steps that were held back, now that it is certain that they are steps."""
        if self._manual is None or not self._manual.held:
            return
        training, held = self._training, self._manual.release()
        training.sites.settle([site for site, _ in losses] for _, losses in held)
        for at_ns, losses in held:
            training.next_iteration()
            values: dict[str, Any] = {}
            for site, value in losses:
                values[training.sites.name(site, values)] = value
            if training.records is not None:
                training.records.write(values, training.step, at_ns)

    def finish(self) -> None:
        """End the last step, at the end of the run."""
        if self._manual is not None and self._training.run is not None and self._training.sites.pending:
            self._stepped(self._manual)
