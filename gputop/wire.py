"""The JSON form of records: dataclasses to plain values and back. Also reads untrusted JSON.

NaN and infinities, which are valid metric values, travel as the strings "NaN", "Infinity" and "-Infinity". Imports only
the standard library and defines no dataclass, so that the training side can import ``FormatError`` at no cost.
"""

from __future__ import annotations

import math
import operator
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, TypeVar

T = TypeVar("T")


class FormatError(ValueError):
    """A line or file is not in gputop's format."""


LINE_MAX_BYTES = 128 << 20
"""Length limit for a line of the stream. The first snapshot contains the past of all runs: dozens of MiB if a hundred ranks
log dozens of metrics."""
LEVELS_MAX = 100
"""How deep JSON may be nested. A recursive reader fails on deeper JSON, and what gputop writes is far from it."""


def parse_json(text: str | bytes, levels_max: int | None = LEVELS_MAX) -> Any:
    """Parse JSON of any origin. ``levels_max`` None skips the check of its depth: for what gputop itself sends.

    Raises:
        FormatError: it is not JSON, or nested deeper than ``levels_max``.
    """
    import json  # here, because one reading as text neither reads nor writes JSON

    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise FormatError(f"not JSON: {why}") from error
    if levels_max is None or _openings(text) <= levels_max or (isinstance(text, bytes) and _is_flat(text, levels_max)):
        return value
    if _levels(value, levels_max) > levels_max:
        raise FormatError("not JSON: nested too deeply")
    return value


def _openings(text: str | bytes) -> int:
    return text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")


_NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))
_STRING = b'"[^"]*"'


