"""Reports on stderr, one line and once each, what tracking cannot do. Never raises: training comes first."""

from __future__ import annotations

import fcntl
import os
import sys
from contextlib import suppress

_STDERR = 2
"""The descriptor of standard error."""
_REASON_CHARACTERS = 200
"""How much of an exception's text a message quotes."""
_told: set[str] = set()


def warn(message: str, about: str | None = None) -> None:
    """Print ``gputop: message`` once per process; ``GPUTOP_SILENT=1`` suppresses it.

    Messages ``about`` the same count as one: those that quote an error or a value, which are different in each step.
    """
    try:
        told = message if about is None else about
        if told in _told or len(_told) > 100:
            return
        _told.add(told)
        if os.environ.get("GPUTOP_SILENT", "") in ("", "0"):
            write(f"gputop: {message}\n")
    except Exception:  # noqa: BLE001 - anything may hash, compare or print; the training must not be affected
        return


def reason(error: BaseException) -> str:
    """Return what an error says, as "ValueError: …", shortened. Never raises: an error may be the user's own class."""
    name = type(error).__name__
    try:
        return f"{name}: {str(error)[:_REASON_CHARACTERS]}"
    except Exception:  # noqa: BLE001 - __str__ is the user's code
        return name


def write(text: str) -> None:
    """Write to stderr, unless the script has closed it and a file of its own has taken its number. Never raises."""
    try:
        if not _is_taken():
            _check_size(text)
            sys.stderr.write(text)
    except Exception:  # noqa: BLE001 - stderr may be closed or replaced by anything
        return


def _is_taken() -> bool:
    """Return whether stderr's number stands for a file that the script opened.

    Python opens every file so that children do not inherit it, and no standard stream is like that: neither one that the
    process was started with, nor one that ``os.dup2`` has put in its place.
    """
    try:
        return sys.stderr.fileno() == _STDERR and bool(fcntl.fcntl(_STDERR, fcntl.F_GETFD) & fcntl.FD_CLOEXEC)
    except Exception:  # noqa: BLE001 - an object without a descriptor, such as a notebook's, or one that is closed
        return False


def _check_size(text: str) -> None:
    """Check that the limit on the size of files lets stderr take the text.

    Raises:
        OSError: it does not.
    """
    from gputop.tracking.journal import size_limit  # rarely used: ``import gputop`` stays cheap

    with suppress(AttributeError, ValueError):  # an object without a descriptor
        size_limit.check_append(sys.stderr.fileno(), len(text.encode("utf-8", "replace")))
