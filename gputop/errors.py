"""gputop's own errors: each carries what is wrong and what to do, for a person. Imports the standard library alone."""

from __future__ import annotations

EXIT_OK = 0
EXIT_PROBLEM = 1
EXIT_USAGE = 2
EXIT_NO_GPU = 3


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
