"""One snapshot as plain text, for pipes, terminals without a screen, and screen readers. No boxes, one fact per place."""

from __future__ import annotations

from gputop import units
from gputop.facts.setup import counts_lines
from gputop.snapshot import LIVE_STATES, Device, Host, Process, Run, Snapshot, loss_metric
from gputop.terminal_text import printable, table

COMMAND_WIDTH = 60
"""How many characters of a command the table of processes shows."""
RUN_COLUMNS = ("RUN", "STATE", "RANKS", "STEP", "LOSS")


def once_text(snapshot: Snapshot) -> str:
    """Return the snapshot as lines of text, without a final newline."""
    parts = machine_lines(snapshot)
    sources = {curve.run_id: curve.source for run in snapshot.process_runs for curve in run.curves}
    rows = [run_row(run, sources.get(run.run_id)) for run in snapshot.runs if run.state in LIVE_STATES]
    if rows:
        parts += ["", *table(RUN_COLUMNS, rows)]
    if snapshot.process_runs:
        parts += ["", *process_run_lines(snapshot)]
    return "\n".join(map(printable, parts))


def machine_lines(snapshot: Snapshot) -> list[str]:
    """Return a machine, its GPUs and the processes on them; the first line names it."""
    parts = [host_line(snapshot.host)]
    if snapshot.host.problem:
        problem = snapshot.host.problem
        parts.append(f"{problem.message} {problem.hint}".strip())
    parts += [f"{note.message} {note.hint}".strip() for note in snapshot.notes]
    if snapshot.devices:
        parts += ["", *table(("GPU", "UTIL", "MEMORY", "POWER", "TEMP", "NAME"), [_device_row(d) for d in snapshot.devices])]
    if snapshot.processes:
        rows = [row for process in snapshot.processes for row in _process_rows(process, snapshot)]
        parts += ["", *table(("GPU", "PID", "USER", "GPU-MEM", "SM", "RANK", "COMMAND"), rows)]
    return parts


def host_line(host: Host) -> str:
    """Return the machine as one line."""
    kinds = {"virtual": "virtual GPUs (CPU work, measured)", "none": "no GPU", "prometheus": "read from Prometheus"}
    kind = kinds.get(host.source, "")
    if host.source == "nvml":
        kind = f"driver {host.driver_version or units.UNKNOWN}, CUDA {host.cuda_version or units.UNKNOWN}"
    simulated = ", SIMULATED driver" if host.simulated else ""
    memory = units.gib_of(host.memory_used_bytes, host.memory_total_bytes)
    load = f"load {units.number(host.load_1m, digits=1)} on {units.number(host.cpu_count)} cores"
    return f"{host.hostname}: {kind}{simulated}; {load}, RAM {memory}"


def _device_row(device: Device) -> tuple[str, ...]:
    label = f"{device.index}" if device.kind != "mig" else f"{device.index} {device.mig_label or 'MIG'}"
    if device.state == "lost" or (device.state == "error" and device.problem):
        said = device.problem.message if device.problem else "lost"
        return (label, units.UNKNOWN, units.UNKNOWN, units.UNKNOWN, units.UNKNOWN, said)
    memory = f"{units.gib(device.memory_used_bytes)}/{units.gib(device.memory_total_bytes)} GiB"
    if device.memory_version == "host":
        memory += " (host)"
    stale = f" (stale: {units.duration(device.age_s)})" if device.state == "stale" else ""
    return (
        label,
        units.percent(device.utilization_percent),
        memory,
        units.number(device.power_w, " W"),
        units.number(device.temperature_c, " C"),
        f"{device.name or units.UNKNOWN}{stale}",
    )


def _process_rows(process: Process, snapshot: Snapshot) -> list[tuple[str, ...]]:
    index = {device.uuid: device.index for device in snapshot.devices}
    command = " ".join(process.command) if process.command else (process.name or "?")
    if not process.in_namespace:
        command = "(in another PID namespace)"
    shared = (
        "-" if process.rank is None else str(process.rank),
        command[:COMMAND_WIDTH],
    )
    user = process.user or "?"
    if not process.devices:
        return [("-", str(process.pid), user, "-", "-", *shared)]
    return [
        (
            str(index.get(use.device_uuid, "?")),
            str(process.pid),
            user,
            units.bytes_text(use.memory_used_bytes),
            units.percent(use.sm_utilization_percent),
            *shared,
        )
        for use in process.devices
    ]


def process_run_lines(snapshot: Snapshot) -> list[str]:
    """Return a table of the runs without a training step yet, and one of the untracked runs."""
    index = {device.uuid: device.index for device in snapshot.devices}
    found: list[str] = []
    for heading, starting in (("STARTING", True), ("NOT TRACKED", False)):
        rows: list[tuple[str, ...]] = []
        for run in snapshot.process_runs:
            if run.starting is not starting:
                continue
            ranks = str(len(run.ranks)) + (f"/{run.world_size}" if run.world_size is not None else "")
            gpus = units.ranges({index[uuid] for uuid in run.devices if uuid in index}, compact=True)
            age = snapshot.time - run.started_at if run.started_at is not None else None
            launcher = run.launcher.name if run.launcher is not None else "-"
            unknown = units.UNKNOWN if any(rank.devices is None for rank in run.ranks) else "-"
            rows.append((run.name, launcher, ranks, gpus or unknown, run.user or "?", units.duration(age)))
        if rows:
            found += ["", *table((heading, "LAUNCHER", "RANKS", "GPU", "USER", "UP"), rows)]
    return found[1:]


def run_row(run: Run, source: str | None) -> tuple[str, ...]:
    """Return the cells of a run; ``source`` names the file of its curve, if gputop does not track it."""
    name = loss_metric(name for rank in run.ranks for name in rank.metrics)
    losses = [rank.metrics[name] for rank in run.ranks if name in rank.metrics] if name is not None else []
    loss = units.metric(units.mean(losses)) if losses else units.UNKNOWN
    counted = "line " if any(counts_lines(rank.facts) for rank in run.ranks) else ""
    step = units.UNKNOWN if run.step is None else f"{counted}{units.count(run.step)}"
    return (run.name if source is None else f"{run.name}, from {source}", run.state, str(len(run.ranks)), step, loss)
