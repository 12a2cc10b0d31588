"""The environment of a process as a person may see it: read on demand, secrets masked. Standard library alone."""

from __future__ import annotations

import re

from gputop.sources.host import procfs

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|PWD$|CREDENTIAL|AUTH|COOKIE|PRIVATE|SIGNATURE|DSN$", re.IGNORECASE)
_NOT_SECRET = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY"})
_PASSWORD_IN_URL = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+@")
MASK = "•••"


def environment_of(pid: int) -> dict[str, str] | None:
    """Return the environment that a process was started with, sorted by name and with secrets masked.

    Returns:
        ``None`` when the process is gone, a zombie, or another user's.
    """
    try:
        values = procfs.read_environ(pid)
    except OSError:
        return None
    return None if values is None else {name: mask_secret(name, values[name]) for name in sorted(values)}


def mask_secret(name: str, value: str) -> str:
    """Return the value, or a mask where the name smells of a secret; a password inside a URL is masked anywhere."""
    if value and name not in _NOT_SECRET and _SECRET_NAME.search(name):
        return MASK
    return _PASSWORD_IN_URL.sub(rf"\1:{MASK}@", value)
