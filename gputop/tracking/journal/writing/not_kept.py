"""A placeholder for objects that a script logs and gputop does not record: pictures, tables, artifacts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gputop.tracking.journal.harmless import harmless
from gputop.tracking.journal.notice import warn

_QUIET = frozenset(
    ["Settings", "detach", "display", "login", "mark_preempting", "pin_config_keys", "require", "setup", "status", "unwatch"]
)
"""Calls that can be skipped without consequences."""
_OF_LIBRARIES = ("catboost", "fastai", "gym", "keras", "lightgbm", "sb3", "sklearn", "tensorboard", "tensorflow", "xgboost")
PACKAGES = frozenset(["apis", "data_types", "integration", "sdk", *_OF_LIBRARIES])
"""Names of another tracker's packages: what counts is the last name that a script asks of them."""


@harmless
class NotKept:
    """Accepts every call and attribute access, and does nothing. Also as a type, of which nothing is an instance."""

    def __init__(self, name: str, package: bool = False) -> None:
        self._name = name
        self._package = package or name in PACKAGES

    def __call__(self, *ignored: Any, **also: Any) -> NotKept:
        """Report once that this is not kept."""
        if self._name not in _QUIET:
            warn(f"{self._name} is not kept: gputop records numbers and text. The training continues.")
        return NotKept(self._name) if self._package else self

    def __getattr__(self, name: str) -> NotKept:
        if name.startswith("__"):
            raise AttributeError(name)
        return NotKept(name, package=True) if self._package else self

    def __instancecheck__(self, instance: object) -> bool:
        return False

    def __subclasscheck__(self, subclass: type) -> bool:
        return False

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        """Let a script derive a class: it gets no base."""
        self()
        return ()

    def __or__(self, other: object) -> NotKept:
        return self

    __ror__ = __or__

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
