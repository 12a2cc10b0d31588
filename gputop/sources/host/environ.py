"""The environment of a process, safe to show: read on demand, secrets masked. Imports only ``procfs``."""

from __future__ import annotations

import re

from gputop.sources.host import procfs

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|PWD$|CREDENTIAL|AUTH|COOKIE|PRIVATE|SIGNATURE|DSN$", re.IGNORECASE)
_NOT_SECRET = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY"})
_PASSWORD_IN_URL = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+@")
MASK = "•••"
"""Replaces a secret."""


def environment_of(pid: int) -> dict[str, str] | None:
    """Return the environment of a process at launch, sorted by name and with secrets masked.

    Returns:
        ``None`` if the process is gone, a zombie, or another user's.
    """
    try:
        values = procfs.read_environ(pid)
    except OSError:
        return None
    return None if values is None else {name: mask_secret(name, values[name]) for name in sorted(values)}


def mask_secret(name: str, value: str) -> str:
    """Return the value, or a mask if the name suggests a secret; always mask a password inside a URL."""
    if value and name not in _NOT_SECRET and _SECRET_NAME.search(name):
        return MASK
    return _PASSWORD_IN_URL.sub(rf"\1:{MASK}@", value)
