"""Says what to do about damaged bytecode of gputop: Python may leave it truncated where a disk is full, and never repairs it.

That is CPython's gh-126606, fixed in newer releases from 3.12 on. A loss of power may do the same. All releases fail on such
files.
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
