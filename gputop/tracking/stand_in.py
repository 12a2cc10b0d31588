"""Makes a function of ours stand in for one of torch's or Python's, and keeps it out of the script's warnings and tracebacks.

A warning names the line that is ``stacklevel`` calls up, and Python shows it once for each such line: a call of ours in between
would name, and count, a line of gputop. ``warnings`` passes over frames whose file is importlib's, which it knows by two words
in the file's name; so the code of our functions has a file of such a name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
_MARK = "#importlib._bootstrap"


def stands_for(original: Any) -> Callable[[F], F]:
    """Return a decorator for the function that takes the place of ``original``, and calls it."""

    def decorate(function: F) -> F:
        found: Any = functools.wraps(original)(passed_over(function))
        return cast(F, found)

    return decorate


def passed_over(function: F) -> F:
    """Make warnings pass over the calls of a function, and ``cut`` remove them."""
    code = function.__code__
    function.__code__ = code.replace(co_filename=code.co_filename + _MARK)
    return function


def cut(error: BaseException) -> None:
    """Remove the calls of such functions from the traceback of an error, and of those that led to it, before it is printed."""
    for one in _all(error):
        trace = one.__traceback__
        while trace is not None:
            following = trace.tb_next
            if following is not None and _is_marked(following):
                trace.tb_next = following.tb_next
            else:
                trace = following


def _all(error: BaseException) -> Iterator[BaseException]:
    known: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in known:
            known.add(id(one))
            yield one
            waiting += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]


def _is_marked(trace: TracebackType) -> bool:
    return trace.tb_frame.f_code.co_filename.endswith(_MARK)
