"""The writer of a journal, the hot path: ``Journal.log`` packs a record into the ring. It never raises, and waits for no
disk, GPU or reader; the kernel's copy may wait for a thread that changes the process's memory map (``format``).

Calls take turns without a lock (``turns``). Values are converted to floats outside of a turn, because that can run the
user's code.

One comparison against ``_limit`` covers everything rare: the end of a segment, the start of the flusher, write-through
without a ring, and the flusher's request for attention. A closed journal (finished, or inherited by fork) simply has no
plans, so that the hot path needs no check for it.
"""

from __future__ import annotations

import os
import struct
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from time import monotonic_ns, sleep, time_ns
from typing import Any

from gputop.tracking.journal import format as form
from gputop.tracking.journal.handlers import let_through
from gputop.tracking.journal.notice import reason, warn
from gputop.tracking.journal.writing import copies
from gputop.tracking.journal.writing.deferring import Deferring
from gputop.tracking.journal.writing.gpu_values import LateValues
from gputop.tracking.journal.writing.mapping import Mirror
from gputop.tracking.journal.writing.own_file import OwnFile
from gputop.tracking.journal.writing.turns import Turns
from gputop.tracking.journal.writing.values import METRICS_MAX, classify, level_name, plain, to_int

LATE_S = 1.0
"""How long the end of a run waits for values that are still on a GPU."""
LATE_MANY = 64
"""Once this many are pending, see which of them have arrived."""
CLOSE_S = 1.0
"""How long the end of a run waits for a record that is being written."""
ANCHOR_SHIFT_NS = 20_000_000
"""The clock offset is recorded again once the wall clock has moved by this much against the monotonic one."""

_all: weakref.WeakSet[Journal] = weakref.WeakSet()


