"""Checks a value of the settings file. What only some settings need is imported where they are checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gputop.settings.table import DENSITIES, MAX_SMOOTHING
from gputop.settings.values import THEMES
from gputop.units import INTERVAL_MAX_S, INTERVAL_MIN_S


def accepted(name: str, value: Any, folder: Path) -> Any:
    """Return the value as ``Settings`` holds it. ``folder`` is that of the settings file, where relative paths begin.

    Raises:
        ValueError: it does not fit.
        GputopError: it does not fit, and the message says why.
    """
    return _CHECKS[name](value, folder)


def _if(fits: object, value: Any) -> Any:
    if not fits:
        raise ValueError
    return value


def _flag(value: Any, folder: Path) -> bool:
    return bool(_if(isinstance(value, bool), value))


def _number(low: float, high: float) -> Callable[[Any, Path], float]:
    return lambda value, folder: float(
        _if(isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high, value)
    )


def _choice(choices: tuple[str, ...]) -> Callable[[Any, Path], str]:
    return lambda value, folder: str(_if(isinstance(value, str) and value in choices, value))


def _text(value: Any, folder: Path) -> str:
    return str(_if(isinstance(value, str) and value.strip() and value.isprintable(), value))


def _path(value: Any, folder: Path) -> Path:
    text = _text(value, folder)
    try:
        return folder / Path(text).expanduser()
    except RuntimeError:  # the home directory of a user who does not exist
        return folder / text


def _gpus(value: Any, folder: Path) -> tuple[str, ...]:
    fits = isinstance(value, list) and all(isinstance(item, str | int) and not isinstance(item, bool) for item in value)
    return tuple(str(item) for item in _if(fits, value))


def _virtual(value: Any, folder: Path) -> int | None:
    if isinstance(value, bool):
        return 0 if value else None
    return int(_if(isinstance(value, int) and value >= 1, value))


def _host(value: Any, folder: Path) -> str:
    from gputop.hosts.names import parse_hosts

    listed = ",".join(_text(item, folder) for item in value) if isinstance(value, list) else _text(value, folder)
    parse_hosts(listed)
    return listed


def _hosts(value: Any, folder: Path) -> Path:
    from gputop.hosts.names import read_hosts

    path = _path(value, folder)
    read_hosts(path)
    return path


def _slurm(value: Any, folder: Path) -> str:
    from gputop.hosts.shortcuts import slurm_via

    job = str(value) if isinstance(value, int) and not isinstance(value, bool) else _text(value, folder)
    slurm_via(job)
    return job


def _via(value: Any, folder: Path) -> str:
    from gputop.hosts.transport import transport_of

    transport_of(_text(value, folder))
    return str(value)


def _prometheus(value: Any, folder: Path) -> str:
    from gputop.hosts.prometheus.client import server_of

    server_of(_text(value, folder))
    return str(value)


def _prometheus_auth(value: Any, folder: Path) -> Path:
    from gputop.hosts.prometheus.client import server_of

    path = _path(value, folder)
    server_of("http://localhost", path)
    return path


_CHECKS: dict[str, Callable[[Any, Path], Any]] = {
    "interval_s": _number(INTERVAL_MIN_S, INTERVAL_MAX_S),
    "gpus": _gpus,
    "virtual": _virtual,
    "nccl_ras": _flag,
    "host": _host,
    "hosts": _hosts,
    "slurm": _slurm,
    "pods": _text,
    "via": _via,
    "remote": _text,
    "prometheus": _prometheus,
    "prometheus_auth": _prometheus_auth,
    "theme": _choice(THEMES),
    "ascii": _flag,
    "color": _flag,
    "mouse": _flag,
    "readonly": _flag,
    "density": _choice(DENSITIES),
    "log_axis": _flag,
    "smoothing": _number(0.0, MAX_SMOOTHING),
    "per_rank": _flag,
}
