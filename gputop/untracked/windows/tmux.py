"""Panes of the user's own tmux servers: which one a process prints to, and its contents, by ``capture-pane -p``, which changes
nothing there. The server is the one that the process's environment names, or the user's default; never another user's.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from gputop.places import check_parents

LINES = 2000
"""How many lines of scrollback are read."""
ANSWER_S = 2.0
"""A server that does not answer in this time is asked again at the next reading."""


def find(terminal: str, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the server's socket and the pane's name; None if no server of this user has a pane on that terminal."""
    for socket in sockets(environment):
        said = _ask(socket, "list-panes", "-a", "-F", "#{pane_tty} #{pane_id}")
        panes = dict(line.split(" ", 1) for line in (said or "").splitlines() if " " in line)
        if terminal in panes:
            return socket, panes[terminal]
    return None


def capture(socket: str, pane: str) -> str | None:
    """Return the last lines of a pane; None if the server does not answer."""
    return _ask(socket, "capture-pane", "-p", "-J", "-t", pane, "-S", str(-LINES))


def sockets(environment: Mapping[str, str]) -> list[str]:
    """Return the sockets of the servers that may have started a process: those of this user, by their paths without links."""
    default = Path(environment.get("TMUX_TMPDIR") or "/tmp") / f"tmux-{os.geteuid()}" / "default"
    candidates = dict.fromkeys((environment.get("TMUX", "").partition(",")[0], str(default)))
    own = (_own_socket(path) for path in candidates if path)
    return [path for path in own if path is not None]


def _own_socket(path: str) -> str | None:
    """Return the path without links if it is a socket of this user that nobody else can replace before it is asked.

    A tmux server tells its clients which files to read and to write: one of another user would do so as this user.
    """
    try:
        real = os.path.realpath(path)
        found = os.lstat(real)
        check_parents(Path(real))
    except (OSError, ValueError):
        return None
    return real if stat.S_ISSOCK(found.st_mode) and found.st_uid == os.geteuid() else None


def _ask(socket: str, *words: str) -> str | None:
    import shutil  # few runs print to a pane
    import subprocess

    tmux = shutil.which("tmux")
    if tmux is None:
        return None
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
