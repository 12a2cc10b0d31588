"""The fast path through an iteration: most short iterations record only their loss, their time and the wait for data.

Most of tracking's cost per iteration is fetching code and data again that torch has evicted from the caches. So only some short
iterations are measured in full (``pace`` says which), and the others touch as little as possible. The record of a step at which
an iteration ends has its times; one of another optimizer has only the losses since the step before.

The wrappers (``hooks``, ``models``) take the fast path while the mode is "fast". Anything unusual (an evaluation, a
checkpoint, a loss of another line) ends it in the middle of an iteration: ``Training.end_early`` takes over what is known, and
the rest of the iteration takes the full path. Only plain iterations start it: all optimizers step in each, in one order, and no
adapter or script records the same values.

A loss on a GPU is not read: the optimizer's step queues its copy, and the journal records it once that has arrived.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

from gputop.tracking.auto.losses import values
from gputop.tracking.auto.training.pace import FULL_FROM_S
from gputop.tracking.auto.training.several_losses import Several
from gputop.tracking.journal.handlers import let_through
from gputop.tracking.unseen import mode_counts

if TYPE_CHECKING:
    from gputop.tracking.auto.losses.site import Site
    from gputop.tracking.journal.writing.deferring import Deferred

Mode = Literal["full", "fast", "rest", "off"]
"""How the current iteration is measured: in full; on the fast path; in full, but only since it left the fast path; not at all,
because automatic tracking has stopped. A ``Literal`` and not an enum: a class that is pickled by value takes its wrapped
``__call__``, which reads the mode, into processes without gputop."""
NO_FEED = object()
"""Replaces a DataLoader's feed if no loader feeds the training."""
FastStep = tuple[tuple[str, ...], tuple[float, ...], int, float]
"""A record: names, values, step, and time by ``perf_counter`` (on Linux the journal's clock)."""
Names = tuple[tuple[str, ...], tuple[str, ...]]
"""Those of the values of an iteration: without its wait for data, and with it."""
Late = Callable[[str, Any, int, int], None]
"""Records a value that is still on a GPU once it has arrived: its name, the value, its step, its time (monotonic, ns)."""


