"""The first batch of each epoch, where lines print how long a batch took or was awaited. Pure."""

from __future__ import annotations

import re
import statistics

from gputop import units
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.parts import kind_of, spent
from gputop.doctor.logs.numbers.texts import FIRST_BATCH

EPOCHS_MIN, TIMES = 3, 5.0
"""At least this many epochs, in which the first batch takes this many times as long as the others (our choice;
docs/rules.md#d06)."""
SHARE = 0.15
"""The first batch takes at least this share of an epoch (our choice)."""
OTHERS_MIN = 3
"""At least this many other batches for each first one show what is usual (our choice)."""
KEPT = 20_000
_BATCH = re.compile(r"(?i)(?<![A-Za-z])(?:batch|it|iter(?:ation)?|step)\W{0,3}(\d{1,9})(?:\s?/\s?(\d{1,9}))?(?![\d.])")
_IN_EPOCH = re.compile(
    r"(?i)(?<![a-z])ep(?:och)?s?\W{0,4}\d|^\W{0,2}\[?\d{1,5}(?:/\d{1,5})?\]? \w{0,20} ?(?:batch|it|iter|step)\b"
)
"""Only epochs count: requests, trials and benchmarks have first steps, too."""
_TOOK = re.compile(
    r"(?i)(?<![A-Za-z])(?:took|wait(?:ed)?|data(?:_?time|_?wait)?|time|fetch|load)[ :=]{1,4}(\d{1,6}\.\d{1,6}) ?(m?s)(?![a-z])"
)
_SENTENCE = re.compile(
    r"(?i)\b(?:first batch|erster batch|premier lot|primer lote|primo lotto|primeiro lote|первая партия|первый батч|ilk yığın|"
    r"pierwsza paczka|eerste batch)\b[^\d|]{0,20}(\d{1,6}\.\d{1,6}) ?(m?s|м?с|sn)(?![a-zа-я])"
)
_FIRST = (
    *("first batch", "erster batch", "premier lot", "primer lote", "primo lotto", "primeiro lote", "первая партия"),
    *("первый батч", "ilk yığın", "pierwsza paczka", "eerste batch"),
)
_REST = re.compile(
    r"(?i)\b(?:remaining|rest|others?|other|following|übrige\w{0,2}|restlich\w{0,2}|autres|restantes)\b\D{0,12}(\d{1,9}) "
    r"(?:batch(?:es)?|steps?|it(?:er)?s?|lots|lotes)\b[^\d|]{0,12}(\d{1,6}\.\d{1,6}) ?(m?s)(?![a-z])"
)
"""Sentences about the first batch of an epoch, and about all the others."""
_EACH = re.compile(
    r"(?i)\b(?:remaining|rest|others?|übrige\w{0,2}|autres|restantes|altri|остальные|kalan) (\d{1,9})(?: [a-zà-ÿа-я]{1,12})? "
    r"(?:at|à|je|a|da|по|each) (\d{1,6}\.\d{1,6}) ?(m?s|м?с|sn)(?![a-zа-я])"
)
"""What each of the others takes."""


_BAR = re.compile(r"\| {0,9}(\d{1,9})/(\d{1,9}) \[(?:(\d{1,3}):)?(\d{2,3}):(\d\d)<")
_PLACE = re.compile(r"\[\s{0,9}(\d{1,9})\s?/\s?(\d{1,9})(?:\s{1,9}\(\s{0,3}\d{1,3}%\))?\]")
BATCHES_MIN = 10
"""Fewer batches are not an epoch of training (our choice)."""


