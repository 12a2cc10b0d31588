"""A run's ``config`` and ``summary``: dictionaries that record every change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from itertools import islice
from typing import Any

from gputop.tracking.journal.harmless import harmless
from gputop.tracking.journal.nothing import WithAttributes
from gputop.tracking.journal.notice import reason, warn

ENTRIES_MAX = 5_000
"""More entries in one call are not a configuration: they come from something endless."""


@harmless(passes=(KeyError,))
class RecordedDict(WithAttributes):
    """A dictionary that records every change."""

    def __init__(self, changed: Callable[[str, Any], None]) -> None:
        super().__init__()
        object.__setattr__(self, "_changed", changed)

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self._changed(str(name), value)

    def update(self, *others: Any, **entries: Any) -> None:
        """Update from mappings, pairs, objects with attributes (argparse), or keywords; ``allow_val_change`` is ignored."""
        entries.pop("allow_val_change", None)
        for other in (*others, entries):
            try:
                for name, value in islice(_pairs(other), ENTRIES_MAX):
                    self[str(name)] = value
            except Exception as error:  # noqa: BLE001 - a configuration may be any object
                warn(f"entries of {type(other).__name__} are not recorded ({reason(error)}). Pass a mapping.")

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return the entry; create it with ``default`` if it is missing."""
        if name not in self:
            self[name] = default
        return self.get(name, default)

    def setdefaults(self, entries: Mapping[str, Any]) -> None:
        """Create the entries that are missing."""
        for name, value in islice(_pairs(entries), ENTRIES_MAX):
            self.setdefault(str(name), value)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._changed(str(name), None)

    def pop(self, name: str, *default: Any) -> Any:
        """Remove an entry and return it; the removal is recorded as None."""
        found = super().pop(name, *default)
        self._changed(str(name), None)
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return a copy as a plain dictionary."""
        return dict(self)

    def __reduce__(self) -> Any:
        """Pickle as a plain dictionary, as in a checkpoint: what records the changes stays in this process."""
        return dict, (dict(self),)

    def __copy__(self) -> RecordedDict:
        """Return a copy whose changes are not recorded."""
        copied = RecordedDict(_ignore)
        dict.update(copied, self)
        return copied

    def __deepcopy__(self, memo: Any) -> RecordedDict:
        """Return a copy, also of the values, whose changes are not recorded."""
        copied = RecordedDict(_ignore)
        dict.update(copied, deepcopy(dict(self), memo))
        return copied


@harmless(passes=(KeyError,))
class Summary(RecordedDict):
    """A run's summary: what the script wrote, else the last value that it logged, as with other trackers."""

    def __init__(self, changed: Callable[[str, Any], None], logged: Callable[[str], float | None]) -> None:
        super().__init__(changed)
        object.__setattr__(self, "_logged", logged)

    def __missing__(self, name: str) -> Any:
        value = self._logged(name)
        if value is None:
            raise KeyError(name)
        return value

    def get(self, name: str, default: Any = None) -> Any:
        """Return the entry, else the last logged value, else ``default``."""
        try:
            return self[name]
        except KeyError:
            return default

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and self._logged(name) is not None)


def _ignore(name: str, value: Any) -> None:
    """Record no change."""


def _pairs(entries: Any) -> Iterable[Any]:
    if entries is None:
        return ()
    found = entries if isinstance(entries, Mapping) else getattr(entries, "__dict__", entries)
    return found.items() if isinstance(found, Mapping) else iter(found)
