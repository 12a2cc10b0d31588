"""The fast path through an iteration: most short iterations record only their loss, their time and the wait for data.

Most of tracking's cost per iteration is code and data that torch has evicted from the caches and that must be fetched from
memory again. So of short iterations only about ``FULL_PER_S`` per second are measured in full, at least one in
``FULL_ONE_IN``, and the others touch as little as possible. Iterations of ``FULL_FROM_S`` or longer are all measured in full.

The step number alone decides which ones, so that ranks in step with each other pick the same ones, and those picked at a
lower share are a subset of those at a higher share. Multiples of the golden ratio are evenly spread over any period (the
number of loader workers, a script that logs every 10 steps), and the widest gap is less than three times the narrowest.

The wrappers (``hooks``, ``models``) take the fast path while ``on`` is set. Anything unusual (a second loss, an evaluation, a
checkpoint, a value on a GPU) ends it in the middle of an iteration: ``end_early`` hands over what is known, and the rest of
the iteration takes the full path. Only plain iterations start it: one optimizer, one line that runs backward, once per
step, and no adapter or script that records the same values.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Iterator
from threading import get_ident
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from gputop.tracking.auto.losses.reduction import UNREAD
from gputop.tracking.auto.losses.sites import Site

if TYPE_CHECKING:
    from gputop.tracking.auto.training.state import Training
    from gputop.tracking.journal.writer import Deferred

FULL_PER_S = 20.0
FULL_FROM_S = 1 / FULL_PER_S
FULL_ONE_IN = 128
"""At least one iteration in this many is measured in full."""
PLAIN_STEPS = 8
"""This many plain iterations must come first; after one that ended early, two more."""
WRITE_EVERY_S = 0.045
WRITE_STEPS_MIN = 8
"""The training thread itself writes the records of this period, if it holds at least this many iterations: a thread that
fetches them stops the training for longer."""
NO_FEED = object()
"""Stands for a DataLoader's feed if no loader feeds the training."""
FastStep = tuple[int, float, float, float, float]
"""The record of a fast iteration: its step; its end, by ``perf_counter`` (on Linux the journal's clock); its duration in s;
its loss; its wait for data in s, or 0."""
_GOLDEN = 0x9E3779B1
"""2**32 divided by the golden ratio."""
_ALL = 1 << 32


def full_share(step_s: float) -> int:
    """Return which share of iterations of ``step_s`` seconds is measured in full, in units of 2**-32."""
    part = 1
    while part < FULL_ONE_IN and step_s * part < FULL_FROM_S:
        part *= 2
    return _ALL // part


