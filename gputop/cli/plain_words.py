"""The command line of a plain dashboard, read without argparse, which takes half a mebibyte of the screen with the parser.

Whatever is not as plain, the parser judges.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_FLAGS: dict[str, tuple[str, Any]] = {
    "--ascii": ("ascii", True),
    "--no-color": ("no_color", True),
    "--no-mouse": ("no_mouse", True),
    "--readonly": ("readonly", True),
    "--no-nccl-ras": ("ask_nccl", "never"),
}
_OFF = ("version", "once", "json", "stream", *(name for name, value in _FLAGS.values() if value is True))
_UNSET = (
    *("count", "interval", "gpus", "virtual", "ask_nccl", "theme", "config", "command"),
    *("host", "hosts", "slurm", "pods", "via", "remote", "prometheus", "prometheus_auth"),
)


def dashboard_options(words: Sequence[str]) -> Any:
    """Return what the parser returns for these words; None if they may ask for more than the dashboard of this machine."""
    options = SimpleNamespace(**dict.fromkeys(_OFF, False), **dict.fromkeys(_UNSET))
    left = iter(words)
    for word in left:
        if word in _FLAGS:
            setattr(options, *_FLAGS[word])
            continue
        value = next(left, "-")
        if word not in ("-i", "--interval") or value.startswith("-"):
            return None
        options.interval = value
    return options
