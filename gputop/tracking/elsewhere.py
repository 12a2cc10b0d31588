"""Names of wandb's for what gputop does not keep: a script under ``import gputop as wandb`` runs on, and is told once.

Pictures, tables, artifacts and the like become an object that accepts every call and is logged as nothing. Names that a
script needs an answer from (``Api``, ``sweep``, ``agent``, ``restore``) do not exist: they fail as any missing name does.
``gputop/__init__.py`` lists the module's names.
"""

from __future__ import annotations

from typing import Any

from gputop.tracking.notice import tell

RUN_METHODS = frozenset(
    ["log_artifact", "log_code", "log_model", "mark_preempting", "save", "unwatch", "use_artifact", "use_model"]
)
_QUIET = frozenset(["Settings", "login", "setup", "unwatch", "mark_preempting"])
"""What changes nothing when it is left out."""


class NotKept:
    """Accepts every call and attribute, and is nothing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *ignored: Any, **also: Any) -> NotKept:
        """Say once that this is not kept."""
        if self._name not in _QUIET:
            tell(f"{self._name} is not kept: gputop records numbers and text. The training goes on.")
        return self

    def __getattr__(self, name: str) -> NotKept:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __repr__(self) -> str:
        return f"<{self._name}, which gputop does not keep>"


class AlertLevel:
    """wandb's levels, as text."""

    INFO = "info"
    WARN = "warning"
    ERROR = "error"


def __getattr__(name: str) -> NotKept:
    if name.startswith("__"):
        raise AttributeError(name)
    return NotKept(name)
