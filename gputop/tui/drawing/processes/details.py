"""Everything known about one process, in groups, and its environment as a list. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gputop import units
from gputop.snapshot import Device, DeviceUse, Process, ProcessDetails, Snapshot
from gputop.tui.drawing.line import Line, Span, clean
from gputop.tui.drawing.prose import BLANK, heading, pairs, side_by_side, wrapped
from gputop.whereabouts.records import Doing, Holdings

_CONTEXTS = {"C": "compute", "G": "graphics", "M": "MPS"}
_STATES = {"R": "running", "S": "sleeping", "D": "waiting for I/O (cannot be killed)", "T": "stopped", "Z": "zombie"}
_LABEL_COLUMNS = 22
_TWO_COLUMNS_FROM = 116
FIRST_IN_ENVIRONMENT = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "CUDA_", "NVIDIA_", "NCCL_",
    "GLOO_", "TORCH", "PYTORCH_", "OMP_", "GPUTOP_", "SLURM_",
)  # fmt: skip
"""Names and prefixes of variables that decide which GPU a rank uses: shown first."""


def process_lines(process: Process, snapshot: Snapshot, width: int, details: ProcessDetails | None = None) -> tuple[Line, ...]:
    """Return everything known about the process, in groups, wrapped to ``width``; if that is wide, in two columns."""
    what_it_does = (
        ("Process", _identity(process, snapshot)),
        ("GPUs", _uses(process, snapshot)),
        ("Training", _training(process, snapshot)),
    )
    where_it_runs = (
        ("Environment at launch", _launch_environment(process)),
        ("Parents", _parents(process)),
        ("PyTorch", _torch(process)),
        ("Operating system", _details(details) if details else []),
    )
    if width < _TWO_COLUMNS_FROM:
        lines = _grouped((*what_it_does, *where_it_runs), width)
    else:
        half = (width - 3) // 2
        lines = list(side_by_side(_grouped(what_it_does, half), _grouped(where_it_runs, half), half))
    if process.hidden:
        why = (
            "the process belongs to another user" if process.is_anothers else "the kernel does not allow debuggers here (Yama)"
        )
        text = f"Hidden, because {why}: {', '.join(process.hidden)}."
        lines += wrapped(text, width, "warn")
    if not process.in_namespace:
        lines += wrapped(
            "The driver reports this PID, but this PID namespace does not have it: the process runs in another container.",
            width,
            "warn",
        )
    return tuple(lines)


def _grouped(groups: Iterable[tuple[str, list[tuple[str, str]]]], width: int) -> list[Line]:
    """Return the groups that have rows, each below its title."""
    return [
        line
        for title, rows in groups
        if rows
        for line in (heading(title), *pairs(rows, width, label_columns=_LABEL_COLUMNS), BLANK)
    ]


def environment_lines(environment: Mapping[str, str], width: int) -> tuple[Line, ...]:
    """Return the environment, one variable per line (wrapped): those that affect GPUs and ranks first."""
    first = sorted(name for name in environment if name.startswith(FIRST_IN_ENVIRONMENT))
    rest = sorted(set(environment) - set(first))
    lines: list[Line] = []
    for title, names in (("GPUs, ranks and launcher", first), ("Everything else", rest)):
        if not names:
            continue
        lines.append(heading(title))
        for name in names:
            value = wrapped(f"{clean(name)}={environment[name]}", max(8, width - 2))
            lines += [(Span("  "), *line) for line in value]
        lines.append(BLANK)
    return tuple(lines)


def _identity(process: Process, snapshot: Snapshot) -> list[tuple[str, str]]:
    started = process.started_at
    since = units.duration(max(0.0, snapshot.time - started)) if started is not None else units.UNKNOWN
    clock = units.clock(started, "%Y-%m-%d %H:%M:%S")
    return [
        ("PID", f"{process.pid}  (parent {process.ppid if process.ppid is not None else units.UNKNOWN})"),
        ("user", _known(process.user, process.uid)),
        ("name", process.name or units.UNKNOWN),
        ("command", " ".join(process.command) if process.command else units.UNKNOWN),
        ("state", _STATES.get(process.state or "", process.state or units.UNKNOWN)),
        *([("main thread", _doing(process.doing))] if process.doing is not None or process.held is not None else []),
        *(_held(process.held) if process.held is not None else []),
        ("CPU", units.percent(process.cpu_percent)),
        ("host memory (RSS)", units.bytes_text(process.memory_rss_bytes)),
        ("started", f"{clock}, {since} ago" if started is not None else units.UNKNOWN),
        ("container", process.container or "–"),
    ]


def _doing(doing: Doing | None) -> str:
    """Return what a main thread was seen to do, and at which line of the user's own code; a single look may fail."""
    if doing is None:
        return units.UNKNOWN
    at = f" at {clean(doing.place)}" if doing.place else ""
    return f"{_ACTIVITIES.get(doing.activity, doing.activity)}{at}"


def _held(held: Holdings) -> list[tuple[str, str]]:
    """Return what the code of an untracked training holds."""
    rows = []
    if held.models is not None:
        mode = ", in evaluation mode" if held.models.evaluates else ""
        rows.append(("model", clean(", ".join(held.models.names)) + mode))
    if held.loader is not None:
        size = f", batches of {held.loader.batch_size}" if held.loader.batch_size is not None else ""
        rows.append(("loader", clean(f"{held.loader.name}: {held.loader.dataset}, {held.loader.sampler}") + size))
    return rows


