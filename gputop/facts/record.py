"""Records with typed keys: tracking fills them, readers read them without trusting them.

A record is a class whose attributes are keys. ``filled`` turns keyword arguments into the plain dict that a journal contains,
and raises if a key is unknown or missing. An instance wraps a value that any version or script may have written: an attribute
is the key's value if it has the right type, else None, or empty for lists and maps. This module imports only ``math`` and
``typing`` and generates no code, because training processes import it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, NoReturn, TypeVar, overload

T = TypeVar("T")
R = TypeVar("R", bound="Record")
COUNT_MAX = 2**63
"""JSON allows integers of any size. One beyond the range of any counter was never measured."""
DEVICE_DIGITS_MAX = 3
"""No machine has more than 999 devices: a longer number is no index."""


def read_whole(value: Any) -> int | None:
    """Return a count or an index; None for everything else (also for True and for negative numbers)."""
    if type(value) is int or (isinstance(value, int) and not isinstance(value, bool)):
        return value if 0 <= value < COUNT_MAX else None
    return None


def read_number(value: Any) -> float | None:
    """Return a finite number; None for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        known = float(value)
    except OverflowError:  # JSON allows integers of any size
        return None
    return known if math.isfinite(known) else None


def read_flag(value: Any) -> bool | None:
    """Return a truth value; None for everything else."""
    return value if isinstance(value, bool) else None


def read_text(value: Any) -> str | None:
    """Return a text that is not empty; None for everything else."""
    return value if isinstance(value, str) and value else None


def read_any_text(value: Any) -> str | None:
    """Return a text, which may be empty; None for everything else."""
    return value if isinstance(value, str) else None


def read_items(value: Any) -> Sequence[Any]:
    """Return a list; an empty one for everything else."""
    return value if isinstance(value, list | tuple) else ()


def read_device_index(value: Any) -> int | None:
    """Return the index of a device, written 0, "0" or "cuda:0"; None for everything else."""
    if not isinstance(value, str):
        return read_whole(value)
    digits = value.rpartition(":")[2]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= DEVICE_DIGITS_MAX else None


def _read_counts(value: Any) -> Mapping[str, int]:
    if not isinstance(value, Mapping):
        return {}
    return {name: count for name, item in value.items() if isinstance(name, str) and (count := read_whole(item)) is not None}


class Key(Generic[T]):
    """One key of a record: its type, its meaning, and whether it may be null or missing."""

    def __init__(
        self,
        kind: str,
        read: Callable[[Any], T],
        fits: Callable[[Any], bool],
        meaning: str,
        *,
        null: bool = False,
        optional: bool = False,
        record: type[Record] | None = None,
    ) -> None:
        """``read`` trusts nothing; ``fits`` tells whether a value other than null is what tracking should write."""
        self.kind = kind
        self.read = read
        self.fits = fits
        self.meaning = meaning
        self.null = null
        self.optional = optional
        self.record = record
        """The class of the value, or of each item, if that is a record."""
        self.vital = False
        self.attribute = self.name = ""

    def __set_name__(self, owner: type[Record], attribute: str) -> None:
        self.attribute, self.name = attribute, attribute.rstrip("_")
        owner.keys = {**owner.keys, attribute: self}
        if self.vital:
            owner.vital_keys = (*owner.vital_keys, self)

    def stands_in(self, stated: Mapping[str, Any]) -> bool:
        """Return whether an object contains this key, even as null. Cheaper than a record, if nothing else is needed."""
        return self.name in stated

    @overload
    def __get__(self, record: None, owner: type[Record]) -> Key[T]: ...

    @overload
    def __get__(self, record: Record, owner: type[Record]) -> T: ...

    def __get__(self, record: Record | None, owner: type[Record]) -> Key[T] | T:
        if record is None:
            return self
        # Stored in the instance, where Python finds it first from now on.
        value = record.__dict__[self.attribute] = self.read(record.stated.get(self.name))
        return value


