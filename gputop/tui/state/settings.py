"""The user's settings. Separate from the view because they are read before the sampler starts: imports nothing from gputop."""

from __future__ import annotations

from dataclasses import dataclass

THEMES = ("auto", "dark", "light", "colorblind", "ansi", "mono")
""""auto" follows the terminal; "ansi" takes its own 16 colors; "mono" takes none."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user can change on screen; kept in the configuration file."""

    interval_s: float = 1.0
    theme: str = "auto"
    ascii: bool = False
    color: bool = True
    mouse: bool = True
    readonly: bool = False
    density: str = "auto"
    """"auto", "full" or "compact" rows for GPUs."""
    log_axis: bool = False
    smoothing: float = 0.0
    """Weight of the past in the smoothed curve, 0 to 0.99."""
    per_rank: bool = False
    """True draws one curve per rank, False the mean and the spread."""
    nccl_ras: bool = True
    """Whether NCCL's RAS service may be asked about runs that seem to hang."""
    gpus: tuple[str, ...] = ()
    """Only these devices (indices or UUIDs); empty means all."""
