"""Which processes a typed filter keeps. The terms are those of ``filters/terms.py``. Pure text and records.

| term | keeps a process |
|---|---|
| ``python``, ``"two words"`` | with this text in its command, name, user, PID or run |
| ``gpu:0-3``, ``rank:0,2``, ``pid:4711`` | on one of these GPUs (or ``gpu:6:0``, or a UUID), of these ranks or PIDs |
| ``user:me``, ``run:gpt``, ``command:train`` | of this user (``me``: who runs gputop), run or command |
| ``/lenet-\\d+/`` | in one of whose texts this regular expression finds something |
| ``mem>10G``, ``rss>2G`` | by its memory on the GPU, and on the host |
| ``sm>50``, ``cpu<10``, ``rank>=4`` | by its share of the SMs or the cores in percent, its rank |
| ``time>2h`` | by how long it has run |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from gputop.filters import terms as grammar
from gputop.filters.terms import Term, compared
from gputop.process import DeviceUse, Process
from gputop.snapshot import Device, Run

EXAMPLES = "python, gpu:0-3, rank:2, user:me, mem>10G, sm>50, run:gpt or -word"


class Listed(Protocol):
    """A line of a process table: a process on a device, or memory on a device that no known process holds."""

    @property
    def process(self) -> Process | None:
        """The process; None for memory without one."""

    @property
    def run(self) -> Run | None:
        """The run that the process belongs to."""

    @property
    def device(self) -> Device | None:
        """The device that the line is about."""

    @property
    def use(self) -> DeviceUse | None:
        """How the process uses the device."""

    @property
    def memory_bytes(self) -> int | None:
        """Memory held on the device."""


_Condition = Callable[[Listed, float], bool]


@dataclass(frozen=True, slots=True)
class ProcessFilter:
    """A filter that was understood; one without conditions keeps every line. Two with the same text are equal."""

    text: str = ""
    conditions: tuple[_Condition, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProcessFilter) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def keeps(self, listed: Listed, now: float) -> bool:
        """Return whether all terms hold. ``now``: wall clock in seconds, for how long a process has run."""
        return all(condition(listed, now) for condition in self.conditions)


def parse(text: str, uid: int) -> ProcessFilter:
    """Return the filter that ``text`` describes. ``uid``: the user whom "me" means.

    Raises:
        UsageError: the text is not a filter; the message says which part and why.
    """
    conditions = []
    for term in grammar.split(text, EXAMPLES):
        condition = _condition(term, uid)
        conditions.append(_negated(condition) if term.excludes else condition)
    return ProcessFilter(text.strip(), tuple(conditions))


def _negated(condition: _Condition) -> _Condition:
    return lambda listed, now: not condition(listed, now)


def _condition(term: Term, uid: int) -> _Condition:
    name = term.name.casefold()
    if term.pattern is not None:
        search = term.pattern.search
        return lambda listed, _: any(search(text) for text in _texts(listed))
    if term.sign:
        return _comparison(term, name)
    if not name:
        return _word(_texts, term.value)
    if name == "gpu":
        return _gpu(term)
    if name in _INTEGERS:
        read, wanted = _INTEGERS[name], term.integers()
        return lambda listed, _: any(read(listed) in span for span in wanted)
    if name == "user" and term.value.casefold() == "me":
        return lambda listed, _: listed.process is not None and listed.process.uid == uid
    if name not in _TEXTS:
        fields = ", ".join(("gpu", *_INTEGERS, *_TEXTS))
        raise term.wrong(f"is not a field; the fields are {fields}", f"{term.name}:")
    return _word(_TEXTS[name], term.value)


def _word(read: Callable[[Listed], Iterable[str]], word: str) -> _Condition:
    wanted = word.casefold()
    return lambda listed, _: any(wanted in text.casefold() for text in read(listed))


def _gpu(term: Term) -> _Condition:
    """Return a condition on the device: by numbers, by the number of a MIG instance in its GPU, or by its UUID."""
    wanted = term.value.casefold()
    if wanted.startswith(("gpu-", "mig-", "virtual-")):
        return lambda listed, _: listed.device is not None and listed.device.uuid.casefold().startswith(wanted)
    if ":" in wanted:
        return lambda listed, _: listed.device is not None and (listed.device.mig_label or "").split(" ")[0] == wanted
    spans = term.integers()
    return lambda listed, _: listed.device is not None and any(listed.device.index in span for span in spans)


def _comparison(term: Term, name: str) -> _Condition:
    sign = term.sign
    if name in _SIZES:
        size, limit = _SIZES[name], term.bytes()
        return lambda listed, _: compared(size(listed), sign, limit)
    if name == "time":
        seconds = term.seconds()
        return lambda listed, now: compared(_runs_for(listed, now), sign, seconds)
    read = _PERCENTS.get(name) or _INTEGERS.get(name)
    if read is None:
        there = ", ".join((*_SIZES, *_PERCENTS, *_INTEGERS, "time"))
        raise term.wrong(f"compares nothing that a process has; there are {there}", term.name)
    try:
        number = float(term.value.removesuffix("%"))
    except ValueError:
        raise term.wrong(f"compares with {term.value!r}, which is not a number") from None
    return lambda listed, _: compared(read(listed), sign, number)


def _command(listed: Listed) -> tuple[str, ...]:
    process = listed.process
    return () if process is None else (" ".join(process.command or ()), process.name or "")


def _user(listed: Listed) -> tuple[str, ...]:
    return () if listed.process is None or listed.process.user is None else (listed.process.user,)


def _run(listed: Listed) -> tuple[str, ...]:
    return () if listed.run is None else (listed.run.name, listed.run.run_id)


def _texts(listed: Listed) -> tuple[str, ...]:
    pid = (str(listed.process.pid),) if listed.process is not None else ("memory held by no listed process",)
    return *_command(listed), *_user(listed), *_run(listed), *pid


def _runs_for(listed: Listed, now: float) -> float | None:
    started = listed.process.started_at if listed.process is not None else None
    return None if started is None else max(0.0, now - started)


_TEXTS: Mapping[str, Callable[[Listed], Iterable[str]]] = {"user": _user, "run": _run, "command": _command}
_INTEGERS: Mapping[str, Callable[[Listed], int | None]] = {
    "rank": lambda listed: None if listed.process is None else listed.process.rank,
    "pid": lambda listed: None if listed.process is None else listed.process.pid,
}
_SIZES: Mapping[str, Callable[[Listed], int | None]] = {
    "mem": lambda listed: listed.memory_bytes,
    "rss": lambda listed: None if listed.process is None else listed.process.memory_rss_bytes,
}
_PERCENTS: Mapping[str, Callable[[Listed], float | None]] = {
    "sm": lambda listed: None if listed.use is None else listed.use.sm_utilization_percent,
    "cpu": lambda listed: None if listed.process is None else listed.process.cpu_percent,
}
