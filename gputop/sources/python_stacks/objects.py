"""Python objects in the memory of another process: their types, attributes and simple values.

Nothing is called and no reference is counted, so an object may end while it is looked at: whatever does not fit together raises
``TornError``. Reads what ``holdings`` asks for, and no more: values of users' objects stay where they are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from gputop.sources.python_stacks.layouts import Layout
from gputop.sources.python_stacks.memory import Memory, TornError

_WORD = struct.Struct("<Q")
_TEXT_MAX = 1024
_ITEMS_MAX = 4096
"""A longer tuple or list, or a larger dictionary, is not read."""
_TYPES_MAX = 4096
_BASES_MAX = 64
_TYPE_AT, _FIRST = 8, 16
"""Where an object says what type it is, and where its own data begins."""
_TYPE_BYTES = 352
_TYPE_NAME, _TYPE_SIZE, _TYPE_FLAGS, _TYPE_ATTRIBUTES, _TYPE_DICT_AT, _TYPE_BASES = 24, 32, 168, 264, 288, 344
"""In a type: its name, the size of an instance, flags, its own attributes, where instances keep theirs, and the MRO. They are
the same in 3.10 to 3.14 (Include/cpython/object.h)."""
_INLINE_VALUES, _MANAGED_DICT = 1 << 2, 1 << 4
_SPLIT, _GENERAL = 2, 0
"""Kinds of keys of a dictionary (DICT_KEYS_SPLIT, DICT_KEYS_GENERAL)."""
_DICT_KEYS, _DICT_VALUES = 32, 40
_DIGIT_BITS = 30


@dataclass(frozen=True, slots=True)
class Kind:
    """A type. ``bases``: it and all types that it derives from, each with the first part of its module: "torch.DataLoader"."""

    name: str
    bases: frozenset[str]
    size: int
    flags: int
    dict_at: int
    """Where an instance keeps the address of its dictionary, if that is not managed by Python."""


class Objects:
    """Looks at the objects of one process. Its memory must be open."""

    def __init__(self, memory: Memory, known: Layout, minor: int, text_type: int) -> None:
        """``minor``: Python's. ``text_type``: where its type ``str`` is."""
        self._memory, self._known, self._minor, self._text_type = memory, known, minor, text_type
        self._kinds: dict[int, tuple[bytes, Kind]] = {}
        self._names: dict[int, str | None] = {}

    def begin(self) -> None:
        """Begin a new look: names that were read before may be others by now."""
        self._names.clear()

    def text(self, at: int) -> str:
        """Return the text at an address.

        Raises:
            TornError: there is none.
        """
        known = self._known
        head = self._memory.read(at, known.text_other)
        length, state = _WORD.unpack_from(head, known.text_length)[0], head[known.text_state]
        width, is_compact, is_ascii = state >> 2 & 7, state >> 5 & 1, state >> 6 & 1
        if length > _TEXT_MAX or not is_compact or width not in (1, 2, 4):
            raise TornError
        data = self._memory.read(at + (known.text_ascii if is_ascii else known.text_other), length * width) if length else b""
        return data.decode({1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[width])

    def kind(self, at: int) -> Kind:
        """Return the type of the object at an address."""
        place = self._memory.word(at + _TYPE_AT)
        data = self._memory.read(place, _TYPE_BYTES)
        found = self._kinds.get(place)
        if found is None or found[0] != data[_TYPE_SIZE:]:
            if len(self._kinds) >= _TYPES_MAX:
                self._kinds.clear()
            found = self._kinds[place] = data[_TYPE_SIZE:], self._read_kind(data)
        return found[1]

    def value(self, at: int) -> int | float | str | None:
        """Return a number, a truth value (as a number) or a text; None of None.

        Raises:
            TornError: it is none of these.
        """
        name = self.kind(at).name
        if name == "NoneType":
            return None
        if name == "str":
            return self.text(at)
        if name == "float":
            return float(struct.unpack("<d", self._memory.read(at + _FIRST, 8))[0])
        if name in ("int", "bool"):
            return self._number(at)
        raise TornError

    def attributes(self, at: int) -> dict[str, int]:
        """Return where the attributes of an instance are, by their names; none if it keeps them in another way."""
        kind = self.kind(at)
        if not kind.flags & _MANAGED_DICT or self._minor == 10:
            place = self._memory.word(at + kind.dict_at) if kind.dict_at > 0 else 0
            return dict(self.items(place)) if place else {}
        managed = self._memory.word(at - 24)
        if self._minor == 12 and managed & 1:
            return self._shared(at, managed + 1)
        if managed:
            return dict(self.items(managed))
        if self._minor == 11:
            values = self._memory.word(at - 32)
            return self._shared(at, values) if values else {}
        if kind.flags & _INLINE_VALUES:
            return self._shared(at, at + kind.size + 8)
        return {}

    def items(self, at: int) -> Iterator[tuple[str, int]]:
        """Yield the keys of a dictionary that are texts, and where their values are."""
        keys, values = self._memory.word(at + _DICT_KEYS), self._memory.word(at + _DICT_VALUES)
        if values and self._minor >= 13:
            values += 8
        yield from self._entries(keys, values)

    def elements(self, at: int) -> tuple[int, ...]:
        """Return where the elements of a tuple are."""
        count = self._memory.word(at + _FIRST)
        if count > _ITEMS_MAX:
            raise TornError
        first = at + (24 if self._minor < 14 else 32)  # from 3.14 on, a tuple keeps its hash
        return struct.unpack(f"<{count}Q", self._memory.read(first, 8 * count)) if count else ()

    def flag(self, at: int, name: str) -> bool | None:
        """Return the truth value of an attribute; None if there is no such attribute, or it is None.

        Raises:
            TornError: it is no truth value.
        """
        place = self.attributes(at).get(name)
        value = self.value(place) if place is not None else None
        if value is None:
            return None
        if value not in (0, 1):
            raise TornError
        return value == 1

    def length(self, at: int) -> int:
        """Return the length of the list or dictionary at an address."""
        return self._memory.word(at + _FIRST)

    def entries(self, at: int) -> tuple[int, ...]:
        """Return where the elements of a list are.

        Raises:
            TornError: there are too many.
        """
        count = self.length(at)
        if count > _ITEMS_MAX:
            raise TornError
        return struct.unpack(f"<{count}Q", self._memory.read(self._memory.word(at + 24), 8 * count)) if count else ()

    def newest(self, at: int) -> int | None:
        """Return where the last element of a list is; None of an empty one."""
        length = self.length(at)
        return self._memory.word(self._memory.word(at + 24) + 8 * (length - 1)) if length else None

    def _read_kind(self, data: bytes) -> Kind:
        size, flags = (_WORD.unpack_from(data, place)[0] for place in (_TYPE_SIZE, _TYPE_FLAGS))
        dict_at = struct.unpack_from("<q", data, _TYPE_DICT_AT)[0]
        bases = self.elements(_WORD.unpack_from(data, _TYPE_BASES)[0])[:_BASES_MAX]
        return Kind(self._type_name(data), frozenset(map(self._full_name, bases)), size, flags, dict_at)

    def _full_name(self, at: int) -> str:
        data = self._memory.read(at, _TYPE_BYTES)
        attributes = _WORD.unpack_from(data, _TYPE_ATTRIBUTES)[0]
        at_module = next((place for key, place in self.items(attributes) if key == "__module__"), None) if attributes else None
        module = self._name(at_module) if at_module is not None else None
        name = self._type_name(data)
        return name if module is None else f"{module.partition('.')[0]}.{name}"

    def _type_name(self, data: bytes) -> str:
        return self._c_text(_WORD.unpack_from(data, _TYPE_NAME)[0]).rpartition(".")[2]

    def _c_text(self, at: int) -> str:
        found = b""
        while b"\0" not in found:
            if len(found) >= _TEXT_MAX:
                raise TornError
            # No further than the page: what follows may not be there.
            found += self._memory.read(at + len(found), min(64, 4096 - (at + len(found)) % 4096))
        return found.partition(b"\0")[0].decode()

    def _number(self, at: int) -> int:
        head = self._memory.word(at + _FIRST)
        if self._minor >= 12:
            digits, sign = head >> 3, 1 - (head & 3)
        else:
            size = head - 2**64 if head >= 2**63 else head
            digits, sign = abs(size), (size > 0) - (size < 0)
        if digits > 4:
            raise TornError
        parts = struct.unpack(f"<{digits}I", self._memory.read(at + 24, 4 * digits)) if digits and sign else ()
        return int(sign * sum(part << (_DIGIT_BITS * place) for place, part in enumerate(parts)))

    def _shared(self, at: int, values: int) -> dict[str, int]:
        """Return attributes whose names are kept by the type, and whose values are an array."""
        place = self._memory.word(at + _TYPE_AT)
        return dict(self._entries(self._memory.word(place + (872 if self._minor == 11 else 880)), values))

    def _entries(self, keys: int, values: int) -> Iterator[tuple[str, int]]:
        if self._minor == 10:
            size, count = self._memory.word(keys + 8), self._memory.word(keys + 32)
            first, general = keys + 40 + size * (1 if size <= 0xFF else 2 if size <= 0xFFFF else 4), True
        else:
            head = self._memory.read(keys, 32)
            count, general = _WORD.unpack_from(head, 24)[0], head[10] == _GENERAL
            first = keys + 32 + (1 << head[9])
            if head[9] > 24 or head[10] > _SPLIT:
                raise TornError
        if count > _ITEMS_MAX:
            raise TornError
        width, key_at = (24, 1) if general else (16, 0)
        words = struct.unpack(f"<{count * width // 8}Q", self._memory.read(first, count * width)) if count else ()
        others = struct.unpack(f"<{count}Q", self._memory.read(values, 8 * count)) if values and count else ()
        step = width // 8
        for place in range(count):
            key, value = words[place * step + key_at], words[place * step + key_at + 1]
            value = others[place] if values else value
            if key and value and (name := self._name(key)) is not None:
                yield name, value

    def _name(self, at: int) -> str | None:
        if at not in self._names:  # all modules of a model share the names of their attributes
            self._names[at] = self.text(at) if self._memory.word(at + _TYPE_AT) == self._text_type else None
        return self._names[at]
