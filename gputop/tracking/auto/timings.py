"""What the record of a step says of its time, its throughput, its epoch and the GPU's memory."""

from __future__ import annotations

from typing import Any

from gputop.tracking.auto.readings.gpu import memory_values
from gputop.tracking.auto.training.epochs import Epochs
from gputop.tracking.auto.training.iteration import GC_S
from gputop.tracking.auto.training.pace import Rate
from gputop.tracking.auto.training.state import Training

MEMORY_EVERY_S = 1.0
"""How often the memory's values are logged."""


class Timings:
    """Times the iterations of one process. Its methods are its only writers."""

    def __init__(self, training: Training, epochs: Epochs) -> None:
        self._training = training
        self._epochs = epochs
        self._memory_at = 0.0
        self._rate = Rate()

    def put(self, values: dict[str, Any], now: float, has_optimizer: bool) -> None:
        """Add the measurements of the iteration that ends ``now``, by ``perf_counter``, to the values of its step."""
        training = self._training
        cuda, iteration, feed = training.torch.cuda, training.iteration, training.loader
        mark = training.restart_clock(now)
        took = None if mark is None or iteration.interrupted else now - mark
        if took is None:
            self._rate.clear()
        else:
            training.recent_s.append(took)
        usual_s = self._rate.after(training.step, now) if cuda.is_initialized() else took
        iteration.put(values, took, usual_s, not training.partial, feed is not None, has_optimizer)
        epoch = self._epochs.now(feed)
        if epoch is not None:
            values["epoch"] = epoch
        if now - self._memory_at > MEMORY_EVERY_S:
            self._memory_at = now
            values.update(memory_values(cuda))
        if iteration.gc_s >= GC_S and mark is not None:
            values["gc_s"] = iteration.gc_s
