"""A printed run: follows one output stream and yields its steps and metrics. Pure.

Owns what only several lines together can show: the epoch of a heading, the step behind a bar that restarts with each epoch, the
heading of a table. ``lines`` reads the single lines.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from gputop.terminal_text import strip_escapes
from gputop.tracking.printed import rates
from gputop.tracking.printed.bars import Redraws, Turns
from gputop.tracking.printed.counts import evaluation_of, step_of_evaluation
from gputop.tracking.printed.headings import Headings
from gputop.tracking.printed.languages import in_english
from gputop.tracking.printed.lines import LINE_CHARACTERS, parse
from gputop.tracking.printed.names import EVALUATION, Printed, is_evaluation, is_measured
from gputop.tracking.printed.net_outputs import of_output
from gputop.tracking.printed.origins.hosts import Hosts
from gputop.tracking.printed.origins.ranks import Ranks
from gputop.tracking.printed.origins.repeats import Repeats
from gputop.tracking.printed.own_lines import Held, OwnLines
from gputop.tracking.printed.rising import Rising
from gputop.tracking.printed.sides import with_its_scores
from gputop.tracking.printed.stages import stage_of
from gputop.tracking.printed.tables import Tables
from gputop.tracking.printed.trainer import bar_of, is_of_trainer

_OF_A_SUMMARY = "train_runtime"
"""Only the line that the Hugging Face Trainer prints after its last step has it."""
_BEST = "best_"
"""Begins the name of the best value so far, which is none of a step."""
NEARLY = 0.75
"""A line this far through an epoch may be the last one of it: scripts print every some batches (our choice)."""
_FAR_EPOCH = 3
"""From here on, the first epoch is that of another training, and no line of a rank that prints late (our choice)."""
_GAP_MIN = 10
"""Lines of the Trainer are at least this many steps apart: with fewer, tqdm may only have skipped a drawing (our choice)."""
_ESCAPED_RETURN = re.compile(r"(?<![A-Za-z])(?<![A-Za-z]:)(?<![A-Za-z] )(?<![A-Za-z]: )#015")
"""A carriage return, as syslog and the services that collect its lines write it; behind a word, it is a number."""
_OF_EACH_WORKER = "Finished Epoch["
"""CNTK's workers each print the same mean of all of them at the end of an epoch."""
_STEP_MAX = 1 << 53
_EPOCH_MAX = 1 << 31
"""Larger numbers are no steps or epochs: a float no longer holds every step beyond 2**53."""


