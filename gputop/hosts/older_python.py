"""Lets the traveling gputop run on Python 3.8 and 3.9: this file travels too, and the loader there imports it before gputop.

It supplies what the standard library lacks there, in that process only, and translates each module before it is compiled:
expressions that these versions parse but cannot evaluate, such as ``int | str`` or ``name.removeprefix("x")``. It does not
translate syntax that they cannot parse: none of what travels has any, and tests/hosts/test_older_python.py makes sure of it.

Self-contained: this file itself must run untranslated on Python 3.8.
"""

from __future__ import annotations

import ast
import builtins
import collections
import copy
import dataclasses
import functools
import itertools
import pathlib
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def translated(source: str) -> ast.Module:
    """Return the syntax tree of a module, for ``compile``. Annotations stay: nothing evaluates them, but records read them."""
    tree = ast.parse(source)
    _Translator().visit(tree)
    return tree


def supply() -> None:
    """Add to the standard library what newer versions have and the modules that travel use."""
    for owner, name, value in _REPLACED:
        setattr(owner, name, value)
    for alias in _GENERICS.values():
        alias._inst = True  # it can be called, as ``set[int]`` can
    for owner, name, value in _ADDED:
        if not hasattr(owner, name):
            setattr(owner, name, value)


class _Translator(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return _call(_union, node, node.left, node.right) if isinstance(node.op, ast.BitOr) else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.BitOr):
            return node
        held = copy.copy(node.target)
        held.ctx = ast.Load()
        return ast.copy_location(ast.Assign([node.target], _call(_update, node, held, node.value)), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = node.func
        if isinstance(function, ast.Name) and function.id in ("isinstance", "issubclass"):
            node.args[1:] = map(_as_tuple, node.args[1:])
        self.generic_visit(node)
        if isinstance(function, ast.Attribute) and function.attr in _METHODS:
            return _call(_METHODS[function.attr], node, function.value, *node.args)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        name = getattr(node.value, "attr", getattr(node.value, "id", ""))
        if name in _GENERIC_NAMES and isinstance(node.ctx, ast.Load):
            node.value = _call(_generic, node.value, node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        returns, node.returns = node.returns, None
        self.generic_visit(node)
        node.returns = returns
        return node


def _as_tuple(kind: ast.expr) -> ast.expr:
    """Return a union as the tuple that ``isinstance`` takes, and anything else as it is."""
    members = _members(kind)
    return ast.copy_location(ast.Tuple(members, ast.Load()), kind) if len(members) > 1 else kind


def _members(kind: ast.expr) -> list[ast.expr]:
    if isinstance(kind, ast.BinOp) and isinstance(kind.op, ast.BitOr):
        return [*_members(kind.left), *_members(kind.right)]
    return [kind]


def _call(function: Callable[..., Any], place: ast.AST, *arguments: ast.expr) -> ast.Call:
    name = ast.copy_location(ast.Name(_NAMES[function], ast.Load()), place)
    return ast.copy_location(ast.Call(name, list(arguments), []), place)


def _union(left: Any, right: Any) -> Any:
    """Return ``left | right``, also of dictionaries and of types."""
    try:
        return left | right
    except TypeError:
        if isinstance(left, dict) and isinstance(right, dict):
            return {**left, **right}
        return typing.Union[left, right]  # noqa: UP007 - raises TypeError, too, where neither is a type


def _update(held: Any, more: Any) -> Any:
    """Return what ``held |= more`` assigns."""
    if isinstance(held, dict):
        held.update(more)
    else:
        held |= more
    return held


def _without_prefix(text: Any, prefix: Any) -> Any:
    return text[len(prefix) :] if text.startswith(prefix) else text


def _without_suffix(text: Any, suffix: Any) -> Any:
    return text[: len(text) - len(suffix)] if text.endswith(suffix) else text


_METHODS: dict[str, Callable[..., Any]] = {"removeprefix": _without_prefix, "removesuffix": _without_suffix}

_GENERICS = {
    alias.__origin__: alias
    for alias in (getattr(typing, name) for name in typing.__all__)
    if isinstance(getattr(alias, "__origin__", None), type)
}
"""Class -> what can be subscripted in its place."""
_GENERIC_NAMES = frozenset(kind.__name__ for kind in _GENERICS)


def _generic(kind: Any) -> Any:
    return _GENERICS.get(kind, kind) if isinstance(kind, type) else kind


_HELPERS: tuple[Callable[..., Any], ...] = (_union, _update, _generic, *_METHODS.values())
_NAMES = {function: f"_gputop{function.__name__}" for function in _HELPERS}
"""Function -> its name as a builtin, by which translated modules call it."""

_zip = builtins.zip


def _zip_strict(*columns: Any, strict: bool = False) -> Any:
    if not strict:
        return _zip(*columns)
    if not all(hasattr(column, "__len__") for column in columns):
        return _equally_long(columns)
    if len(set(map(len, columns))) > 1:
        raise ValueError("zip() arguments are not equally long")
    return _zip(*columns)


def _equally_long(columns: Iterable[Iterable[Any]]) -> Iterator[tuple[Any, ...]]:
    gone = object()
    for row in itertools.zip_longest(*columns, fillvalue=gone):
        if any(item is gone for item in row):
            raise ValueError("zip() arguments are not equally long")
        yield row


_dataclass = dataclasses.dataclass


def _dataclass_with_slots(kind: Any = None, *, slots: bool = False, **options: Any) -> Any:
    def decorate(kind: Any) -> Any:
        made = _dataclass(**options)(kind)
        return _slotted(made) if slots else made

    return decorate if kind is None else decorate(kind)


def _slotted(kind: Any) -> Any:
    """Return a copy of a dataclass that has slots, as Python 3.10 makes it."""
    names = tuple(field.name for field in dataclasses.fields(kind))
    kept = {name: value for name, value in vars(kind).items() if name not in (*names, "__dict__", "__weakref__")}
    if kind.__dataclass_params__.frozen:
        kept.setdefault("__getstate__", _values_of)
        kept.setdefault("__setstate__", _set_values)
    made: Any = type(kind)(kind.__name__, kind.__bases__, {**kept, "__slots__": names})
    made.__qualname__ = kind.__qualname__
    return made


def _values_of(record: Any) -> list[Any]:
    return [getattr(record, field.name) for field in dataclasses.fields(record)]


def _set_values(record: Any, values: list[Any]) -> None:
    for field, value in _zip(dataclasses.fields(record), values):
        object.__setattr__(record, field.name, value)


def _get_type_hints(record: Any) -> dict[str, Any]:
    """Return the evaluated annotations of a class; its modules use ``from __future__ import annotations``."""
    hints: dict[str, Any] = {}
    for base in reversed(record.__mro__):
        known = vars(sys.modules[base.__module__])
        for name, text in vars(base).get("__annotations__", {}).items():
            tree = _Translator().visit(ast.parse(text, mode="eval"))
            value = eval(compile(tree, f"<{base.__name__}.{name}>", "eval"), known)
            hints[name] = type(None) if value is None else value
    return hints


def _pairwise(items: Iterable[T]) -> Iterable[tuple[T, T]]:
    first, second = itertools.tee(items)
    next(second, None)
    return _zip(first, second)


def _is_relative_to(path: pathlib.PurePath, other: Any) -> bool:
    try:
        path.relative_to(other)
    except ValueError:
        return False
    return True


_REPLACED: tuple[tuple[Any, str, Any], ...] = (
    (builtins, "zip", _zip_strict),
    (dataclasses, "dataclass", _dataclass_with_slots),
    (typing, "get_type_hints", _get_type_hints),
    *((builtins, name, function) for function, name in _NAMES.items()),
)
_ADDED: tuple[tuple[Any, str, Any], ...] = (
    (collections.Counter, "total", lambda counts: sum(counts.values())),
    (functools, "cache", functools.lru_cache(maxsize=None)),
    (itertools, "pairwise", _pairwise),
    (pathlib.PurePath, "is_relative_to", _is_relative_to),
    (types, "UnionType", type("UnionType", (), {})),
    (typing, "TypeAlias", object()),
)
