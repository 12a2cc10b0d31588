"""The names of automatic values in a run that the script opened itself, where the script's own names are its own.

A script may log ``loss``, ``lr`` or ``epoch`` at any time, by epoch for instance, in numbers and at steps of its own. So the
automatic ones have the prefix ``auto/`` there, and are numbered by optimizer steps.
"""

from __future__ import annotations

from collections.abc import Iterable

PREFIX = "auto/"
_SHARED = ("loss", "lr", "epoch")
"""What scripts log as well; also in parts, as in ``loss/generator``."""
_PREFIXES = (PREFIX, "phase/", "cuda/")
_NAMES = frozenset(
    (
        *("step_s", "samples_per_s", "tokens_per_s", "first_batch_s", "checkpoint_s", "gc_s"),
        *("memory_peak_bytes", "memory_allocated_bytes"),
    )
)


def beside(name: str) -> str:
    """Return an automatic value's name in a run that the script opened."""
    return PREFIX + name if name.partition("/")[0] in _SHARED else name


def are_automatic(names: Iterable[str]) -> bool:
    """Return whether all names of a record are names of automatic values in such a run."""
    return all(name in _NAMES or name.startswith(_PREFIXES) for name in names)
