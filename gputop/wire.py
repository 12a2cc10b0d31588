"""The JSON form of records: dataclasses to plain values and back.

NaN and infinities, which are data in a metric, travel as the strings "NaN", "Infinity" and "-Infinity". Imports the
standard library alone and defines no dataclass, so that the training side can have ``FormatError`` at no cost.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class FormatError(ValueError):
    """A line or file is not what gputop writes."""


_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def encode(value: Any, compact: bool = False) -> Any:
    """Turn records into what ``json`` writes; NaN and infinities become strings.

    ``compact`` leaves out the fields of a record that have their default, as ``decode`` puts them back: for readers of ours.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if _LOW < value < _HIGH else _non_finite(value)
    if isinstance(value, Mapping):
        return {str(key): encode(item, compact) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item, compact) for item in value]
    result: dict[str, Any] = {}
    for name, how, default in _fields(type(value)):
        item = getattr(value, name)
        if compact and item is default:
            continue
        if item is None or how == _PLAIN:
            result[name] = item
        elif how == _FLOAT:
            result[name] = item if _LOW < item < _HIGH else _non_finite(item)
        else:
            result[name] = encode(item, compact)
    return result


_LOW, _HIGH = -math.inf, math.inf
_PLAIN, _FLOAT, _NESTED = range(3)
_PLAIN_KINDS = frozenset(f"{kind}{rest}" for kind in ("int", "str", "bool") for rest in ("", " | None"))
_FLOAT_KINDS = frozenset(("float", "float | None"))
_specifications: dict[type, tuple[tuple[str, int, Any], ...]] = {}
_NO_DEFAULT = object()


def _non_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _fields(kind: type) -> tuple[tuple[str, int, Any], ...]:
    """Return name, how to encode, and default of each field; known by its annotation, as that is cheaper than to look."""
    found = _specifications.get(kind)
    if found is None:
        if not _is_record(kind):
            raise TypeError(f"{kind.__name__} has no JSON form")
        listed = []
        for name, item in kind.__dataclass_fields__.items():  # type: ignore[attr-defined]
            how = _PLAIN if item.type in _PLAIN_KINDS else _FLOAT if item.type in _FLOAT_KINDS else _NESTED
            # Only what Python keeps once (None, True, the empty tuple) can be told from another value by identity.
            kept_once = any(item.default is one for one in (None, True, False, ()))
            default = item.default if kept_once else _NO_DEFAULT
            listed.append((name, how, default))
        found = _specifications[kind] = tuple(listed)
    return found


def _is_record(kind: Any) -> bool:
    return hasattr(kind, "__dataclass_fields__")


def _fields_of(kind: Any) -> tuple[str, ...]:
    return tuple(kind.__dataclass_fields__)


def decode(kind: type[T], data: Any) -> T:
    """Build a record of ``kind`` from decoded JSON; unknown keys are ignored, so that older readers read newer minor forms.

    Raises:
        FormatError: a required field is missing or of the wrong shape.
    """
    try:
        return typing.cast(T, _decoder(kind)(data))
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise FormatError(f"not a {kind.__name__}: {error}") from error


_decoders: dict[Any, Callable[[Any], Any]] = {}


def _decoder(kind: Any) -> Callable[[Any], Any]:
    found = _decoders.get(kind)
    if found is None:
        found = _decoders[kind] = _make_decoder(kind)
    return found


def _make_decoder(kind: Any) -> Callable[[Any], Any]:
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        inner = [arg for arg in typing.get_args(kind) if arg is not type(None)]
        convert = _decoder(inner[0])
        return lambda value: None if value is None else convert(value)
    if origin is tuple:
        arguments = typing.get_args(kind)
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            item = _decoder(arguments[0])
            return lambda value: tuple([item(part) for part in value])
        parts = [_decoder(argument) for argument in arguments]
        return lambda value: tuple(part(element) for part, element in zip(parts, value, strict=True))
    if kind is float:
        return _decode_float
    if kind is int:
        return _decode_int
    if origin is not None and issubclass(origin, Mapping):
        _, value_kind = typing.get_args(kind)
        convert = _decode_any if value_kind is Any else _decoder(value_kind)
        return lambda value: {key: convert(item) for key, item in value.items()}
    if _is_record(kind):
        return _make_record_decoder(kind)
    if kind is Any:
        return _decode_any
    if kind in (str, bool):
        return lambda value: _checked(kind, value)
    raise TypeError(f"no decoder for {kind}")


def _make_record_decoder(kind: Any) -> Callable[[Any], Any]:
    hints = typing.get_type_hints(kind)
    converters = {name: _decoder(hints[name]) for name in _fields_of(kind)}
    # Most values are of the very type already: seen here, that spares a call or two for each.
    exact = {name: found for name in converters if (found := _exact_type(hints[name])) is not None}

    def convert(value: Any) -> Any:
        fields = {}
        for name, item in value.items():
            if type(item) is exact.get(name):
                fields[name] = item
            elif name in converters:
                fields[name] = converters[name](item)
        return kind(**fields)

    return convert


def _exact_type(kind: Any) -> type | None:
    """Return the type of the values of ``kind``, or of ``kind | None``, that need no conversion."""
    inner = [one for one in (typing.get_args(kind) or (kind,)) if one is not type(None)]
    return inner[0] if len(inner) == 1 and inner[0] in (str, bool, int, float) else None


def _decode_any(value: Any) -> Any:
    return value


def _checked(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}, found {value!r}")
    return value


def _decode_float(value: Any) -> float:
    if isinstance(value, str):
        return _NON_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"expected a number, found {value!r}")
    return float(value)


def _decode_int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"expected an integer, found {value!r}")
    return value
