"""Which runs a typed filter keeps: words, ``field:text``, regular expressions, and comparisons. Pure text and records.

The terms are those of ``filters/terms.py``; here they mean:

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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gputop import units
from gputop.filters import terms as grammar
from gputop.filters.terms import Term, compared
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
        """Return whether all terms hold for a run. ``now``: wall clock in seconds, for the age of a running run."""
        return all(condition(run, now) for condition in self.conditions)


def parse(text: str) -> RunFilter:
    """Return the filter that ``text`` describes.

    Raises:
        UsageError: the text is not a filter; the message says which part and why.
    """
    conditions = []
    for term in grammar.split(text, EXAMPLES):
        condition = _condition(term)
        conditions.append(_negated(condition) if term.excludes else condition)
    return RunFilter(tuple(conditions))


def value_of(run: Run, key: str) -> Any:
    """Return the value that a comparison with ``key`` uses: the run's configuration, else the mean of a metric's last values.

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


def _condition(term: Term) -> _Condition:
    if term.pattern is not None:
        search = term.pattern.search
        return lambda run, _: any(search(text) for text in _texts(run))
    if term.sign:
        return _comparison(term)
    if term.name:
        return _field(term)
    wanted = term.value.casefold()
    return lambda run, _: any(wanted in text.casefold() for text in _texts(run))


def _field(term: Term) -> _Condition:
    read = FIELDS.get(term.name.casefold())
    if read is None:
        raise term.wrong(f"is not a field; the fields are {', '.join(FIELDS)}", f"{term.name}:")
    wanted = term.value.casefold()
    return lambda run, _: any(wanted in held.casefold() for held in read(run) if held)


def _comparison(term: Term) -> _Condition:
    key, sign, value = term.name, term.sign, term.value
    if key in _DURATIONS:
        measure = _DURATIONS[key]
        seconds = term.seconds()
        return lambda run, now: compared(measure(run, now), sign, seconds)
    wanted = _number(value)
    equality = sign in ("=", "==", "!=")
    if wanted is None and not equality:
        raise term.wrong(f"compares with {value!r}, which is not a number")
    read = _NUMBERS.get(key)

    def holds(run: Run, _: float) -> bool:
        held = read(run) if read is not None else value_of(run, key)
        if held is None:
            return False
        number = _as_number(held)
        if wanted is None or number is None:
            return equality and compared(str(held).casefold(), sign, value.casefold())
        if math.isnan(wanted) and equality:
            return math.isnan(number) == (sign != "!=")
        return compared(number, sign, wanted)

    return holds


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
    """Return a value of a configuration as a number; None if it is not one."""
    if isinstance(held, str):
        return _number(held)
    try:
        return float(held) if isinstance(held, int | float) else None
    except OverflowError:
        return math.inf
