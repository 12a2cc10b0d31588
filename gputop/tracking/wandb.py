"""wandb's names for what gputop does not record: a script with ``import gputop as wandb`` runs on, with one notice.

Images, tables, artifacts and the like become an object that accepts every call and logs nothing. ``restore`` finds no file.
Names whose result a script needs (``Api``, ``sweep``, ``agent``) do not exist: they fail like any missing name.
``gputop/__init__.py`` lists the module's names. Names of packages (``sdk``, ``keras``) are objects whose attributes are such
placeholders.
"""

from __future__ import annotations

import os
from typing import Any

from gputop.tracking.journal.harmless import harmless
from gputop.tracking.journal.notice import warn, write
from gputop.tracking.journal.writing.not_kept import NotKept

_RUN_METHODS = (
    "detach,display,finish_artifact,link_artifact,link_model,log_artifact,log_code,log_model,mark_preempting,pin_config_keys,"
    "save,settings,status,to_html,unwatch,upsert_artifact,use_artifact,use_model"
)
RUN_METHODS = frozenset(_RUN_METHODS.split(","))
RUN_ATTRIBUTES: dict[str, Any] = {
    **dict.fromkeys(("entity", "project_url", "sweep_id", "sweep_url", "url")),
    **dict.fromkeys(("get_project_url", "get_sweep_url", "get_url"), lambda: None),
    "offline": True,
    "starting_step": 0,
}
"""Attributes of a run on a server, with the values that a run without a server reports."""


class AlertLevel:
    """wandb's alert levels, as strings."""

    INFO = "info"
    WARN = "warning"
    ERROR = "error"


@harmless
class util:  # noqa: N801 - wandb's name
    """The part of ``wandb.util`` that scripts use."""

    @staticmethod
    def generate_id(length: int = 8) -> str:
        """Return a random id for a run."""
        wanted = length if type(length) is int and 0 < length <= 64 else 8
        return os.urandom(wanted).hex()[:wanted]


@harmless
def termlog(string: str = "", newline: bool = True, repeat: bool = True) -> None:
    """Write a line to standard error, as wandb does."""
    write(f"gputop: {string}" + ("\n" if newline else ""))


termwarn = termerror = termlog


@harmless
def restore(name: str = "", *ignored: Any, **also: Any) -> None:
    """Return None, as wandb does for a file that the run does not have."""
    warn("restore finds no file: gputop keeps none. The training continues.")


def __getattr__(name: str) -> NotKept:
    if name.startswith("__"):
        raise AttributeError(name)
    return NotKept(name)
