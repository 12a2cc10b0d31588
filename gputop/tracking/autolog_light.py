"""The short way through an iteration: most of the quick ones leave their loss, their time and the wait for data alone.

What tracking adds to an iteration is mostly code and data that torch has driven out of the caches and that come back from
memory. So of quick iterations one in 32 is looked at whole, and the others touch as little as can be. No more than
``WHOLE_PER_S`` a second are needed: of iterations of 50 ms and more each is looked at.

Which ones is settled by the number of the step alone, so that ranks which step together look at the same ones, and those
of a lower share are among those of a higher one. Multiples of the golden ratio are spread evenly in whatever period (that
of the loader's workers, of a script that logs every 10 steps), and the widest gap is less than three times the narrowest.

The wrappers (``autolog_torch``, ``autolog_model``) go the short way while ``on`` says so. Whatever is out of the ordinary
(a second loss, an evaluation, a checkpoint, a value on a GPU) ends it in the middle of an iteration: ``leave`` hands over
what is known, and the rest of the iteration goes the long way. Only what is plain begins it: one optimizer, one line that
runs backward, once per step, in a run of our own.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from threading import get_ident
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from gputop.tracking.autolog_loss import UNKNOWN, Site

if TYPE_CHECKING:
    from gputop.tracking.autolog_steps import Steps

WHOLE_PER_S = 20.0
LONGEST_NS = int(1e9 / WHOLE_PER_S)
LEAST_SHARE = 32
"""At least one iteration in so many is looked at whole."""
PLAIN_STEPS = 8
"""So many iterations have to be plain first, and two more after one that was left."""
FED, UNFED = ("step_s", "loss", "phase/data"), ("step_s", "loss")
"""What an iteration leaves, where batches come from a DataLoader and where not."""
_GOLDEN = 0x9E3779B1
"""2**32 divided by the golden ratio."""
_ALL = 1 << 32


def share(step_s: float) -> int:
    """Return the share of iterations of ``step_s`` seconds that are looked at whole, in parts of 2**32."""
    part = 1
    while part < LEAST_SHARE and step_s * part < 1 / WHOLE_PER_S:
        part *= 2
    return _ALL // part


def is_whole(step: int, share: int) -> bool:
    """Return whether an iteration is looked at whole."""
    return step * _GOLDEN % _ALL < share


class Light:
    """The iterations that go the short way. Slots, side by side in memory: every wrapper looks at some of them."""

    __slots__ = (
        "_fetches",
        "_plain",
        "_share",
        "_site",
        "_steps",
        "append",
        "data_s",
        "last",
        "longest",
        "loss",
        "mark",
        "on",
        "optimizer",
        "step",
        "thread",
    )

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._plain = 0
        self._share = _ALL
        self._fetches = False
        """Whether each iteration fetches a batch from a DataLoader."""
        self._site: Site | None = None
        self.on = False
        """Whether the present iteration goes the short way."""
        self.loss: float | None = None
        self.data_s = 0.0
        self.mark = 0
        """When the last iteration ended, in ns: ``perf_counter`` and ``monotonic_ns`` read the same clock on Linux."""
        self.step = self.last = -1
        """Numbers of the last iteration, and of the last one before another is looked at whole."""
        self.longest = LONGEST_NS
        """An iteration that takes longer, in ns, is looked at; 0 where the present one is to be."""
        self.thread = 0
        self.optimizer = 0
        """The id of the only one."""
        self.append: Callable[[Any], None] = [].append
        """Takes (names, values, step, ns) to the journal."""

    def __reduce__(self) -> Any:
        """Go along, as nothing, with a class that is pickled by value and whose call has a wrapper of ours."""
        return SimpleNamespace, (), {"on": False}

    @property
    def reached(self) -> int:
        """The step that was taken last, whichever way; from any thread."""
        return self.step if self.on else self._steps.step

    @property
    def marked(self) -> float | None:
        """When that was, in seconds of ``perf_counter``."""
        return self.mark * 1e-9 if self.on else self._steps.mark

    def is_plain(self) -> bool:
        """Return whether there was nothing special about the iteration that is ending the long way."""
        steps = self._steps
        pending = steps.sites.pending
        self._fetches = steps.fetched == 1
        return (
            len(pending) == len(steps.optimizers) == 1
            and type(pending[0].total) is float
            and steps.fetched <= 1
            and not (steps.partly or steps.interrupted or steps.sites.inside or steps.blind)
        )

    def choose(self, plain: bool) -> None:
        """An iteration has gone the long way; ``plain``: there was nothing special about it. May the next ones be light?"""
        steps = self._steps
        if plain:
            self._plain += 1
        elif not steps.partly:
            self._plain = 0
        steps.partly = False
        if self._plain < PLAIN_STEPS or steps.facts is None or steps.records is None or steps.journal is None:
            return
        site, feed, optimizer = steps.sites.only(), steps.loader, steps.last() if steps.last is not None else None
        if site is None or optimizer is None or not steps.records.direct or (feed is not None and feed.batches.counting):
            return
        if self._plain % PLAIN_STEPS == 0:
            self._share = share(statistics.median(steps.recent_s))
        number, until = steps.step + 1, min(steps.facts.next, steps.batches_from)
        while number < until and not is_whole(number, self._share):
            number += 1
        if number > steps.step + 1 and steps.mark is not None:
            self.step, self.last, self.mark = steps.step, number - 1, int(steps.mark * 1e9)
            self._site, self.optimizer, self.thread = site, id(optimizer), steps.thread
            self.append = steps.journal.behind.append
            self.loss, self.data_s, self.longest = None, 0.0, LONGEST_NS
            self.on = steps.partly = True

    def rest(self) -> None:
        """Between two iterations: the next one is looked at whole."""
        steps = self._steps
        self.on = steps.partly = False
        taken = self.step - steps.step
        steps.taken += taken
        if steps.loader is not None and self._fetches:
            steps.loader.handed_out += taken
        steps.step, steps.mark = self.step, self.mark * 1e-9
        if steps.journal is not None:
            steps.journal.go_on_from(self.step)
        steps.fetched, steps.gc_s = 0, 0.0

    def give_up(self) -> None:
        """Something is not plain, and will not be in the next iterations."""
        self.leave()
        self._plain = 0

    def leave(self) -> None:
        """In the middle of an iteration: the rest of it goes the long way. From another thread: nothing."""
        if not self.on or get_ident() != self.thread:
            return
        try:
            self._leave()
        except Exception as error:  # noqa: BLE001 - the training goes on
            self._steps.failed(error)

    def _leave(self) -> None:
        steps, gc_s = self._steps, self._steps.gc_s
        self._plain = min(self._plain, PLAIN_STEPS - 2)
        self.rest()
        steps.partly = True
        steps.gc_s, steps.data_s = gc_s, self.data_s
        if self.data_s:
            steps.fetched = 1
            if steps.loader is not None:
                steps.loader.handed_out += 1
        if self.loss is not None and self._site is not None:
            self._site.total, self._site.step_divisor, self._site.count = self.loss, UNKNOWN, 1
            steps.sites.pending.append(self._site)
            self.loss = None
