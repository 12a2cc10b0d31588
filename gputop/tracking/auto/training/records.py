"""Writes the automatic values of each step into a run, in addition to what the script and a framework's adapter log.

In a run that gputop opened, everything is written. In a run that the script opened, the script's values keep their names and
their steps: automatic ones are numbered by optimizer steps, do not advance the script's own step, and have names that scripts
do not use (``gputop/losses.py``); a name that the script logs anyway belongs to the script from then on. An adapter announces
what it will log (``claim``): otherwise a Trainer that logs its loss every 500 steps would record it twice at those steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gputop.losses import beside

if TYPE_CHECKING:
    from gputop.tracking.run import Run

_claimed: set[str] = set()


def claim(*names: str) -> None:
    """Reserve these names for an adapter, which logs them from now on."""
    _claimed.update(names)


def release() -> None:
    """Release all names: no adapter is active any more."""
    _claimed.clear()


def adapted() -> bool:
    """Return whether an adapter records what its framework logs."""
    return bool(_claimed)


class Records:
    """The records of one run; ``own``: tracking opened it itself."""

    def __init__(self, run: Run, own: bool) -> None:
        self._run = run
        self._own = own
        self._own_shapes: set[tuple[str, ...]] = set()
        self._known = (-1, 0)
        """How many sets of names were logged, and how many names were claimed, when the names were last checked."""
        self._theirs: frozenset[str] = frozenset()
        self._shown: dict[str, str | None] = {}

    def write(self, values: dict[str, Any], step: int, at_ns: int | None = None) -> None:
        """Write the values of a step, which ended now or ``at_ns`` (monotonic, ns)."""
        journal = self._run.journal
        if journal is None:
            return
        values = self._named(values)
        if not values:
            return
        for value in values.values():
            if type(value) is not float:  # on a GPU: its copy must be queued now
                journal.catch_up()  # earlier steps come first
                break
        else:
            journal.defer(values, step, count=self._own, at_ns=at_ns)
            return
        self._now(values, step)

    def note(self, step: int, metrics: dict[str, Any]) -> None:
        """Write metrics outside of a step's record, such as the time of a checkpoint."""
        metrics = self._named(metrics)
        if metrics:
            self._now(metrics, step)

    def names_if_fast(self, turns: Sequence[Sequence[str]]) -> tuple[str, list[tuple[str, ...]], str] | None:
        """Return the names of a step's time, of its losses and of its wait for data; None if something else records one.

        ``turns``: the losses at each optimizer's step; the last one ends the iteration, and its record has the times.
        """
        self._check_names()
        step_s, data = self._name("step_s"), self._name("phase/data")
        found = [[self._name(name) for name in losses] for losses in turns]
        shown = [tuple(name for name in losses if name is not None) for losses in found]
        if step_s is None or data is None or any(None in losses for losses in found):
            return None
        for names in ((step_s,), (step_s, *shown[-1])):
            self._own_shapes.update((names, (*names, data)))
        self._own_shapes.update(shown[:-1])
        self._own_shapes.update((name,) for losses in shown for name in losses)  # those on a GPU arrive later, each on its own
        return step_s, shown, data

    @property
    def numbered_by_us(self) -> bool:
        """Whether the run's steps are the optimizer's, because tracking opened it."""
        return self._own

    def _now(self, values: dict[str, Any], step: int) -> None:
        if self._own:
            self._run.log(values, step)
        elif self._run.journal is not None:
            self._run.journal.aside(values, step)

    @property
    def own(self) -> bool:
        """Whether tracking opened the run itself."""
        return self._own

    def _named(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values that only automatic tracking writes, under the names that they have in this run."""
        if self._own and not _claimed:
            return values
        self._check_names()
        kept: dict[str, Any] = {}
        for name, value in values.items():
            shown = self._name(name)
            if shown is not None:
                kept[shown] = value
        if not self._own:
            self._remember(kept)
        return kept

    def _check_names(self) -> None:
        """Check which names others use, if that may have changed."""
        journal = self._run.journal
        known = (0 if self._own or journal is None else journal.sets_of_names, len(_claimed))
        if known == self._known:
            return
        self._known = known
        if not self._own and journal is not None:
            shapes = journal.named()
            self._theirs = frozenset(name for names in shapes if names not in self._own_shapes for name in names)
        self._shown = {}

    def _name(self, name: str) -> str | None:
        """Return a value's name in this run; None if the script or an adapter logs it."""
        try:
            return self._shown[name]
        except KeyError:
            shown = None
            if name not in _claimed and not _is_loss_of(name, _claimed):
                beside_name = name if self._own else beside(name)
                shown = None if beside_name in self._theirs else beside_name
            self._shown[name] = shown
            return shown

    def _remember(self, values: dict[str, Any]) -> None:
        """Remember which sets of names are automatic; a value on a GPU is written later, on its own."""
        late = [name for name, value in values.items() if type(value) is not float]
        self._own_shapes.add(tuple(name for name in values if name not in late))
        self._own_shapes.update((name,) for name in late)


def _is_loss_of(name: str, claimed: set[str]) -> bool:
    """Return whether this is an automatic loss while an adapter records the loss."""
    return name.partition("/")[0] == "loss" and any("loss" in other.lower() for other in claimed)
