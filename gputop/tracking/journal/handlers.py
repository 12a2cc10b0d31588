"""Lets exceptions of the script's signal handlers through: Python may run a handler between any two lines of gputop.

A script may limit an epoch with ``signal.alarm``, or save a checkpoint where SIGTERM's handler raises. The guards around
gputop's own failures must not swallow such an exception: the script would wait for it forever.
"""

from __future__ import annotations

import inspect
import signal
from collections.abc import Iterable
from functools import partial
from types import CodeType, FrameType
from typing import Any

_getsignal: Any = getattr(signal.getsignal, "__wrapped__", signal.getsignal)
"""Python's wrapper turns each answer into an enum, which takes 0.1 ms for all signals, for every value that is not a number."""


def let_through(error: BaseException) -> None:
    """Raise the error again if a signal handler raised it while gputop's code ran; else return."""
    if _is_of_handler(error):
        raise error


def has_handlers() -> bool:
    """Return whether the script handles a signal in Python; that of Ctrl-C counts if it is not Python's own."""
    usual = (signal.SIG_DFL, signal.SIG_IGN, None, signal.default_int_handler)
    return any(_getsignal(number) not in usual for number in range(1, signal.NSIG))


def _is_of_handler(error: BaseException) -> bool:
    codes, trace = set(_codes()), error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes or _has_its_caller(trace.tb_frame):
            return True
        trace = trace.tb_next
    return False


def _codes() -> Iterable[CodeType]:
    """Yield the code of each signal handler."""
    for number in range(1, signal.NSIG):
        handler: Any = _getsignal(number)
        if handler is None or isinstance(handler, int):  # Python does not know it; the default one, or ignored
            continue
        while isinstance(handler, partial):
            handler = handler.func
        handler = getattr(handler, "__func__", handler)
        code = getattr(handler, "__code__", None) or getattr(type(handler).__call__, "__code__", None)
        if isinstance(code, CodeType):
            yield code


def _has_its_caller(frame: FrameType) -> bool:
    """Return whether a function received its caller's frame, as signal handlers do; the handler may have been replaced
    since."""
    caller = frame.f_back
    code = frame.f_code
    given = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
    if caller is None or not given:
        return False
    values = [frame.f_locals.get(name) for name in code.co_varnames[:given]]
    return any(item is caller for value in values for item in (value if type(value) is tuple else (value,)))
