"""Times Python's garbage collections, which may lengthen a step."""

from __future__ import annotations

import gc
from time import perf_counter
from typing import Any

from gputop.tracking.auto.training.iteration import GC_S
from gputop.tracking.auto.training.state import Training
from gputop.tracking.journal.handlers import has_handlers
from gputop.tracking.no_compile import exclude


def listen(torch: Any, training: Training) -> None:
    """Time the collections from now on; once per process."""
    started = 0.0

    def collected(phase: str, info: Any) -> None:
        nonlocal started
        if phase == "start":
            started = perf_counter()
        else:
            took = perf_counter() - started
            training.iteration.add_collection(took)
            if took >= GC_S:
                training.fast.end_soon()  # nothing more: this may run between any two of our lines

    def check() -> None:
        """Listen, unless the script handles signals: Python drops what a handler raises while a listener runs."""
        listens = collected in gc.callbacks
        if listens and has_handlers():
            gc.callbacks.remove(collected)
        elif not listens and not has_handlers():
            gc.callbacks.append(collected)

    exclude(torch, collected, check)
    training.check_collector_with(check)