class Record:
    """A JSON object with known keys; subclasses list them. Instances are not changed after they are made."""

    keys: ClassVar[Mapping[str, Key[Any]]] = {}
    """Attribute -> key. The attribute is the key's name, with "_" after it where Python has a keyword of that name."""
    vital_keys: ClassVar[tuple[Key[Any], ...]] = ()
    """The keys without which the record cannot be read."""
    more: ClassVar[str] = ""
    """Which other keys the object may contain; "" for none."""
    stated: Mapping[str, Any]
    """The object as it was written."""

    def __init__(self, stated: Mapping[str, Any]) -> None:
        self.__dict__["stated"] = stated

    @classmethod
    def of(cls: type[R], value: Any) -> R | None:
        """Return a value as a record; None if it is not an object, is empty, or lacks a readable vital key."""
        # Most are missing or a dict, as from JSON; the check against Mapping takes five times as long.
        if value is None:
            return None
        if not (type(value) is dict or isinstance(value, Mapping)) or not value:
            return None
        for key in cls.vital_keys:
            if key.read(value.get(key.name)) is None:
                return None
        return cls(value)

    @classmethod
    def filled(cls, /, **values: Any) -> dict[str, Any]:
        """Return the object for a journal, with its keys in the given order.

        Raises:
            TypeError: a key is unknown, or a required one is missing.
        """
        unknown = [] if cls.more else [name for name in values if name not in cls.keys]
        missing = [name for name, key in cls.keys.items() if name not in values and not key.optional]
        if unknown or missing:
            raise TypeError(f"{cls.__name__}: unknown keys {unknown}, missing keys {missing}")
        return {cls.keys[name].name if name in cls.keys else name: value for name, value in values.items()}

    def has(self, key: Key[Any]) -> bool:
        """Return whether a key was written at all, even as null."""
        return key.stands_in(self.stated)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.stated!r})"


def whole(meaning: str, *, null: bool = False, optional: bool = False) -> Key[int | None]:
    """A whole number from 0."""
    return Key("integer", read_whole, _reads(read_whole), meaning, null=null, optional=optional)


def number(meaning: str, *, null: bool = False, optional: bool = False) -> Key[float | None]:
    """A finite number."""
    return Key("number", read_number, _reads(read_number), meaning, null=null, optional=optional)


def flag(meaning: str, *, null: bool = False, optional: bool = False) -> Key[bool | None]:
    """True or false."""
    return Key("boolean", read_flag, _reads(read_flag), meaning, null=null, optional=optional)


def text(meaning: str, *, null: bool = False, optional: bool = False) -> Key[str | None]:
    """A text; an empty one means nothing and is read as None."""
    return Key("string", read_text, _reads(read_any_text), meaning, null=null, optional=optional)


def any_text(meaning: str, *, null: bool = False, optional: bool = False) -> Key[str | None]:
    """A text whose emptiness means something."""
    return Key("string", read_any_text, _reads(read_any_text), meaning, null=null, optional=optional)


def texts(meaning: str, *, null: bool = False, optional: bool = False) -> Key[tuple[str, ...]]:
    """A list of texts."""
    return _list("string", read_any_text, meaning, null, optional)


def wholes(meaning: str, *, null: bool = False, optional: bool = False) -> Key[tuple[int, ...]]:
    """A list of whole numbers."""
    return _list("integer", read_whole, meaning, null, optional)


def device(meaning: str, *, null: bool = False, optional: bool = False) -> Key[int | None]:
    """A device: 0, "0", "cuda:0", or "cpu", which has no index."""
    return Key('device (0, "0" or "cuda:0")', read_device_index, _is_device, meaning, null=null, optional=optional)


