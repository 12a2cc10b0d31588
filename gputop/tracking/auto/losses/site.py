"""A line that runs backward: the losses it has run on since the optimizer's last step, and whose turn they are."""

from __future__ import annotations

import math
import weakref
from itertools import count
from types import FrameType
from typing import Any, NamedTuple

from gputop.tracking.auto.losses.reduction import Reduced, Rule, divided_by, rule, step_loss
from gputop.tracking.auto.losses.user_code import accelerate_divides_by, columns_of, label

IN_DOUBT = 3
"""If a line was reset before the first step, it must have run once in this many steps before it is said to do so always."""


PARTS_AFTER = 20
"""If it is unknown whether the gradients that were reset before the first step were parts of it, this many steps in a row must
have the same number of backwards, with resets in between, before they count as parts: no script discards as many batches each
time."""


ALIKE_STEPS = 200
"""If all losses of a step were reduced alike in this many steps, and in none otherwise, the first one of a step shows it."""


class InDoubt(NamedTuple):
    """The loss of a first step, before which the line ran backward and the gradients were reset.

    A script that projects the gradients of its tasks, or clips those of each sample, collects them from backwards that it
    resets; one that leaves out a batch discards them.
    """

    alone: Any
    """The loss if they were discarded."""
    together: Any
    """The loss if they are parts of it; None if that cannot be known, however often the next step runs backward."""
    times: int
    """How many backwards the step then had."""