class Transcript:
    """One followed output stream: takes chunks of bytes, yields steps and metrics.

    A carriage return also ends a line, so that each state of a progress bar counts. If no line shows a step, lines with a
    loss are counted. A step number that restarts with each epoch continues from where the previous epoch ended; if a line
    shows that it counts the batches of an epoch, the epoch says how many there were before.
    """

    def __init__(self, *, with_pace: bool = False, with_bars: bool = False) -> None:
        """Start before the first line.

        Args:
            with_pace: also take what a line with a loss says about the run's pace.
            with_bars: the stream also holds the bars. A line of Transformers' Trainer waits for the bar below it, or for any
                other line, or until nothing is fed. A bar that is only drawn again has a step and none of its values.
        """
        self._with_pace, self._with_bars = with_pace, with_bars
        self._held: dict[str, float] | None = None
        self._above: tuple[int, int] | None = None
        """The step and the number of steps of the last bar above the line that is held."""
        self._bars_are_above = False
        """Whether the last line of the training took its step from the bar above it."""
        self.counts_lines = False
        """Whether the steps are counted lines, because no line shows one."""
        self.total_steps: int | None = None
        """The total number of steps, once the lines have shown whether they count within an epoch."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._partial = ""
        self._tables = Tables()
        self._hosts, self._ranks = Hosts(), Ranks()
        self._repeats, self._rising = Repeats(), Rising()
        self._rows_have_epochs = False
        self._redraws, self._turns = Redraws(), Turns()
        self._headings = Headings()
        self._own = OwnLines()
        self._names: set[str] = set()
        """The values of the training that counted lines have shown since the last step: each comes once in a step."""
        self._epoch_of_names: float | None = None
        self._stage: dict[str, float] = {}
        self._base = 0
        self._step = 0
        self._last: Printed | None = None
        self._epoch: float | None = None
        self._epochs: int | None = None
        self._last_epoch: float | None = None
        self._highest_epoch: float | None = None
        self._first_epoch = 1
        """The number of the first epoch, 1 unless a 0 shows up."""
        self._per_epoch: bool | None = None
        self._finished: Printed | None = None
        self._is_reset = False
        """Whether the last bar began again before its epoch did: Lightning sets it to 0, and then names the next epoch."""

    def feed(self, data: bytes) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield (step, metrics) for each line that is now complete."""
        *lines, partial = re.split(r"[\r\n]+", self._partial + self._decoder.decode(data))
        self._partial = partial[-LINE_CHARACTERS:]
        if not data:
            yield from self._values_of(self._rising.release_idle())
            yield from self._release(None)
        for line in lines:
            plain = self._ranks.own(in_english(strip_escapes(line[: 2 * LINE_CHARACTERS])[:LINE_CHARACTERS]))
            if plain is None or self._hosts.is_copy(plain) or self._repeats.is_repeat(plain):
                continue
            for piece in _ESCAPED_RETURN.split(plain) if "#015" in plain else (plain,):
                yield from self._follow(piece)

    def _follow(self, plain: str) -> Iterator[tuple[int, dict[str, float]]]:
        bar = bar_of(plain) if self._with_bars and ("|" in plain or self._held is not None) else None
        if self._held is not None and plain.strip():
            yield from self._release(bar)
        self._above = bar or self._above
        yield from self._take(plain)

    def skip(self) -> None:
        """Discard the incomplete line: part of the output is skipped, and the next data fed starts a new line."""
        self._partial, self._held = "", None
        self._decoder.reset()

    def end(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield the contents of the last line, which had no line ending."""
        yield from self.feed(b"\n")
        yield from self._values_of(self._rising.release())
        yield from self._release(None)

    def _values_of(self, waiting: Iterable[Held]) -> Iterator[tuple[int, dict[str, float]]]:
        for line, printed in waiting:
            yield from self._values(line, printed)

    def _release(self, bar: tuple[int, int] | None) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield the line that is held, at the step of the bar below it; without one, as a counted line."""
        metrics, self._held = self._held, None
        if metrics is None:
            return
        bar = None if bar is None else self._bar_of_held(bar)
        if bar is not None and bar[0] < _STEP_MAX:
            self._last = Printed(step=bar[0], steps=bar[1], bar=True)
            self._step, self.total_steps = bar
            self.counts_lines = False
        else:
            self._count_line(metrics)
        yield self._step, metrics

    def _bar_of_held(self, below: tuple[int, int]) -> tuple[int, int]:
        """Return the bar of the line that is held: the one below it, unless that is of later steps, or of an evaluation.

        tqdm draws its bar again below each line, but posted logs often lack those bars. Then the bar above a line is as many
        steps before the one below it as it is after the line before.
        """
        above = self._above
        if above is None:
            return below
        if above[1] == below[1]:
            gap = above[0] - self._step
            self._bars_are_above = below[0] - above[0] == gap >= _GAP_MIN
            return above if self._bars_are_above else below
        if self.total_steps is None or (above[1] != self.total_steps and not self._bars_are_above):
            return below
        return above if above[1] == self.total_steps else (self._step, self.total_steps)

    def _count_line(self, metrics: Mapping[str, float]) -> None:
        if self._last is not None or _OF_A_SUMMARY in metrics:
            return
        own = {name for name in metrics if is_measured(name) and not (is_evaluation(name) or name.startswith(_BEST))}
        if not own:
            return
        epoch = metrics.get("epoch")
        if self._names and self._names.isdisjoint(own) and epoch == self._epoch_of_names:
            self._names |= own
            return
        self._names, self._epoch_of_names = own, epoch
        self._step += 1
        self.counts_lines = True

    def _take(self, plain: str) -> Iterator[tuple[int, dict[str, float]]]:
        self._headings.read(plain)
        self._stage = stage_of(plain) or self._stage
        printed = self._tables.read(plain)
        if printed is None and (parsed := parse(plain)) is not None:
            if self._last is not None:  # else the line counts as one of the training
                parsed = replace(parsed, metrics=with_its_scores(parsed.metrics))
            parsed = self._turns.of(self._headings.below(plain, of_output(plain, parsed, self._last)))
            for line, each in self._rising.of(self._own.believed(plain, parsed)):
                yield from self._values(line, each)
        elif printed is None:
            self._own.note(plain)
        else:
            yield from self._values(plain, self._headings.below(plain, self._of_this_course(printed)))

    def _of_this_course(self, row: Printed) -> Printed:
        """Return a row of a table without losses that are not those of the training, which has printed its steps.

        A table that counts nothing then holds the results of something else, such as of a model under several conditions. If
        other rows name their epoch, it is that of an evaluation.
        """
        if row.step is not None or row.epoch is not None:
            self._rows_have_epochs = self._rows_have_epochs or row.epoch is not None
            return row
        if self._last is None:
            of_evaluation = self._rows_have_epochs and not any("loss" in name for name in row.metrics)
            return replace(row, evaluation=True) if of_evaluation else row
        others = {name: value for name, value in row.metrics.items() if is_evaluation(name) or "loss" not in name}
        return replace(row, metrics=others)

    def _values(self, plain: str, printed: Printed) -> Iterator[tuple[int, dict[str, float]]]:
        if printed.epoch is not None:
            self._epoch, self._epochs = printed.epoch, printed.epochs or self._epochs
        if not printed.metrics:
            return
        if plain.startswith(_OF_EACH_WORKER):
            before, self._finished = self._finished, printed
            if before == printed:
                return
        pace = rates.paces(plain) if self._with_pace and not EVALUATION.match(plain) else {}
        redrawn = self._with_bars and self._redraws.is_redrawn(printed, plain)
        took = rates.whole_times(plain) if self._with_pace else {}
        values = {} if redrawn else {**took, **printed.metrics}
        epoch = {"epoch": self._epoch} if self._epoch is not None else {}
        metrics = {**self._stage, **pace, **values, **epoch}
        if self._with_bars and is_of_trainer(printed):
            self._held = metrics
            return
        if printed.step is not None and printed.step < _STEP_MAX:
            self._count(printed, printed.step)
            self.counts_lines = False
        elif not printed.evaluation:
            self._take_step_of_evaluation(plain)
            self._count_line(metrics)
        yield self._step, metrics

    def _take_step_of_evaluation(self, plain: str) -> None:
        """Take the step that the line of an evaluation states, if no line of the training has shown one or was counted."""
        if self._last is not None or self.counts_lines or evaluation_of(plain) is None:
            return
        step = step_of_evaluation(plain)
        if step is not None and self._step < step < _STEP_MAX:
            self._step = step

    def _count(self, printed: Printed, step: int) -> None:
        last, self._last = self._last, printed
        epoch = self._epoch
        if printed.batch and printed.steps and epoch is not None and epoch == int(epoch) and epoch < _EPOCH_MAX:
            self._count_batches(step, printed.steps, int(epoch))
            return
        if last is not None and last.step is not None:
            if self._starts_over():
                self._highest_epoch = 0.0
            new_epoch = self._epoch != self._last_epoch
            again = step == last.step and self._is_later_epoch() and not printed.metrics.keys().isdisjoint(last.metrics)
            again = again and not self._is_reset
            ended = last.step == last.steps or (self._epoch is None and _begins_again(last, printed))
            self._is_reset = printed.bar and step == 0 and ended and not new_epoch
            if again or (step < last.step and (new_epoch or ended)):
                self._base += last.steps or last.step
                self._per_epoch = True
            elif new_epoch and step > last.step and self._per_epoch is None:
                self._per_epoch = False
        self._last_epoch = self._epoch
        if self._epoch is not None and math.isfinite(self._epoch):
            self._highest_epoch = max(self._epoch, self._highest_epoch or 0.0)
        self._step = self._base + step
        if self._per_epoch:
            self.total_steps = printed.steps * self._epochs if printed.steps and self._epochs else None
        elif self._per_epoch is False or (self._epoch is None and not printed.bar):
            self.total_steps = printed.steps

    def _is_later_epoch(self) -> bool:
        """Return whether the epoch is a whole number above all before it; ranks that print late show earlier ones."""
        highest, now = self._highest_epoch, self._epoch
        return (
            highest is not None
            and now is not None
            and highest < now < _EPOCH_MAX
            and highest == int(highest)
            and now == int(now)
        )

    def _starts_over(self) -> bool:
        """Return whether the first epoch of another training follows the newest of one that has come far."""
        if self._epoch is None or self._highest_epoch is None:
            return False
        return self._epoch <= 1 and self._last_epoch == self._highest_epoch >= _FAR_EPOCH

    def _count_batches(self, batch: int, batches: int, epoch: int) -> None:
        if self._last_epoch is not None and epoch < self._last_epoch:  # another training, such as the next fold
            self._base = self._step
        self._last_epoch, self._per_epoch = epoch, True
        self._first_epoch = min(self._first_epoch, epoch)
        self._step = self._base + (epoch - self._first_epoch) * batches + batch
        self.total_steps = batches * self._epochs if self._epochs else None


def _begins_again(last: Printed, printed: Printed) -> bool:
    """Return whether the count of an epoch's batches begins again: from the last quarter to the first one.

    A line that another rank prints late goes back less far.
    """
    steps = printed.steps if printed.batch else None
    if not steps or steps != last.steps or last.step is None or printed.step is None:
        return False
    return last.step >= NEARLY * steps and printed.step <= (1 - NEARLY) * steps
