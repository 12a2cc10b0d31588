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
    fast = steps.fast
    iterator._gputop_feed = None

    @stands_for(original_iter)
    def iterate(self: Any) -> Any:
        started = perf_counter()
        result = original_iter(self)
        if not steps.off:
            try:
                feed = feeds.get(self)
                if feed is None:
                    feed = feeds[self] = Feed()
                steps.end_early()
                if steps.facts is None:
                    steps.workers_begin()
                else:
                    steps.facts.stall.start()  # it ended if workers were forked, and they may be what never answers
                feed.begin(self, perf_counter() - started, steps.epochs.newest)
                result._gputop_feed = feed
                if feed.trains and steps.run is not None:
                    feed.record_facts(steps.run)
            except Exception as error:  # noqa: BLE001 - the script gets its batches, whatever went wrong with ours
                steps.failed(error)
        return result

    @stands_for(original_next)
    def fetch(self: Any) -> Any:
        started = perf_counter()
        if self._gputop_feed is fast.feed:
            try:
                batch = original_next(self)
            except StopIteration:
                _exhausted(steps, self._gputop_feed)
                raise
            fast.waited(perf_counter() - started)
            return batch
        if fast.mode == "fast":
            steps.end_early()
        steps.do_between_steps()
        if steps.off or not grad_enabled() or steps.on_other_thread():
            return original_next(self)
        try:
            batch = original_next(self)
        except StopIteration:
            _exhausted(steps, self._gputop_feed)
            raise
        took = perf_counter() - started
        try:
            with unseen(torch):
                steps.fetched(self._gputop_feed, batch, took)
        except Exception as error:  # noqa: BLE001 - as above
            steps.failed(error)
        return batch

    exclude(torch, iterate, fetch)
    loader.__iter__, iterator.__next__ = iterate, fetch


def _exhausted(steps: Steps, feed: Any) -> None:
    try:
        steps.end_early()
        if feed is not None:
            feed.ended()
            if feed.trains and steps.run is not None:
                feed.record_facts(steps.run)
    except Exception as error:  # noqa: BLE001 - as above
        steps.failed(error)
