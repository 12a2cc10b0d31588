"""A run's ``config`` and ``summary``: dictionaries that record every change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class RecordedDict(dict[str, Any]):
    """A dictionary that records every change; its entries are also attributes."""

    def __init__(self, changed: Callable[[str, Any], None]) -> None:
        super().__init__()
        object.__setattr__(self, "_changed", changed)

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self._changed(str(name), value)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def update(self, *others: Any, **entries: Any) -> None:
        """Update from mappings, pairs, objects with attributes (argparse), or keywords; ``allow_val_change`` is ignored."""
        entries.pop("allow_val_change", None)
        for other in (*others, entries):
            found = other if isinstance(other, Mapping) else getattr(other, "__dict__", other)
            for name, value in dict(found).items():
                self[str(name)] = value

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return the entry; create it with ``default`` if it is missing."""
        if name not in self:
            self[name] = default
        return self[name]

    def setdefaults(self, entries: Mapping[str, Any]) -> None:
        """Create the entries that are missing."""
        for name, value in entries.items():
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
