"""The boundary to the user's script: everything public is ``@harmless``, so that no failure of gputop reaches the script.

A wrong number of arguments, or a wrong keyword, is a mistake in the script's own call, and raises TypeError as any call in
Python does. KeyboardInterrupt and SystemExit pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from types import FunctionType
from typing import Any, TypeVar, cast, overload

from gputop.tracking.journal.handlers import let_through
from gputop.tracking.journal.notice import reason, warn

T = TypeVar("T")
_UNGUARDED = frozenset(["__class_getitem__", "__deepcopy__", "__getattr__", "__init__", "__init_subclass__", "__new__"])
"""A missing attribute must raise, as must a value that cannot be copied; an object is either complete or not created."""


@overload
def harmless(item: T, *, otherwise: Callable[[], Any] | None = None, passes: tuple[type[Exception], ...] = ()) -> T: ...


@overload
def harmless(
    item: None = None, *, otherwise: Callable[[], Any] | None = None, passes: tuple[type[Exception], ...] = ()
) -> Callable[[T], T]: ...


def harmless(item: Any = None, *, otherwise: Callable[[], Any] | None = None, passes: tuple[type[Exception], ...] = ()) -> Any:
    """Guard a function, or all methods, operators and properties that a class defines and that are not private.

    A failure is reported once on stderr, and the call returns ``otherwise()``, or None. Errors in ``passes`` are part of the
    contract, such as a dictionary's KeyError, and are raised.
    """
    if item is None:
        return partial(harmless, otherwise=otherwise, passes=passes)
    if not isinstance(item, type):
        return _guarded(item, otherwise, passes)
    for name, member in list(vars(item).items()):
        if name in _UNGUARDED or (name.startswith("_") and not name.endswith("__")):
            continue
        if isinstance(member, FunctionType):
            setattr(item, name, _guarded(member, otherwise, passes))
        elif isinstance(member, staticmethod):
            setattr(item, name, staticmethod(_guarded(member.__func__, otherwise, passes)))
        elif isinstance(member, property):
            setter = None if member.fset is None else _guarded(member.fset, None, passes)
            getter = _guarded(cast(Any, member.fget), otherwise, passes)
            setattr(item, name, property(getter, setter, doc=member.__doc__))
    return item


def _guarded(
    function: Callable[..., Any], otherwise: Callable[[], Any] | None, passes: tuple[type[Exception], ...]
) -> Callable[..., Any]:
    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except passes:
            raise
        except Exception as error:
            trace = error.__traceback__
            if isinstance(error, TypeError) and trace is not None and trace.tb_next is None:
                raise  # the function was not entered: the arguments do not match its signature
            try:
                let_through(error)
                what = f"{function.__qualname__} failed, the training continues"
                warn(f"{what} ({reason(error)}).", about=what)
                return None if otherwise is None else otherwise()
            except RecursionError as another:  # the script is about to exceed the limit: there is no room to report it
                if another is error:  # raised by a signal handler of the script
                    raise
                return None

    return guarded
