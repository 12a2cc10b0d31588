"""Windows of the user's own GNU screen sessions: which one a process prints to, and its contents.

Only sessions with one window are read: screen does not report which window has which terminal, and numbers can be reused.

``hardcopy -h`` has the session write a window and its scrollback to a file, without a message to attached users. The file is in
a private folder that only this user can enter. A session does not report when it is done: the file of a second hardcopy, which
it starts only after the first, shows that.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from gputop.sources.host import procfs

ANSWER_S = 2.0
"""A session that has not answered in this time is asked again at the next reading."""
POLL_S = 0.01
"""How often to check whether the session has written its file."""
BYTES_MAX = 1 << 20
"""How much of the end of a window's contents is read."""
_SESSION = re.compile(r"(?P<pid>\d{1,9})\.[\w.@+-]{1,200}")


def find(terminal: str, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the session, as ``capture`` takes it, and the window's number; None if that is not its only terminal.

    ``environment`` belongs to a process, and may come from another session.
    """
    session, window = environment.get("STY", ""), environment.get("WINDOW", "")
    named = _SESSION.fullmatch(session)
    if named is None or not (window.isascii() and window.isdigit()):
        return None
    import shutil  # few runs print to a session

    if shutil.which("screen") is None:
        return None
    if not _is_of_this_user(int(named["pid"])) or _terminals(int(named["pid"])) != [terminal]:
        return None
    return f"{environment.get('SCREENDIR', '')}/{session}", window


def capture(server: str, window: str) -> str | None:
    """Return the newest lines of a window; None if the session does not answer."""
    import shutil
    import subprocess
    import tempfile

    program = shutil.which("screen")
    folder, _, session = server.rpartition("/")
    settings = {name: value for name, value in os.environ.items() if name not in ("STY", "SCREENDIR")}
    if folder:
        settings["SCREENDIR"] = folder
    if program is None:
        return None
    with tempfile.TemporaryDirectory(prefix="gputop-") as place:  # 0700
        window_text, written = Path(place, "window"), Path(place, "written")
        for words in (("-h", str(window_text)), (str(written),)):
            try:
                subprocess.run(
                    [program, "-S", session, "-p", window, "-X", "hardcopy", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=settings,
                    timeout=ANSWER_S,
                    check=True,
                    start_new_session=True,
                )
            except (OSError, ValueError, subprocess.SubprocessError):
                return None
        until = time.monotonic() + ANSWER_S
        while not written.exists():
            if time.monotonic() > until:
                return None
            time.sleep(POLL_S)
        try:
            with window_text.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - BYTES_MAX))
                return file.read(BYTES_MAX).decode("utf-8", "replace")
        except OSError:
            return None


def _is_of_this_user(pid: int) -> bool:
    try:
        own = os.stat(f"/proc/{pid}").st_uid == os.geteuid()
        return own and Path(f"/proc/{pid}/comm").read_text().startswith("screen")
    except (OSError, UnicodeDecodeError):
        return False


def _terminals(session: int) -> list[str]:
    """Return the terminals on which a session started a shell, or another command."""
    try:
        children = Path(f"/proc/{session}/task/{session}/children").read_text().split()
    except OSError:  # a kernel without this file
        return []
    found = []
    for child in children:
        try:
            fields = procfs.read_stat(int(child))
            if fields is not None and fields.ppid == session:
                found.append(os.readlink(f"/proc/{child}/fd/0"))
        except OSError:
            found.append("")  # a window that cannot be identified
    return found