class FirstBatches:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first epoch."""
        self._last: int | None = None
        self._first: list[float] = []
        self._others: list[float] = []
        self._steps: list[float] = []
        """The whole steps of the other batches, if the lines say only how long each was awaited."""
        self._batches = 0
        self._bar = 0, 0, 0.0
        """The batches done and all batches of a progress bar, and the seconds when the first one was done."""

    def read(self, line: Line) -> None:
        """Take the next line."""
        if line.is_of_evaluation:
            return
        if "[" in line.text and "<" in line.text:
            self._read_bars(line.text)
        if (self._first or any(text in line.lower for text in _FIRST)) and self._take_sentence(line.text):
            return
        if len(line.parts) > 1 and self._take_parts(line):
            return
        batch = _BATCH.search(line.rest) if _IN_EPOCH.search(line.text) else None
        took = _TOOK.search(line.rest, batch.end()) if batch is not None else None
        if batch is None or took is None or len(self._others) >= KEPT:
            return
        at, seconds = int(batch[1]), _seconds(took[1], took[2])
        begins = at <= 1 and (self._last is None or at < self._last)
        (self._first if begins else self._others).append(seconds)
        self._batches = max(self._batches, at, int(batch[2] or 0))
        self._last = at

    def _take_parts(self, line: Line) -> bool:
        """Take how long a batch of an epoch was awaited, and how long its step took; return whether a line says both."""
        place = _PLACE.search(line.text) if _IN_EPOCH.search(line.text) is not None else None
        data = [seconds for name, seconds in line.parts.items() if kind_of(name) == "data"]
        if place is None or not data or int(place[2]) < BATCHES_MIN or len(self._others) >= KEPT:
            return False
        at, seconds = int(place[1]), sum(data)
        if at <= 1:
            self._first.append(seconds)
        else:
            kinds = spent(line.parts)
            self._others.append(seconds)
            self._steps.append(sum(kinds.values()))
        self._batches = max(self._batches, int(place[2]))
        return True

    def _read_bars(self, text: str) -> None:
        """Take what progress bars say: when the first batch was done, and when the last one was."""
        for done_text, of_text, hours, minutes, seconds in _BAR.findall(text):
            done, of = int(done_text), int(of_text)
            at = int(hours or 0) * 3600.0 + int(minutes) * 60.0 + int(seconds)
            before, of_before, first = self._bar
            if of < BATCHES_MIN or len(self._others) >= KEPT:
                continue
            if done == 1:
                self._bar = done, of, at
            elif done > before > 0 and of == of_before:
                self._bar = done, of, first
                if done == of:
                    self._first.append(first)
                    self._others += [(at - first) / (of - 1)] * OTHERS_MIN
                    self._batches = max(self._batches, of)
                    self._bar = 0, 0, 0.0
            elif done == 0 or of != of_before:
                self._bar = 0, 0, 0.0

    def _take_sentence(self, text: str) -> bool:
        """Take what a sentence says of the first batch of an epoch or of all others; return whether it says it."""
        first, rest = _SENTENCE.search(text), _REST.search(text)
        if len(self._others) >= KEPT:
            return True
        if first is not None:
            self._first.append(_seconds(first[1], first[2]))
        if rest is not None and int(rest[1]):
            batches = int(rest[1])
            self._others += [_seconds(rest[2], rest[3]) / batches] * OTHERS_MIN
            self._batches = max(self._batches, batches + 1)
        each = _EACH.search(text) if rest is None else None
        if each is not None and int(each[1]):
            self._others += [_seconds(each[2], each[3])] * OTHERS_MIN
            self._batches = max(self._batches, int(each[1]) + 1)
        return first is not None or rest is not None or each is not None

    def findings(self) -> tuple[Finding, ...]:
        """Return that the first batches are late, if they are."""
        if len(self._first) < EPOCHS_MIN or len(self._others) < OTHERS_MIN * len(self._first):
            return ()
        first, usual = statistics.median(self._first), statistics.median(self._others)
        if first <= 0 or first < TIMES * usual:
            return ()
        steps = self._steps if len(self._steps) == len(self._others) else self._others
        between = sum(steps) / len(steps) * max(1, self._batches - 1)
        share = first / (first + between)
        if share < SHARE:
            return ()
        return (
            Finding(
                id="D06",
                severity="warning",
                confidence="likely",
                title=f"{FIRST_BATCH.title}: {units.duration(first)}",
                evidence=(
                    Fact(
                        f"the first batches of {words.count(len(self._first), 'epoch')} took {units.duration(first)}",
                        first,
                        "log",
                    ),
                    Fact(f"others take {units.duration(usual)}", round(usual, 4), "log"),
                ),
                cause=FIRST_BATCH.cause,
                fix=FIRST_BATCH.fix,
                refuted_by="Something else stands between the beginning of the epoch and its first batch.",
            ),
        )


def _seconds(number: str, unit: str) -> float:
    return float(number) * (1e-3 if unit.lower() in ("ms", "мс") else 1.0)
