"""Writes the automatic values of each step into a run, in addition to what the script and a framework's adapter log.

In our own run everything is written. In a run that the script opened, the script takes precedence: names that it logs are
not logged here, and its step numbers apply. It may log late, so the first steps are held back. An adapter announces what it
will log (``claim``): otherwise a Trainer that logs its loss every 500 steps would record it twice at those steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gputop.tracking.run import Run

PATIENCE = 20
"""After this many steps the automatic values go into the script's run even if the script has not logged anything."""

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
        self._their_names: frozenset[str] = frozenset()
        self._shapes_seen = -1
        self._waiting: list[tuple[int, dict[str, Any]]] = []
        self.ahead = 0
        """The script's step number, under which our values are written, minus our own."""

    @property
    def direct(self) -> bool:
        """Whether neither a script nor an adapter affects what is written."""
        return self._own and not _claimed

    def write(self, values: dict[str, Any], step: int) -> None:
        """Write the values of a step."""
        journal = self._run.journal
        if self._own and not _claimed and journal is not None:
            for value in values.values():
                if type(value) is not float:  # on a GPU: its copy must be queued now
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
        """Write the values that were held back for the script's first log call, which did not come."""
        waiting, self._waiting = self._waiting, []
        for step, values in waiting:
            self._remember(values)
            self._run.log(values, step)

    def note(self, step: int, metrics: dict[str, Any]) -> None:
        """Write metrics outside of a step's record, such as the time of a checkpoint."""
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
        """Remember which sets of names are ours; a value on a GPU is written later, on its own."""
        late = [name for name, value in values.items() if type(value) is not float]
        self._own_shapes.add(tuple(name for name in values if name not in late))
        self._own_shapes.update((name,) for name in late)


def _is_loss_of(name: str, others: frozenset[str] | set[str]) -> bool:
    """Return whether this is one of our losses while the others include a loss of their own."""
    return name.partition("/")[0] == "loss" and any("loss" in other.lower() for other in others)
