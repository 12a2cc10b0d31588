"""A short training of a bundled recipe, watched as the dashboard watches it, and the checks that it must pass.

The user asked for the training, which ends with this process, however that ends. Its runs stay in a temporary directory.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gputop import units
from gputop.agent.sampler import Sampler
from gputop.doctor.diagnosis import Doctor
from gputop.facts.table import Facts
from gputop.snapshot import Device, Rank, Run, Snapshot, loss_metric
from gputop.sources.base import Source

INTERVAL_S = 0.5
START_S = 180.0
"""How long a training may take to its first step: torch is imported, CUDA starts, kernels are chosen."""
END_S = 30.0
COUNTED_ON_A_GPU = ("cuda_memory", "synchronizations", "transfers")
"""Facts that a training has on an NVIDIA GPU once it has run for some seconds."""
_TIED = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)  # PR_SET_PDEATHSIG; it survives exec
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""
"""Starts another Python that gets TERM when its parent dies, even by KILL. ``gputop demo`` then ends its training."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must be true. ``ok`` is None for what is reported but not judged. ``text`` never names this machine."""

    name: str
    ok: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class Sample:
    """Readings of the GPUs that train, at one moment; ``at_s`` counts from the start of the training."""

    at_s: float
    utilization_percent: tuple[float | None, ...]
    memory_used_bytes: tuple[int | None, ...]
    power_w: tuple[float | None, ...]


@dataclass(slots=True)
class Trial:
    """One training and what was observed."""

    recipe: str
    gpus: tuple[int, ...]
    checks: list[Check] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    findings: tuple[str, ...] = ()
    """Ids of the doctor's rules."""
    last_line: str = ""
    """The last line printed by a training that recorded nothing; may name this machine."""


@dataclass(slots=True)
class _Seen:
    """What the snapshots of a trial showed."""

    run: Run | None = None
    first_step_s: float | None = None
    losses: list[float] = field(default_factory=list)
    memory_by_pid: dict[int, tuple[set[str], int]] = field(default_factory=dict)
    """PID -> the devices that it was on, and the most memory that it held."""


