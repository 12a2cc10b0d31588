"""Writes the automatic values of each step into a run, beside what the script and a framework's adapter log there.

In a run of our own everything is written. In one that the script opened its word counts: a name that it logs is not
logged here, and steps are numbered as it numbers them. It may speak late, so the first steps wait for it. An adapter says
beforehand what it will log (``claim``): a Trainer that logs its loss every 500 steps would else say it twice at those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gputop.tracking.run import Run

PATIENCE = 20
"""Steps after which a run that the script opened, and has not logged to, gets the automatic values all the same."""

_claimed: set[str] = set()


def claim(*names: str) -> None:
    """Say that an adapter logs these names from now on, so that nobody else does."""
    _claimed.update(names)


def release() -> None:
    """Say that no adapter is at work any more."""
    _claimed.clear()


class Records:
    """The records of one run; ``own``: nobody else opened it."""

    def __init__(self, run: Run, own: bool) -> None:
        self._run = run
        self._own = own
        self._own_shapes: set[tuple[str, ...]] = set()
        self._their_names: frozenset[str] = frozenset()
        self._shapes_seen = -1
        self._waiting: list[tuple[int, dict[str, Any]]] = []
        self.ahead = 0
        """By how much the script's number of a step, under which ours are written, is above our own."""

    @property
    def direct(self) -> bool:
        """Whether nobody else has a say in what is written."""
        return self._own and not _claimed

    def write(self, values: dict[str, Any], step: int) -> None:
        """Write the values of a step."""
        journal = self._run.journal
        if self._own and not _claimed and journal is not None:
            for value in values.values():
                if type(value) is not float:  # on a GPU: its copy has to be asked for now
                    break
            else:
                journal.defer(values, step)
                return
        if _claimed:
            values = {name: value for name, value in values.items() if name not in _claimed and not _is_loss_of(name, _claimed)}
        if not values:
            return
        if self._own:
            self._run.log(values, step)
            return
        if journal is None:
            return
        theirs = self._theirs(journal.named())
        if theirs:
            self._waiting = []
            kept = {name: value for name, value in values.items() if name not in theirs and not _is_loss_of(name, theirs)}
            self._remember(kept)
            self.ahead = journal.step + 1 - step
            journal.aside(kept)
            return
        self._waiting.append((step, values))
        if step >= PATIENCE:
            self.write_waiting()

    def write_waiting(self) -> None:
        """Write what waited for the script's own first words, which did not come."""
        waiting, self._waiting = self._waiting, []
        for step, values in waiting:
            self._remember(values)
            self._run.log(values, step)

    def note(self, step: int, **metrics: float) -> None:
        """Write metrics that belong to no step's record, such as a checkpoint's time."""
        journal = self._run.journal
        if self._own:
            self._run.log(metrics, step)
        elif journal is not None:
            self._remember(metrics)
            journal.aside(metrics)

    def _theirs(self, shapes: list[tuple[str, ...]]) -> frozenset[str]:
        if len(shapes) != self._shapes_seen:
            self._shapes_seen = len(shapes)
            self._their_names = frozenset(name for names in shapes if names not in self._own_shapes for name in names)
        return self._their_names

    def _remember(self, values: dict[str, Any]) -> None:
        """Keep which sets of names are ours: a value that is on a GPU is written later, by itself."""
        late = [name for name, value in values.items() if type(value) is not float]
        self._own_shapes.add(tuple(name for name in values if name not in late))
        self._own_shapes.update((name,) for name in late)


def _is_loss_of(name: str, others: frozenset[str] | set[str]) -> bool:
    """Return whether this is a loss of ours, and the others tell one of their own."""
    return name.partition("/")[0] == "loss" and any("loss" in other.lower() for other in others)
