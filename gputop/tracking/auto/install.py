"""Tracking without a change to the script: turned on by ``gputop run``, by ``import gputop``, or by ``gputop.watch``.

* ``gputop run -- CMD``: every process of the command that imports torch and steps an optimizer becomes a rank of a run.
  If the script opens a run itself with ``gputop.init``, the automatic values are added to its own.
* ``import gputop`` only: the same, unless the script calls ``gputop.init``. A script that does decides what is recorded, and
  gets exactly that; ``GPUTOP_AUTO=1`` adds the automatic values there too.
* ``gputop.watch(model, optimizer, loader)``: adds them to the script's run, wherever it is called.

``GPUTOP=0``, ``GPUTOP_MODE=disabled`` and ``GPUTOP_AUTO=0`` turn all of it off. The script's own values win: names that
it logs are not logged here, and its step numbers apply.

docs/facts.md lists the recorded metrics and facts. All times are CPU times, except those that begin with ``cuda/``.
"""

from __future__ import annotations

import os
from typing import Any

from gputop.tracking import early_failure, ending, import_hook
from gputop.tracking.auto.hooks import patch
from gputop.tracking.auto.steps import Steps

_steps: Steps | None = None


def install(torch: Any) -> None:
    """Hook into torch, once per process; nothing is recorded before an optimizer steps. Never raises."""
    global _steps
    if _steps is not None:
        return
    try:
        steps = _steps = Steps(torch)
        steps.beside = os.environ.get("GPUTOP_AUTO") == "1"
        patch(torch, steps)
        os.register_at_fork(after_in_child=steps.reset)
        ending.use_libraries(lambda path: steps.sites.is_library(path))
        import_hook.answer_with(steps.join)
        if os.environ.get("GPUTOP_LAUNCH_ID") or os.environ.get("GPUTOP_JOB_ID"):
            early_failure.record(lambda: steps.off or steps.run is not None)
    except Exception as error:  # noqa: BLE001 - an unknown torch: the script continues, untracked
        if _steps is not None:
            _steps.failed(error)


def tracked() -> Steps | None:
    """Return the tracked state of this process; None before torch is imported."""
    return _steps
