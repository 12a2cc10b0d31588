"""The writer of a journal: the hot path. ``Journal.log`` packs a record into the ring; it never waits and never raises.

Locking, as the trials taught it: a re-entrant lock and a ``busy`` flag. A call from inside a call (a signal handler, a
``__del__``) parks its record at once; another thread waits at most 20 ms and then parks; whoever leaves the lock writes
what is parked. Values are turned into floats before the lock is taken, because that can run the user's code.

One comparison against ``_limit`` covers all that is rare: the end of a segment, the start of the flusher, write-through
without a ring, and a request of the flusher for attention. A closed journal (finished, or inherited by fork) is one
without plans, so that the hot path needs no check for it.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from time import monotonic_ns, sleep, time_ns
from typing import Any

from gputop.tracking import journal as form
from gputop.tracking.journal_stream import Plan, Stream
from gputop.tracking.late import LateValues
from gputop.tracking.notice import tell
from gputop.tracking.values import plain, sort_out, whole

LATE_S = 1.0
"""How long the end of a run waits for values that are still on a GPU."""
WAIT_S = 0.02
"""How long a thread waits for another one's record before it parks its own."""
PARKED = 10_000
BEHIND = 32
BEHIND_NS = 50_000_000
"""Records given to ``later`` wait for so many others, or for so long, whichever comes first."""
ANCHOR_SHIFT_NS = 20_000_000
"""A wall clock that moved against the monotonic one by this much is written down again."""

_all: weakref.WeakSet[Journal] = weakref.WeakSet()


