"""gputop's own errors: each carries what is wrong and what to do, for a person. Imports the standard library alone."""

from __future__ import annotations

from typing import NoReturn

EXIT_OK = 0
EXIT_PROBLEM = 1
EXIT_USAGE = 2
EXIT_NO_GPU = 3
PLEASE_REPORT = "a gputop without this mistake: please report it"
FAILURE_CHARACTERS = 120
"""Of the message of an exception that nobody expected."""


class GputopError(Exception):
    """An error to be told to a person: one sentence on what is wrong, one on what to do."""

    exit_code = EXIT_PROBLEM

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class UsageError(GputopError):
    """The command line or a form was filled in wrongly."""

    exit_code = EXIT_USAGE


class NoGpuError(GputopError):
    """A GPU or its driver is needed and missing; ``code`` is one of ``snapshot.Problem``'s."""

    exit_code = EXIT_NO_GPU

    def __init__(self, message: str, hint: str = "", code: str = "no_gpu") -> None:
        super().__init__(message, hint)
        self.code = code


def raised(error: Exception) -> NoReturn:
    """Raise it: what is done with an exception that nobody expected where nobody says otherwise."""
    raise error


def told_of(error: BaseException) -> str:
    """Return what is told of an exception that nobody expected: its kind, what it says, and the line that it comes from."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = ""
    if place is not None:
        where = f" ({place.tb_frame.f_code.co_filename.replace(chr(92), '/').rpartition('/')[2]}:{place.tb_lineno})"
    try:
        said = " ".join(str(error).split())[:FAILURE_CHARACTERS]
    except Exception:  # noqa: BLE001 - a library's __str__ may fail, and its name is told then
        said = ""
    return f"{type(error).__name__}{f': {said}' if said else ''}{where}"
