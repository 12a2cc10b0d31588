"""The output of a run in a window of the user's own tmux or GNU screen. Reading it changes nothing there.

The window is the one whose terminal is a process's standard output. A capture holds its last lines, so the lines of the
previous capture are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from gputop.sources.host import procfs
from gputop.untracked.windows import gnu_screen, tmux
from gputop.untracked.windows.terminals import Terminal

if TYPE_CHECKING:
    from gputop.doctor.logs.scan import LogScan

OVERLAP = 5
"""How many consecutive lines identify where the previous capture ended."""
_PROGRAMS: Mapping[str, ModuleType] = {"tmux": tmux, "screen": gnu_screen}


class Pane(NamedTuple):
    """A window of a terminal multiplexer. ``identity``: device and inode of its terminal."""

    program: str
    """``tmux`` or ``screen``."""
    server: str
    name: str
    identity: tuple[int, int]


def pane_of(terminals: Iterable[Terminal]) -> Pane | None:
    """Return the pane of the first terminal that has one that can be read; None if there is none."""
    for terminal in terminals:
        try:
            environment = procfs.read_environ(terminal.pid) or {}
        except OSError:
            continue
        for name, module in _PROGRAMS.items():
            place: tuple[str, str] | None = module.find(terminal.path, environment)
            if place is not None:
                return Pane(name, *place, terminal.identity)
    return None


class PaneReader:
    """Follows what is printed to a pane."""

    def __init__(self, pane: Pane) -> None:
        # Imported only here: most runs print to no pane, and compiling what reads metrics takes a tenth of ``gputop --once``.
        from gputop.tracking.printed.transcript import Transcript

        self.pane = pane
        self.transcript = Transcript(with_bars=True)
        self._before: list[str] | None = None
        self._last = ""

    @cached_property
    def scan(self) -> LogScan:
        """The scan of the pane's text since the first capture."""
        from gputop.doctor.logs.scan import LogScan

        scan = LogScan(f"the {self.pane.program} window {self.pane.name}")
        scan.skip()  # lines that the window has dropped are not counted, so its lines have no numbers
        return scan

    def read(self) -> list[tuple[int, dict[str, float]]]:
        """Return the steps and metrics of the lines that are new since the last call."""
        text = _PROGRAMS[self.pane.program].capture(self.pane.server, self.pane.name)
        return [] if text is None else self.take_in(text)

    def take_in(self, text: str) -> list[tuple[int, dict[str, float]]]:
        """Return what is new in a capture."""
        *lines, last = text.rstrip("\n").split("\n")
        is_first = self._before is None
        new = lines[_continues_at(self._before or (), lines) :]
        if new or last != self._last:
            # The last line may be a progress bar, which never ends: each of its states counts.
            data = "\n".join([*new[bool(new) and new[0] == self._last :], last, ""])
            self._before, self._last = lines, last
            if not is_first:  # the text that was already there may be another run's
                self.scan.feed(data.encode())
            return list(self.transcript.feed(data.encode()))
        return []


def _continues_at(before: Sequence[str], now: Sequence[str]) -> int:
    """Return the index in ``now`` after the lines of ``before``; 0 if they have nothing in common."""
    known = before[-OVERLAP:]
    for end in range(len(now), 0, -1):
        size = min(end, len(known))
        if size and now[end - size : end] == known[-size:]:
            return end
    return 0
