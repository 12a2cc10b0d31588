"""Tracking without a change to the script: turned on by ``gputop run`` or by ``import gputop``.

Every process of ``gputop run -- CMD`` that imports torch and steps an optimizer becomes a rank of a run, and so does every
script that imports gputop. If the script opens a run itself with ``gputop.init``, the automatic values go into that run, under
names and steps that are not the script's.

``GPUTOP=0``, ``GPUTOP_MODE=disabled`` and ``GPUTOP_AUTO=0`` turn all of it off; with the last one, a script's run contains only
what the script logs.

docs/facts.md lists the recorded metrics and facts. All times are CPU times, except those that begin with ``cuda/``.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from gputop.tracking import early_failure, ending
from gputop.tracking.auto.hooks import patch
from gputop.tracking.auto.steps import Steps
from gputop.tracking.journal.identity import is_launched

_steps: Steps | None = None


def install(torch: Any) -> None:
    """Hook into torch, once per process; nothing is recorded before an optimizer steps. Never raises."""
    global _steps
    if _steps is not None:
        return
    try:
        steps = _steps = Steps(torch)
        training = steps.training
        patch(torch, steps)
        os.register_at_fork(after_in_child=steps.reset)
        ending.use_libraries(lambda path: training.code.is_library(path))
        if os.environ.get("GPUTOP_LAUNCH_ID") or os.environ.get("GPUTOP_JOB_ID"):
            early_failure.record(lambda: training.off or training.run is not None)
    except Exception as error:  # noqa: BLE001 - an unknown torch: the script continues, untracked
        if _steps is not None:
            _steps.training.failed(error)
        return
    with suppress(Exception):  # a system without what this needs: tracking continues
        if is_launched():
            from gputop.tracking.standing import early

            early.start(torch, ending.is_library)
            training.call_before_workers(early.revive)


def tracked() -> Steps | None:
    """Return what follows the training of this process; None before torch is imported."""
    return _steps
