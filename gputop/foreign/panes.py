"""What a run prints in a pane of the user's own tmux: read with ``capture-pane -p``, which changes nothing there.

The pane is the one whose terminal is a process's standard output. The server is the one that the process's environment names,
or the user's default one; never another user's. A capture is a picture of the pane's last lines, so the lines that
the previous one had are passed over.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gputop.process import ProcessRun
from gputop.sources.host import procfs
from gputop.tracking.printed import Transcript

LINES = 2000
ANSWER_S = 2.0
"""A tmux that does not answer in this time is asked again at the next look."""
OVERLAP = 5
"""So many lines in a row show where the previous capture ended."""


class Pane(NamedTuple):
    """A pane of a tmux server. ``identity``: device and inode of its terminal."""

    socket: str
    name: str
    identity: tuple[int, int]


def pane_of(run: ProcessRun) -> Pane | None:
    """Return the pane that the run prints in; None if there is none, or no tmux."""
    tmux = shutil.which("tmux")
    if tmux is None:
        return None
    for pid in (*(rank.pid for rank in run.ranks), *((run.launcher.pid,) if run.launcher is not None else ())):
        try:
            if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
                continue
            terminal, found = os.readlink(f"/proc/{pid}/fd/1"), os.stat(f"/proc/{pid}/fd/1")
            environment = procfs.read_environ(pid) or {}
        except OSError:
            continue
        if not stat.S_ISCHR(found.st_mode) or not terminal.startswith("/dev/pts/"):
            continue
        for socket in _sockets(environment):
            said = _ask(tmux, socket, "list-panes", "-a", "-F", "#{pane_tty} #{pane_id}")
            panes = dict(line.split(" ", 1) for line in (said or "").splitlines() if " " in line)
            if terminal in panes:
                return Pane(socket, panes[terminal], (found.st_dev, found.st_ino))
    return None


def _sockets(environment: Mapping[str, str]) -> list[str]:
    default = Path(environment.get("TMUX_TMPDIR") or "/tmp") / f"tmux-{os.geteuid()}" / "default"
    candidates = dict.fromkeys((environment.get("TMUX", "").partition(",")[0], str(default)))
    return [path for path in candidates if path and _is_own_socket(path)]


def _is_own_socket(path: str) -> bool:
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISSOCK(found.st_mode) and found.st_uid == os.geteuid()


def _ask(tmux: str, socket: str, *words: str) -> str | None:
    try:
        answer = subprocess.run(
            [tmux, "-S", socket, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=ANSWER_S,
            check=False,
            start_new_session=True,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.decode("utf-8", "replace") if answer.returncode == 0 else None


class PaneReader:
    """Follows what is printed in a pane."""

    def __init__(self, pane: Pane) -> None:
        self.pane = pane
        self.transcript = Transcript()
        self._before: list[str] = []
        self._last = ""

    def read(self) -> list[tuple[int, dict[str, float]]]:
        """Return the steps and metrics of the lines that are new since the last call."""
        tmux = shutil.which("tmux")
        words = ("capture-pane", "-p", "-J", "-t", self.pane.name, "-S", str(-LINES))
        text = _ask(tmux, self.pane.socket, *words) if tmux is not None else None
        return [] if text is None else self.take_in(text)

    def take_in(self, text: str) -> list[tuple[int, dict[str, float]]]:
        """Return what is new in a capture."""
        *lines, last = text.rstrip("\n").split("\n")
        new = lines[_where_it_goes_on(self._before, lines) :]
        if new or last != self._last:
            # The last line may be a progress bar, which never ends: each of its states counts.
            data = "\n".join([*new[bool(new) and new[0] == self._last :], last, ""])
            self._before, self._last = lines, last
            return list(self.transcript.feed(data.encode()))
        return []


def _where_it_goes_on(before: Sequence[str], now: Sequence[str]) -> int:
    """Return the index in ``now`` behind the lines that ``before`` had; 0 if they have nothing in common."""
    known = before[-OVERLAP:]
    for end in range(len(now), 0, -1):
        size = min(end, len(known))
        if size and now[end - size : end] == known[-size:]:
            return end
    return 0
