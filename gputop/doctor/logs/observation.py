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
    """0 if it is unknown because a part of the log was skipped."""
    rank: int | None
    time: float | None = None
    pattern: Pattern | None = None
    groups: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None
    """The innermost line of the user's own code, as "train.py:41 (main)"."""
    message: str = ""
    """The message of an exception after its first line."""
    raised_from: str | None = None
    """Its direct cause where Python names one, else the first exception of its chain."""
    began_with: str | None = None
    """The first exception of its chain, if ``raised_from`` is another one."""
    block: int = 0
    warned: bool = False
    """It was printed as a warning: the run continued."""
    went_on: bool = False
    """The log continues after it: the script caught and printed the error."""
    earlier_start: bool = False
    """The log continues with another start, whose steps begin again: it is appended to."""
    followed: bool = False  # progress follows its traceback: the script caught it, or wrote the progress late
    progress: int = 0
    """Lines of progress seen before it, after other texts."""
    survived: int = 0
    """How many texts of its kind were followed by progress, if this is often enough to show that the run survives them."""
    at: int = 0
    """The line's number among the scanned lines: also known if its number in the log is not."""
    offset_bytes: int = 0
    """How many bytes of the log precede the line at which it was noted."""
    plain: int = 0
    """Ordinary lines scanned before it."""
    in_library: bool = False
    """Whether ``where`` is a library's line, because the traceback contains no line of the user's own code."""
    quoted_by: str = ""
    """The words before each line of a traceback that the script's own logger or report wrote."""

    @property
    def failure(self) -> bool:
        """Whether the run fails with this text, and it does not follow from another failure."""
        if self.pattern is None or self.block > 0:
            return not self.went_on and (self.pattern is None or not self.pattern.cascade)
        return not (self.pattern.cascade or self.warned or self.went_on) and self.pattern.kind == FAILURE

    @property
    def start_in_doubt(self) -> bool:
        """Whether a warning says that the ranks may not meet: progress shows that they did, as by joining the other store."""
        return self.warned and self.pattern is not None and self.pattern.kind == FAILURE and self.pattern.cause == "G03"

    @property
    def raised_by_another(self) -> bool:
        """Whether a rank ended with this text because another rank had gone: raised, not just noted as connections close."""
        return self.pattern is not None and self.pattern.cascade and self.pattern.cause == "G04" and self._ended_it

    @property
    def _ended_it(self) -> bool:
        return self.block > 0 and not (self.warned or self.went_on)