def train(source: Source, recipe: str, devices: Sequence[Device], seconds: float, virtual: int | None) -> Trial:
    """Train on ``devices`` for ``seconds`` after the first step, then stop the training, and judge what was seen."""
    trial = Trial(recipe, tuple(device.index for device in devices))
    with _ended_by_signals(), tempfile.TemporaryDirectory(prefix="gputop-selftest-", ignore_cleanup_errors=True) as place:
        kept = os.environ.get("GPUTOP_DIR")
        os.environ["GPUTOP_DIR"] = place
        try:
            _watch(trial, source, devices, seconds, virtual, Path(place))
        finally:
            if kept is None:
                del os.environ["GPUTOP_DIR"]
            else:
                os.environ["GPUTOP_DIR"] = kept
    return trial


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let a signal that would end this process at once end it as Ctrl-C does: the training first, then its directory."""

    def end(number: int, frame: object) -> None:
        sys.exit(128 + number)

    ours = [number for number in (signal.SIGHUP, signal.SIGTERM) if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _watch(trial: Trial, source: Source, devices: Sequence[Device], seconds: float, virtual: int | None, place: Path) -> None:
    sampler, doctor, seen = Sampler(source, INTERVAL_S), Doctor(), _Seen()
    idle = _utilizations(sampler.take(), devices)
    command = [
        sys.executable,
        "-c",
        _TIED,
        str(os.getpid()),
        "-m",
        "gputop",
        *(() if virtual is None else ("--virtual", str(virtual))),
        "demo",
        trial.recipe,
    ]
    command += ["--devices", ",".join(str(device.index) for device in devices)]
    with (place / "output").open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        for at_s, snapshot in _snapshots(sampler, process, seconds, seen):
            trial.findings = tuple(finding.id for finding in doctor.observe(snapshot))
            _note(seen, snapshot, at_s)
            trial.samples.append(_sample(at_s, [_same(snapshot, device) for device in devices]))
        code = _stop(process)
    finally:
        _kill(process)
    trial.checks += _judge(trial, seen, devices, idle)
    _note(seen, sampler.take(), math.nan)
    if seen.run is None:
        trial.last_line = _last_line(place / "output")
    else:
        text = f"Ctrl-C: exit code {units.number(code)}, the run is {seen.run.state}"
        trial.checks.append(Check("end", seen.run.state in ("stopped", "finished"), text))


def _snapshots(
    sampler: Sampler, process: subprocess.Popen[bytes], seconds: float, seen: _Seen
) -> Iterator[tuple[float, Snapshot]]:
    """Yield (seconds since the start, snapshot) until the training has run long enough, has ended, or fails to begin in
    time."""
    began = time.monotonic()
    while process.poll() is None:
        at_s = time.monotonic() - began
        if at_s > START_S + seconds or (seen.first_step_s is not None and at_s > seen.first_step_s + seconds):
            return
        if at_s > START_S and seen.first_step_s is None:
            return
        yield at_s, sampler.take()
        time.sleep(INTERVAL_S)


def _note(seen: _Seen, snapshot: Snapshot, at_s: float) -> None:
    # What else trains on this machine is not in the trial's own directory: only its curve may be known.
    run = next((run for run in snapshot.runs if run.run_id not in snapshot.untracked_ids), None)
    if run is None:
        return
    seen.run = run
    if run.step is not None and seen.first_step_s is None:
        seen.first_step_s = at_s
    name = loss_metric({metric for rank in run.ranks for metric in rank.metrics})
    seen.losses += [
        value for points in snapshot.points if (points.run_id, points.metric) == (run.run_id, name) for value in points.values
    ]
    for process in snapshot.processes:
        devices, most = seen.memory_by_pid.setdefault(process.pid, (set(), 0))
        devices |= {use.device_uuid for use in process.devices}
        held = sum(use.memory_used_bytes or 0 for use in process.devices)
        seen.memory_by_pid[process.pid] = devices, max(most, held)


def _judge(trial: Trial, seen: _Seen, devices: Sequence[Device], idle: Sequence[float | None]) -> list[Check]:
    run = seen.run
    if run is None or seen.first_step_s is None:
        return [Check("run", False, "no run with a step was seen")]
    started = (
        f"{len(run.ranks)} of {len(devices)} ranks, first step after {seen.first_step_s:.1f} s, {units.count(run.step)} steps"
    )
    checks = [Check("run", len(run.ranks) == len(devices), started)]
    finite = [value for value in seen.losses if math.isfinite(value)]
    text = f"{units.metric(finite[0])} to {units.metric(finite[-1])} in {len(seen.losses)} values" if finite else "no value"
    checks.append(Check("loss", len(finite) > 1 and len(finite) == len(seen.losses), text))
    checks += [_process_check(rank, device, seen) for rank, device in zip(run.ranks, devices, strict=False)]
    for place, device in enumerate(devices):
        values = [look.utilization_percent[place] for look in trial.samples]
        most = max((value for value in values if value is not None), default=None)
        before = idle[place]
        works = most is not None and most > (before or 0.0)
        text = f"GPU {device.index}: {units.percent(before)} before, at most {units.percent(most)}"
        checks.append(Check("utilization", works, text))
    on_gpus = all(device.kind == "gpu" for device in devices)
    problems = _missing(run.ranks, COUNTED_ON_A_GPU if on_gpus else ())
    if on_gpus or problems:
        checks.append(Check("facts", not problems, "; ".join(problems) or "memory, waits and copies of each rank"))
    checks.append(Check("doctor", None, f"says {', '.join(trial.findings)}" if trial.findings else "finds nothing wrong"))
    return checks


def _missing(ranks: Sequence[Rank], expected: Sequence[str]) -> list[str]:
    """Return what tracking did not collect. Errors are reported only by kind, because their text may name this machine."""
    missing = {name for rank in ranks for name in expected if name not in rank.facts}
    failed = {
        f"{name} failed ({why.partition(':')[0]})"
        for rank in ranks
        for name, _, why in (what.partition(": ") for what in Facts(rank.facts).uncollected or ())
    }
    return ([f"missing: {', '.join(sorted(missing))}"] if missing else []) + sorted(failed)


def _process_check(rank: Rank, device: Device, seen: _Seen) -> Check:
    """Return whether the rank's process was seen where it trains, with at least the memory that torch holds there."""
    uuids, held = seen.memory_by_pid.get(rank.pid or 0, (set(), 0))
    if not uuids:
        return Check("process", False, f"rank {rank.rank}: the driver shows its process on no GPU")
    memory = Facts(rank.facts).cuda_memory
    reserved = None if memory is None else memory.reserved_bytes
    enough = reserved is None or held >= reserved
    text = f"rank {rank.rank}: on GPU {device.index} with {units.bytes_text(held)}"
    if reserved is not None:
        text += f", of which torch holds {units.bytes_text(reserved)}"
    return Check("process", uuids == {device.uuid} and enough, text)


def _sample(at_s: float, devices: Sequence[Device]) -> Sample:
    return Sample(
        at_s,
        tuple(device.utilization_percent for device in devices),
        tuple(device.memory_used_bytes for device in devices),
        tuple(device.power_w for device in devices),
    )


def _utilizations(snapshot: Snapshot, devices: Sequence[Device]) -> list[float | None]:
    return [_same(snapshot, device).utilization_percent for device in devices]


def _same(snapshot: Snapshot, device: Device) -> Device:
    return next((item for item in snapshot.devices if item.uuid == device.uuid), Device(device.index, device.uuid))


def _stop(process: subprocess.Popen[bytes]) -> int | None:
    """End the training as Ctrl-C would; return its exit code, None if it did not end."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        return process.wait(END_S)
    except subprocess.TimeoutExpired:
        return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last_line(path: Path) -> str:
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"
