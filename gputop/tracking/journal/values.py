"""Converts logged values: each becomes a float, a text, or nothing with one notice. Never waits for a device.

A value on a GPU is not read here: see ``gpu_values``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gputop.tracking.journal.format import NAME_CHARACTERS
from gputop.tracking.journal.not_kept import NotKept
from gputop.tracking.journal.notice import tell

_DEPTH = 8


def flatten(data: Mapping[Any, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield (name, value); nested mappings yield names joined with "/"."""
    for key, value in data.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and depth < _DEPTH:
            yield from flatten(value, f"{name}/", depth + 1)
        else:
            yield name, value


def classify(metrics: Mapping[Any, Any]) -> tuple[dict[str, float], list[str], list[tuple[str, Any]]]:
    """Sort metrics into floats that can be recorded now, texts ("name: text"), and values still on a GPU."""
    numbers: dict[str, float] = {}
    texts: list[str] = []
    late: list[tuple[str, Any]] = []
    for long_name, value in flatten(metrics):
        name = long_name[:NAME_CHARACTERS]
        if type(value) is float:
            numbers[name] = value
        elif on_gpu(value):
            late.append((name, value))
        else:
            found = number(name, value)
            if isinstance(found, str):
                texts.append(f"{name}: {found}")
            elif found is not None:
                numbers[name] = found
    return numbers, texts, late


def number(name: str, value: Any) -> float | str | None:
    """Return a float, a text, or None for what cannot be logged (a notice gives the reason, once per name)."""
    kind = type(value)
    if kind is float or kind is bool:
        return float(value)
    if value is None or kind is str:
        return value  # type: ignore[no-any-return]
    if kind is NotKept:
        return None  # reported where it was created
    home = kind.__module__.partition(".")[0]
    if home == "torch" or hasattr(value, "is_cuda"):
        return _tensor(name, value)
    if home in ("jax", "jaxlib"):
        tell(f"metric {name!r} is a JAX array and is not logged: reading it would wait for the device. Log float(value).")
        return None
    if getattr(value, "size", 1) != 1:
        tell(f"metric {name!r} has {value.size} values and is not logged: log one number, such as its mean.")
        return None
    try:
        return float(value.item()) if hasattr(value, "item") else float(value)
    except Exception as error:  # noqa: BLE001 - __float__ and item() are the user's code, and may raise anything
        tell(f"metric {name!r} ({kind.__name__}) is no number and is not logged: {error}")
        return None


def on_gpu(value: Any) -> bool:
    """Return whether ``value`` is a single real number on a CUDA device."""
    if getattr(value, "is_cuda", False) is not True or type(value).__name__ == "DTensor":
        return False
    try:
        return bool(value.numel() == 1 and value.device.type == "cuda" and not value.is_complex())
    except Exception:  # noqa: BLE001 - fake and subclassed tensors raise their own kinds
        return False


def _tensor(name: str, value: Any) -> float | None:
    if type(value).__name__ == "DTensor":
        tell(f"metric {name!r} is a DTensor and is not logged: log value.full_tensor().item(), on every rank.")
        return None
    try:
        if value.numel() != 1:
            tell(f"metric {name!r} is a tensor of {value.numel()} values and is not logged: log one number, such as its mean.")
            return None
        if value.device.type != "cpu":
            tell(
                f"metric {name!r} is a tensor on {value.device} and is not logged: reading it would make the training wait "
                f"for the GPU. Log {name}.item() every few steps, or a float that the loop has anyway."
            )
            return None
        return float(value.item())
    except Exception as error:  # noqa: BLE001 - fake, meta and subclassed tensors raise their own kinds
        tell(f"metric {name!r} cannot be read and is not logged: {error}")
        return None


def to_int(step: Any) -> int | None:
    """Return a step as an int without querying a device; None if it is no number."""
    if type(step).__module__.partition(".")[0] == "torch" and getattr(getattr(step, "device", None), "type", "cpu") != "cpu":
        tell("a step on a GPU cannot be read without waiting: steps are counted instead. Pass an int.")
        return None
    try:
        return int(step)
    except Exception as error:  # noqa: BLE001 - __int__ is the user's code
        tell(f"step {step!r:.60} is no whole number ({error}): steps are counted instead.")
        return None


def plain(value: Any, depth: int = 0) -> Any:
    """Return ``value`` in a form that JSON can hold: scalars as they are, containers recursively, all else as a short text."""
    kind = type(value)
    if value is None or kind in (str, bool, int, float):
        return value if kind is not str else value[:10_000]
    if depth < _DEPTH:
        if isinstance(value, Mapping):
            return {str(key): plain(item, depth + 1) for key, item in list(value.items())[:1000]}
        if isinstance(value, list | tuple | set | frozenset):
            return [plain(item, depth + 1) for item in list(value)[:1000]]
    if kind.__module__.partition(".")[0] == "numpy" and getattr(value, "size", 2) == 1:
        return plain(value.item(), _DEPTH)
    try:
        return str(value)[:500]
    except Exception:  # noqa: BLE001 - __str__ is the user's code
        return f"<{kind.__name__}>"
