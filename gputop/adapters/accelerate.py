"""Accelerate: ``Accelerator(log_with=GputopTracker())``, then ``init_trackers``, ``log``, ``end_training``. Imports accelerate.

Every process may record (``main_process_only`` is False), and the reader joins the ranks. But Accelerate passes the values of
``accelerator.log`` to trackers only on the main process. Other ranks call ``log`` of the tracker that they created.
"""

from __future__ import annotations

from typing import Any

from accelerate.tracking import GeneralTracker

from gputop.adapters.joining import Membership
from gputop.tracking.journal.harmless import harmless
from gputop.tracking.run import Run


@harmless
class GputopTracker(GeneralTracker):
    """An Accelerate tracker. ``project`` comes first, as ``init_trackers`` passes it; the rest are ``init``'s keywords."""

    name = "gputop"
    requires_logging_directory = False
    main_process_only = False

    def __init__(self, project: str | None = None, **init: Any) -> None:
        super().__init__()
        self._member = Membership({"project": project, **init})

    def start(self) -> None:
        """Start or join the run; Accelerate calls this once its processes are connected."""
        self._member.begin()

    @property
    def tracker(self) -> Run:
        """The run, as ``accelerator.get_tracker("gputop", unwrap=True)`` returns it."""
        return self._member.run

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """Record the hyperparameters."""
        self.tracker.config.update(values)

    def log(self, values: dict[str, Any], step: int | None = None, **kwargs: Any) -> None:
        """Record metrics; without a step, count the calls."""
        self.tracker.log(values, step=step)

    def finish(self) -> None:
        """End the run at ``accelerator.end_training()``, unless the script started the run."""
        self._member.finish()
