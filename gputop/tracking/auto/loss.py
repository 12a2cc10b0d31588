"""Finds the loss: the value that backward ran on, by call site, until the optimizer steps.

A site is a line of the user's code. Several backwards from one site within one optimizer step are gradient accumulation
and are averaged; if the script divides each by their number, as accumulation does, that division is undone. A single site
is named ``loss``; several are named ``loss/<variable>``, with the name from the source line, and then there is no plain
``loss``, because it is unknown how they add up.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

from gputop.frameworks import FRAMEWORKS

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""The package gputop.tracking, wherever it is installed."""
_LIBRARIES = frozenset(
    ("gputop", "torch", *(name for known in FRAMEWORKS.values() if known.runs_backward for name in known.modules))
)
_FRAMES_MAX = 40
"""How many frames up the stack to search for the user's line; a framework's trainer is about 30 frames deep."""
_NAME = r"([A-Za-z_][\w.]*)"
_PATTERNS = (
    rf"\.scale\(\s*{_NAME}\s*[)/*]",
    rf"{_NAME}\s*\.backward\(",
    rf"backward\(\s*{_NAME}",
    rf"\(\s*{_NAME}\s*[/*][^()]*\)\s*\.backward\(",
)
DIVISIONS = ("DivBackward0", "MulBackward0")
"""The last operation of a loss that was divided by a number, or multiplied by its inverse."""
_DIVISIONS_MAX = 3
UNKNOWN = 0.0
"""A divisor that was not read, because reading ``grad_fn`` takes longer than everything else here together."""
_MODULES = frozenset(("autograd", "accelerator", "fabric", "self", "engine", "model", "model_engine"))
"""Names before ``.backward(`` that are not a loss."""


class Site:
    """A line that runs backward, and the losses it has run on since the optimizer's last step."""

    __slots__ = ("accumulates", "code", "count", "divisor", "label", "line", "name", "step_divisor", "total")

    def __init__(self, frame: FrameType | None) -> None:
        self.code = frame.f_code if frame is not None else None
        """Kept alive, so that no other code object gets its address."""
        self.line = frame.f_lineno if frame is not None else 0
        self.label = label(frame.f_code.co_filename, self.line) if frame is not None else "line0"
        self.name: str | None = None
        self.total: Any = 0.0
        self.count = 0
        self.step_divisor: float | None = None
        """The last divisor of each loss of this step; None if they differ, or if there was none."""
        self.accumulates = False
        """Whether it ever ran more than once in a step; only then are the divisors of its losses worth reading."""
        self.divisor = 1.0
        """The number of accumulated losses, if the script is known to divide each of them by it."""

    def take(self) -> Any:
        """Return the loss of this step, and reset."""
        if self.count > 1:
            self.accumulates = True
            if self.step_divisor == self.count:
                self.divisor = self.step_divisor
        factor = self.divisor if self.step_divisor == self.divisor else 1.0
        value = self.total if self.count == 1 and factor == 1.0 else self.total * (factor / self.count)
        self.total, self.count = 0.0, 0
        return value