def _is_flat(text: bytes, most: int) -> bool:
    """Return whether valid JSON is certainly nested no deeper than ``most``: many times cheaper than ``_levels``."""
    if b"\\" in text or b"\0" in text or not text.isascii():
        return False  # a quote may be escaped, or a byte part of another character
    left = text.translate(None, _NOT_STRUCTURE).replace(b'""', b"")
    left = re.sub(_STRING, b"", left) if b'"' in left else left
    for _ in range(most // 2):  # each turn removes one or two levels
        if not left:
            return True
        left = left.replace(b"[]", b"").replace(b"{}", b"")
    return not left


def _levels(value: Any, most: int) -> int:
    """Return how deep lists and objects are nested; stop at ``most`` + 1."""
    level, number = [value], 0
    while level and number <= most:
        inner = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        number += bool(inner)
        level = [part for item in inner for part in item if isinstance(part, dict | list)]
    return number


_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def encode(value: Any, compact: bool = False) -> Any:
    """Convert records to values that ``json`` can write; NaN and infinities become strings.

    ``compact`` omits fields that have their default value; ``decode`` restores them. Use it only for gputop's own readers.
    """
    if type(value) in _AS_IS or isinstance(value, str | int):
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


def to_plain(value: Any, compact: bool = False) -> Any:
    """Convert records to dictionaries and leave everything else unchanged.

    Returns what ``encode`` returns, provided that every number is finite and every mapping is a plain one. Facts and columns
    of points make up most of a snapshot, and ``json`` writes them in C.
    """
    kind = type(value)
    if kind is tuple:
        return [to_plain(item, compact) for item in value] if value and _is_record(type(value[0])) else value
    shape = _shapes.get(kind)
    if shape is None:
        if not _is_record(kind):
            return value
        shape = _shapes[kind] = _shape_of(kind)
    names, defaults, nested, numbers, read = shape
    values = zip(names, defaults, read(value), strict=True)
    if compact:
        result = {name: item for name, default, item in values if item is not default}
    else:
        result = {name: item for name, _, item in values}
    for name in nested:
        item = result.get(name)
        if item:
            result[name] = to_plain(item, compact)
    for name in numbers:
        item = result.get(name)
        # A NaN loss stays in every later snapshot and must not make each one expensive. Such a value makes the sum non-finite.
        if item and not _LOW < sum(item.values() if isinstance(item, Mapping) else item) < _HIGH:
            result[name] = encode(item)
    return result


_names_a_record = re.compile(r"\b(?!Mapping|Any|None)[A-Z]").search
_AS_IS = frozenset((str, int, bool, type(None)))
_Shape = tuple[tuple[str, ...], tuple[Any, ...], tuple[str, ...], tuple[str, ...], Callable[[Any], tuple[Any, ...]]]
_shapes: dict[type, _Shape] = {}


def _shape_of(kind: type) -> _Shape:
    """Return the fields' names and defaults, the names of those with records and with many numbers, and a getter for all."""
    fields = _fields(kind)
    names = tuple(name for name, _, _ in fields)
    annotations = {name: str(item.type) for name, item in kind.__dataclass_fields__.items()}  # type: ignore[attr-defined]
    nested = tuple(name for name, how, _ in fields if how == _NESTED and _names_a_record(annotations[name]))
    numbers = tuple(name for name, how, _ in fields if how == _NUMBERS)
    # With a single name, attrgetter would return the bare value instead of a tuple.
    read = operator.attrgetter(*names) if len(names) > 1 else lambda value: tuple(getattr(value, name) for name in names)
    return names, tuple(default for _, _, default in fields), nested, numbers, read


_LOW, _HIGH = -math.inf, math.inf
_PLAIN, _FLOAT, _NUMBERS, _NESTED = range(4)
_PLAIN_KINDS = frozenset(f"{kind}{rest}" for kind in ("int", "str", "bool") for rest in ("", " | None"))
_FLOAT_KINDS = frozenset(("float", "float | None"))
_NUMBER_KINDS = frozenset(("tuple[float, ...]", "Mapping[str, float]"))
_specifications: dict[type, tuple[tuple[str, int, Any], ...]] = {}
_NO_DEFAULT = object()


def _non_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _fields(kind: type) -> tuple[tuple[str, int, Any], ...]:
    """Return name, encoding and default of each field. The annotation decides: cheaper than inspecting each value."""
    found = _specifications.get(kind)
    if found is None:
        if not _is_record(kind):
            raise TypeError(f"{kind.__name__} has no JSON form")
        listed = []
        for name, item in kind.__dataclass_fields__.items():  # type: ignore[attr-defined]
            plain = item.type in _PLAIN_KINDS or _names_a_literal(kind, item.type)
            how = _PLAIN if plain else _FLOAT if item.type in _FLOAT_KINDS else _NESTED
            how = _NUMBERS if item.type in _NUMBER_KINDS else how
            # Only Python's singletons (None, True, the empty tuple) can be compared by identity.
            is_singleton = any(item.default is one for one in (None, True, False, ()))
            default = item.default if is_singleton else _NO_DEFAULT
            listed.append((name, how, default))
        found = _specifications[kind] = tuple(listed)
    return found


def _names_a_literal(kind: type, annotation: str) -> bool:
    """Return whether an annotation names a ``Literal`` of the record's module, with or without "| None"."""
    named = getattr(sys.modules[kind.__module__], annotation.removesuffix(" | None"), None)
    return typing.get_origin(named) is Literal


def _is_record(kind: Any) -> bool:
    return hasattr(kind, "__dataclass_fields__")


def _fields_of(kind: Any) -> tuple[str, ...]:
    return tuple(kind.__dataclass_fields__)


def decode(kind: type[T], data: Any) -> T:
    """Build a record of ``kind`` from decoded JSON; ignore unknown keys, so that old readers accept newer minor versions.

    Raises:
        FormatError: a required field is missing or has the wrong shape.
    """
    try:
        return typing.cast(T, _decoder(kind)(data))
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError) as error:
        raise FormatError(f"not a {kind.__name__}: {error}") from error


_decoders: dict[Any, Callable[[Any], Any]] = {}


def _decoder(kind: Any) -> Callable[[Any], Any]:
    found = _decoders.get(kind)
    if found is None:
        found = _decoders[kind] = _make_decoder(kind)
    return found