def is_full(step: int, share: int) -> bool:
    """Return whether an iteration is measured in full; ``share`` is in units of 2**-32."""
    return step * _GOLDEN % _ALL < share


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
    """The state of the fast path. Slots, adjacent in memory, because every wrapper reads some of them."""

    __slots__ = (
        "_fetches",
        "_last_step",
        "_plain_steps",
        "_share",
        "_site",
        "_steps",
        "_stretch",
        "_write_every",
        "data_s",
        "feed",
        "in_backward",
        "limit_s",
        "loss",
        "mark",
        "on",
        "optimizer_id",
        "pause_at",
        "record",
        "step",
        "supported",
        "thread",
    )

    def __init__(self, steps: Training) -> None:
        self._steps = steps
        self._plain_steps = 0
        self._share = _ALL
        self._write_every = 0
        """The training writes pending records after this many iterations; 0: never."""
        self._fetches = False
        """Whether each iteration fetches a batch from a DataLoader."""
        self._site: Site | None = None
        self._stretch = Stretch(("step_s", "loss", "phase/data"))
        self.supported = True
        """Whether the wrapper of backward supports the fast path."""
        self.on = False
        """Whether the current iteration is on the fast path."""
        self.in_backward = False
        """Whether a backward is running, on either path."""
        self.feed: object = NO_FEED
        """While ``on``, the feed of the DataLoader whose wait counts."""
        self.loss: float | None = None
        self.data_s = 0.0
        self.mark = 0.0
        """When the last iteration ended, in seconds of ``perf_counter``."""
        self.step = self._last_step = self.pause_at = -1
        """Numbers of the last iteration, of the last one before the next full one, and of the one at which to ``pause``."""
        self.limit_s = FULL_FROM_S
        """An iteration that takes longer ends the fast path; 0 forces this for the current one."""
        self.thread = 0
        self.optimizer_id = 0
        """The ``id`` of the only optimizer."""
        self.record: Callable[[FastStep], None] = self._stretch.waiting.append
        """Stores the record of an iteration."""

    def __reduce__(self) -> Any:
        """Pickle as a stub: a class that is pickled by value and whose call we wrapped takes this object along."""
        return SimpleNamespace, (), {"on": False}

    @property
    def reached(self) -> int:
        """The last step, on either path. Safe on any thread."""
        return self.step if self.on else self._steps.step

    @property
    def marked(self) -> float | None:
        """When the last step ended, in seconds of ``perf_counter``."""
        return self.mark if self.on else self._steps.mark

    def is_plain(self) -> bool:
        """Return whether the iteration that is ending on the full path had nothing special."""
        steps = self._steps
        pending = steps.sites.pending
        self._fetches = steps.fetched == 1
        return (
            len(pending) == len(steps.optimizers) == 1
            and type(pending[0].total) is float
            and steps.fetched <= 1
            and not (steps.partial or steps.interrupted or steps.sites.inside or steps.blind)
        )

    def decide(self, plain: bool) -> None:
        """Decide after a full-path iteration whether the next ones are fast; ``plain``: it had nothing special."""
        steps = self._steps
        if plain:
            self._plain_steps += 1
        elif not steps.partial:
            self._plain_steps = 0
        steps.partial = False
        if not self.supported or self._plain_steps < PLAIN_STEPS or steps.records is None or steps.journal is None:
            return
        site, feed, optimizer = steps.sites.only(), steps.loader, steps.last() if steps.last is not None else None
        names = steps.records.names_if_fast()
        if site is None or optimizer is None or names is None or (feed is not None and feed.batches.counting):
            return
        if self._plain_steps % PLAIN_STEPS == 0:
            usual_s = statistics.median(steps.recent_s)
            self._share = full_share(usual_s)
            self._write_every = int(WRITE_EVERY_S / usual_s) if usual_s * WRITE_STEPS_MIN < WRITE_EVERY_S else 0
            steps.journal.own_ns = int(WRITE_EVERY_S * 1e9) if self._write_every else 0
        number, until = steps.step + 1, min(steps.facts_due, steps.batches_from)
        while number < until and not is_full(number, self._share):
            number += 1
        if number > steps.step + 1 and steps.mark is not None:
            self.step, self._last_step, self.mark = steps.step, number - 1, steps.mark
            self._set_pause()
            self._site, self.optimizer_id, self.thread = site, id(optimizer), steps.thread
            self._stretch = steps.journal.stretch = Stretch(names)
            self.record = self._stretch.waiting.append
            self.loss, self.data_s, self.limit_s = None, 0.0, FULL_FROM_S
            self.feed = feed if self._fetches else NO_FEED
            self.on = steps.partial = True

    def _set_pause(self) -> None:
        self.pause_at = min(self._last_step, self.step + self._write_every) if self._write_every else self._last_step

    def pause(self) -> None:
        """Between two iterations: write pending records, or make the next iteration a full one."""
        journal = self._steps.journal
        if not self.on or self.step >= self._last_step:
            self.finish()
        else:
            self._set_pause()
        if journal is not None and self._write_every:
            journal.catch_up(int(WRITE_EVERY_S / 2 * 1e9))

    def finish(self) -> None:
        """Between two iterations: leave the fast path, so that the next iteration is measured in full."""
        steps = self._steps
        self.on = steps.partial = False
        self.feed = NO_FEED
        taken = self.step - steps.step
        steps.taken += taken
        if steps.loader is not None and self._fetches:
            steps.loader.handed_out += taken
        steps.step, steps.mark = self.step, self.mark
        if steps.journal is not None:
            steps.journal.stretch = None
            steps.journal.deferred.append(self._stretch)
            if steps.records is not None and steps.records.numbered_by_us:
                steps.journal.continue_from(self.step)
        steps.fetched, steps.gc_s = 0, 0.0

    def abort(self) -> None:
        """Leave the fast path without handing anything over."""
        self.on = False
        self.feed = NO_FEED

    def disqualify(self) -> None:
        """End early and require ``PLAIN_STEPS`` plain iterations again: the next ones will not be plain either."""
        self.end_early()
        self._plain_steps = 0

    def end_early(self) -> None:
        """In the middle of an iteration: put the rest of it on the full path. A no-op on any thread but the training's."""
        if not self.on or get_ident() != self.thread:
            return
        try:
            self._end_early()
        except Exception as error:  # noqa: BLE001 - the training continues
            self._steps.failed(error)

    def _end_early(self) -> None:
        steps, gc_s = self._steps, self._steps.gc_s
        self._plain_steps = min(self._plain_steps, PLAIN_STEPS - 2)
        self.finish()
        steps.partial = True
        steps.gc_s, steps.data_s = gc_s, self.data_s
        if self.data_s:
            steps.fetched = 1
            if steps.loader is not None:
                steps.loader.handed_out += 1
        if self.loss is not None and self._site is not None:
            self._site.begin(self.loss, UNREAD)
            steps.sites.pending.append(self._site)
            self.loss = None
