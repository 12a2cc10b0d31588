"""Saves what is on the screen as a picture (SVG) and as text, below gputop's state directory."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from gputop import places
from gputop.terminal_text import printable


def save(name: str, svg: str, text: str) -> tuple[Path, ...]:
    """Write the picture and, unless it is empty, the text to separate files; return their paths. They are in the state
    directory, not in the current one, which may be a repository or belong to another user.

    Raises:
        OSError: they cannot be written.
    """
    directory = places.make_private_dir(places.state_dir() / "screenshots")
    kept = "".join(char if char.isalnum() or char in "-_" else "-" for char in printable(name)) or "screen"
    stem = f"{kept[:40]}-{time.strftime('%Y%m%d-%H%M%S')}"
    number = 0
    while any((directory / f"{_numbered(stem, number)}.{kind}").exists() for kind in ("svg", "txt")):
        number += 1
    contents = {"svg": svg, "txt": text} if text else {"svg": svg}
    written = []
    try:
        for kind, content in contents.items():
            path = directory / f"{_numbered(stem, number)}.{kind}"
            written.append(path)
            with path.open("x", encoding="utf-8") as file:
                file.write(content)
    except OSError:
        for path in written:
            with contextlib.suppress(OSError):
                path.unlink()
        raise
    return tuple(written)


def _numbered(stem: str, number: int) -> str:
    return f"{stem}-{number}" if number else stem