def _make_decoder(kind: Any) -> Callable[[Any], Any]:
    origin = typing.get_origin(kind)
    if origin is Literal:
        # A value that only another version knows is kept: the rest of the snapshot is still good.
        return _decoder(str)
    if origin in (types.UnionType, typing.Union):
        inner = [arg for arg in typing.get_args(kind) if arg is not type(None)]
        convert = _decoder(inner[0])
        return lambda value: None if value is None else convert(value)
    if origin is tuple:
        arguments = typing.get_args(kind)
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            item, as_is = _decoder(arguments[0]), _types_as_is(arguments[0])
            return lambda value: tuple(value if as_is.issuperset(map(type, value)) else [item(part) for part in value])
        parts = [_decoder(argument) for argument in arguments]
        return lambda value: tuple(part(element) for part, element in zip(parts, value, strict=True))
    if kind is float:
        return _decode_float
    if kind is int:
        return _decode_int
    if origin is not None and issubclass(origin, Mapping):
        _, value_kind = typing.get_args(kind)
        if value_kind is Any:
            return lambda value: _checked(dict, value)
        convert = _decoder(value_kind)
        return lambda value: {key: convert(item) for key, item in value.items()}
    if _is_record(kind):
        return _make_record_decoder(kind)
    if kind is Any:
        return _decode_any
    if kind in (str, bool):
        return lambda value: _checked(kind, value)
    raise TypeError(f"no decoder for {kind}")


def _make_record_decoder(kind: Any) -> Callable[[Any], Any]:
    fields = fields_decoder(kind)
    return lambda value: kind(**fields(value))


def fields_decoder(kind: Any) -> Callable[[Any], dict[str, Any]]:
    """Return a function that converts decoded JSON to a record's fields; missing fields keep their defaults."""
    hints = typing.get_type_hints(kind)
    converters = {name: _decoder(hints[name]) for name in _fields_of(kind)}
    as_is = {name: _types_as_is(hints[name]) for name in converters}

    def convert(value: Any) -> dict[str, Any]:
        # Most values already have the right type, and checking is cheaper than calling. Names are interned, because a call with
        # keywords looks for the same string first: with those of the JSON, making a GPU's record takes three times as long.
        return {
            sys.intern(name): item if type(item) in as_is[name] else converters[name](item)
            for name, item in value.items()
            if name in converters
        }

    return convert


def _types_as_is(kind: Any) -> frozenset[type]:
    """Return the types of decoded JSON that a field accepts unconverted."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return frozenset().union(*map(_types_as_is, typing.get_args(kind)))
    if typing.get_origin(kind) is Literal:
        return frozenset((str,))
    return frozenset((kind,)) if kind in (int, float, str, bool, type(None)) else frozenset()


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


Answered = TypeVar("Answered", bound="AnswerLine")


class AnswerLine:
    """A dataclass that travels as a separate line between the snapshots of a stream: the sampler's answer to a screen."""

    __slots__ = ()
    KEY: ClassVar[str]
    """The only key of the line; snapshots do not have it."""
    COMPACT: ClassVar[bool] = False
    """Whether fields that have their default value are left out."""

    def to_json(self) -> str:
        """Return the answer as one line of JSON, without a newline."""
        import json

        return json.dumps({self.KEY: self.plain()}, separators=(",", ":"))

    def plain(self) -> Any:
        """Return the answer as values that ``json`` can write."""
        return encode(self, self.COMPACT)

    @classmethod
    def of_plain(cls: type[Answered], data: Any) -> Answered:
        """Return the answer in decoded JSON.

        Raises:
            FormatError: it is not such an answer.
        """
        return decode(cls, data)

    @classmethod
    def is_in(cls, line: bytes) -> bool:
        """Return whether a line of the stream carries such an answer, without parsing it."""
        return line.startswith(f'{{"{cls.KEY}":'.encode())

    @classmethod
    def from_json(cls: type[Answered], line: str | bytes) -> Answered:
        """Parse an answer.

        Raises:
            FormatError: the line is not such an answer.
        """
        try:
            return cls.of_plain(parse_json(line, None)[cls.KEY])
        except (FormatError, TypeError, LookupError) as error:
            raise FormatError(f"not an answer about {cls.KEY.removesuffix('_answer')}: {error}") from error
