"""Sees the SystemExit that ends the script, however it was raised: ``sys.exit``, ``raise SystemExit(main())``, ``exit()``.

No hook sees it. Once the exception has left the script, Python reads its ``code`` and frees it. So the descriptor of that
attribute is replaced with one that behaves the same and notices its readers: only Python's shutdown reads it without a Python
frame below. Nothing else about the exception changes: not its class, nor how it is raised and caught.

Python refuses to assign an attribute of a built-in class, but the dictionary behind the class accepts one. If the script has
read a ``code`` before, Python may have cached the old descriptor; it still works, and the exit goes unseen. Before Python 3.12,
``sys.exit`` creates no exception unless some code catches it, and no code is read: ``watch_calls`` makes it raise one.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from types import MemberDescriptorType
from typing import Any, NoReturn

Seen = Callable[[SystemExit], None]


class _Code:
    """``SystemExit.code``."""

    def __init__(self, original: MemberDescriptorType, seen: Seen) -> None:
        self.original = original
        self.seen = seen
        self.__doc__ = original.__doc__

    def __get__(self, error: Any, kind: Any = None) -> Any:
        if error is not None and sys._getframe().f_back is None:
            with suppress(Exception):  # the script exits, whatever goes wrong here
                if threading.current_thread() is threading.main_thread():
                    self.seen(error)
        return self.original.__get__(error, kind)

    def __set__(self, error: Any, value: Any) -> None:
        self.original.__set__(error, value)

    def __delete__(self, error: Any) -> None:
        self.original.__delete__(error)


def watch(seen: Seen) -> None:
    """Call ``seen`` with the SystemExit that ends this process, before Python's exit handlers run. Never raises."""
    with suppress(Exception):  # another Python may keep it elsewhere: then only sys.exit is seen
        (attributes,) = gc.get_referents(SystemExit.__dict__)
        known = attributes["code"]
        if type(known) is _Code:
            known.seen = seen
        elif type(known) is MemberDescriptorType:
            attributes["code"] = _Code(known, seen)


def watch_calls() -> None:
    """Let ``sys.exit`` raise an exception that ``watch`` sees."""
    if sys.version_info >= (3, 12):
        return
    original = sys.exit

    @wraps(original)
    def exit(status: Any = None, /) -> NoReturn:  # noqa: A001 - it replaces the function of this name
        seen: Any = SystemExit(status) if type(status) in (int, str) else status
        original(seen)

    sys.exit = exit
