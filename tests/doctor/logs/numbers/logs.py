"""Findings on the lines of a log, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gputop.cli.doctor.logs import explain_logs
from gputop.doctor.findings.finding import Finding


def found(tmp_path: Path, lines: Iterable[str], id_: str) -> Finding | None:
    """Return the finding with this id on a log of these lines; None without one."""
    log = tmp_path / "train.log"
    log.write_text("\n".join(lines) + "\n")
    return next((item for item in explain_logs([str(log)])[0] if item.id == id_), None)


def clock(seconds: float) -> str:
    """Return a time of day."""
    whole = int(seconds)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
