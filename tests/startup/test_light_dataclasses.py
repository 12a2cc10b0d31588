"""Dataclasses that share their methods behave as those of Python's own decorator."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import field
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from gputop.facts import record
from gputop.startup.light_dataclasses import dataclass

pytestmark = pytest.mark.interpreter
MODULE = record.__name__
"""A module of gputop, which the classes say to be of."""
Decorator = Callable[..., Any]
OPTIONS = [
    {"frozen": frozen, "slots": slots, "kw_only": kw_only}
    for frozen in (False, True)
    for slots in (False, True)
    for kw_only in (False, True)
]


def classes(decorator: Decorator, options: dict[str, bool]) -> SimpleNamespace:
    """Some classes, as gputop has them, made by a decorator."""

    @decorator(**options)
    class Base:
        __module__ = MODULE
        name: str
        kind: ClassVar[str] = "base"
        count: int = 3
        items: dict[str, int] = field(default_factory=dict)
        past: tuple[int, ...] = field(default=(), compare=False)
        hidden: float | None = field(default=None, repr=False)
        apart: int = field(init=False, default=7)

    @decorator(**options)
    class Derived(Base):
        """Has a docstring."""

        __module__ = MODULE
        more: float = 0.5

        def double(self) -> float:
            return 2 * self.more

    @decorator(**options)
    class Checked:
        __module__ = MODULE
        value: float

        def __post_init__(self) -> None:
            if not isinstance(self.value, float):
                raise ValueError(self.value)

        def __repr__(self) -> str:
            return "mine"

    @decorator(**options)
    class Own:
        __module__ = MODULE
        value: int = 0

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self))

        def __hash__(self) -> int:
            return 1

    @decorator(**options)
    class Empty:
        __module__ = MODULE

    return SimpleNamespace(Base=Base, Derived=Derived, Checked=Checked, Own=Own, Empty=Empty)


def outcome(action: Callable[[], object]) -> object:
    """What an action returns, or the kind of error that it raises."""
    try:
        return action()
    except (TypeError, ValueError, AttributeError) as error:  # FrozenInstanceError is one
        return type(error)


def behaviour(kinds: SimpleNamespace) -> dict[str, object]:
    """What can be seen of the classes from outside."""
    base = kinds.Base(name="a", hidden=0.5)
    other = kinds.Base(name="a", past=(1,), hidden=base.hidden)
    derived = kinds.Derived(name="b", more=2.0)
    checked, own, empty = kinds.Checked(value=1.0), kinds.Own(), kinds.Empty()
    nan = kinds.Checked(value=float("nan"))

    def assign(item: Any, name: str, value: object) -> object:
        setattr(item, name, value)
        return getattr(item, name)

    def delete(item: Any, name: str) -> object:
        delattr(item, name)
        return hasattr(item, name)

    records = (base, other, derived, checked, own, empty)
    return {
        "fields": [[(each.name, each.init, each.compare) for each in dataclasses.fields(item)] for item in records],
        "shown": [repr(item) for item in records],
        "as dict": [repr(dataclasses.asdict(item)) for item in records],
        "doc": [type(item).__doc__ for item in records[2:3]],
        "match": [type(item).__match_args__ for item in records],
        "equal": [[left == right for right in records] for left in records],
        "itself": (nan == nan, nan == kinds.Checked(value=float("nan")), base != 3),
        "hash": [outcome(lambda item=item: hash(item) == hash(copy.copy(item))) for item in records],
        "positional": outcome(lambda: kinds.Base("a", 4).count),
        "unknown": outcome(lambda: kinds.Base(name="a", other=1)),
        "missing": outcome(lambda: kinds.Base()),
        "not in init": outcome(lambda: kinds.Base(name="a", apart=1)),
        "checks": outcome(lambda: kinds.Checked(value="x")),
        "own default": kinds.Base(name="x").items is not kinds.Base(name="x").items,
        "copied": outcome(lambda: (copy.copy(derived) == derived, copy.deepcopy(derived) == derived)),
        "replaced": outcome(lambda: repr(dataclasses.replace(derived, count=9))),
        "method": derived.double(),
        "set": [outcome(lambda item=item: assign(item, "value", 3.0)) for item in (checked, own)],
        # Which error it is depends on the version of Python.
        "set other": [isinstance(outcome(lambda item=item: assign(item, "other", 1)), type) for item in records],
        "deleted": outcome(lambda: delete(other, "name")),
        "has dict": [hasattr(item, "__dict__") for item in records],
    }


@pytest.mark.parametrize(
    "options", OPTIONS, ids=lambda options: "-".join(name for name, on in options.items() if on) or "plain"
)
def test_a_class_behaves_as_one_of_dataclasses(options: dict[str, bool]) -> None:
    assert behaviour(classes(dataclass, options)) == behaviour(classes(dataclasses.dataclass, options))


def test_a_nan_that_two_records_share_is_equal_to_itself() -> None:
    """As in a tuple. From Python 3.13 on, records of dataclasses that share one differ."""
    one, nan = classes(dataclass, {}), float("nan")
    assert one.Checked(value=nan) == one.Checked(value=nan)
    assert one.Checked(value=nan) != one.Checked(value=float("nan"))


def test_a_record_that_contains_itself_can_be_shown() -> None:
    @dataclass(slots=True)
    class Loop:
        __module__ = MODULE
        items: list[object]

    loop = Loop([])
    loop.items.append(loop)
    assert repr(loop).endswith("Loop(items=[...])")


@dataclass(frozen=True, slots=True)
class Kept:
    __module__ = MODULE
    name: str
    value: int = 0


def test_a_frozen_record_survives_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "Kept", Kept, raising=False)
    assert pickle.loads(pickle.dumps(Kept("a", 2))) == Kept("a", 2)


def test_the_methods_are_shared_in_gputop_and_nowhere_else() -> None:
    code = """
import sys
from gputop.startup.light_imports import import_library
import_library()
from dataclasses import dataclass
from gputop.device import Device
from gputop.snapshot import Snapshot
@dataclass
class Theirs: value: int
shared = [getattr(Device, name) is getattr(Snapshot, name) for name in ("__eq__", "__hash__", "__repr__", "__setattr__")]
print(all(shared), Theirs.__eq__ is Device.__eq__, Theirs(1) == Theirs(1))
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "True False True\n"


def test_a_training_process_has_pythons_own_dataclasses() -> None:
    code = "import dataclasses; made = dataclasses.dataclass; import gputop; gputop.init; print(dataclasses.dataclass is made)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "True\n"
