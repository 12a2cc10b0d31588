"""Calls everything public in gputop with hostile arguments, and names what raises.

Run as a script: ``python -m tests.tracking.hostile``. What is public is found by introspection, so that a new name is covered.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import logging
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import ModuleType
from typing import Any

import gputop
from gputop.tracking.journal.writing.not_kept import NotKept
from gputop.tracking.recorded import RecordedDict

_NAMES = (
    "str repr bytes format float int index complex bool len iter next contains eq ne lt le gt ge hash getitem setitem delitem "
    "call add radd sub mul mod truediv floordiv neg abs round fspath enter exit getattr reversed array copy deepcopy reduce dir"
)
_OPERATORS = [f"__{name}__" for name in _NAMES.split(" ")]
_NOT_CALLED = ("__init__", "__getattr__")
"""Not called: an object is either complete or not created; a missing attribute must raise."""


class NastyError(Exception):
    """An error that cannot be printed."""

    def __str__(self) -> str:
        raise NastyError

    __repr__ = __str__


def refuse(*_: object, **__: object) -> Any:
    """Raise an error that cannot be printed."""
    raise NastyError


def hostile(name: str, base: type = object, without: tuple[str, ...] = (), **more: Any) -> Any:
    """Return a class all of whose operators raise."""
    members = {operator: refuse for operator in _OPERATORS if operator not in without}
    if "__hash__" in without:
        members["__hash__"] = base.__hash__
    return type(name, (base,), members | more)


class Endless(Mapping[str, float]):
    """An endless mapping."""

    def __getitem__(self, key: str) -> float:
        return 1.0

    def __iter__(self) -> Iterator[str]:
        return (f"key{number}" for number in itertools.count())

    def __len__(self) -> int:
        return 3


def recursive() -> list[Any]:
    """Return containers that contain themselves, some of them many times."""
    items: list[Any] = []
    items.extend([items] * 10)
    table: dict[Any, Any] = {}
    table.update({f"name{number}": table for number in range(10)})
    deep: Any = 1.0
    for _ in range(5000):
        deep = [deep]
    shared: Any = 1.0
    for _ in range(12):
        shared = {"a": shared, "b": shared}
    return [items, table, deep, shared]


class Tensor:
    """Looks like a tensor on a device, but refuses every question about itself."""

    is_cuda = True
    shape = (2, 3)
    size = 6
    __iter__ = __bool__ = __len__ = __eq__ = __float__ = __str__ = __repr__ = refuse  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]
    numel = item = device = property(refuse)


def values() -> dict[str, Any]:
    """Return the arguments."""
    lying = hostile("Lying", __class__=property(refuse))
    text, number = hostile("Text", str, ("__hash__", "__getattr__")), hostile("Number", int, ("__hash__",))
    found: dict[str, Any] = {
        "hostile": hostile("Hostile")(),
        "hostile, hashable": hostile("Hashable", without=("__hash__",))(),
        "equal to nothing": hostile("Unequal", without=("__hash__", "__str__", "__repr__"))(),
        "no attributes": hostile("Closed", __getattribute__=refuse)(),
        "lying": lying(),
        "str": text("text"),
        "int": number(3),
        "float": hostile("Float", float)(3.0),
        "dict": hostile("Dict", dict, keys=refuse, items=refuse, values=refuse)(a=1),
        "list": hostile("List", list)([1]),
        "error": NastyError(),
        "endless": itertools.count(),
        "endless pairs": ((f"name{number}", number) for number in itertools.count()),
        "endless mapping": Endless(),
        "tensor": Tensor(),
        "huge": 10**5000,
        "negative": -(10**30),
        "nan": float("nan"),
        "infinite": float("inf"),
        "complex": 1j,
        "bytes": b"\xff\x00",
        "surrogates": "\ud800\udfff",
        "zero byte": "a\0b",
        "long": "x" * 1_000_000,
        "level": logging.INFO,
        "none": None,
        "true": True,
        "class": NastyError,
        "function": refuse,
        "names": {1: 1.0, (): 2.0, None: 3.0, hostile("Key", without=("__hash__",))(): 4.0},
        "values": {"good": 1.0, "bad": hostile("Value")()},
        "pairs": [("a",), 3, None],
    }
    return found | {f"recursive {index}": item for index, item in enumerate(recursive())}


Call = tuple[str, Callable[..., Any]]


def functions() -> Iterator[Call]:
    """Yield everything in the module that can be called."""
    for name in dir(gputop):
        if not name.startswith("_") and name not in ("annotations", "arm", "TYPE_CHECKING"):
            item = getattr(gputop, name)
            if callable(item) and not inspect.ismodule(item) and not isinstance(item, RecordedDict):
                yield name, item
    for name in gputop._NOT_KEPT.split(","):
        item = getattr(gputop, name)
        yield name, item if callable(item) else lambda *_, **__: None
    yield "util.generate_id", gputop.util.generate_id
    yield "AlertLevel.anything", lambda *_, **__: gputop.AlertLevel


def methods(target: Any, cls: type) -> Iterator[Call]:
    """Yield what one of our classes defines: its methods, the setters of its properties, and its operators."""
    for name, item in vars(cls).items():
        if name == "__deepcopy__" and issubclass(cls, RecordedDict):  # copies values of the script's, which may raise
            continue
        if isinstance(item, property):
            yield f"{cls.__name__}.{name}", partial(_get, target, name)
            if item.fset is not None:
                yield f"{cls.__name__}.{name} =", partial(_set, target, name)
        elif callable(item) and name not in _NOT_CALLED and (not name.startswith("_") or name.endswith("__")):
            yield f"{cls.__name__}.{name}", getattr(target, name)
    for name, item in list(vars(target).items()):
        if callable(item) and not name.startswith("_") and not isinstance(item, type):
            yield f"{cls.__name__}.{name}", item


def _get(target: Any, name: str, *_: Any, **__: Any) -> None:
    getattr(target, name)


def _set(target: Any, name: str, value: Any = None, *_: Any, **__: Any) -> None:
    setattr(target, name, value)


def phased(phase: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that enters what ``phase`` returns."""

    def call(*arguments: Any, **_: Any) -> None:
        with phase(*arguments[:1] or ("name",)):
            pass

    return call


