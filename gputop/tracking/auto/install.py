"""Tracking without a change to the script: turned on by ``gputop run``, by ``import gputop``, or by ``gputop.watch``.

* ``gputop run -- CMD``: every process of the command that imports torch and steps an optimizer becomes a rank of a run.
  In a run that the script opens itself with ``gputop.init`` the automatic values are added beside its own.
* ``import gputop`` alone: the same, as long as the script never calls ``gputop.init``. Who calls it has decided what is
  recorded, and gets exactly that; ``GPUTOP_AUTO=1`` adds the automatic values there too.
* ``gputop.watch(model, optimizer, loader)``: adds them to the script's run, wherever it is called.

``GPUTOP=0``, ``GPUTOP_MODE=disabled`` and ``GPUTOP_AUTO=0`` turn all of it off. A script's own values win: a name that
it logs is not logged here, and steps are numbered as it numbers them.

What is recorded, metrics and facts, is listed in docs/facts.md. All times are the CPU's, but for those that begin with
``cuda/``.
"""

from __future__ import annotations

import os
from typing import Any

from gputop.tracking import ending, import_hook
from gputop.tracking.auto.hooks import patch
from gputop.tracking.auto.steps import Steps

_steps: Steps | None = None


def install(torch: Any) -> None:
    """Listen to torch, once per process; nothing is recorded before an optimizer steps. Never raises."""
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
    except Exception as error:  # noqa: BLE001 - an unknown torch: the script goes on, untracked
        if _steps is not None:
            _steps.failed(error)


def tracked() -> Steps | None:
    """Return the iterations of this process; None before torch was imported."""
    return _steps
