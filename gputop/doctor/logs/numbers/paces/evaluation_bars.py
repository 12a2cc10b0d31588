"""Evaluations that take longer than the training, by the times of their progress bars: of tqdm, Ultralytics, rich. Pure.

A bar belongs to the training or to an evaluation by its label. A bar without one says neither.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from gputop import units
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.texts import EVALUATION

SECONDS_MIN = 60.0
"""Seconds of all evaluations: a trial run of a script evaluates for longer than it trains."""
BARS_SURE = 2
"""At least this many bars of each kind for a likely finding: one evaluation may follow many epochs."""
OFTEN = 5
"""Scripts that evaluate seldom do so every fifth or tenth epoch (our choice)."""
_CLOCK = r"(?:(\d{1,4}):)?(\d{1,2}):(\d\d)"
_TQDM = re.compile(rf"(?<!\d)\d{{1,3}}%\|[^|]{{0,200}}\| {{0,3}}(\d{{1,12}})/(\d{{1,12}}) \[{_CLOCK}<")
_ULTRALYTICS = re.compile(
    rf"(?<!\d)\d{{1,3}}% [━╸╺─ ]{{3,200}} (\d{{1,12}})/(\d{{1,12}}) [\d.]{{1,12}}(?:it/s|s/it) {_CLOCK}(?![\d:])"
)
_RICH = re.compile(rf"[━╸╺]{{3,300}} {{1,9}}(\d{{1,12}})/(\d{{1,12}}) {{1,9}}{_CLOCK} {{1,3}}[•<]")
_NO_SCORE = r"(?![ _-]?(?:loss|acc|score|f1|auc|iou|ppl|err|bpb|\d{1,3}\.\d))"
_EVALUATES = re.compile(rf"(?i)\b(?:val(?:id(?:ation|ating)?)?|eval(?:uat(?:e|ion|ing))?|mAP50){_NO_SCORE}(?![a-z])")
_TRAINS = re.compile(r"(?i)\b(?:train(?:ing)?|epochs?|batch)\b|^\s{0,20}\d{1,6}/\d{1,6}\s{1,20}[\d.]{1,9}G\s")
_NEITHER = re.compile(
    r"(?i)\b(?:scan|cach|load(?:ing)? |download|tokeniz|(?-i:Map)\b|filter|generat|extract|process|prepar|convert|read|creat|"
    r"sanity|test|predict|infer)"
)
"""The names of bars about the data, and of those that are drawn once."""
_EPOCH = re.compile(r"(?<![\d/.])(\d{1,6})/(\d{1,6})(?![\d/.])")
_LABEL_CHARACTERS = 200
_Kind = Literal["train", "evaluation"]


class _Bar(NamedTuple):
    kind: _Kind
    total: int
    done: int
    seconds: float
    epoch: tuple[int, int] | None


class EvaluationBars:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._now: _Bar | None = None
        """The bar that is drawn now."""
        self._trained_s = self._evaluated_s = 0.0
        self._trained = self._evaluated = 0
        self._is_single = False
        """Whether the first evaluation follows the bar of an epoch after which scripts that evaluate seldom do not."""
        self._epoch: tuple[int, int] | None = None

    def read(self, line: Line) -> None:
        """Take the next line."""
        if "/" not in line.text or ("%|" not in line.text and "━" not in line.text):
            return
        bar = _bar_of(line.text)
        before = self._now
        if before is not None and (bar is None or _is_another(before, bar)):
            self._end(before)
        self._now = bar

    def _end(self, bar: _Bar) -> None:
        if bar.kind == "train":
            self._trained_s += bar.seconds
            self._trained += 1
            self._epoch = bar.epoch
        elif self._trained:  # else it is that of a model before the training
            self._is_single = self._is_single or (not self._evaluated and self._epoch is not None and _is_usual(*self._epoch))
            self._evaluated_s += bar.seconds
            self._evaluated += 1

    def findings(self) -> tuple[Finding, ...]:
        """Return that evaluation takes longer than training if it does."""
        if self._now is not None:
            self._end(self._now)
            self._now = None
        if not self._evaluated or self._evaluated_s < max(SECONDS_MIN, self._trained_s):
            return ()
        sure = min(self._trained, self._evaluated) >= BARS_SURE
        if not sure and not self._is_single:
            return ()
        share = self._evaluated_s / (self._evaluated_s + self._trained_s)
        return (
            Finding(
                id="E07",
                severity="warning",
                confidence="likely" if sure else "possible",
                title=f"{EVALUATION.title}: {share:.0%} of the time, by its progress bars",
                evidence=(
                    Fact(
                        f"{words.count(self._evaluated, 'bar')} of evaluation took {units.duration(self._evaluated_s)}, "
                        f"{words.count(self._trained, 'bar')} of training {units.duration(self._trained_s)}",
                        round(share, 3),
                        "log",
                    ),
                ),
                cause=EVALUATION.cause,
                fix=EVALUATION.fix,
                refuted_by="Such a thorough evaluation is intentional, or follows many epochs whose bars are missing here.",
            ),
        )


def _bar_of(text: str) -> _Bar | None:
    """Return the last bar of a line, if its label says what it is of."""
    found = [match for form in (_TQDM, _ULTRALYTICS, _RICH) for match in form.finditer(text)]
    if not found:
        return None
    last = max(found, key=lambda match: match.start())
    begin = max((match.end() for match in found if match.end() <= last.start()), default=0)
    label = text[max(begin, last.start() - _LABEL_CHARACTERS) : last.start()]
    if _NEITHER.search(label):
        return None
    kind: _Kind | None = "evaluation" if _EVALUATES.search(label) else "train" if _TRAINS.search(label) else None
    if kind is None:
        return None
    done, total, hours, minutes, seconds = last.groups()
    elapsed = int(hours or 0) * 3600.0 + int(minutes) * 60.0 + int(seconds)
    epoch = _EPOCH.search(text, 0, last.start())
    of = (int(epoch[1]), int(epoch[2])) if epoch is not None else None
    return _Bar(kind, int(total), int(done), elapsed, of)


def _is_another(before: _Bar, bar: _Bar) -> bool:
    """Return whether a bar is not the one before at a later time. One of the training that has ended twice counts twice."""
    if (before.kind, before.total, before.epoch) != (bar.kind, bar.total, bar.epoch):
        return True
    ended = before.done == bar.done == bar.total and bar.kind == "train"
    return ended or bar.done < before.done or bar.seconds < before.seconds


def _is_usual(epoch: int, epochs: int) -> bool:
    """Return whether a script that evaluates after some epochs only would not evaluate after this one."""
    seldom = epoch and (not epoch % OFTEN or not (epoch + 1) % OFTEN)
    return not seldom and epoch < epochs - 1
