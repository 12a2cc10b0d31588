"""A program of Python 3.10: test_older_python.py runs it as it is, and translated on Python 3.8 and 3.9."""

from __future__ import annotations

import collections.abc
import copy
import itertools
import pickle
import typing
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias

Pair = tuple[int, str]
Number: TypeAlias = int | float
Call: TypeAlias = Callable[[int], None] | None
Kind = Literal["a", "b"]


class Numbers(Sequence[int]):
    def __getitem__(self, place: Any) -> Any:
        return 7

    def __len__(self) -> int:
        return 1


class Table(dict[str, Any]):
    pass


@dataclass(frozen=True, slots=True)
class Record:
    number: int | None
    pair: Pair | None = None
    named: Mapping[str, float] = field(default_factory=dict)
    kind: Kind | None = None
    many: tuple[float, ...] = ()


@dataclass
class Plain:
    number: int = 1


def raised(action: Callable[[], object]) -> type[Exception] | None:
    try:
        action()
    except (AttributeError, TypeError, ValueError) as error:
        return type(error)
    return None


def records() -> None:
    record = Record(1, (2, "x"))
    assert not hasattr(record, "__dict__")
    assert Record.__slots__[0] == "number"  # type: ignore[attr-defined]
    assert raised(lambda: setattr(record, "number", 2)) is FrozenInstanceError
    assert pickle.loads(pickle.dumps(record)) == copy.copy(record) == replace(record, number=1) == record
    assert Record.__dataclass_fields__["number"].type == "int | None"
    assert Plain().__dict__ == {"number": 1}


def hints() -> None:
    found = typing.get_type_hints(Record)
    assert set(typing.get_args(found["number"])) == {int, type(None)}
    assert typing.get_origin(found["named"]) is collections.abc.Mapping
    assert (typing.get_origin(found["many"]), typing.get_args(found["many"])) == (tuple, (float, ...))
    assert typing.get_origin(typing.get_args(found["kind"])[0]) is Literal


def generics() -> None:
    assert Numbers()[0] == 7
    assert isinstance(Numbers(), Sequence)
    assert Table(a=1) == {"a": 1}
    assert (set[int](), list[Any]("ab"), tuple[int, ...]((1,))) == (set(), ["a", "b"], (1,))
    made = defaultdict[str, set[int]](set[int])
    made["a"].add(1)
    assert made == {"a": {1}}


def unions() -> None:
    one: dict[str, int] = {"a": 1, "b": 1}
    assert one | {"b": 2} == {"a": 1, "b": 2}
    assert ({1} | {2}, 4 | 1, {"a": 1}.keys() | {"b"}) == ({1, 2}, 5, {"a", "b"})
    held = same = {"a": 1}
    held |= {"b": 2}
    assert same == {"a": 1, "b": 2}
    bits = {"bits": 1}
    bits["bits"] |= 6
    assert bits == {"bits": 7}
    numbers = Plain()
    numbers.number |= 6
    assert numbers.number == 7
    assert isinstance(1, int | str | None) and not isinstance(1, str | bytes)  # noqa: PT018
    assert issubclass(bool, int | str)
    assert raised(lambda: {"a": 1} | 7) is TypeError  # type: ignore[operator]


def texts() -> None:
    assert "a.py".removesuffix(".py").removeprefix("b") == "a"
    assert "a.py".removesuffix("") == "a.py"
    assert b"ab".removeprefix(b"a") == b"b"


def columns() -> None:
    def numbers(most: int) -> Iterator[int]:
        yield from range(most)

    assert list(zip(numbers(2), "ab", strict=True)) == [(0, "a"), (1, "b")]
    assert list(zip([1, 2], "a", strict=False)) == [(1, "a")]
    assert raised(lambda: list(zip([1, 2], "a", strict=True))) is ValueError
    assert raised(lambda: list(zip(numbers(2), "a", strict=True))) is ValueError
    assert raised(lambda: list(zip(numbers(1), "ab", strict=True))) is ValueError
    assert list(pairwise(numbers(3))) == list(itertools.pairwise([0, 1, 2])) == [(0, 1), (1, 2)]


def library() -> None:
    asked = []

    @cache
    def once(number: int) -> int:
        asked.append(number)
        return number

    assert (once(1), once(1), asked) == (1, 1, [1])
    assert Counter("aab").total() == 3
    assert Path("/a/b").is_relative_to("/a")
    assert not Path("/ab").is_relative_to("/a")


if __name__ == "__main__":
    for part in (records, hints, generics, unions, texts, columns, library):
        part()
    print("all passed")