def copied(run: Any, value: Any = None, *_: Any, **__: Any) -> None:
    """Copy and pickle a run that was given any value, what holds it, and its method."""
    run.config["value"] = run.summary["value"] = value
    run.fact("value", value)
    for item in (run, [run], run.log, run.phase("data")):
        copy.copy(item)
        copy.deepcopy(item)
        pickle.loads(pickle.dumps(item))


class Framework:
    """Replaces any base class of a framework."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.model = self.params = None


def adapters() -> Iterator[type]:
    """Yield the classes of all adapters, on stand-ins for their frameworks, which take seconds to import."""
    for home, name in (
        ("transformers", "TrainerCallback"),
        ("keras.callbacks", "Callback"),
        ("accelerate.tracking", "GeneralTracker"),
        ("lightning.pytorch", "Callback"),
        ("lightning.pytorch.loggers", "Logger"),
    ):
        for end in (place for place in range(len(home) + 1) if home[place : place + 1] in (".", "")):
            sys.modules.setdefault(home[:end], ModuleType(home[:end]))
        setattr(sys.modules[home], name, Framework)
    for adapter in gputop.adapters.__all__:
        module = getattr(gputop.adapters, adapter)
        yield from (item for item in vars(module).values() if isinstance(item, type) and item.__module__ == module.__name__)


def everything() -> Iterator[Call]:
    """Yield everything that can be called."""
    for name, item in functions():
        if name not in ("Run", "init"):
            yield name, item
    run = gputop.init(name="hostile")
    yield from methods(run, type(run))
    yield from methods(run.config, RecordedDict)
    yield "config.name =", partial(_set, run.config, "name")
    yield "config[] =", lambda value=None, *_, **__: run.config.__setitem__(value, value)
    yield "summary[] =", lambda value=None, *_, **__: run.summary.__setitem__("best", value)
    yield from methods(gputop.Image(1), NotKept)
    yield "copies of a run", partial(copied, run)
    yield "phase", phased(gputop.phase)
    yield "Run.phase", phased(run.phase)
    handler = gputop.GputopHandler(run=run)
    handler.handleError = lambda record: None  # type: ignore[method-assign]
    yield "handler", lambda value=None, *_, **__: handler.emit(logging.makeLogRecord({"msg": value, "levelname": value}))
    for cls in adapters():
        for arguments in ({}, {"project": object()}):
            for name, item in methods(cls(**arguments), cls):
                yield f"adapters.{name}", item
    yield "Run", gputop.Run
    yield "init", gputop.init
    yield "GputopHandler", gputop.GputopHandler


def calls(call: Callable[..., Any], value: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Yield arguments for some calls that a Python function with this signature accepts."""
    parameters = list(inspect.signature(call).parameters.values())
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = [one for one in positional if one.default is one.empty]
    keywords = {one.name: value for one in parameters if one.kind == one.KEYWORD_ONLY}
    if any(one.kind == one.VAR_KEYWORD for one in parameters):
        keywords = {**keywords, "another": value, "id": value}
    yield (value,) * len(needed), {}
    yield (value,) * len(positional), keywords
    if any(one.kind == one.VAR_POSITIONAL for one in parameters):
        yield (value, value), keywords


def walk() -> list[str]:
    """Call everything with everything; return what raised."""
    raised = []
    for name, call in everything():
        for kind, value in values().items():
            if "endless" in kind and name.startswith("adapters."):  # frameworks pass dictionaries
                continue
            for positional, keywords in calls(call, value):
                try:
                    call(*positional, **keywords)
                except KeyError:
                    if name not in ("RecordedDict.pop", "RecordedDict.__delitem__"):  # as a dictionary does
                        raised.append(f"{name}({kind}): KeyError")
                except Exception as error:  # noqa: BLE001 - that is the question
                    raised.append(f"{name}({kind}): {type(error).__name__}")
    return raised


if __name__ == "__main__":
    found = walk()
    run = gputop.init(name="after")
    run.log(loss=1.0)
    run.finish()
    print(*found, sep="\n")
    sys.exit(bool(found))
