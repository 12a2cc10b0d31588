"""An observation in a log: a known error text or an exception. A plain record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gputop.doctor.logs.patterns.pattern import FAILURE, Pattern


@dataclass(frozen=True, slots=True)
class Observation:
    """A known text, or an exception without a known pattern (``pattern`` None). ``block`` joins lines of one traceback."""

    line: str
    file: str
    line_number: int
    """0 if unknown because a part of the log was skipped."""
    rank: int | None
    time: float | None = None
    pattern: Pattern | None = None
    groups: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None
    """The innermost line of the user's own code, as "train.py:41 (main)"."""
    message: str = ""
    """What follows in the message of an exception after its first line."""
    raised_from: str | None = None
    block: int = 0
    warned: bool = False
    """Printed as a warning: the run went on."""
    went_on: bool = False
    """The log goes on after it: the script caught and printed the error."""
    followed: bool = False  # progress follows its traceback: it was caught, or the progress was written late
    progress: int = 0
    """Lines of progress that were seen before it, after other texts."""
    survived: int = 0
    """After how many texts of its kind progress came, where that is so often that the run survives them."""
    at: int = 0
    """The line among those that were scanned: known also where the line's number in the log is not."""
    plain: int = 0
    """Ordinary lines that were scanned before it."""
    in_library: bool = False
    """Whether ``where`` is a library's line, because no line of the user's own code is in the traceback."""
    quoted_by: str = ""
    """What stands before the lines of a traceback that the script's own logger or report wrote."""

    @property
    def failure(self) -> bool:
        """Whether the run fails with this text and it is not the consequence of another failure."""
        if self.pattern is None or self.block > 0:
            return not self.went_on and (self.pattern is None or not self.pattern.cascade)
        return not (self.pattern.cascade or self.warned or self.went_on) and self.pattern.kind == FAILURE
