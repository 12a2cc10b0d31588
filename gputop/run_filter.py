"""Which runs a typed filter keeps: words, ``field:text``, regular expressions, and comparisons. Pure text and records.

All terms must hold. A term with ``!`` before it must not hold.

| term | keeps a run |
|---|---|
| ``resnet``, ``"two words"`` | with this text in its name, id, project, state, recipe or a tag |
| ``tag:ablation`` | with this text in one field; fields are the keys of ``FIELDS`` |
| ``/lenet-\\d+/`` | in one of whose fields this regular expression finds something |
| ``lr>1e-3``, ``loss<0.5`` | by a value of its configuration, else by the last value of a metric |
| ``duration>2h``, ``age<1d``, ``step>=500``, ``ranks=8`` | by how long it took, when it began, its steps, its ranks |
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gputop import units
from gputop.errors import UsageError
from gputop.losses import loss_metric, own_or_automatic
from gputop.snapshot import Run

EXAMPLES = "resnet, tag:ablation, state:failed, lr>1e-3, loss<0.5, duration>2h or /lenet-[0-9]+/"
FIELDS: Mapping[str, Callable[[Run], Iterable[str | None]]] = {
    "name": lambda run: (run.name,),
    "id": lambda run: (run.run_id,),
    "tag": lambda run: run.tags,
    "state": lambda run: (run.state,),
    "recipe": lambda run: (run.recipe,),
    "project": lambda run: (run.project,),
}
"""Field -> its texts in a run."""

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "==": operator.eq,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
_TOKEN = re.compile(
    r"""\s*(?P<not>!?)(?:
        /(?P<regex>(?:\\.|[^/\\])*)(?P<closed>/?)(?=\s|$)
      | (?P<key>[^\s<>=!"':]+)\s*(?P<sign><=|>=|!=|==|=|<|>)\s*(?P<value>"[^"]*"|[^\s"<>=!]*)(?=\s|$)
      | (?P<field>[^\s<>=!"':/]+):(?P<text>"[^"]*"|[^\s"]*)(?=\s|$)
      | (?!!)(?P<word>"[^"]*"|[^\s"<>=]+)(?=\s|$)
      | (?P<wrong>\S+)
    )""",
    re.VERBOSE,
)
_DURATIONS: Mapping[str, Callable[[Run, float], float | None]] = {
    "duration": lambda run, now: None if run.created_at is None else max(0.0, (run.ended_at or now) - run.created_at),
    "age": lambda run, now: None if run.created_at is None else max(0.0, now - run.created_at),
}
_NUMBERS: Mapping[str, Callable[[Run], float | None]] = {
    "step": lambda run: run.step,
    "ranks": lambda run: len(run.ranks),
}
_Condition = Callable[[Run, float], bool]


@dataclass(frozen=True, slots=True)
class RunFilter:
    """A filter that was understood; one without conditions keeps every run."""

    conditions: tuple[_Condition, ...] = ()

    def keeps(self, run: Run, now: float) -> bool:
        """Return whether all terms hold for a run. ``now``: wall clock in seconds, for the age of a run that goes on."""
        return all(condition(run, now) for condition in self.conditions)


def parse(text: str) -> RunFilter:
    """Return the filter that ``text`` describes.

    Raises:
        UsageError: the text is not a filter; the message says which part and why.
    """
    conditions: list[_Condition] = []
    text = text.strip()
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _wrong(text[at:].strip(), "says nothing")
        at = found.end()
        condition = _condition(found)
        conditions.append(_negated(condition) if found["not"] else condition)
    return RunFilter(tuple(conditions))


def value_of(run: Run, key: str) -> Any:
    """Return what a comparison with ``key`` looks at: the run's configuration, else the mean of a metric's last values.

    A dot leads into a nested configuration (``optimizer.lr``). None if the run has neither.
    """
    held: Any = run.config.get(key)
    if held is None and "." in key:
        held = run.config
        for part in key.split("."):
            held = held.get(part) if isinstance(held, Mapping) else None
    return held if held is not None else last_value(run, key)


def last_value(run: Run, metric: str) -> float | None:
    """Return a metric's last value, averaged over the ranks; "loss" is the training loss, whatever its name."""
    names = {name for rank in run.ranks for name in rank.metrics}
    name = own_or_automatic(metric, names)
    if name not in names and metric == "loss":
        name = loss_metric(names) or metric
    values = [rank.metrics[name] for rank in run.ranks if name in rank.metrics]
    return units.mean(values) if values else None


def _condition(found: re.Match[str]) -> _Condition:
    if found["regex"] is not None:
        return _regex(found["regex"], bool(found["closed"]))
    if found["key"] is not None:
        return _comparison(found["key"], found["sign"], found["value"].strip('"'))
    if found["field"] is not None:
        return _field(found["field"], found["text"].strip('"'))
    if found["word"] is not None:
        return _word(found["word"].strip('"'))
    raise _wrong(found["wrong"] or "!", "is not a term")


def _regex(pattern: str, closed: bool) -> _Condition:
    if not closed:
        raise _wrong(f"/{pattern}", "needs a second / at its end")
    try:
        search = re.compile(pattern, re.IGNORECASE).search
    except (re.error, OverflowError, RecursionError) as error:
        raise _wrong(f"/{pattern}/", f"is not a regular expression: {error}") from error
    return lambda run, _: any(search(text) for text in _texts(run))


def _word(word: str) -> _Condition:
    wanted = word.casefold()
    return lambda run, _: any(wanted in text.casefold() for text in _texts(run))


def _field(name: str, text: str) -> _Condition:
    read = FIELDS.get(name.casefold())
    if read is None:
        raise _wrong(f"{name}:", f"is no field; there are {', '.join(FIELDS)}")
    if not text:
        raise _wrong(f"{name}:", "needs a text after it")
    wanted = text.casefold()
    return lambda run, _: any(wanted in held.casefold() for held in read(run) if held)


def _comparison(key: str, sign: str, value: str) -> _Condition:
    compare = _COMPARE[sign]
    if not value:
        raise _wrong(f"{key}{sign}", "needs a value after it")
    if key in _DURATIONS:
        measure = _DURATIONS[key]
        seconds = _seconds(key, sign, value)
        return lambda run, now: (held := measure(run, now)) is not None and compare(held, seconds)
    wanted = _number(value)
    if wanted is None and sign not in ("=", "==", "!="):
        raise _wrong(f"{key}{sign}{value}", f"compares with {value!r}, which is no number")
    read = _NUMBERS.get(key)

    def holds(run: Run, _: float) -> bool:
        held = read(run) if read is not None else value_of(run, key)
        if held is None:
            return False
        number = _as_number(held)
        if wanted is None or number is None:
            return sign in ("=", "==", "!=") and compare(str(held).casefold(), value.casefold())
        if math.isnan(wanted) and sign in ("=", "==", "!="):
            return math.isnan(number) == (sign != "!=")
        return compare(number, wanted)

    return holds


def _seconds(key: str, sign: str, value: str) -> float:
    try:
        return units.parse_duration(value)
    except UsageError:
        raise _wrong(f"{key}{sign}{value}", f"needs a length of time, such as {key}{sign}90s or {key}{sign}2h") from None


def _negated(condition: _Condition) -> _Condition:
    return lambda run, now: not condition(run, now)


def _texts(run: Run) -> list[str]:
    return [text for read in FIELDS.values() for text in read(run) if text]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _as_number(held: object) -> float | None:
    """Return a value of a configuration as a number; None for a text that is none."""
    if isinstance(held, str):
        return _number(held)
    try:
        return float(held) if isinstance(held, int | float) else None
    except OverflowError:
        return math.inf


def _wrong(part: str, why: str) -> UsageError:
    return UsageError(f"{part} {why}.", f"Write e.g. {EXAMPLES}.")