class Stretch:
    """Consecutive fast iterations whose records are not written yet."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: deque[FastStep] = deque()

    def __bool__(self) -> bool:
        return bool(self.waiting)

    def __iter__(self) -> Iterator[Deferred]:
        """Yield each record once. Safe on any thread."""
        while self.waiting:
            names, values, step, now = self.waiting.popleft()
            yield names, values, step, int(now * 1e9)


class FastTurn:
    """The step of one optimizer in a fast iteration: what comes before it, and the names of its values."""

    __slots__ = ("lines", "losses", "number", "optimizer")

    def __init__(self, number: int, optimizer: Callable[[], Any], lines: list[Site], losses: tuple[str, ...]) -> None:
        """Take a weak reference to the optimizer: once it is gone, another one may have its id.

        ``lines`` run backward before it, since the step before; ``losses`` are their names.
        """
        self.number, self.optimizer, self.lines, self.losses = number, optimizer, lines, losses


def _ignore(name: str, value: Any, step: int, at_ns: int) -> None:
    """Take a late value if there is no journal."""


class FastPath:
    """The mode, and what the fast path knows of the current iteration. Slots, adjacent in memory: every wrapper reads some.

    Its methods are its only writers, but for ``in_backward``: whoever runs a backward says when it begins and ends.
    """

    __slots__ = (
        "_batches_before",
        "_dispatches",
        "_functions",
        "_last",
        "_last_step",
        "_late",
        "_limit_s",
        "_names",
        "_names_without_losses",
        "_next",
        "_pause_every",
        "_record",
        "_several",
        "_torch",
        "_turns",
        "batches",
        "data_s",
        "feed",
        "in_backward",
        "loss",
        "mark",
        "mode",
        "pause_at",
        "step",
        "taken",
        "thread",
        "turns_taken",
    )

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._dispatches, self._functions = mode_counts(torch)
        self.mode: Mode = "full"
        self.in_backward = False
        """Whether a backward is running, on either path."""
        self.feed: object = NO_FEED
        """While the mode is "fast", the feed of the DataLoader whose wait counts."""
        self.loss: Any = None
        """The loss of the current iteration, a float or a tensor on a GPU, unless there may be several."""
        self._several: Several | None = None
        """Takes the losses if there may be several."""
        self.data_s = 0.0
        self.batches = self._batches_before = 0
        """Batches fetched on the fast path, and those before the current iteration."""
        self.mark = 0.0
        """When the last iteration ended, in seconds of ``perf_counter``."""
        self.step = self._last_step = self.pause_at = -1
        """Numbers of the last iteration, of the last one before the next full one, and of the one at which to pause."""
        self.taken = 0
        """How many optimizer steps were seen, on either path; shows those that a GradScaler skips."""
        self._pause_every = 0
        self._limit_s = FULL_FROM_S
        """An iteration that takes longer ends the fast path."""
        self.thread = 0
        self._turns: Sequence[FastTurn] = ()
        self._next = self._last = FastTurn(0, lambda: None, [], ())
        """The turns that come next, and at the end of the iteration."""
        self.turns_taken = 0
        """How many optimizers have stepped since the last iteration ended."""
        self._names: Names = (("",), ("",))
        self._names_without_losses: Names = self._names
        """The same if the losses are recorded later."""
        self._record: Callable[[FastStep], None] = Stretch().waiting.append
        self._late: Late = _ignore

    def __reduce__(self) -> Any:
        """Pickle as a stub: a class that is pickled by value and whose call we wrapped carries this object with it."""
        return SimpleNamespace, (), {"mode": "off"}

    @property
    def takes_several(self) -> bool:
        """Whether an iteration may have several losses, or a scaled one."""
        return self._several is not None

    @property
    def batches_now(self) -> int:
        """How many batches were fetched in the current iteration."""
        return self.batches - self._batches_before

    def begin(
        self,
        *,
        step: int,
        mark: float,
        last_step: int,
        pause_every: int,
        turns: Sequence[FastTurn],
        step_s: str,
        data: str,
        feed: Any,
        thread: int,
        stretch: Stretch,
        late: Late,
        several: Several | None,
    ) -> None:
        """Take the fast path from the step after ``step``, which ended at ``mark``, to ``last_step``.

        Args:
            step: the last iteration.
            mark: when it ended, in seconds of ``perf_counter``.
            last_step: the last iteration before the next full one.
            pause_every: after how many iterations to pause; 0: never before the last one.
            turns: the steps of an iteration's optimizers; it ends at the last one.
            step_s: the name of an iteration's time.
            data: the name of its wait for data.
            feed: the feed whose waits count; None if no loader feeds the training.
            thread: the one that trains.
            stretch: takes the records.
            late: takes losses that are still on a GPU.
            several: takes the losses if there may be several, or scaled ones.
        """
        self.step, self._last_step, self.mark, self._pause_every = step, last_step, mark, pause_every
        self._set_pause()
        self._turns, self._next, self._last, self.turns_taken = turns, turns[0], turns[-1], 0
        names = (step_s, *turns[-1].losses)
        self._names = names, (*names, data)
        self._names_without_losses = (step_s,), (step_s, data)
        self.thread = thread
        self._record, self._late = stretch.waiting.append, late
        self.loss, self._several, self.data_s, self._limit_s = None, several, 0.0, FULL_FROM_S
        self.batches = self._batches_before = 0
        self.feed = NO_FEED if feed is None else feed
        self.mode = "fast"

    def takes(self, tensor: Any) -> bool:
        """Take the loss that a backward begins on, and return True; return False if the full path must take it.

        ``tensor`` is of torch's own class: its callers leave others to the full path.
        """
        if self.loss is not None or self.in_backward:
            return False
        several = self._several
        try:
            if several is not None:
                taken = several.takes(tensor, sys._getframe(1))  # our wrapper
            else:
                read = values.value_of if self._dispatches() or self._functions() else values.plain_value_of
                self.loss = read(self._torch, tensor)
                taken = self.loss is not None
        except Exception as error:  # noqa: BLE001 - a tensor of any kind: the full path reports what is wrong with it
            let_through(error)
            return False
        self.in_backward = taken
        return taken

    def drop_loss(self) -> None:
        """Forget the loss of a backward that failed: it led to no step, and the script may retry."""
        self.loss = None
        if self._several is not None:
            try:
                self._several.drop()
            except Exception as error:  # noqa: BLE001 - the script gets the error of its backward, and no other one
                let_through(error)

    def waited(self, seconds: float) -> None:
        """Add a wait for a batch."""
        self.data_s += seconds
        self.batches += 1

    def take_batches(self) -> int:
        """Return how many batches were fetched, and restart the count."""
        found, self.batches, self._batches_before = self.batches, 0, 0
        return found

    def hand_over_loss(self) -> None:
        """Forget the loss: the full path has it."""
        self.loss = None

    def stepped(self, optimizer: Any) -> bool:
        """Record a step that ends now, and return True; return False if it is not as usual."""
        now = perf_counter()
        took = now - self.mark
        turn = self._next
        if took >= self._limit_s or optimizer is not turn.optimizer():
            return False
        if turn is not self._last:
            return self._stepped_within(turn, now)
        # Take it at once: a signal handler that saves a checkpoint can end the fast path between any two calls.
        loss, self.loss = self.loss, None
        step = self.step + 1
        losses = (loss,) if type(loss) is float else self._losses_of(turn, loss, step, now)
        if losses is None:
            return False
        self.step = step
        names, with_data = self._names if losses else self._names_without_losses
        if self.data_s:
            self._record((with_data, (took, *losses, self.data_s), step, now))
        else:
            self._record((names, (took, *losses), step, now))
        self.data_s = 0.0
        self._batches_before = self.batches
        self.mark = now
        self._next, self.turns_taken = self._turns[0], 0
        self.taken += 1
        return True

    def _stepped_within(self, turn: FastTurn, now: float) -> bool:
        """Record a step that ends now, but does not end the iteration; return False if it is not as usual."""
        # Another batch would begin an iteration, and there is only one line with a loss unless there are several.
        if self.batches != self._batches_before or self.loss is not None:
            return False
        if turn.lines or self._several is not None:
            losses = self._losses_of(turn, None, self.step, now)
            if losses is None:
                return False
            if losses:
                self._record((turn.losses, losses, self.step, now))
        self.turns_taken += 1
        self.taken += 1
        self._next = self._turns[self.turns_taken]
        return True

    def _losses_of(self, turn: FastTurn, loss: Any, step: int, now: float) -> tuple[float, ...] | None:
        """Return the losses before a step if they are floats, or none of those that are recorded once they have arrived.

        None: they are not the usual ones. ``loss``: the only one, if there cannot be several.
        """
        several = self._several
        if several is None:
            if (loss is None) == bool(turn.lines):
                return None
            found = () if loss is None else (loss,)
        # A signal handler may have ended the fast path since the step began: the full path takes the losses then.
        elif self.mode != "fast" or (taken := several.take(turn.lines)) is None:
            return None
        else:
            found = taken
        for value in found:
            if type(value) is not float:
                break
        else:
            return found
        for name, value in zip(turn.losses, found, strict=True):
            self._late(name, value, step, int(now * 1e9))
        return ()

    def count_step(self) -> None:
        """Count an optimizer's step on the full path."""
        self.taken += 1

    def continues(self) -> bool:
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
        """Leave the fast path, or begin another iteration on the full path."""
        if self.mode != "off":
            self.mode = mode
            self.feed = NO_FEED

    def stop(self) -> None:
        """Stop all measuring for good."""
        self.mode, self.feed = "off", NO_FEED
