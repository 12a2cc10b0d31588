"""What `y` copies from the item under the cursor. Plain lines without control characters, safe to paste into a shell."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from gputop.snapshot import Device, Process, ProcessRun, Run
from gputop.terminal_text import printable

if TYPE_CHECKING:
    from gputop.doctor.findings.finding import Finding

SHOWN_MOST, SHOWN_LEAST = 60, 10
"""How many characters of the copied text the message shows: as many as fit in its line."""


class Copy(NamedTuple):
    """A text for the clipboard, and what it is in words."""

    what: str
    text: str

    def message(self, columns: int) -> str:
        """Return what the user reads after copying, in one line of this many columns."""
        said = f"Copied the {self.what}, if your terminal allows it (OSC 52): "
        most = max(SHOWN_LEAST, min(SHOWN_MOST, columns - len(said) - 2))
        first = (self.text.splitlines() or [""])[0]
        return said + (first if first == self.text and len(first) <= most else first[:most].rstrip() + " …")


def of_process(process: Process | None) -> Copy | None:
    """Return a process's PID and command."""
    if process is None:
        return None
    command = shlex.join(process.command) if process.command else process.name or ""
    return Copy("PID and command", printable(f"{process.pid} {command}".strip()))


def of_device(device: Device | None) -> Copy | None:
    """Return a device's UUID, which CUDA_VISIBLE_DEVICES takes."""
    return None if device is None else Copy("UUID", printable(device.uuid))


def of_run(run: Run | None) -> Copy | None:
    """Return a run's id."""
    return None if run is None else Copy("run id", printable(run.run_id))


def of_process_run(run: ProcessRun | None) -> Copy | None:
    """Return the PIDs of an untracked run's ranks."""
    return None if run is None or not run.ranks else Copy("ranks' PIDs", " ".join(str(rank.pid) for rank in run.ranks))


def of_finding(finding: Finding | None) -> Copy | None:
    """Return a finding's fix."""
    if finding is None:
        return None
    return Copy("fix", "\n".join(map(printable, finding.fix.splitlines())))