_ACTIVITIES: Mapping[str, str] = {
    "backward": "runs backward",
    "checkpoint": "writes a checkpoint",
    "collective": "is in a collective",
    "compile": "compiles",
    "data": "prepares or awaits data",
    "environment": "steps an environment",
    "evaluation": "evaluates",
    "files": "writes files",
    "forward": "runs forward",
    "generation": "generates samples",
    "import": "imports",
    "memory": "collects garbage",
    "metrics": "computes a metric",
    "optimizer": "is in the optimizer's step",
    "other": "is elsewhere",
    "report": "draws or logs",
    "wait": "waits for another program or service",
}


def _known(user: str | None, uid: int | None) -> str:
    if user is None and uid is None:
        return units.UNKNOWN
    return f"{user or units.UNKNOWN} (uid {uid})" if uid is not None else str(user)


def _uses(process: Process, snapshot: Snapshot) -> list[tuple[str, str]]:
    devices = {device.uuid: device for device in snapshot.devices}
    if not process.devices:
        return [("no GPU", "the driver lists no GPU for this process")]
    return [_use(use, devices.get(use.device_uuid)) for use in process.devices]


def _use(use: DeviceUse, device: Device | None) -> tuple[str, str]:
    contexts = ", ".join(_CONTEXTS.get(letter, letter) for letter in use.contexts) or units.UNKNOWN
    name = f"GPU {device.index}" if device else "GPU (not listed)"
    return name, (
        f"memory {units.bytes_text(use.memory_used_bytes)}, SM {units.percent(use.sm_utilization_percent)}, "
        f"context {contexts}, {use.device_uuid}"
    )


def _training(process: Process, snapshot: Snapshot) -> list[tuple[str, str]]:
    if process.run_id is None and process.rank is None and process.launcher is None:
        return []
    run = next((run for run in snapshot.runs if run.run_id == process.run_id), None)
    rank = next((rank for rank in run.ranks if rank.rank == process.rank), None) if run else None
    rows = [
        ("run", f"{run.name} ({run.run_id}, {run.state})" if run else (process.run_id or units.UNKNOWN)),
        ("rank", _number(process.rank)),
    ]
    if rank is not None:
        rows += [("step", units.count(rank.step)), ("rank's state", rank.state)]
        rows += [(name, units.metric(value)) for name, value in sorted(rank.metrics.items())]
    if process.launcher is not None:
        rows.append(("launcher", f"{process.launcher.name} (PID {process.launcher.pid})"))
    return rows


def _launch_environment(process: Process) -> list[tuple[str, str]]:
    found = process.environment
    if found is None:
        return []
    return [
        ("RANK", _number(found.rank)),
        ("LOCAL_RANK", _number(found.local_rank)),
        ("WORLD_SIZE", _number(found.world_size)),
        ("LOCAL_WORLD_SIZE", _number(found.local_world_size)),
        ("CUDA_VISIBLE_DEVICES", _set(found.cuda_visible_devices)),
        ("CUDA_DEVICE_ORDER", _set(found.cuda_device_order)),
        ("TORCHELASTIC_RUN_ID", _set(found.torchelastic_run_id)),
        ("virtual GPUs", _set(found.virtual_devices)),
        ("gputop's run", _set(found.gputop_run_id)),
        ("gputop's job", _set(found.gputop_job_id)),
    ]


def _parents(process: Process) -> list[tuple[str, str]]:
    return [(f"PID {ancestor.pid}", ancestor.name) for ancestor in process.ancestors]


def _torch(process: Process) -> list[tuple[str, str]]:
    rows = [
        ("torch loaded", _yes_no(process.torch_mapped)),
        ("CUDA part loaded", _yes_no(process.torch_cuda_mapped)),
        ("/dev/nvidia* open", _yes_no(process.nvidia_open)),
    ]
    rows += [
        (f"autograd on cuda:{index}", f"{units.duration(seconds)} of CPU time") for index, seconds in process.autograd_threads
    ]
    return rows


def _details(details: ProcessDetails) -> list[tuple[str, str]]:
    cores, switches = details.cpu_affinity, details.involuntary_switches
    return [
        ("threads", _unknown(details.threads)),
        ("open files", _unknown(details.open_files)),
        ("niceness", _unknown(details.niceness)),
        (
            "may run on",
            _of("core", len(cores), f": {units.ranges(cores, compact=True)}") if cores is not None else units.UNKNOWN,
        ),
        ("read from disk", units.bytes_text(details.read_bytes)),
        ("written to disk", units.bytes_text(details.written_bytes)),
        ("pushed off the CPU", units.UNKNOWN if switches is None else _of("time", switches)),
        ("working directory", details.working_directory or units.UNKNOWN),
    ]


def _of(thing: str, count: int, more: str = "") -> str:
    return f"{count} {thing}{'s' * (count != 1)}{more}"


def _unknown(value: int | None) -> str:
    return units.UNKNOWN if value is None else str(value)


def _yes_no(value: bool | None) -> str:
    return units.UNKNOWN if value is None else ("yes" if value else "no")


def _number(value: int | None) -> str:
    return "–" if value is None else str(value)


def _set(value: str | None) -> str:
    """Distinguish an unset variable from an empty one: CUDA_VISIBLE_DEVICES="" hides every GPU."""
    if value is None:
        return "not set"
    return value if value else '"" (empty)'
