"""Names of wandb's for what gputop does not keep: a script under ``import gputop as wandb`` runs on, and is told once.

Pictures, tables, artifacts and the like become an object that accepts every call and is logged as nothing. Names that a
script needs an answer from (``Api``, ``sweep``, ``agent``, ``restore``) do not exist: they fail as any missing name does.
``gputop/__init__.py`` lists the module's names.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from gputop.tracking.journal.not_kept import NotKept

RUN_METHODS = frozenset(
    ["log_artifact", "log_code", "log_model", "mark_preempting", "save", "settings", "unwatch", "use_artifact", "use_model"]
)
RUN_ATTRIBUTES: dict[str, Any] = {
    **dict.fromkeys(("entity", "project_url", "sweep_id", "sweep_url", "url")),
    "offline": True,
    "starting_step": 0,
}
"""What a run on a server has, as one that is on none would say it."""


class AlertLevel:
    """wandb's levels, as text."""

    INFO = "info"
    WARN = "warning"
    ERROR = "error"


class util:  # noqa: N801 - wandb's name
    """What scripts use of ``wandb.util``."""

    @staticmethod
    def generate_id(length: int = 8) -> str:
        """Return a random id for a run."""
        return os.urandom(length).hex()[:length]


def termlog(string: str = "", newline: bool = True, repeat: bool = True) -> None:
    """Write a line to standard error, as wandb does."""
    sys.stderr.write(f"gputop: {string}" + ("\n" if newline else ""))


termwarn = termerror = termlog


def __getattr__(name: str) -> NotKept:
    if name.startswith("__"):
        raise AttributeError(name)
    return NotKept(name)
