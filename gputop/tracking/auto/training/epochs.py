"""Which epoch the training is in: the one that the framework reports, or the pass of the only loader that feeds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gputop.tracking.auto.readings.loader import Feed


class Epochs:
    """Counts the loaders that feed a training: with several, one loader's passes are not epochs."""

    def __init__(self) -> None:
        self._loaders = 0
        """A loader that continues where another one ended, over the same dataset, counts together with it."""
        self.newest: Feed | None = None
        """The last loader that began to feed the training."""
        self._reported: float | None = None

    def set_from_framework(self, epoch: float) -> None:
        """Take the epoch from the framework."""
        self._reported = epoch

    def add(self, feed: Feed) -> None:
        """Count a loader that begins to feed the training."""
        self._loaders += not feed.earlier
        self.newest = feed

    def begin_phase(self, loader: Feed | None) -> None:
        """Let only this loader feed the new phase, if it began last."""
        if loader is self.newest:
            self._loaders = 1

    def begin_training(self, loader: Feed | None) -> None:
        """Let only this loader feed the new training."""
        self._loaders, self.newest = int(loader is not None), loader

    def begin_run(self, loader: Feed | None) -> None:
        """Let the loader that already feeds the training feed the new run."""
        self._loaders = int(loader is not None and loader.trains)

    def now(self, loader: Feed | None) -> float | None:
        """Return the epoch of a step on this loader's batch; None if it is unknown."""
        if self._reported is not None:
            return self._reported
        if loader is None or not loader.trains or loader.epoch is None or self._loaders != 1:
            return None
        return float(loader.epoch)
