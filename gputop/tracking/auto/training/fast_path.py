"""The fast path through an iteration: most short iterations record only their loss, their time and the wait for data.

Most of tracking's cost per iteration is code and data that torch has evicted from the caches and that must be fetched from
memory again. So only some short iterations are measured in full (``pace`` says which), and the others touch as little as
possible.

The wrappers (``hooks``, ``models``) take the fast path while the mode is "fast". Anything unusual (a second loss, an
evaluation, a checkpoint, a value on a GPU) ends it in the middle of an iteration: ``Training.end_early`` takes over what is
known, and the rest of the iteration takes the full path. Only plain iterations start it: one optimizer, one line that runs
backward, once per step, and no adapter or script that records the same values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from time import perf_counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

from gputop.tracking.auto.training.pace import FULL_FROM_S

if TYPE_CHECKING:
    from gputop.tracking.journal.writer import Deferred

Mode = Literal["full", "fast", "rest", "off"]
"""How the current iteration is measured: in full; on the fast path; in full, but only since it left the fast path; not at all,
because automatic tracking has stopped."""
NO_FEED = object()
"""Stands for a DataLoader's feed if no loader feeds the training."""
FastStep = tuple[int, float, float, float, float]
"""The record of a fast iteration: its step; its end, by ``perf_counter`` (on Linux the journal's clock); its duration in s;
its loss; its wait for data in s, or 0."""


class Stretch:
    """Consecutive fast iterations whose records are not written yet."""

    __slots__ = ("_names", "waiting")

    def __init__(self, names: tuple[str, str, str]) -> None:
        """``names`` are those of a step's time, its loss and its wait for data."""
        self._names = names
        self.waiting: deque[FastStep] = deque()

    def __bool__(self) -> bool:
        return bool(self.waiting)

    def __iter__(self) -> Iterator[Deferred]:
        """Yield each record once. Safe on any thread."""
        names, without_data = self._names, self._names[:2]
        while self.waiting:
            step, now, step_s, loss, data_s = self.waiting.popleft()
            if data_s:
                yield names, (step_s, loss, data_s), step, int(now * 1e9)
            else:
                yield without_data, (step_s, loss), step, int(now * 1e9)


class FastPath:
    """The mode, and what the fast path knows of the current iteration. Slots, adjacent in memory: every wrapper reads some.

    Its methods are its only writers.
    """

    __slots__ = (
        "_last_step",
        "_limit_s",
        "_optimizer_id",
        "_pause_every",
        "_record",
        "data_s",
        "feed",
        "in_backward",
        "loss",
        "mark",
        "mode",
        "pause_at",
        "step",
        "thread",
    )

    def __init__(self) -> None:
        self.mode: Mode = "full"
        self.in_backward = False
        """Whether a backward is running, on either path."""
        self.feed: object = NO_FEED
        """While the mode is "fast", the feed of the DataLoader whose wait counts."""
        self.loss: float | None = None
        self.data_s = 0.0
        self.mark = 0.0
        """When the last iteration ended, in seconds of ``perf_counter``."""
        self.step = self._last_step = self.pause_at = -1
        """Numbers of the last iteration, of the last one before the next full one, and of the one at which to pause."""
        self._pause_every = 0
        self._limit_s = FULL_FROM_S
        """An iteration that takes longer ends the fast path."""
        self.thread = 0
        self._optimizer_id = 0
        self._record: Callable[[FastStep], None] = Stretch(("", "", "")).waiting.append

    def __reduce__(self) -> Any:
        """Pickle as a stub: a class that is pickled by value and whose call we wrapped takes this object along."""
        return SimpleNamespace, (), {"mode": "off"}

    def begin(
        self, step: int, mark: float, last_step: int, pause_every: int, optimizer: Any, feed: Any, thread: int, stretch: Stretch
    ) -> None:
        """Take the fast path from the step after ``step``, which ended at ``mark``, to ``last_step``.

        Args:
            step: the last iteration.
            mark: when it ended, in seconds of ``perf_counter``.
            last_step: the last iteration before the next full one.
            pause_every: after how many iterations to pause; 0: never before the last one.
            optimizer: the only one that steps.
            feed: the feed whose waits count; None if no loader feeds the training.
            thread: the one that trains.
            stretch: takes the records.
        """
        self.step, self._last_step, self.mark, self._pause_every = step, last_step, mark, pause_every
        self._set_pause()
        self._optimizer_id, self.thread = id(optimizer), thread
        self._record = stretch.waiting.append
        self.loss, self.data_s, self._limit_s = None, 0.0, FULL_FROM_S
        self.feed = NO_FEED if feed is None else feed
        self.mode = "fast"

    def takes(self, tensor: Any) -> bool:
        """Take the loss that a backward begins on, and return True; return False if the full path has to take it."""
        if self.loss is not None or not tensor.is_cpu:
            return False
        try:
            self.loss = tensor.item()
        except Exception:  # noqa: BLE001 - more than one value: backward itself reports that
            return False
        self.in_backward = True
        return True

    def begin_backward(self) -> None:
        """Note that a backward begins on the full path."""
        self.in_backward = True

    def end_backward(self) -> None:
        """Note that the backward has ended, on either path."""
        self.in_backward = False

    def drop_loss(self) -> None:
        """Forget the loss of a backward that failed: no step came of it, and the script may retry."""
        self.loss = None

    def waited(self, seconds: float) -> None:
        """Add a wait for data."""
        self.data_s += seconds

    def stepped(self, optimizer: Any) -> bool:
        """Record an iteration that ends now, and return True; return False if it is not as usual."""
        now = perf_counter()
        took = now - self.mark
        # Take it at once: a signal handler that saves a checkpoint can end the fast path between any two calls.
        loss, self.loss = self.loss, None
        if loss is None or took >= self._limit_s or id(optimizer) != self._optimizer_id:
            self.loss = loss
            return False
        self.step = step = self.step + 1
        self._record((step, now, took, loss, self.data_s))
        self.data_s = 0.0
        self.mark = now
        return True

    def goes_on(self) -> bool:
        """At a pause: return whether the next iteration is fast too, and set the next pause."""
        if self.mode != "fast" or self.step >= self._last_step:
            return False
        self._set_pause()
        return True

    def _set_pause(self) -> None:
        self.pause_at = min(self._last_step, self.step + self._pause_every) if self._pause_every else self._last_step

    def end_soon(self) -> None:
        """End the fast path when the optimizer steps next. Safe on any thread, and between any two lines."""
        self._limit_s = 0.0

    def leave(self, mode: Literal["full", "rest"]) -> None:
        """Leave the fast path, or begin another iteration on the full one."""
        if self.mode != "off":
            self.mode = mode
            self.feed = NO_FEED

    def stop(self) -> None:
        """Stop all measuring for good."""
        self.mode, self.feed = "off", NO_FEED
