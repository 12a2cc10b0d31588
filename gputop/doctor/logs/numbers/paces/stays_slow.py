"""A run that becomes much slower from one report to the next and stays so, by the rates that its lines print. Pure.

Steps also take longer where they do more on purpose: then a line says so, or a number changes that was the same in each line
before, or an epoch begins.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from gputop import units
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.after import position_of
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.step_parts import MEASURED, is_within
from gputop.tracking.printed.counts import counts
from gputop.tracking.printed.rates import paces

SLOWER, MUCH_SLOWER = 2.0, 4.0
"""The last third is this many times slower than the first third, for a possible and for a likely finding (our choice)."""
SAME = 0.2
"""The rates before, and those after, are within this share of their median (our choice)."""
STRAY = 0.1
"""This share of them may be elsewhere, as a step with a checkpoint is (our choice)."""
REPORTS_MIN, REPORTS_FEW = 12, 5
"""At least this many reports; the fewer of them only for "possible", if the run is much slower (our choice)."""
BEFORE_MIN = 5
"""At least this many reports came before, or the log begins within a run: the start may be fast (our choice)."""
BETWEEN_MAX = 2
"""At most this many reports cover steps of both kinds (our choice)."""
ROUNDED = 0.02
"""A rate may be printed with few digits."""
KEPT, SHAPES_MAX = 2000, 200
_RATES = ("tokens_per_sec", "samples_per_sec", "images_per_sec", "it_per_sec")
_NUMBER = re.compile(r"\d{1,20}(?:\.\d{1,20})?")
_NO_LETTERS = re.compile(r"[^A-Za-z]+")
_OF_POLICY = re.compile(r"reward|return|episod|\bfps\b|\bsps\b")
_CHANGES = re.compile(
    r"stage|phase|\bsize|image|resum|restart|launch|resol|resiz|seq|length|curricul|unfreez|thaw|freez|batch|eval|valid|test|epoch|load|"
    r"restor|data|tun|warm|swa|qat|quant|augment|mosaic|switch|world|ranks|nodes?\b|elastic|rendezvous|cuda|gpu|device|start|"
    r"begin|enabl|disabl|chang|sett|us(?:e|ing)\b|run\b|===|---|\*\*\*|###"
)
"""In a line between two reports: it may say that something else begins."""


class _Report(NamedTuple):
    rates: dict[str, float]
    epoch: int | None
    step: int | None
    numbers: tuple[str, ...]
    others: int
    """How many unusual lines came before it."""
    changes: int
    """How many of them may say that something else begins."""


class StaysSlow:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._reports: list[_Report] = []
        self._shape = ""
        """What the reports have in common: their letters."""
        self._shapes: set[str] = set()
        """Those of the lines between them."""
        self._others = self._changes = 0
        self._is_policy = False

    def read(self, line: Line) -> None:
        """Take the next line."""
        if line.speaker is not None and line.speaker.rank:
            return
        shape = _NO_LETTERS.sub("", line.text.replace("s/it", "it/s"))
        rates = {} if line.is_of_evaluation or (self._shape and shape != self._shape) else paces(line.text)
        if rates and MEASURED.search(line.text) is not None and rates.keys() & set(_RATES):
            self._take(line, shape, rates)
        elif shape and shape not in self._shapes and shape != self._shape:
            self._others += 1
            self._changes += _CHANGES.search(line.lower) is not None
            if len(self._shapes) < SHAPES_MAX:
                self._shapes.add(shape)

    def _take(self, line: Line, shape: str, rates: dict[str, float]) -> None:
        self._shape = self._shape or shape
        self._is_policy = self._is_policy or _OF_POLICY.search(line.lower) is not None
        epoch, step = position_of(line.text) or (None, None)
        step = counts(line.text, evaluation=False).step if step is None else step
        self._reports.append(_Report(rates, epoch, step, tuple(_NUMBER.findall(line.text)), self._others, self._changes))
        if len(self._reports) > KEPT:
            del self._reports[1::2]

    def findings(self) -> tuple[Finding, ...]:
        """Return that the run stays slow from some step on."""
        reports = self._reports
        names = [name for name in _RATES if reports and all(name in report.rates for report in reports)]
        if len(reports) < REPORTS_FEW or not names or self._is_policy:
            return ()
        found = [_drop([report.rates[name] for report in reports]) for name in names]
        if any(each is None for each in found) or found[0] is None:
            return ()  # if tokens per second stay the same, there are more tokens in a step
        drop = found[0]
        before, after = reports[: drop.until], reports[drop.since :]
        last, first = before[-1], after[0]
        least = SLOWER if len(reports) >= REPORTS_MIN else MUCH_SLOWER
        if drop.factor < least or not _goes_on(last, first) or last.changes < first.changes:
            return ()
        if len(before) < BEFORE_MIN and not is_within(reports[0].step, reports[1].step):
            return ()
        if _does_something_else(before, after, drop.factor):
            return ()
        sure = drop.factor >= MUCH_SLOWER and len(reports) >= REPORTS_MIN and last.others == first.others
        name, step = names[0], units.count(first.step or 0)
        return (
            Finding(
                id="E10",
                severity="warning",
                confidence="likely" if sure else "possible",
                title=f"The run slows down: since step {step}, each takes {drop.factor:.1f} times as long",
                evidence=(
                    Fact(
                        f"{name} {units.metric(drop.fast)} in {words.count(len(before), 'report')} until step "
                        f"{units.count(last.step or 0)}",
                        drop.fast,
                        "log",
                    ),
                    Fact(
                        f"{name} {units.metric(drop.slow)} in {words.count(len(after), 'report')} since step {step}",
                        drop.slow,
                        "log",
                    ),
                ),
                cause="From one report to the next, something takes part of the machine and stays: another program on the "
                "GPUs, the cores or the disk, clocks that heat or power lowers, memory that is swapped, or data from a slower "
                "place, such as files that no cache holds.",
                fix="nvidia-smi -q -d PERFORMANCE  # why the clocks are low\n"
                "nvidia-smi; top; iostat -x 5; free -h  # what else uses the machine",
                refuted_by="From there on, a step does more on purpose: longer sequences, larger images, another part of "
                "the model.",
            ),
        )


class _Drop(NamedTuple):
    """``until``: the number of reports of the fast part; ``since``: the first one of the slow part."""

    until: int
    since: int
    fast: float
    slow: float

    @property
    def factor(self) -> float:
        return self.fast / self.slow


def _drop(rates: Sequence[float]) -> _Drop | None:
    """Return where the rates fall once and stay there; None if they do anything else."""
    third = max(2, len(rates) // 3)
    fast, slow = statistics.median(rates[:third]), statistics.median(rates[-third:])
    if slow <= 0 or fast < SLOWER * slow:
        return None
    between = (fast * slow) ** 0.5
    slower = [rate < between for rate in rates]
    until = next((at for at in range(len(rates)) if all(slower[at : at + 2])), len(rates))
    while until and rates[until - 1] < (1 - SAME) * fast:
        until -= 1
    since = until
    while since < len(rates) and rates[since] > (1 + SAME) * slow:
        since += 1
    if until < third or len(rates) - since < third or since - until > BETWEEN_MAX:
        return None
    same = _same(rates[:until], fast) and _same(rates[since:], slow) and max(rates[since:]) < between
    return _Drop(until, since, fast, slow) if same else None


def _same(rates: Sequence[float], level: float) -> bool:
    return sum(abs(rate - level) > SAME * level for rate in rates) <= STRAY * len(rates)


def _goes_on(last: _Report, first: _Report) -> bool:
    """Return whether the second report follows the first in the same epoch of the same run."""
    return last.step is not None and first.step is not None and last.step < first.step and last.epoch == first.epoch


def _does_something_else(before: Sequence[_Report], after: Sequence[_Report], factor: float) -> bool:
    """Return whether a number was the same in all reports before and is another one afterwards, other than as a pace."""
    known_rates = [pace for rate in before[0].rates.values() if rate for pace in (rate, 1 / rate)]
    columns = (zip(*(report.numbers for report in part), strict=False) for part in (before, after))
    for texts_before, texts_after in zip(*columns, strict=False):
        known, new = set(texts_before), set(texts_after)
        if len(known) > 1 or known == new:
            continue
        one, other = (units.mean([float(text) for text in texts]) for texts in (texts_before, texts_after))
        if any(math.isclose(one, rate, rel_tol=ROUNDED) for rate in known_rates):
            continue
        ratio = max(one, other) / min(one, other) if min(one, other) > 0 else 0.0
        if abs(ratio - factor) > SAME * factor:
            return True
    return False
