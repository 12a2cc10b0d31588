"""The file that a self-test leaves: readable JSON that names no host, user, path, command, address or serial number.

``tests/nvml_sim`` plays it as a simulated machine: this is how a machine that its developers do not have reaches gputop.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import gputop
from gputop.selftest.driver import Call, Probe
from gputop.selftest.trial import Trial
from gputop.snapshot import Device, Host, encode

VERSION = 1
_NAMES = ("uuid", "parent_uuid", "pci_bus_id", "problem", "xid_errors")
"""Fields of ``Device`` that name this machine, or when something happened on it."""


def bundle(host: Host, probes: Sequence[Probe], trials: Sequence[Trial]) -> dict[str, Any]:
    """Return what was found as JSON data."""
    return {
        "gputop_selftest": VERSION,
        "gputop": gputop.__version__,
        "python": platform.python_version(),
        "kernel": _numbers(platform.release()),
        "torch": _version("torch"),
        "source": host.source,
        "simulated": host.simulated,
        "driver_version": host.driver_version,
        "cuda_version": host.cuda_version,
        "cpu_count": os.cpu_count(),
        "gpus": [_gpu(probe) for probe in probes],
        "trials": [_trial(trial) for trial in trials],
    }


def _numbers(release: str) -> str | None:
    """Return the version of a kernel without what a distribution or a site adds to it, which may name the site."""
    found = re.match(r"\d+(?:\.\d+)*", release)
    return None if found is None else found[0]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _gpu(probe: Probe) -> dict[str, Any]:
    return {
        "index": probe.index,
        "code": probe.code,
        "finished": probe.finished,
        "asking": None if probe.finished else probe.asking,
        "readings": None if probe.device is None else _readings(probe.device),
        "tiers_ms": {name: round(value, 3) for name, value in probe.tiers_ms.items()},
        "calls": {name: _call(call) for name, call in sorted(probe.calls.items())},
        "fields": {str(number): _call(call) for number, call in sorted(probe.fields.items())},
    }


def _readings(device: Device) -> dict[str, Any]:
    data: dict[str, Any] = encode(device)
    return {name: value for name, value in data.items() if name not in _NAMES}


def _call(call: Call) -> dict[str, Any]:
    times = call.took_us
    median_us, most_us = (call.median_us, max(times)) if times else (None, None)
    return {"code": call.code, "calls": len(times), "median_us": _rounded(median_us), "most_us": _rounded(most_us)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "recipe": trial.recipe,
        "gpus": trial.gpus,
        "checks": [dataclasses.asdict(check) for check in trial.checks],
        "findings": trial.findings,
        "looks": [dataclasses.asdict(sample) for sample in trial.samples],
    }
