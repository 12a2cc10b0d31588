"""Where gputop keeps its files, and how to create a directory safely. Imports only the standard library."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def home_dir() -> Path:
    """Return the home directory; "/", as container engines do, for a user without HOME and without an entry in passwd."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def state_dir() -> Path:
    """Return where runs and jobs live: ``$GPUTOP_DIR``, else ``$XDG_STATE_HOME/gputop``, else ``~/.local/state/gputop``."""
    own = os.environ.get("GPUTOP_DIR")
    if own:
        return _expanded(own)
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else home_dir() / ".local" / "state") / "gputop"


def runs_dir() -> Path:
    """Return the directory with one directory per run."""
    return state_dir() / "runs"


def jobs_dir() -> Path:
    """Return the directory with one directory per launched job."""
    return state_dir() / "jobs"


def config_path() -> Path:
    """Return the settings file: ``$GPUTOP_CONFIG``, else ``$XDG_CONFIG_HOME/gputop/config.toml``, else below ``~/.config``."""
    own = os.environ.get("GPUTOP_CONFIG")
    if own:
        return _expanded(own)
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else home_dir() / ".config") / "gputop" / "config.toml"


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # the home directory of a user who does not exist
        return Path(path)


def make_private_dir(path: Path) -> Path:
    """Create ``path`` and its parents with mode 0700, and check that it belongs to this user.

    Raises:
        OSError: ``path`` cannot be created, is a symbolic link, is not a directory, or belongs to another user.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(f"{path} is not a directory of this user")
    return path
