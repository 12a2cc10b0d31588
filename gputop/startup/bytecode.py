"""Says what to do about damaged bytecode of gputop: Python may leave it truncated where a disk is full, and never repairs it.

(CPython's gh-126606; a loss of power does the same. Python 3.13.1 no longer writes such files, but still fails on them.)
"""

from __future__ import annotations

import shlex
from pathlib import Path

_MESSAGES = ("marshal data", "EOF read where")
"""What Python says where bytecode ends too early, depending on where it does."""


def advice(error: BaseException) -> str | None:
    """Return what to do about the damaged bytecode that an import failed on; None for any other error. Never raises."""
    if type(error) not in (EOFError, ValueError) or not any(message in str(error) for message in _MESSAGES):
        return None
    command = f"find {shlex.quote(str(Path(__file__).parent.parent))} -name '*.pyc' -delete"
    return f"Files that Python compiled are damaged, as a full disk leaves them. Delete them: {command}"