class Site:
    """A line that runs backward, and the losses it has run on since the optimizer's last step."""

    __slots__ = (
        *(
            "accumulates",
            "code",
            "count",
            "divided_by",
            "factor",
            "label",
            "line",
            "name",
            "numbered",
            "parts",
            "shared",
            "total",
            "undecided",
            "usual",
        ),
        *(
            "_alike",
            "_alone",
            "_earlier",
            "_is_unknown",
            "_last",
            "_left_to_see",
            "_rule",
            "_rule_for",
            "_seen_count",
            "_step",
            "_turns",
        ),
        "_was_reset",
    )

    def __init__(self, frame: FrameType | None) -> None:
        self.code = frame.f_code if frame is not None else None
        """Kept alive, so that no other code object gets its address."""
        self.line = frame.f_lineno if frame is not None else 0
        self.label = label(frame.f_code.co_filename, self.line, columns_of(frame)) if frame is not None else "line0"
        self.name: str | None = None
        self.total: Any = 0.0
        self.count = 0
        self.parts: list[Reduced] = []
        """How each loss of this step was reduced."""
        self.factor = accelerate_divides_by()
        """What the script divides each loss by, if that is the usual number of backwards in a step; else 1."""
        self.accumulates = self.factor != 1.0
        """Whether it ever ran more than once in a step; only then are the graphs of its losses worth reading."""
        self.divided_by: object = None
        """What all losses of the last step with several of them were divided by."""
        self._rule_for: tuple[Reduced | None, int, float] = None, -1, 1.0
        """How all losses of an earlier step were reduced, how many they were, and the factor then."""
        self._rule: Rule = None, None, 1.0
        """What the loss of such a step is."""
        self._alike = 0.0
        """In how many steps all losses were reduced as in the step before; minus infinity once some differed in one step."""
        self.usual: Reduced | None = None
        """How all losses of a step are reduced if the first one is, so that the others need not be read; None if unknown."""
        self._alone = 0
        """In how many steps it ran once, without those of the fast path."""
        self._earlier: tuple[Any, list[Reduced]] | None = None
        """The sum of its losses whose gradients were reset before the first step, and how they were reduced."""
        self._is_unknown = False
        """Whether nothing tells if these are parts of the first step."""
        self._left_to_see = 0
        """In how many further steps it must run as often before its losses are parts; 0 if it is known whether they are."""
        self._seen_count = 0
        """How often it ran in the last of these steps."""
        self._was_reset = False
        """Whether gradients were reset between its backwards in this step, in one of these steps."""
        self.begin_turns()

    def begin_run(self) -> None:
        """Forget the name and the turns of an earlier run."""
        self.name = None
        self.begin_turns()

    def begin_training(self) -> None:
        """Forget how an earlier training divided its losses."""
        self.factor, self.divided_by = accelerate_divides_by(), None
        self._alike, self.usual = 0.0, None

    def set_name(self, name: str) -> None:
        """Name a line that ran for the first time later."""
        self.name = name

    def begin_turns(self) -> None:
        """Forget the optimizers that stepped on its losses."""
        self.shared = self.numbered = False
        """Whether several optimizers take turns in stepping on its losses; and whether this was known when it was named."""
        self.undecided = False
        """Whether they do, unless another one also steps on the last loss."""
        self._turns: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._last, self._step = 0, -1

    def settle(self, name: str) -> None:
        """Name it after a complete iteration."""
        self.name, self.numbered = name, self.shared

    def turn(self, optimizer: Any, step: int) -> int:
        """Return the number of this optimizer among those that step on its losses and still exist.

        They share the line if two of them step in one iteration, or one again after another one: an optimizer for each phase
        or epoch does neither. Each has to step on losses of its own: the next step decides that.
        """
        number = self._turns.get(optimizer)
        again = number is not None
        if number is None:
            taken = set(self._turns.values())
            number = self._turns[optimizer] = next(free for free in count() if free not in taken)
        turns = number != self._last and (again or step == self._step)
        self.undecided = self.undecided or (turns and not self.shared)
        self._last, self._step = number, step
        return number

    def join(self, optimizer: Any) -> None:
        """Note that an optimizer steps on the same loss as the one before it: both have one number from now on."""
        first, last = sorted((self._turns.setdefault(optimizer, self._last), self._last))
        if first == last:
            return
        for other, number in list(self._turns.items()):
            if number == last:
                self._turns[other] = first
        self._last, self.undecided = first, False
        if len(set(self._turns.values())) == 1:
            self.shared = self.numbered = False

    def decide(self) -> None:
        """Note that the last loss had a turn of its own."""
        self.shared, self.undecided = self.shared or self.undecided, False

    def begin(self, value: Any, part: Reduced) -> None:
        """Take the first loss of a step."""
        self.total, self.count, self.parts = value, 1, [part]

    def add(self, value: Any, part: Reduced) -> None:
        """Take a further loss of a step."""
        self.total = self.total + value if type(value) is float else sum_of(self.total, value)
        self.count += 1
        self.parts.append(part)

    def add_line(self, other: Site) -> None:
        """Take the losses of another line in this step."""
        self.total = sum_of(self.total, other.total)
        self.count += other.count
        self.parts += other.parts

    def take_back(self, value: Any) -> None:
        """Remove the last loss: its backward failed."""
        self.count -= 1
        self.parts.pop()
        self.total = self.total - value if self.count else 0.0

    def drop(self) -> None:
        """Forget the losses of this step."""
        self.total, self.count, self.parts = 0.0, 0, []

    def take(self) -> Any:
        """Return the loss of this step, and reset."""
        part, times, factor = self._rule_for
        if self.count == times and self.factor == factor and type(self.total) is float and not self._left_to_see:
            for other in self.parts:
                if other is not part:
                    break
            else:
                if self._earlier is None:
                    by, over, self.factor = self._rule
                    loss = self.total if by is None else self.total * by
                    self.divided_by = self.parts[0].whole
                    self.total, self.count, self.parts = 0.0, 0, []
                    self._alike += 1
                    if self._alike == ALIKE_STEPS:
                        self.usual = part
                    return loss if over is None else loss / over
        plain = self.count == 1 and self.factor == 1.0 and self._earlier is None and self.parts[0].count is None
        if plain and type(self.total) is float:
            return self.take_plain()
        value, factor = step_loss(self.total, self.parts, self.factor, self.divided_by)
        if self._earlier is not None:
            total, parts = sum_of(self._earlier[0], self.total), self._earlier[1] + self.parts
            together = None if self._is_unknown else step_loss(total, parts, self.factor, self.divided_by)[0]
            value = InDoubt(value, together, len(parts))
            self._left_to_see = PARTS_AFTER if self._is_unknown else 0
            self._earlier, self._is_unknown = None, False
        elif self._left_to_see:
            value = self._seen(value)
        factor_before, self.factor = self.factor, factor
        if any(part.count is not None for part in self.parts):
            self.accumulates = True  # with each loss, its count has to be read
        if self.count > 1 and value is not None:
            self.accumulates = True
            self.divided_by = divided_by(self.parts)
            self._learn(factor_before)
        self._alone += self.count == 1
        self.total, self.count, self.parts = 0.0, 0, []
        return value

    def _learn(self, factor: float) -> None:
        """Remember what the losses of this step amount to, if it depends on nothing but how they were reduced."""
        part = self.parts[0]
        if any(other is not part for other in self.parts):
            self._alike, self.usual = -math.inf, None
        elif part.kind == "mean" and part.by is None and part.count is None:
            self._rule_for, self._rule = (part, self.count, factor), rule(self.parts, factor, None)

    def take_plain(self) -> Any:
        """Return the only loss of this step, which is not divided, and reset."""
        if self._left_to_see:
            self._seen(self.total)
        value, self.total, self.count = self.total, 0.0, 0
        self._alone += 1
        return value

    def _seen(self, value: Any) -> Any:
        """Return the loss of a step while it is unknown whether resets discard losses; None if it depends on that."""
        reset, self._was_reset = self._was_reset, False
        if self.count == 1:
            self._alone, self._left_to_see = 0, 0
            return value
        if not reset:
            return value
        same, self._seen_count = self.count == self._seen_count, self.count
        self._left_to_see = self._left_to_see - 1 if same else PARTS_AFTER
        return None if self._left_to_see else value

    def note_reset(self) -> bool:
        """Note that gradients were reset before this backward; return whether those before it certainly led to no step."""
        self._was_reset = self._left_to_see > 0
        return not self._was_reset

    def begin_steps(self, total: Any, parts: list[Reduced]) -> None:
        """Note that an optimizer steps after backwards whose gradients were reset: they may have been parts of its step."""
        self._alone = 1 - IN_DOUBT
        if self.count:
            before = self._earlier
            self._earlier = (total, parts) if before is None else (sum_of(before[0], total), before[1] + parts)

    def has_no_earlier(self) -> None:
        """Note that they were not: the script had discarded them."""
        self._alone, self._earlier = 1, None

    def may_have_earlier(self) -> None:
        """Note that the gradients do not tell whether they were: a script may discard some in each step, too."""
        self._is_unknown = True

    def decided(self, loss: InDoubt) -> Any:
        """Return the loss of the first step, by how often the line has run for the next one; None if that does not tell."""
        if self.count == 1:
            self._alone = 1
            return loss.alone
        return loss.together if self.count == loss.times else None

    @property
    def runs_again(self) -> bool:
        """Whether it runs a second time in this step, although it has always run once, or it is unknown what that means."""
        return self.count > 0 and ((not self.accumulates and self._alone > 0) or self._left_to_see > 0)


def sum_of(total: Any, value: Any) -> Any:
    """Add two losses, not in place: a value on a GPU shares the memory of the script's own tensor.

    Losses of 16 bits are added in 32: bfloat16 keeps three digits at most.
    """
    wide = total.float() if getattr(getattr(total, "dtype", None), "itemsize", 4) < 4 else total
    return wide + value