class Sites:
    """All sites of a process. They are named once, after a complete iteration (``settle``)."""

    def __init__(self, torch_directory: str = "") -> None:
        self._roots = tuple(root + os.sep for root in (torch_directory, os.path.dirname(os.__file__)) if root)
        self._by_place: dict[tuple[int, int], Site] = {}
        self._library: dict[str, bool] = {}
        self.inside: set[int] = set()
        """Sites that ran in the closure of the current optimizer step; of each, the first loss counts, which is returned."""
        self.pending: list[Site] = []
        self.settled = False
        self.added: tuple[Site, Any] | None = None
        """The site and loss added by the running backward."""

    def take_back(self) -> None:
        """Remove the loss of a backward that failed, because the script may retry it."""
        added, self.added = self.added, None
        if added is None or not added[0].count:
            return
        site, value = added
        site.count -= 1
        site.total = site.total - value if site.count else 0.0
        if not site.count and site in self.pending:
            self.pending.remove(site)

    def add(self, value: Any, divided: float | None, tensor: Any, in_closure: bool) -> bool:
        """Add a backward that the user's code runs, itself or through a library; return False if it does not count.

        ``divided`` is what the loss was divided by; UNKNOWN means to read it from ``tensor`` if it matters.
        """
        frame = self.user_frame()
        # Keyed by identity and instruction: hashing a code object and finding a line number take microseconds each.
        place = (id(frame.f_code), frame.f_lasti) if frame is not None else (0, 0)
        site = self._by_place.get(place)
        if site is None:
            site = self._by_place[place] = Site(frame)
        if in_closure:
            if id(site) in self.inside:
                return False
            self.inside.add(id(site))
        if divided == UNKNOWN and (site.count or site.accumulates or not self.settled):
            divided = divisor(tensor)
        self.added = site, value
        if site.count:
            site.total += value
            site.count += 1
            if site.step_divisor == UNKNOWN:
                site.step_divisor = divided
            elif site.step_divisor != divided:
                site.step_divisor = None
            return True
        self.pending.append(site)
        site.total, site.step_divisor, site.count = value, divided, 1
        return True

    def take_plain(self, values: dict[str, Any]) -> bool:
        """Put the loss into ``values`` if it is the only one, with a name and no division to undo; else return False."""
        site = self.pending[0]
        if len(self.pending) > 1 or site.count > 1 or site.divisor != 1.0 or site.name is None:
            return False
        values[site.name] = site.total
        site.total, site.count = 0.0, 0
        self.pending.clear()
        return True

    def take(self) -> list[tuple[Site, Any]]:
        """Return (site, loss) for each site that ran since the last call."""
        pending, self.pending = self.pending, []
        return [(site, site.take()) for site in pending]

    def user_frame(self) -> FrameType | None:
        """Return the nearest frame of the caller outside libraries, else the nearest one outside gputop and backward itself.

        Found by walking up the stack, never by depth: calls between here and the user's line come and go.
        """
        first, library = None, self._library
        frame: FrameType | None = sys._getframe()
        for _ in range(_FRAMES_MAX):
            if frame is None:
                break
            filename = frame.f_code.co_filename
            if filename not in library:
                library[filename] = self.is_library(filename)
            if not library[filename]:
                return frame
            if first is None and "backward" not in frame.f_code.co_name and not filename.startswith(_OWN):
                first = frame
            frame = frame.f_back
        return first

    def is_library(self, filename: str) -> bool:
        """Return whether a file belongs to torch, a framework, Python itself, or gputop."""
        parts = filename.split(os.sep)
        if "site-packages" in parts or "dist-packages" in parts:
            return any(part in _LIBRARIES for part in parts[:-1])
        return filename.startswith((_OWN, *self._roots))

    def only(self) -> Site | None:
        """Return the only line that runs backward, if there is just one with nothing special."""
        if len(self._by_place) != 1 or not self.settled:
            return None
        site = next(iter(self._by_place.values()))
        return None if site.name != "loss" or site.accumulates or site.count or site.divisor != 1.0 else site

    def settle(self, groups: Iterable[list[Site]]) -> None:
        """Name the sites of a complete iteration; ``groups`` holds the sites of each of its optimizer steps."""
        found = list({id(site): site for group in groups for site in group}.values())
        if not found:
            return
        self.settled = True
        if len(found) == 1:
            found[0].name = "loss"
            return
        for site in found:
            twins = sum(other.label == site.label for other in found)
            site.name = f"loss/{site.label}" if twins == 1 else f"loss/{site.label}:{site.line}"

    def name(self, site: Site, taken: Iterable[str]) -> str:
        """Return a site's name; a late site shares the name of an earlier one for the same variable, unless that is taken."""
        if site.name is None:
            shared = next((known.name for known in self._by_place.values() if known.name and known.label == site.label), None)
            site.name = shared if shared and shared not in taken else f"loss/{site.label}"
        return site.name if site.name not in taken else f"loss/{site.label}:{site.line}"


def label(filename: str, line: int) -> str:
    """Return the variable that this source line runs backward on, else "line<N>"."""
    source = linecache.getline(filename, line)
    for pattern in _PATTERNS:
        found = re.search(pattern, source)
        if found is not None:
            name = found.group(1).rpartition(".")[2]
            if name not in _MODULES:
                return name
    return f"line{line}"


def divisor(tensor: Any) -> float | None:
    """Return the plain number that a loss was last divided by; None if there was none. Reads only numbers on the CPU.

    Skips divisions by 1: nested trainers each divide once (Hugging Face's on top of Accelerate's).
    """
    function = tensor.grad_fn
    found: float | None = None
    for _ in range(_DIVISIONS_MAX):
        kind = type(function).__name__
        if kind not in DIVISIONS:
            break
        other = function._saved_other
        if other is None or other.dim() != 0 or other.is_cuda or not other:
            break
        found = float(other) if kind == DIVISIONS[0] else round(1.0 / float(other), 6)
        if found != 1.0:
            break
        function = function.next_functions[0][0]
    return found
