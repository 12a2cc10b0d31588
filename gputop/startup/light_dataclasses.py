"""Dataclasses of gputop that share their methods: they take half of the memory, and half of the time that Python takes to make
one.

``dataclasses`` writes up to seven functions for each class and compiles them at import, which was most of the CPU time of
gputop's own imports. Only ``__init__`` has to be written for a class. Everything else is as in ``dataclasses``, which still
makes the classes and those of others. Two records that share a NaN are equal, as up to Python 3.12.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from reprlib import recursive_repr
from types import MemberDescriptorType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_made = dataclasses.dataclass
_SHARED = frozenset({"frozen", "slots", "kw_only"})
"""The options of classes that can share methods."""


def share_methods() -> None:
    """Let gputop's dataclasses that are defined from now on share their methods. Never call this where a user's code runs."""
    if dataclasses.dataclass is _made and _made.__module__ == "dataclasses":  # else the substitute of hosts/older_python.py
        dataclasses.dataclass = dataclass


def dataclass(kind: Any = None, /, **options: Any) -> Any:
    """Return a dataclass of this class, or a decorator that does."""
    if kind is None:
        return lambda kind: dataclass(kind, **options)
    return _sharing(kind, **options) if _can_share(kind, options) else _made(kind, **options)


def _can_share(kind: Any, options: dict[str, Any]) -> bool:
    if not kind.__module__.startswith("gputop.") or not _SHARED.issuperset(options):
        return False
    if any(getattr(base, "__dataclass_params__", None) and base.__dataclass_params__.frozen for base in kind.__mro__):
        return False  # defined before, and frozen by dataclasses
    if any(isinstance(value, dataclasses.Field) and value.hash is not None for value in vars(kind).values()):
        return False
    return not options.get("frozen") or {"__setattr__", "__delattr__", "__init__"}.isdisjoint(vars(kind))


def _sharing(kind: Any, *, frozen: bool = False, slots: bool = False, kw_only: bool = False) -> Any:
    defined = dict(vars(kind))
    kind.__doc__ = kind.__doc__ or kind.__name__  # without one, dataclasses imports inspect to write it
    made = _made(kind, init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
    names = tuple(field.name for field in dataclasses.fields(made) if field.compare)
    # Two, so that the result is a tuple, which considers an object equal to itself; the class itself if nothing is compared.
    made.__dataclass_values__ = attrgetter(*names) if len(names) > 1 else attrgetter(*(names or ("__class__",)) * 2)
    added: dict[str, Any] = {"__repr__": _repr, "__eq__": _eq}
    if "__init__" not in defined:
        added["__init__"] = _init_of(made)
    if defined.get("__hash__") is None:
        added["__hash__"] = _hash if frozen else None
        defined.pop("__hash__", None)
    if frozen:
        added.update(__setattr__=_refuse_to_set, __delattr__=_refuse_to_delete)
        if slots:
            added.update(__getstate__=_state, __setstate__=_set_state)
    for name, value in added.items():
        if name not in defined:
            setattr(made, name, value)
    return made


def _init_of(kind: Any) -> Any:
    """Return the ``__init__`` of a class.

    Python compiles it at import, so it is short: a loop instead of a line per field, and defaults that no source names.
    """
    positional = ["self"]
    named: list[str] = []
    values: list[str] = []
    writers: list[Any] = []
    used: dict[str, Any] = {"_zip": zip}
    defaults: list[Any] = []
    named_defaults: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        name, value, default = field.name, field.name, field.default
        if field.default_factory is not dataclasses.MISSING:
            used[f"_new_{name}"], used["_none"] = field.default_factory, _NONE
            value = f"_new_{name}() if {name} is _none else {name}" if field.init else f"_new_{name}()"
            default = _NONE
        elif not field.init:
            if default is dataclasses.MISSING:
                continue
            used[f"_{name}"] = default
            value = f"_{name}"
        values.append(value)
        writers.append(_writer_of(kind, name))
        if not field.init:
            continue
        (named if field.kw_only else positional).append(name)
        if default is not dataclasses.MISSING:
            if field.kw_only:
                named_defaults[name] = default
            else:
                defaults.append(default)
        elif defaults and not field.kw_only:
            raise TypeError(f"non-default argument {name!r} follows default argument")
    used["_writers"] = tuple(writers)
    lines = [f"for _write,_value in _zip(_writers,({','.join(values)},)):_write(self,_value)"] if values else []
    if hasattr(kind, "__post_init__"):
        lines.append("self.__post_init__()")
    signature = ",".join([*positional, *(["*", *named] if named else [])])
    written: dict[str, Any] = {}
    exec(f"def __init__({signature}):\n " + "\n ".join(lines or ["pass"]), written)
    init = written["__init__"]
    made = type(init)(init.__code__, used, "__init__", tuple(defaults))
    made.__kwdefaults__ = named_defaults or None
    made.__qualname__ = f"{kind.__qualname__}.__init__"
    return made


def _writer_of(kind: Any, name: str) -> Any:
    """Return what writes a field of an instance, although it is frozen."""
    slot = getattr(kind, name, None)
    if type(slot) is MemberDescriptorType:
        return slot.__set__
    return lambda self, value: object.__setattr__(self, name, value)


_NONE: Any = object()
"""The default of a field whose value a function makes."""


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    values = self.__dataclass_values__
    return values(self) == values(other)


def _hash(self: Any) -> int:
    return hash(self.__dataclass_values__(self))


def _refuse_to_set(self: Any, name: str, value: object) -> None:
    if _is_frozen(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_to_delete(self: Any, name: str) -> None:
    if _is_frozen(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _is_frozen(record: Any, name: str) -> bool:
    return "__dataclass_fields__" in vars(type(record)) or name in record.__dataclass_fields__


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