def devices(meaning: str, *, null: bool = False, optional: bool = False) -> Key[tuple[int, ...]]:
    """A list of devices, read as their indices."""

    def read(value: Any) -> tuple[int, ...]:
        return tuple(index for item in read_items(value) if (index := read_device_index(item)) is not None)

    def fits(value: Any) -> bool:
        return isinstance(value, list) and all(map(_is_device, value))

    return Key('list of devices (0, "0" or "cuda:0")', read, fits, meaning, null=null, optional=optional)


def counts(meaning: str) -> Key[Mapping[str, int]]:
    """An object whose values are whole numbers."""

    def fits(value: Any) -> bool:
        return isinstance(value, Mapping) and len(_read_counts(value)) == len(value)

    return Key("object of integers", _read_counts, fits, meaning)


def part(record: type[R], *, null: bool = False, optional: bool = False) -> Key[R | None]:
    """A record within a record; the record's docstring says what it means."""
    return Key("object", record.of, _is_object, "", null=null, optional=optional, record=record)


def parts(record: type[R], *, null: bool = False, optional: bool = False) -> Key[tuple[R, ...]]:
    """A list of records."""

    def read(value: Any) -> tuple[R, ...]:
        return tuple(found for item in read_items(value) if (found := record.of(item)) is not None)

    def fits(value: Any) -> bool:
        return isinstance(value, list)

    return Key("list of objects", read, fits, "", null=null, optional=optional, record=record)


def named(record: type[R], *, optional: bool = False) -> Key[Mapping[str, R]]:
    """An object whose values are records."""

    def read(value: Any) -> Mapping[str, R]:
        if not isinstance(value, Mapping):
            return {}
        return {name: found for name, item in value.items() if (found := record.of(item)) is not None}

    return Key("object of objects", read, _is_object, "", optional=optional, record=record)


def vital(key: Key[T | None]) -> Key[T]:
    """Mark a key as vital: ``Record.of`` returns None if it cannot be read, because the record means nothing without it."""
    key.vital = True
    return key  # type: ignore[return-value]  # read returns no None in a record that is there


def problems(record: type[Record], value: Any, where: str = "") -> list[str]:
    """Return where an object is not what tracking should write: unknown or missing keys, and values of a wrong type."""
    if not isinstance(value, Mapping):
        return [f"{where}: not an object"]
    known = {key.name: key for key in record.keys.values()}
    at = f"{where}." if where else ""
    found = [f"{at}{name}: not in the schema" for name in value if name not in known and not record.more]
    for name, key in known.items():
        place = f"{at}{name}"
        if name not in value:
            found += [] if key.optional else [f"{place}: missing"]
        elif value[name] is None:
            found += [] if key.null else [f"{place}: null"]
        elif not key.fits(value[name]):
            found.append(f"{place}: {value[name]!r} is not of type {key.kind}")
        elif key.record is not None:
            found += _problems_within(key, key.record, value[name], place)
    return found


def _problems_within(key: Key[Any], record: type[Record], value: Any, place: str) -> list[str]:
    if isinstance(value, list):
        items = [(f"{place}[{index}]", item) for index, item in enumerate(value)]
    elif key.kind == "object":
        items = [(place, value)]
    else:
        items = [(f"{place}[{name!r}]", item) for name, item in value.items()]
    return [line for at, item in items for line in problems(record, item, at)]


def _reads(read: Callable[[Any], Any]) -> Callable[[Any], bool]:
    return lambda value: read(value) is not None


def _is_device(value: Any) -> bool:
    return isinstance(value, str) or read_whole(value) is not None


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def _list(kind: str, read_item: Callable[[Any], T | None], meaning: str, null: bool, optional: bool) -> Key[tuple[T, ...]]:
    def read(value: Any) -> tuple[T, ...]:
        return tuple(known for item in read_items(value) if (known := read_item(item)) is not None)

    def fits(value: Any) -> bool:
        return isinstance(value, list) and len(read(value)) == len(value)

    return Key(f"list of {kind}s", read, fits, meaning, null=null, optional=optional)
