"""Which hosts a typed filter keeps. The terms are those of ``filters/terms.py``. Pure.

| term | keeps a host |
|---|---|
| ``node7``, ``"link lost"`` | with this text in its name, its state, its run or its first finding |
| ``run:llama`` | with this text in one field; fields are the keys of ``FIELDS`` |
| ``/node1[0-9]/`` | in one of whose fields this regular expression finds something |
| ``idle>0``, ``gpus=8``, ``working<8`` | by the number of its GPUs, of those that work, or that do nothing |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gputop.filters import terms as grammar
from gputop.filters.terms import Term, compared
from gputop.tui.drawing.hosts.row import HostRow

EXAMPLES = "node7, state:lost, run:llama, idle>0 or /node1[0-9]/"
FIELDS: Mapping[str, Callable[[HostRow], str]] = {
    "host": lambda row: row.host,
    "state": lambda row: f"{row.state} {row.level}",
    "run": lambda row: row.run,
    "finding": lambda row: "" if row.finding is None else f"{row.finding.id} {row.finding.title}",
}
"""Field -> its text of a host."""
_NUMBERS: Mapping[str, Callable[[HostRow], int]] = {
    "gpus": lambda row: len(row.gpus),
    "working": lambda row: row.working,
    "idle": lambda row: sum(gpu.idles for gpu in row.gpus),
}
HostFilter = Callable[[HostRow], bool]


def parse(text: str) -> HostFilter:
    """Return the filter that ``text`` describes; an empty one keeps every host.

    Raises:
        UsageError: the text is not a filter; the message says which part and why.
    """
    terms = [(_condition(term), term.excludes) for term in grammar.split(text, EXAMPLES)]
    return lambda row: all(condition(row) != excludes for condition, excludes in terms)


def _condition(term: Term) -> HostFilter:
    if term.pattern is not None:
        pattern = term.pattern
        return lambda row: any(pattern.search(field(row)) for field in FIELDS.values())
    if term.sign:
        return _comparison(term)
    if term.name:
        field = FIELDS.get(term.name)
        if field is None:
            raise term.wrong(f"is not a field of a host; the fields are {', '.join(FIELDS)}")
        return lambda row: term.value.casefold() in field(row).casefold()
    return lambda row: any(term.value.casefold() in field(row).casefold() for field in FIELDS.values())


def _comparison(term: Term) -> HostFilter:
    number = _NUMBERS.get(term.name)
    if number is None:
        raise term.wrong(f"is not a number of a host; there are {', '.join(_NUMBERS)}")
    if not (term.value.isascii() and term.value.isdigit() and len(term.value) < 10):
        raise term.wrong(f"needs a number, such as {term.name}{term.sign}0")
    wanted = int(term.value)
    return lambda row: compared(number(row), term.sign, wanted)
