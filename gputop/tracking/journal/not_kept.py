"""A placeholder for objects that a script logs and gputop does not record: pictures, tables, artifacts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gputop.tracking.journal.harmless import harmless
from gputop.tracking.journal.notice import tell

_QUIET = frozenset(["Settings", "login", "setup", "unwatch", "mark_preempting"])
"""Calls that make no difference when they are skipped."""


@harmless
class NotKept:
    """Accepts every call and attribute access, and does nothing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *ignored: Any, **also: Any) -> NotKept:
        """Report once that this is not kept."""
        if self._name not in _QUIET:
            tell(f"{self._name} is not kept: gputop records numbers and text. The training goes on.")
        return self

    def __getattr__(self, name: str) -> NotKept:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __enter__(self) -> NotKept:
        return self

    def __exit__(self, *ignored: object) -> None:
        return None

    def __iter__(self) -> Iterator[NotKept]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, key: object) -> NotKept:
        return self

    def __setitem__(self, key: object, value: object) -> None:
        """Ignore the item."""

    def __repr__(self) -> str:
        return f"<{self._name}, which gputop does not keep>"
