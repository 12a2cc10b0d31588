"""What ``gputop doctor`` prints before it ends."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from gputop.terminal_text import printable

if TYPE_CHECKING:
    from gputop.doctor.findings.finding import Finding
    from gputop.doctor.watch import Outcome


class Progress:
    """Prints what is known by then: the first certain finding and, on a terminal, what it waits for."""

    def __init__(self, *, as_json: bool) -> None:
        self.printed: Finding | None = None
        self._quiet = as_json
        self._line = "" if not as_json and sys.stderr is not None and sys.stderr.isatty() else None

    def see(self, outcome: Outcome) -> None:
        """Process the outcome of a snapshot."""
        from gputop.doctor.findings.subjects import name_of, names_of_runs
        from gputop.doctor.report import finding_text
        from gputop.doctor.watch import first_certain

        if self._quiet:
            return
        finding = first_certain(outcome) if self.printed is None else None
        if finding is not None:
            self._write("")
            self.printed = finding
            known = outcome.snapshot
            name = name_of(finding, known, names_of_runs(known)) if known is not None else ""
            print(f"{finding_text(finding, run=name)}\n", flush=True)
        longest = max((item.needs_s for item in outcome.undecided if item.needs_s is not None), default=None)
        names = ", ".join(dict.fromkeys(item.rule or item.title for item in outcome.undecided))
        more = f" ({max(1, round(longest))} s more at most)" if longest is not None else ""
        self._write(f"Undecided: {names}{more}" if names else "Watching …")

    def end(self) -> None:
        """Erase the line from the terminal."""
        self._write("")

    def _write(self, text: str) -> None:
        if self._line is None or text == self._line:
            return
        wide = shutil.get_terminal_size().columns - 1
        self._line = text
        sys.stderr.write(f"\r{printable(text)[:wide]:<{wide}}\r{printable(text)[:wide]}" if text else f"\r{' ' * wide}\r")
        sys.stderr.flush()
