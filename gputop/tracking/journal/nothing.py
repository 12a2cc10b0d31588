"""Replaces what cannot be imported, because the interpreter shuts down or no descriptor or memory is left: does nothing.

A script may use a public name in any way: call it, derive a class from it, catch it, take it as a type, and read back the
settings that it gave to ``init``. Loaded with gputop, because later nothing can be.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class WithAttributes(dict):  # type: ignore[type-arg]  # without importing typing
    """A dictionary whose entries are also attributes, as those of ``config`` and ``summary``."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


class _Settings(WithAttributes):
    """What a script keeps in ``config`` or ``summary``: the training may depend on it."""

    def update(self, *given: Any, **more: Any) -> None:
        """Take the entries of a mapping, or of an object such as argparse's; other trackers' keywords too."""
        for entries in (*given, more):
            try:
                super().update(entries if hasattr(entries, "keys") else vars(entries))
            except Exception:  # noqa: BLE001 - anything may be given
                continue


class _Error(Exception):
    """Stands for an error class. Never raised."""


class _Base:
    """Stands for a base class."""

    def __init__(self, *ignored: object, **also: object) -> None:
        return

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name)


_kept = {"config": _Settings(), "summary": _Settings()}


class Nothing:
    """Stands for a function, class, module or run of this name."""

    def __init__(self, name: str = "") -> None:
        self._name = name

    def __call__(self, *given: Any, **also: Any) -> Nothing:
        """Do nothing, but keep the settings of a run."""
        if self._name == "init":
            _kept["config"].update(given[2] if len(given) > 2 else also.get("config"))
        return Nothing()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return instead_of(name)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        """Let a script derive a class. A logging handler stays one: the module logging asks it for its level and its lock."""
        logging = sys.modules.get("logging")
        return (_Base,) if logging is None or "Handler" not in self._name else (logging.NullHandler,)

    def __instancecheck__(self, instance: object) -> bool:
        return False

    def __subclasscheck__(self, subclass: type) -> bool:
        return False

    def __enter__(self, *ignored: object) -> Any:
        return self

    # The comparisons are for the module logging, which compares the level of a handler.
    __getitem__ = __setitem__ = __delitem__ = __lt__ = __le__ = __gt__ = __ge__ = __or__ = __ror__ = __enter__

    def __exit__(self, *ignored: object) -> None:
        return None

    def __iter__(self) -> Nothing:
        return self

    def __next__(self) -> object:
        raise StopIteration

    def __len__(self) -> int:
        return 0


def instead_of(name: str) -> Any:
    """Return what stands for a public name of gputop, or for an attribute of one."""
    if name.endswith("Error"):
        return _Error
    return _kept[name] if name in _kept else Nothing(name)
