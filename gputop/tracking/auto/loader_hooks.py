"""The hooks into torch's DataLoader: when an iteration over it begins and ends, and what each batch is and took.

They follow the rules of ``hooks``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from time import perf_counter
from typing import Any

from gputop.tracking.auto.readings.loader import Feed
from gputop.tracking.auto.steps import Steps
from gputop.tracking.auto.training.state import Training
from gputop.tracking.no_compile import exclude
from gputop.tracking.stand_in import stands_for
from gputop.tracking.unseen import unseen


def patch_loader(torch: Any, steps: Steps) -> None:
    """Install the wrappers; once per process."""
    data: Any = torch.utils.data.dataloader
    loader, iterator = data.DataLoader, data._BaseDataLoaderIter
    original_iter, original_next = loader.__iter__, iterator.__next__
    feeds: weakref.WeakKeyDictionary[Any, Feed] = weakref.WeakKeyDictionary()
    grad_enabled: Callable[[], bool] = torch.is_grad_enabled
    training = steps.training
    fast = training.fast
    iterator._gputop_feed = None

    @stands_for(original_iter)
    def iterate(self: Any) -> Any:
        started = perf_counter()
        result = original_iter(self)
        if not training.off:
            try:
                feed = feeds.get(self)
                if feed is None:
                    feed = feeds[self] = Feed()
                training.end_early()
                if steps.facts is None:
                    training.workers_begin()
                else:
                    steps.facts.stall.start()  # it ended if workers were forked, and they may be what never answers
                feed.begin(self, perf_counter() - started, steps.epochs.newest)
                result._gputop_feed = feed
                if feed.trains and training.run is not None:
                    feed.record_facts(training.run)
            except Exception as error:  # noqa: BLE001 - the script gets its batches, whatever went wrong with ours
                training.failed(error)
        return result

    @stands_for(original_next)
    def fetch(self: Any) -> Any:
        started = perf_counter()
        if self._gputop_feed is fast.feed:
            try:
                batch = original_next(self)
            except StopIteration:
                _exhausted(training, self._gputop_feed)
                raise
            fast.waited(perf_counter() - started)
            return batch
        if fast.mode == "fast":
            training.end_early()
        training.do_between_steps()
        if training.off or not grad_enabled() or training.on_other_thread():
            return original_next(self)
        try:
            batch = original_next(self)
        except StopIteration:
            _exhausted(training, self._gputop_feed)
            raise
        took = perf_counter() - started
        try:
            with unseen(torch):
                training.fetched(self._gputop_feed, batch, took)
        except Exception as error:  # noqa: BLE001 - as above
            training.failed(error)
        return batch

    exclude(torch, iterate, fetch)
    loader.__iter__, iterator.__next__ = iterate, fetch


def _exhausted(training: Training, feed: Any) -> None:
    try:
        training.end_early()
        if feed is not None:
            feed.ended()
            if feed.trains and training.run is not None:
                feed.record_facts(training.run)
    except Exception as error:  # noqa: BLE001 - as above
        training.failed(error)
