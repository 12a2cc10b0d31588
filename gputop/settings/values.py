"""The user's settings. Separate from the view because they are read before the sampler starts: imports nothing from gputop."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

THEMES = ("auto", "dark", "light", "colorblind", "ansi", "mono")
""""auto" follows the terminal; "ansi" takes its own 16 colors; "mono" takes none."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the configuration file can hold; ``table`` describes each field."""

    interval_s: float = 1.0
    gpus: tuple[str, ...] = ()
    """Only these devices (indices or UUIDs); empty means all."""
    virtual: int | None = None
    """This many virtual GPUs instead of real ones; 0: a number that suits this machine."""
    nccl_ras: bool = True
    """Whether NCCL's RAS service may be asked about runs that seem to hang."""
    host: str | None = None
    hosts: Path | None = None
    slurm: str | None = None
    pods: str | None = None
    via: str | None = None
    remote: str | None = None
    prometheus: str | None = None
    prometheus_auth: Path | None = None
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
