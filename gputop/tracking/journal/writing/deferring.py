"""Records that wait to be written together with those that follow: cheaper for a caller between two torch operations.

They are written by the call that defers the next one, or by the flusher's thread, whichever comes first. A process that is
killed loses the pending ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import monotonic_ns
from typing import Any

from gputop.tracking.journal import format as form
from gputop.tracking.journal.writing.mapping import Mirror
from gputop.tracking.journal.writing.own_file import OwnFile
from gputop.tracking.journal.writing.schemas import Schemas
from gputop.tracking.journal.writing.turns import Turns

DEFERRED_MAX = 512
DEFERRED_NS = 50_000_000
"""Records passed to ``defer`` wait until this many are pending, or for this long, whichever comes first."""

Deferred = tuple[tuple[str, ...], tuple[float, ...], int, int]
"""A record that is waiting to be written together with others: names, values, step, time."""


class Deferring(Turns, Schemas):
    """A stream with records that wait."""

    def __init__(
        self,
        ring: memoryview[int],
        archive: OwnFile | None,
        *,
        through: bool,
        wake_flusher: Callable[[], None] | None,
        mirror: Mirror | None,
    ) -> None:
        Schemas.__init__(self, ring, archive, through=through, wake_flusher=wake_flusher, mirror=mirror)
        Turns.__init__(self)
        self.deferred: deque[Iterable[Deferred]] = deque()
        """Records that are waiting to be written together; each is yielded once."""
        self.stretch: Iterable[Deferred] | None = None
        """Further such records, which automatic tracking appends without a call; falsy while there are none."""
        self.own_ns = 0
        """For this long after the training has written deferred records, the thread leaves further ones to the training."""
        self._caught_up = 0
        self.quick = False
        """Whether the flusher's thread polls often, because records are deferred."""

    def _unplanned(self, metrics: Mapping[str, Any], step: int | None, now: int, count: bool = True) -> None:
        """Write a record whose set of names may be new."""
        raise NotImplementedError

    def defer(self, metrics: dict[str, float], step: int, count: bool = True, at_ns: int | None = None) -> None:
        """Record floats soon, together with those that follow: within about 80 ms.

        ``count``: whether the next ``log`` call without a step gets the step after this one. ``at_ns``: their time, if not now.

        For a caller between two torch operations, whose code must be fetched from memory each time: records that are written
        together cost a fifth. A process that is killed loses the pending ones.
        """
        now = monotonic_ns()
        if count:
            self._step = step
        self.deferred.append(iter((((*metrics,), (*metrics.values(),), step, now if at_ns is None else at_ns),)))
        if now - self._caught_up > DEFERRED_NS or len(self.deferred) >= DEFERRED_MAX or self.through:
            self.catch_up()
            self._drain()
        elif not self.quick:
            self.poll_often()

    def write_own(self, for_ns: int) -> None:
        """Leave deferred records to the training for this long after it has written some; 0: never."""
        self.own_ns = for_ns

    def begin_stretch(self, stretch: Iterable[Deferred]) -> None:
        """Write these records, too: the caller adds further ones without a call."""
        self.stretch = stretch

    def end_stretch(self) -> None:
        """Write the last records of the stretch before those that are deferred from now on."""
        stretch, self.stretch = self.stretch, None
        if stretch is not None:
            self.deferred.append(stretch)

    def poll_often(self) -> None:
        """Make the flusher's thread poll often for pending records from now on."""
        self.quick = True
        if self._wake_flusher is not None:
            self._wake_flusher()

    @property
    def waits(self) -> bool:
        """Whether records are pending."""
        return bool(self.deferred or self.stretch)

    def catch_up(self, after_ns: int = 0) -> bool:
        """Write pending records, unless some were written within ``after_ns``; return whether any were pending.

        Safe on any thread.
        """
        if not self.waits:
            return False
        now = monotonic_ns()
        # Without ``after_ns``, everything is written, even if a script sets the clock back.
        if after_ns and now - self._caught_up < after_ns:
            return True
        self._caught_up = now
        try:
            self._exclusively(self._write_deferred)
            self._run_parked()
        except Exception as error:  # noqa: BLE001 - as in Journal.log
            self._failed(error)
        return True

    def _waiting(self) -> Iterator[Deferred]:
        deferred = self.deferred
        while deferred:
            # Exhaust it before removing it, so that an exception in between leaves the others in place.
            yield from deferred[0]
            deferred.popleft()
        if self.stretch:
            yield from self.stretch

    def _write_deferred(self) -> None:
        words, doubles, mirror = self.words, self._doubles, self._mirror
        for names, values, step, now in self._waiting():
            plan = self._plans.get(names)
            if plan is None or self._position + plan[1] > self._limit:
                # Copies what was written before it, too.
                self._unplanned(dict(zip(names, values, strict=True)), step, now, count=False)
                continue
            at = self._position + self._shift >> 3
            words[at], words[at + 1], words[at + 2] = plan[0], step, now
            at += 3
            for value in values:
                doubles[at] = value
                at += 1
            self._position += plan[1]
            words[form.W_HEAD] = self._position
        if mirror is not None:
            mirror.follow(self._position)

    def forget_deferred(self) -> None:
        """Drop the pending records: in a forked child, they belong to the parent."""
        self.deferred, self.stretch = deque(), None
