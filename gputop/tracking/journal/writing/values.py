"""Converts logged values: each becomes a float, a text, or nothing with one notice. Never waits for a device.

A value on a GPU is not read here: see ``gpu_values``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from gputop.tracking.journal.format import NAME_CHARACTERS
from gputop.tracking.journal.handlers import let_through
from gputop.tracking.journal.notice import reason, warn
from gputop.tracking.journal.writing.not_kept import NotKept

_DEPTH = 8
METRICS_MAX = 10_000
"""More metrics in one call are not metrics: they come from a container that is endless or contains itself."""
ITEMS_MAX = 5_000
"""How many items of a configuration or a fact are kept, at most 1000 of each container."""
_CONTAINER_ITEMS = 1000
_TEXT_CHARACTERS = 10_000
_INT_BITS = 4096
"""Python converts no integer longer than this to text."""
_LEVELS = {10: "debug", 20: "info", 30: "warning", 40: "error", 50: "critical"}


def flatten(data: Mapping[Any, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield (name, value); nested mappings yield names joined with "/"."""
    for key, value in data.items():
        try:
            name = f"{prefix}{key}"
        except Exception as error:  # noqa: BLE001 - a key may be any object
            let_through(error)
            warn(f"a metric has a name that cannot be read, and is not logged ({reason(error)}).", about="names")
            continue
        if isinstance(value, Mapping) and depth < _DEPTH:
            yield from flatten(value, f"{name}/", depth + 1)
        else:
            yield name, value


def classify(metrics: Mapping[Any, Any]) -> tuple[dict[str, float], list[str], list[tuple[str, Any]]]:
    """Sort metrics into floats that can be recorded now, texts ("name: text"), and values still on a GPU."""
    numbers: dict[str, float] = {}
    texts: list[str] = []
    late: list[tuple[str, Any]] = []
    for count, (long_name, value) in enumerate(flatten(metrics)):
        if count == METRICS_MAX:
            warn(f"more than {METRICS_MAX} metrics in one call: the others are not logged.")
            break
        name = long_name[:NAME_CHARACTERS]
        try:
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
        except Exception as error:  # noqa: BLE001 - a value may be any object; the other metrics of the call are recorded
            let_through(error)
            warn(f"metric {name!r} cannot be read and is not logged ({reason(error)}).", f"{name!r} cannot be read")
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
        warn(f"metric {name!r} is a JAX array and is not logged: reading it would wait for the device. Log float(value).")
        return None
    if getattr(value, "size", 1) != 1:
        warn(
            f"metric {name!r} has {value.size} values and is not logged: log one number, such as its mean.",
            f"{name!r} has many",
        )
        return None
    try:
        return float(value.item()) if hasattr(value, "item") else float(value)
    except Exception as error:  # noqa: BLE001 - __float__ and item() are the user's code, and may raise anything
        let_through(error)
        what = f"metric {name!r} ({kind.__name__}) is not a number and is not logged"
        warn(f"{what}: {reason(error)}", about=what)
        return None


def on_gpu(value: Any) -> bool:
    """Return whether ``value`` is a single real number on a CUDA device."""
    if getattr(value, "is_cuda", False) is not True or type(value).__name__ == "DTensor":
        return False
    try:
        return bool(value.numel() == 1 and value.device.type == "cuda" and not value.is_complex())
    except Exception as error:  # noqa: BLE001 - fake and subclassed tensors raise their own kinds
        let_through(error)
        return False


def _tensor(name: str, value: Any) -> float | None:
    if type(value).__name__ == "DTensor":
        warn(f"metric {name!r} is a DTensor and is not logged: log value.full_tensor().item(), on every rank.")
        return None
    try:
        if value.numel() != 1:
            what = f"metric {name!r} is a tensor of {value.numel()} values and is not logged"
            warn(f"{what}: log one number, such as its mean.", about=f"{name!r} has many")
            return None
        if value.device.type != "cpu":
            warn(
                f"metric {name!r} is a tensor on {value.device} and is not logged: reading it would make the training wait "
                f"for the GPU. Log {name}.item() every few steps, or a float that the loop has anyway."
            )
            return None
        return float(value.item())
    except Exception as error:  # noqa: BLE001 - fake, meta and subclassed tensors raise their own kinds
        let_through(error)
        warn(f"metric {name!r} cannot be read and is not logged ({reason(error)}).", f"{name!r} cannot be read")
        return None


def to_int(step: Any) -> int | None:
    """Return a step as an int without querying a device; None if it is not a number."""
    if type(step).__module__.partition(".")[0] == "torch" and getattr(getattr(step, "device", None), "type", "cpu") != "cpu":
        warn("a step on a GPU cannot be read without waiting: steps are counted instead. Pass an int.")
        return None
    try:
        return int(step)
    except Exception as error:  # noqa: BLE001 - __int__ is the user's code
        let_through(error)
        shown = repr(step)[:60] if type(step) is str else f"of type {type(step).__name__}"
        warn(f"step {shown} is not an integer ({reason(error)}): steps are counted instead.", about="steps")
        return None


def plain(value: Any) -> Any:
    """Return ``value`` in a form that JSON can hold: scalars as they are, containers recursively, all else as a short text.

    Never raises. Of a container that is endless or contains itself, the beginning is kept.
    """
    return _plain(value, 0, [ITEMS_MAX])


def _plain(value: Any, depth: int, left: list[int]) -> Any:
    kind = type(value)
    if value is None or kind is bool or kind is float:
        return value
    if kind is str:
        return value[:_TEXT_CHARACTERS]
    left[0] -= 1
    try:
        if kind is int:
            return value if value.bit_length() < _INT_BITS else f"<int of {value.bit_length()} bits>"
        if isinstance(value, Mapping | list | tuple | set | frozenset):
            if depth == _DEPTH or left[0] < 0:
                return f"<{kind.__name__}>"
            if isinstance(value, Mapping):
                pairs = islice(value.items(), _CONTAINER_ITEMS)
                return {str(key)[:_TEXT_CHARACTERS]: _plain(item, depth + 1, left) for key, item in pairs if left[0] > 0}
            return [_plain(item, depth + 1, left) for item in islice(value, _CONTAINER_ITEMS) if left[0] > 0]
        if kind.__module__.partition(".")[0] == "numpy" and getattr(value, "size", 2) == 1:
            return _plain(value.item(), _DEPTH, left)
        if getattr(value, "is_cpu", True) is not True or kind.__name__ == "DTensor":
            # Converting it to text would wait for the device, or for other ranks.
            return f"<{kind.__name__} of {tuple(value.shape)} on {value.device}>"
        return str(value)[:500]
    except Exception as error:  # noqa: BLE001 - whatever its class does is the user's code
        let_through(error)
        return f"<{kind.__name__}>"


def level_name(level: Any) -> str:
    """Return the name of a level: as it is, or that of a number of the module logging."""
    name = _LEVELS.get(level) if type(level) is int else None
    return str(level)[:20] if name is None else name


def labels(tags: Any) -> list[str]:
    """Return tags, in whatever form they were given, as a list of strings."""
    if tags is None or tags == "":
        return []
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        return [str(tags)]
    return [str(tag) for tag in islice(tags, _CONTAINER_ITEMS)]
