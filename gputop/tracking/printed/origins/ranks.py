"""Which lines only repeat what another rank printed, where a launcher prints the lines of all ranks behind their numbers. Pure.

mpirun prints "[1,0]<stdout>:loss 0.5", and torchrun "[default0]:loss 0.5". The lines without a step would all count, and a bar
of one rank would go back behind that of another one. Of each form of line, those of the lowest rank that prints it are taken.
"""

from __future__ import annotations

import re

_PREFIX = re.compile(
    r"(?:[^\[\]]{1,40})?\[\d{1,12},(?:mpirank:)?(\d{1,6})(?:,[\w.-]{1,60})?\]<std(?:err|out|diag)>: ?"
    r"|\[(?:default|trainer|worker|role_?)_?(\d{1,6})\]: ?"
)
"""mpirun's also behind a time, with ``--timestamp-output``; SageMaker writes the host into it."""
_NUMBER = re.compile(r"[-+]?(?:\d[\d.,:/%e-]{0,40}|\b(?:nan|inf)\b)", re.IGNORECASE)
_BLANK = re.compile(r"[^!-~]{1,80}")
_READ_CHARACTERS, _FORM_CHARACTERS = 400, 80
_FORMS_MAX, _RANKS_MAX = 256, 4096
_BEHIND_MAX = 4
"""A rank that is more lines behind another one has ended, or no longer prints them (our choice)."""


class _Form:
    """The lines of one form: how many each rank printed, and how many were taken."""

    __slots__ = ("lines", "taken")

    def __init__(self) -> None:
        self.lines: dict[int, int] = {}
        self.taken = 0

    def is_copy(self, rank: int) -> bool:
        if rank not in self.lines and len(self.lines) >= _RANKS_MAX:
            return True
        number = self.lines[rank] = self.lines.get(rank, 0) + 1
        lowest = min(self.lines)
        if number <= self.taken or (rank != lowest and number <= self.lines[lowest] + _BEHIND_MAX):
            return True
        self.taken = number
        return False


class Ranks:
    """Follows the lines of each rank in one stream."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._forms: dict[str, _Form] = {}

    def own(self, line: str) -> str | None:
        """Return a line without the prefix of its rank; None if another rank already printed one of its form, or will."""
        found = _PREFIX.match(line) if "]" in line[:_FORM_CHARACTERS] else None
        if found is None:
            return line
        text = line[found.end() :]
        form = _BLANK.sub(" ", _NUMBER.sub("#", text[:_READ_CHARACTERS])).strip()[:_FORM_CHARACTERS]
        if not form:
            return text
        if form not in self._forms and len(self._forms) >= _FORMS_MAX:
            self._forms.clear()
        return None if self._forms.setdefault(form, _Form()).is_copy(int(found[1] or found[2])) else text
