"""Starts the sampler's process: for the dashboard even before the command line is parsed, to give the driver a head start.

Imports little, because everything else that a dashboard needs is imported after it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

from gputop.agent.first_look import OPTION

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

CHANGES = "--changes"
"""The agent's option for a reader of the same version that reads every line: leave out what has not changed."""
WHOLE: dict[str, object] = {"whole": True}
"""The command that requests a complete line."""
OF_THE_SCREEN = frozenset(
    f"--{no}{name}" for no in ("", "no-") for name in ("ascii", "color", "mouse", "readonly", "host", "virtual")
) - {"--host", "--virtual"}
"""The options without a value that a sampler of this machine need not know."""
_waiting: subprocess.Popen[bytes] | None = None


def start_sampler(arguments: Iterable[str]) -> subprocess.Popen[bytes]:
    """Start a sampler with these arguments.

    Raises:
        OSError: it cannot be started.
    """
    import subprocess

    process = subprocess.Popen(
        [sys.executable, "-m", "gputop", "agent", CHANGES, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Ctrl-C in the terminal must reach only the screen; the agent ends when its standard input closes.
        start_new_session=True,
    )
    assert process.stdin is not None
    # The screen's thread writes here and must not block on a sampler that does not read.
    os.set_blocking(process.stdin.fileno(), False)
    return process


def asks_for_dashboard(words: Sequence[str]) -> bool:
    """Return whether the command line clearly asks for the dashboard of this machine."""
    return _of_the_dashboard(words) is not None and all(map(os.isatty, range(3)))


def start_early(words: Sequence[str]) -> None:
    """Start the sampler for a command line that asks for the dashboard."""
    global _waiting
    try:
        _waiting = start_sampler((OPTION, *(_of_the_dashboard(words) or ())))
    except OSError:
        return  # the dashboard tries again, and says why not


def _of_the_dashboard(words: Sequence[str]) -> list[str] | None:
    """Return the sampler's arguments for a command line; None if it may ask for more than the dashboard."""
    kept: list[str] = []
    left = iter(words)
    for word in left:
        if word in ("-i", "--interval"):
            kept += [word, next(left, "")]
        elif word == "--theme":
            next(left, None)
        elif word in ("--no-nccl-ras", "--nccl-ras"):
            kept.append(word)
        elif word not in OF_THE_SCREEN:
            return None
    return kept


def take_early() -> subprocess.Popen[bytes] | None:
    """Return the sampler that ``start_early`` has started; None if there is none, or it was taken already."""
    global _waiting
    taken, _waiting = _waiting, None
    return taken


def end_early() -> None:
    """End a sampler that was never taken, because the command line turned out to be wrong."""
    unused = take_early()
    if unused is not None:
        unused.kill()
        unused.communicate()
