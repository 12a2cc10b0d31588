"""``gputop selftest``: checks gputop itself on this machine, and writes a report without names."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gputop import units
from gputop.errors import EXIT_OK, EXIT_PROBLEM, GputopError, NoGpuError
from gputop.terminal_text import printable

if TYPE_CHECKING:
    from gputop.agent.sampler import Sampler
    from gputop.selftest.driver import Probe
    from gputop.selftest.trial import Trial
    from gputop.snapshot import Device

SLOW_MS = 20.0
"""Slower readings are reported: this is a fiftieth of the usual interval."""
_NAME_WIDTH = 12
"""The width of the column with the names of checks."""


def selftest(
    options: argparse.Namespace,
    make_sampler: Callable[[argparse.Namespace], Sampler],
    exit_with: Callable[[Sampler, int], int],
) -> int:
    """Run the command. ``exit_with`` closes the sampler's source and returns the exit code.

    Raises:
        NoGpuError: there is no GPU to test on.
        GputopError: the file exists, or cannot be written.
    """
    from gputop.agent.sampler import take_once
    from gputop.cli.output.once import host_line
    from gputop.selftest.bundle import bundle

    seconds = units.parse_duration(options.seconds)
    path = options.output or Path(f"gputop-selftest-{time.strftime('%Y%m%d-%H%M%S')}.json")
    if os.path.lexists(path):
        raise GputopError(f"{path} already exists.", "Choose another name, or remove it first.")
    sampler = make_sampler(options)
    snapshot = take_once(sampler)
    if snapshot.host.source == "none":
        problem = snapshot.host.problem
        raise NoGpuError(problem.message if problem else "There is no GPU.", "Add --virtual to test on virtual GPUs.")
    print(printable(host_line(snapshot.host)), end="\n\n", flush=True)
    probes = _probes(snapshot.devices) if sampler.source.name == "nvml" else []
    trials = [] if options.no_training else _trials(options, sampler, snapshot.devices, seconds)
    data = bundle(snapshot.host, probes, trials)
    try:
        with path.open("x", encoding="utf-8") as file:  # in a shared folder, another user may have put a link there
            file.write(json.dumps(data, indent=1) + "\n")
    except OSError as error:
        raise GputopError(f"{path} cannot be written: {error.strerror}.", "Choose another place with -o.") from error
    print(printable(f"Wrote {path}: readings and costs, without names. Attach it to a bug report."))
    failed = any(check.ok is False for trial in trials for check in trial.checks) or not all(probe.finished for probe in probes)
    return exit_with(sampler, EXIT_PROBLEM if failed else EXIT_OK)


def _probes(devices: Sequence[Device]) -> list[Probe]:
    from gputop.selftest.driver import probe

    found = []
    for device in devices:
        if device.kind == "gpu":
            found.append(probe(device.index))
            _print(f"GPU {device.index}  {device.name or units.UNKNOWN}", _probe_lines(found[-1]))
    return found


def _probe_lines(probe: Probe) -> list[tuple[bool | None, str, str]]:
    if not probe.finished:
        return [(False, "driver", f"does not return from {probe.asking}")]
    if probe.device is None:
        return [(False, "driver", f"refuses this GPU with code {probe.code}")]
    refused = sorted(name.removeprefix("nvml") for name, call in probe.calls.items() if call.code)
    fields = sorted(number for number, call in probe.fields.items() if call.code)
    answered = f"{len(probe.calls) - len(refused)} of {len(probe.calls)} functions, "
    answered += f"{len(probe.fields) - len(fields)} of {len(probe.fields)} fields"
    each = probe.tiers_ms["interval"]
    slowest = max((call for call in probe.calls.items() if call[1].took_us), key=lambda item: item[1].median_us)
    costs = f"{each:.2f} ms at each interval, {sum(probe.tiers_ms.values()):.1f} ms for all; slowest {slowest[0]} "
    lines: list[tuple[bool | None, str, str]] = [
        (True, "readings", answered),
        (each <= SLOW_MS, "cost", f"{costs}{slowest[1].median_us / 1e3:.2f} ms"),
    ]
    if refused or fields:
        named = [*refused, *(f"field {number}" for number in fields)]
        lines.append((None, "not given", ", ".join(named)))
    return lines


def _trials(options: argparse.Namespace, sampler: Sampler, devices: Sequence[Device], seconds: float) -> list[Trial]:
    from importlib.util import find_spec

    from gputop.selftest.trial import train

    usable = [device for device in devices if device.state == "ok" and not device.mig_enabled and device.kind != "mig"]
    if find_spec("torch") is None:
        _print("Training", [(None, "not checked", f"torch is not installed for {sys.executable}")])
        return []
    plans: list[tuple[str, Sequence[Device]]] = [("single", [device]) for device in usable]
    if len(usable) > 1:
        plans.append(("ddp", usable[:2]))
    trials = []
    for recipe, chosen in plans:
        trials.append(train(sampler.source, recipe, chosen, seconds, options.virtual))
        lines = [(check.ok, check.name, check.text) for check in trials[-1].checks]
        if trials[-1].last_line:
            lines.append((None, "it printed", trials[-1].last_line))
        where = "GPU " if len(chosen) == 1 else "GPUs "
        _print(f"Training {recipe} on {where}{units.ranges(device.index for device in chosen)}", lines)
    return trials


def _print(title: str, lines: Sequence[tuple[bool | None, str, str]]) -> None:
    print(printable(title))
    for ok, name, text in lines:
        mark = {True: "ok", False: "FAILED", None: "--"}[ok]
        print(printable(f"  {mark:<6}  {name:<{_NAME_WIDTH}} {text}"))
    print(flush=True)
