"""gputop's own errors: each says what is wrong and what to do; and its version, which reports state. Imports only the standard
library.
"""

from __future__ import annotations

from typing import NoReturn

__version__ = "0.1.0"
"""The version of gputop. The build reads it from here, and here is what travels to other machines."""
EXIT_OK = 0
EXIT_PROBLEM = 1
EXIT_USAGE = 2
EXIT_NO_GPU = 3
"""The exit codes of gputop: it worked; something is wrong; the command line is wrong; there is no GPU."""
PLEASE_REPORT = "a fix in gputop: please report this bug"
MESSAGE_MAX_CHARACTERS = 120
"""Length limit for the message of an unexpected exception."""


class GputopError(Exception):
    """An error to show to the user: one sentence on what is wrong, one on what to do."""

    exit_code = EXIT_PROBLEM

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class UsageError(GputopError):
    """The command line or a form is filled in incorrectly."""

    exit_code = EXIT_USAGE


class NoGpuError(GputopError):
    """A required GPU or driver is missing; ``code`` is one of ``snapshot.Problem``'s codes."""

    exit_code = EXIT_NO_GPU

    def __init__(self, message: str, hint: str = "", code: str = "no_gpu") -> None:
        super().__init__(message, hint)
        self.code = code


class Error(Exception):
    """The base of another tracker's errors, for scripts that say ``import gputop as wandb`` and catch them. Never raised."""


CommError = AuthenticationError = UnsupportedError = Error


def reraise(error: Exception) -> NoReturn:
    """Raise ``error``: the default handler for an unexpected exception."""
    raise error


def describe_unexpected(error: BaseException) -> str:
    """Format an unexpected exception: its type, its message, and the line that raised it."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = ""
    if frame is not None:
        where = f" ({frame.tb_frame.f_code.co_filename.replace(chr(92), '/').rpartition('/')[2]}:{frame.tb_lineno})"
    try:
        message = " ".join(str(error).split())[:MESSAGE_MAX_CHARACTERS]
    except Exception:  # noqa: BLE001 - a library's __str__ may fail; report the type alone
        message = ""
    return f"{type(error).__name__}{f': {message}' if message else ''}{where}"