class Journal(Stream):
    """Writes one rank's stream, for all threads of its process."""

    def __init__(
        self,
        ring: mmap.mmap,
        archive_fd: int,
        *,
        through: bool,
        start_flusher: Callable[[], None] | None = None,
        kick: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(ring, archive_fd, through=through, kick=kick)
        self.closed = False
        self.attend: Callable[[], None] | None = None
        """Called on a logging thread, outside the lock, after ``want_attention``."""
        self._start_flusher = start_flusher
        self._schemas = 0
        self._lock = threading.RLock()
        self._acquire, self._release = self._lock.acquire, self._lock.release
        self._busy = False
        self._parked: deque[Callable[[], None]] = deque(maxlen=PARKED)
        self._behind: deque[tuple[dict[str, float], int, int]] = deque()
        self._caught_up = 0
        self._anchor_shift = 0
        self._late = LateValues()
        _all.add(self)

    def log(
        self,
        /,
        data: Mapping[str, Any] | None = None,
        step: int | None = None,
        commit: bool | None = None,
        **metrics: Any,
    ) -> None:
        """Record metrics: ``log(loss=0.4, step=3)`` or ``log({"train/loss": 0.4})``.

        Without ``step`` each call counts one up. Any name at any time, any step in any order; NaN and infinities are
        data. Strings become text records, nested mappings names with "/". ``commit`` is accepted and ignored. Never
        raises and never waits for a disk or a GPU: what cannot be logged is told once on stderr.
        """
        now = monotonic_ns()
        try:
            if data is not None:
                metrics = {**data, **metrics}
            values = metrics.values()
            for value in values:
                if type(value) is not float:
                    metrics = self._numbers(metrics, step, now)
                    values = metrics.values()
                    break
            if step is not None and type(step) is not int:
                step = whole(step)
            if not self._acquire(False) and not self._acquire(True, WAIT_S):
                self._park(metrics, step, now)
                return
            if self._busy:
                self._release()
                # No lambda: names that it would close over are slower to use, in all calls.
                self._parked.append(partial(self._unplanned, metrics, step, now))
                return
            self._busy = True
            try:
                plan = self._plans.get((*metrics,))
                if plan is None:
                    self._unplanned(metrics, step, now)
                else:
                    pack_into, word, size = plan
                    if step is None:
                        step = self._step + 1
                    position = self._position
                    end = position + size
                    if end > self._limit:
                        self._rare(word, step, now, values)
                    else:
                        pack_into(self.ring, position + self._shift, word, step, now, *values)
                        self.words[8] = self._position = end
                    self._step = step
            finally:
                self._busy = False
                self._release()
            if self._parked:
                self._drain()
        except Exception as error:  # noqa: BLE001 - a logger must never end a training; the reason is told and counted
            self._failed(error)

    def later(self, metrics: dict[str, float], step: int) -> None:
        """Record floats soon: with the ones that follow, 50 ms from now at most as long as any do, else at the next flush.

        For a caller between two operations of torch, whose code has to be fetched from memory each time: written
        together, records cost a fifth. A process that is killed loses those that wait.
        """
        now = monotonic_ns()
        self._step = step
        self._behind.append((metrics, step, now))
        if now - self._caught_up > BEHIND_NS or len(self._behind) >= BEHIND or self.through:
            self.catch_up()
            if self._parked:
                self._drain()

    def catch_up(self) -> None:
        """Write the records that wait; from any thread."""
        self._caught_up = monotonic_ns()
        if not self._behind or not self._acquire(True, WAIT_S):
            return
        if self._busy:
            self._release()
            return
        self._busy = True
        try:
            while self._behind:
                metrics, step, at = self._behind.popleft()
                plan = self._plans.get((*metrics,))
                if plan is None or self._position + plan[2] > self._limit:
                    self._unplanned(metrics, step, at, count=False)
                else:
                    plan[0](self.ring, self._position + self._shift, plan[1], step, at, *metrics.values())
                    self._position += plan[2]
                    self.words[8] = self._position
        except Exception as error:  # noqa: BLE001 - as in log
            self._failed(error)
        finally:
            self._busy = False
            self._release()

    def state(self, kind: str, name: str, value: Any) -> None:
        """Record something that holds from now on (a fact, a configuration): the last one per kind and name counts."""
        event = {"type": kind, "name": name, "value": plain(value)}
        self._event(form.EVENT, event, (kind, name))

    def text(self, message: str, level: str = "info") -> None:
        """Record a line of text."""
        self._event(form.TEXT, {"level": level[:20], "message": message[:4000]}, None)

    def _event(self, kind: int, event: dict[str, Any], key: tuple[str, str] | None) -> None:
        now = monotonic_ns()
        try:
            # Packed before the lock: it may refuse. Stamped with the step that is going on.
            record = form.pack_json(kind, 0, self._step, now, event)
            self._guarded(lambda: self._put_event(record, key, event))
        except Exception as error:  # noqa: BLE001 - as in log
            self._failed(error)

    def aside(self, metrics: Mapping[str, Any]) -> None:
        """Record metrics at the step that is going on, without counting a step."""
        now = monotonic_ns()
        try:
            numbers = self._numbers(dict(metrics), self._step + 1, now)
            self._guarded(lambda: self._unplanned(numbers, self._step + 1, now, count=False))
        except Exception as error:  # noqa: BLE001 - as in log
            self._failed(error)

    def anchor(self) -> None:
        """Write down how the wall clock stands against the monotonic one, if that changed."""
        shift = time_ns() - monotonic_ns()
        if abs(shift - self._anchor_shift) > ANCHOR_SHIFT_NS:
            self._anchor_shift = shift
            self._event(form.EVENT, {"type": "anchor", "name": "clock", "value": shift}, ("anchor", "clock"))

    def want_attention(self) -> None:
        """Ask that the next ``log`` calls ``attend``; from the flusher's thread."""
        self._wants_attention = True
        self._limit = 0

    def close(self) -> None:
        """Accept no more records; what is parked is written first, and what is on its way from a GPU, if it comes soon."""
        end = monotonic_ns() + int(LATE_S * 1e9)
        self.catch_up()
        self.collect()
        while len(self._late) and monotonic_ns() < end:
            sleep(0.005)
            self.collect()
        if self._acquire(True, 1.0):
            try:
                self._drain()
            finally:
                self.closed, self._plans, self._limit = True, {}, 0
                self._release()
        else:
            self.closed, self._plans = True, {}

    def after_fork_in_child(self) -> None:
        """Make this a dead journal: the ring belongs to the parent, and so may the lock."""
        self._lock = threading.RLock()
        self._acquire, self._release = self._lock.acquire, self._lock.release
        self._busy, self.closed, self._plans, self._limit = False, True, {}, 0
        self._parked, self._behind, self._late = deque(maxlen=1), deque(), LateValues()
        self.archive_fd = -1

    def named(self) -> list[tuple[str, ...]]:
        """Return the sets of names that were logged so far."""
        return list(self._plans)

    def _numbers(self, metrics: dict[str, Any], step: Any, now: int) -> dict[str, Any]:
        if self.closed:
            return {}
        good, texts, late = sort_out(metrics)
        for text in texts:
            self.text(text)
        if late:
            given = None if step is None else whole(step)
            at = self._step + 1 if given is None else given
            for name, value in late:
                self._late.stage(name, value, at, now)
            if not good:
                self._step = at  # no record now: the step counts all the same
        self.collect()
        return good

    def collect(self) -> None:
        """Record the values that have arrived from a GPU since the last call; from any thread."""
        if len(self._late):
            self._guarded(self._write_landed)

    def _write_landed(self) -> None:
        for name, value, step, logged_at in self._late.landed():
            self._unplanned({name: value}, step, logged_at, count=False)

    def _park(self, metrics: dict[str, Any], step: int | None, now: int) -> None:
        self._parked.append(lambda: self._unplanned(metrics, step, now))
        self._drain()

    def _guarded(self, action: Callable[[], None]) -> None:
        self._parked.append(action)
        if self._acquire(True, WAIT_S):
            self._release()
            self._drain()

    def _drain(self) -> None:
        """Do what is parked, unless somebody else is at it: then they do it when they leave."""
        while self._parked and self._acquire(False):
            if self._busy:
                self._release()
                return
            self._busy = True
            try:
                while self._parked:
                    self._do(self._parked.popleft())
            finally:
                self._busy = False
                self._release()
            if self._wants_attention:
                self._attend()

    def _do(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - as in log; one bad record must not keep the others
            self._failed(error)

    def _attend(self) -> None:
        self._wants_attention = False
        if self.attend is not None and not self.closed:
            self.attend()

    def _unplanned(self, metrics: Mapping[str, Any], step: int | None, now: int, count: bool = True) -> None:
        """Write a record whose set of names may be new, or too large for one record; the lock is held."""
        if self.closed or not metrics:
            return
        if step is None:
            step = self._step + 1
        names = tuple(metrics)
        if not all(type(name) is str for name in names):
            metrics = {str(name): value for name, value in metrics.items()}
            names = tuple(metrics)
        for start in range(0, len(names), form.NAMES_PER_RECORD):
            part = names[start : start + form.NAMES_PER_RECORD]
            plan = self._plans.get(part) or self._new_plan(part, now)
            if plan is not None:
                self._rare(plan[1], step, now, [metrics[name] for name in part])
        if count:
            self._step = step

    def _new_plan(self, names: tuple[str, ...], now: int) -> Plan | None:
        if self._schemas >= form.SCHEMAS:
            tell(f"more than {form.SCHEMAS} different sets of metric names: new ones are not logged. Log fixed names.")
            self.words[form.W_DROPPED] += 1
            return None
        schema = self._schemas
        line = [name[: form.NAME_CHARACTERS] for name in names]
        self._put(form.pack_json(form.SCHEMA, schema, self._step, now, line))
        self._schemas += 1
        self._note({"schema": schema, "names": line})
        packer = form.scalars_struct(len(names))
        plan = self._plans[names] = (packer.pack_into, form.scalars_word(schema, len(names)), packer.size)
        return plan

    def _put_event(self, record: bytes, key: tuple[str, str] | None, event: dict[str, Any]) -> None:
        if self.closed:
            return
        if key is not None:
            self._stated[key] = event
            if key[0] == "card":
                self._note(event)
        self._put(record)

    def _rare(self, word: int, step: int, now: int, values: Iterable[float]) -> None:
        """Write a scalars record the long way; the lock is held."""
        if self.words[form.W_STATE] == form.STARTING:
            self.words[form.W_STATE] = form.RUNNING
            if self._start_flusher is not None:
                self._start_flusher()
        if self._wants_attention:
            self._parked.append(lambda: None)  # wakes the drain
        self._put(struct.pack("=qqq", word, step, now) + struct.pack(f"={(word >> 32) // 8 - 3}d", *values))

    def _failed(self, error: Exception) -> None:
        try:
            self.words[form.W_ERRORS] += 1
        except ValueError:
            return
        tell(f"a log call failed and was skipped ({type(error).__name__}: {error}).")


def _after_fork_in_child() -> None:
    for item in list(_all):
        item.after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