class Journal(Deferring):
    """Writes one rank's stream, for all threads of its process."""

    def __init__(
        self,
        ring: memoryview[int],
        archive: OwnFile | None,
        *,
        through: bool,
        start_flusher: Callable[[], None] | None = None,
        wake_flusher: Callable[[], None] | None = None,
        mirror: Mirror | None = None,
    ) -> None:
        Deferring.__init__(self, ring, archive, through=through, wake_flusher=wake_flusher, mirror=mirror)
        self.closed = False
        self.attend: Callable[[], None] | None = None
        """Called on a logging thread, outside of a turn, after ``want_attention``."""
        self._start_flusher = start_flusher
        self._anchor_shift = 0
        self._late = self._inherited = LateValues()
        _all.add(self)

    def __copy__(self) -> Journal:
        return self

    def __deepcopy__(self, memo: Any) -> Journal:
        return self

    def __reduce__(self) -> Any:
        """Pickle as one of another process: a script may hold ``run.log``, which is our method."""
        return copies.journal, (copies.ticket(self),)

    def log(
        self,
        /,
        data: Mapping[str, Any] | None = None,
        step: int | None = None,
        commit: bool | None = None,
        *ignored: Any,
        **metrics: Any,
    ) -> None:
        """Record metrics: ``log(loss=0.4, step=3)`` or ``log({"train/loss": 0.4})``.

        Without ``step`` each call advances the step by one, except with ``commit=False``: the next call then has the same
        step. Names and steps may come at any time and in any order; NaN and infinities are data. Strings become text
        records, nested mappings names with "/". Never raises and never waits for a disk or a GPU: what cannot be logged is
        reported once on stderr.
        """
        try:
            now = monotonic_ns()
            written = False
            if data is not None:
                if type(data) is not dict and isinstance(data, Mapping):
                    data = dict(islice(data.items(), METRICS_MAX))
                metrics = {**data, **metrics}
            if type(step) is not int:
                if step is not None:
                    step = to_int(step)
                elif commit is False:
                    self.aside(metrics)
                    return
            writing = self._writing
            try:
                if writing.setdefault(0, metrics) is metrics:
                    plan = self._plans.get((*metrics,))
                    if plan is not None:
                        word, size = plan
                        position = self._position
                        end = position + size
                        if end <= self._limit:
                            if step is None:
                                step = self._step + 1
                            # Stores into views of the ring are cheaper than a packer, whose arguments have to be assembled.
                            words = self.words
                            at = position + self._shift >> 3
                            words[at] = word
                            words[at + 1] = step
                            words[at + 2] = now
                            at += 3
                            doubles = self._doubles
                            for value in metrics.values():
                                if type(value) is not float:
                                    break
                                doubles[at] = value
                                at += 1
                            else:
                                words[8] = self._position = end
                                if self._mirror is not None:
                                    self._mirror.follow(end)
                                self._step = step
                                written = True
                    del writing[0]
            except BaseException:
                self._release(metrics)
                raise
            if not written:
                self._log_slowly(metrics, step, now)
            elif self._parked:
                self._drain()
        except Exception as error:  # noqa: BLE001 - a logger must never end a training; the error is reported and counted
            self._failed(error)

    def _log_slowly(self, metrics: dict[str, Any], step: int | None, now: int) -> None:
        """Record metrics that are not all floats, have new names, reach the end of a segment, or find another call writing."""
        for value in metrics.values():
            if type(value) is not float:
                metrics = self._numbers(metrics, step, now)
                break
        self._enqueue(partial(self._unplanned, metrics, step, now))

    def state(self, kind: str, name: str, value: Any) -> None:
        """Record something that holds from now on (a fact, a configuration); the last value per kind and name counts."""
        event = {"type": kind, "name": name, "value": plain(value)}
        self._event(form.EVENT, event, (kind, name))

    def text(self, message: str, level: str | int = "info") -> None:
        """Record a line of text; ``level`` is a name, or a number of the module logging."""
        self._event(form.TEXT, {"level": level_name(level), "message": message[:4000]}, None)

    def _event(self, kind: int, event: dict[str, Any], key: tuple[str, str] | None) -> None:
        now = monotonic_ns()
        try:
            # Pack before taking a turn, because packing may raise. Stamp it with the current step.
            record = form.pack_json(kind, 0, self._step, now, event)
            self._enqueue(lambda: self._put_event(record, key, event))
        except Exception as error:  # noqa: BLE001 - as in log
            self._failed(error)

    def aside(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Record metrics at ``step``, by default the current one, without advancing the step."""
        now = monotonic_ns()
        at = self._step + 1 if step is None else step
        try:
            numbers = self._numbers(dict(metrics), at, now, count=False)
            self._enqueue(lambda: self._unplanned(numbers, at, now, count=False))
        except Exception as error:  # noqa: BLE001 - as in log
            self._failed(error)

    def anchor(self) -> None:
        """Record the offset of the wall clock from the monotonic one, if it changed."""
        shift = time_ns() - monotonic_ns()
        if abs(shift - self._anchor_shift) > ANCHOR_SHIFT_NS:
            self._anchor_shift = shift
            self._event(form.EVENT, {"type": "anchor", "name": "clock", "value": shift}, ("anchor", "clock"))

    def revive(self) -> None:
        """Start the flusher's thread again if a fork has ended it; without a record, nothing else would."""
        if not self.closed and self._start_flusher is not None:
            self._start_flusher()

    def want_attention(self) -> None:
        """Make the next ``log`` start the flusher if it ended, and ``attend``; called on the flusher's thread."""
        self._wants_attention = True
        self._limit = 0

    def close(self) -> None:
        """Stop accepting records, after writing the parked ones and those from a GPU that arrive soon."""
        end = monotonic_ns() + int(LATE_S * 1e9)
        self.catch_up()
        self.collect()
        while len(self._late) and monotonic_ns() < end:
            sleep(0.005)
            self.collect()
        end = monotonic_ns() + int(CLOSE_S * 1e9)
        while not self._exclusively(self._shut):
            if monotonic_ns() > end:
                # The writing call hangs, or its thread died while writing.
                self.closed, self._plans = True, {}
                return
            sleep(0.005)

    def _shut(self) -> None:
        self._empty_parked()
        if self._mirror is not None:
            self._mirror.follow(self._position)  # an exception may have ended a call before it did
        self.closed, self._plans, self._limit = True, {}, 0

    def after_fork_in_child(self) -> None:
        """Disable this journal: the ring belongs to the parent, and so may the current turn."""
        Turns.__init__(self, parked=1)
        self.closed, self._plans, self._limit = True, {}, 0
        self._inherited = self._late  # never freed: a forked child must not free memory that is pinned for a GPU
        self.forget_deferred()
        self._late = LateValues()
        self.archive = self._mirror = None

    def _numbers(self, metrics: dict[str, Any], step: Any, now: int, count: bool = True) -> dict[str, Any]:
        if self.closed:
            return {}
        good, texts, late = classify(metrics)
        for text in texts:
            self.text(text)
        if late:
            given = None if step is None else to_int(step)
            at = self._step + 1 if given is None else given
            for name, value in late:
                self._late.stage(name, value, at, now)
            if not good and count:
                self._step = at  # there is no record yet, but the step counts
        self.collect()
        return good

    def stage(self, name: str, value: Any, step: int, time_ns: int) -> None:
        """Record a number that is still on a GPU once it has arrived, without advancing the step. Never waits."""
        if len(self._late) >= LATE_MANY:
            self.collect()
        if not self.closed:
            self._late.stage(name, value, step, time_ns)

    def collect(self) -> None:
        """Record the values that have arrived from a GPU since the last call. Safe on any thread."""
        if len(self._late):
            self._enqueue(self._write_landed)

    def _write_landed(self) -> None:
        for name, value, step, logged_at in self._late.landed():
            self._unplanned({name: value}, step, logged_at, count=False)

    def _after_turn(self) -> None:
        if not self._wants_attention or 0 in self._writing:
            return
        self._wants_attention = False
        if self.closed:
            return
        if self._start_flusher is not None:
            self._start_flusher()
        if self.attend is not None:
            self.attend()

    def _unplanned(self, metrics: Mapping[str, Any], step: int | None, now: int, count: bool = True) -> None:
        """Write a record whose set of names may be new, or too large for one record. Must run in a turn."""
        if self.closed or not metrics:
            return
        if step is None:
            step = self._step + 1
        names = tuple(metrics)
        if not all(type(name) is str for name in names):
            metrics = {str(name): value for name, value in metrics.items()}
            names = tuple(metrics)
        for part, plan in self._parts(names, now):
            self._put_scalars(plan[0], step, now, [metrics[name] for name in part])
        if count:
            self._step = step

    def _put_event(self, record: bytes, key: tuple[str, str] | None, event: dict[str, Any]) -> None:
        if self.closed:
            return
        if key is not None:
            self._stated[key] = event
            if key[0] == "card":
                self._note(event)
        self._put(record)

    def _put_scalars(self, word: int, step: int, now: int, values: Iterable[float]) -> None:
        """Write a scalars record without the fast path. Must run in a turn."""
        if self.words[form.W_STATE] == form.STARTING:
            self.set_word(form.W_STATE, form.RUNNING)
            if self._start_flusher is not None:
                self._start_flusher()
        self._put(struct.pack("=qqq", word, step, now) + struct.pack(f"={(word >> 32) // 8 - 3}d", *values))

    def _failed(self, error: Exception) -> None:
        let_through(error)
        try:
            self.set_word(form.W_ERRORS, self.words[form.W_ERRORS] + 1)
            warn(f"a log call failed and was skipped ({reason(error)}).", about="a log call")
        except Exception:  # noqa: BLE001 - the interpreter is shutting down, or its stack is full
            return


def _after_fork_in_child() -> None:
    for item in list(_all):
        item.after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
