"""Contents of the launch form: a recipe's fields, the GPUs to use with their free memory, good defaults.

The rules for what may be started belong to the recipe (``recipes/catalogue.py``); this module words them next to the fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from gputop import units
from gputop.recipes.pick import ranked
from gputop.recipes.recipe import Recipe
from gputop.snapshot import Device, Process, Snapshot
from gputop.tui.drawing.line import Line, Span, clean
from gputop.tui.state.device_state import short_name
from gputop.tui.state.view import View
from gputop.tui.widgets.form import Field

BUSY_PERCENT = 10.0
BUSY_MEMORY_SHARE = 0.10
"""A GPU counts as free if it is below both: a desktop or the driver's own memory does not make it busy."""
START = "start"
COMPARE = "compare"
OPTIONS = "options"
"""The heading of a recipe's options."""
GPU_PREFIX = "gpu "
FIRST_OPTIONS = ("model", "batch_size", "epochs", "lr")
"""The options that most users change come first; the others follow in the recipe's order."""

_MEMORY_KIND = re.compile(r" HBM\d\w*$")


def usable(snapshot: Snapshot) -> tuple[Device, ...]:
    """Return the devices that can train: none that are lost, and no GPU that is represented by its MIG instances."""
    parents = {device.parent_uuid for device in snapshot.devices if device.parent_uuid}
    return tuple(
        device
        for device in snapshot.devices
        if device.state not in ("lost", "error") and not device.mig_enabled and device.uuid not in parents
    )


def is_busy(device: Device, snapshot: Snapshot) -> bool:
    """Return True if the device appears to be in use."""
    if (device.utilization_percent or 0.0) > BUSY_PERCENT:
        return True
    if device.kind == "virtual":
        return bool(_users(device, snapshot))
    if device.memory_used_bytes is None or not device.memory_total_bytes:
        return bool(_users(device, snapshot))
    return device.memory_used_bytes > BUSY_MEMORY_SHARE * device.memory_total_bytes


def default_devices(recipe: Recipe, snapshot: Snapshot) -> tuple[str, ...]:
    """Return the UUIDs to preselect, in device order: the least busy ones, as many as the recipe prefers.

    Busy devices are added to the free ones only to reach the recipe's minimum. Virtual GPUs are not shared with anyone, so
    there the preferred number applies.
    """
    devices = usable(snapshot)
    free = ranked(device for device in devices if not is_busy(device, snapshot))
    busy = ranked(device for device in devices if is_busy(device, snapshot))
    most = recipe.max_devices or len(devices)
    wished = min(max(recipe.default_devices, recipe.min_devices), most)
    chosen = {device.uuid for device in free[:wished]}
    least = wished if all(device.kind == "virtual" for device in devices) else recipe.min_devices
    chosen |= {device.uuid for device in busy[: max(0, least - len(chosen))]}
    return tuple(device.uuid for device in devices if device.uuid in chosen)


def fields_of(recipe: Recipe, view: View, values: Mapping[str, str], chosen: Iterable[str]) -> list[Field]:
    """Return the form's fields: Start, the GPUs, and the recipe's options, with ``values`` replacing their defaults."""
    fields = [Field(START, "Start", "button", help=f"start {recipe.id}; F5 or Ctrl-S does it from anywhere")]
    fields += device_fields(view, chosen)
    fields.append(Field(OPTIONS, "Options", "note"))
    order = sorted(
        recipe.options,
        key=lambda option: FIRST_OPTIONS.index(option.name) if option.name in FIRST_OPTIONS else len(FIRST_OPTIONS),
    )
    for option in order:
        default = "" if option.default is None else str(option.default)
        value = values.get(option.name, default)
        fields.append(
            Field(
                option.name,
                option.label,
                option.kind,
                value,
                option.choices,
                option.help,
                check=option.parse,
                default=default if option.kind != "choice" else "",
            )
        )
    return fields


def device_fields(view: View, chosen: Iterable[str]) -> list[Field]:
    """Return a check mark for each usable device; the ``chosen`` ones are checked."""
    picked = set(chosen)
    fields = [Field("gpus", "GPUs to use", "note")]
    devices = usable(view.snapshot)
    names = [_name_of(device) for device in devices]
    numbers = [str(device.index) for device in devices]
    columns = max(map(len, numbers), default=0), max(map(len, names), default=0)
    for device, number, name in zip(devices, numbers, names, strict=True):
        digit = str(device.index) if device.index <= 9 and device.kind != "mig" else ""
        fields.append(
            Field(
                GPU_PREFIX + device.uuid,
                f"{number:>{columns[0]}}  {name:<{columns[1]}}",
                "check",
                device.uuid in picked,
                detail=device_detail(device, view.snapshot),
                digit=digit,
                help=device.uuid,
            )
        )
    if len(fields) == 1:
        fields.append(
            Field("none", "", "note", detail=(Span("No GPU is known yet. ", "warn"), Span("gputop --virtual 2", "accent")))
        )
    return fields


def compare_field(counts: Sequence[int]) -> Field:
    """Return the button that runs a recipe on several GPU counts, one after another."""
    numbers = ", ".join(map(str, counts))
    detail = (Span("F6  one after another; c compares them", "dim"),)
    return Field(COMPARE, f"Run at {numbers} GPUs", "button", detail=detail, help="start them all, then compare with c")


def chosen_uuids(fields: Sequence[Field]) -> tuple[str, ...]:
    """Return the UUIDs of the checked GPUs."""
    return tuple(field.name.removeprefix(GPU_PREFIX) for field in fields if field.name.startswith(GPU_PREFIX) and field.value)


def update_details(fields: Sequence[Field], recipe: Recipe, view: View) -> None:
    """Update the details after the fields: free memory, processes to start, the batch size over all ranks."""
    update_devices(fields, view)
    count = len(chosen_uuids(fields))
    for field in fields:
        if field.name == START:
            field.detail = start_detail(recipe, count)
        elif field.name == "batch_size":
            field.detail = _batch_detail(recipe, str(field.value), count)


def update_devices(fields: Sequence[Field], view: View) -> None:
    """Update the details after the GPUs; a GPU in use by someone else shows a warning."""
    devices = {device.uuid: device for device in view.snapshot.devices}
    for field in fields:
        if field.name.startswith(GPU_PREFIX):
            device = devices.get(field.name.removeprefix(GPU_PREFIX))
            field.detail = device_detail(device, view.snapshot) if device else (Span("  gone", "bad"),)


def virtual_asked(snapshot: Snapshot) -> int | None:
    """Return how many virtual GPUs the user asked for; None: real ones, or virtual ones that only stand in for them."""
    asked = snapshot.host.problem is None and bool(snapshot.devices)
    virtual = asked and all(device.kind == "virtual" for device in snapshot.devices)
    return len(snapshot.devices) if virtual else None


def others_on(uuids: Iterable[str], snapshot: Snapshot) -> str:
    """Return a sentence about who already uses these GPUs; "" if nobody does."""
    chosen = set(uuids)
    parts = []
    for device in snapshot.devices:
        users = _users(device, snapshot) if device.uuid in chosen else []
        if users:
            first = users[0]
            more = f" and {len(users) - 1} more" if len(users) > 1 else ""
            parts.append(f"GPU {device.index} by {clean(first.user or '?')} {clean(first.name or '')} ({first.pid}){more}")
    return f"In use already: {', '.join(parts)}." if parts else ""


def _name_of(device: Device) -> str:
    return clean(device.mig_label) if device.mig_label else _MEMORY_KIND.sub("", clean(short_name(device)))


def device_detail(device: Device, snapshot: Snapshot) -> Line:
    """Return a device's free memory, its utilization, and who uses it; numbers below one another."""
    spans: list[Span] = [Span("  ")]
    if device.memory_total_bytes is not None and device.memory_used_bytes is not None and device.kind != "virtual":
        free = max(0, device.memory_total_bytes - device.memory_used_bytes)
        spans.append(Span(f"{units.gib(free):>5}G free  "))
    if device.utilization_percent is not None:
        spans.append(Span(f"{units.percent(device.utilization_percent):>4}  ", "dim"))
    users = _users(device, snapshot)
    if users:
        names = dict.fromkeys(clean(process.user or str(process.pid)) for process in users)
        spans.append(Span(f"by {', '.join(names)}", "warn"))
    elif is_busy(device, snapshot):
        spans.append(Span("in use", "warn"))
    else:
        spans.append(Span("idle", "ok"))
    return tuple(spans)


def start_detail(recipe: Recipe, count: int) -> Line:
    """Return what Start would launch: how many processes on how many GPUs, or what is missing."""
    if count < recipe.min_devices:
        missing = recipe.min_devices - count
        return (Span(f"choose {missing} more GPU{'s' if missing > 1 else ''}: Space on its line", "warn"),)
    if recipe.max_devices is not None and count > recipe.max_devices:
        return (Span(f"choose {recipe.max_devices} GPU{'s' if recipe.max_devices > 1 else ''}, not {count}", "warn"),)
    gpus = f"{count} GPU" + ("s" if count != 1 else "")
    if recipe.launcher == "torchrun":
        return (Span(f"F5  {gpus}, {count} process{'es' if count != 1 else ''} (torchrun)", "dim"),)
    return (Span(f"F5  {gpus}, 1 process", "dim"),)


def _batch_detail(recipe: Recipe, text: str, count: int) -> Line:
    if recipe.launcher != "torchrun" or count < 2 or not text.isdecimal():
        return ()
    return (Span(f"for each process: {units.count(int(text) * count)} a step in all", "dim"),)


def _users(device: Device, snapshot: Snapshot) -> list[Process]:
    return [process for process in snapshot.processes if any(use.device_uuid == device.uuid for use in process.devices)]


def why_not(view: View, *, over_hosts: bool = False) -> tuple[str, str] | None:
    """Return why nothing can be launched here, or on hosts, and how to change that; None if launching is possible."""
    if view.settings.readonly:
        return "gputop was started with --readonly.", "Start it without, to launch something."
    if view.feed == "replay":
        return "This is a recording: its GPUs cannot be used.", "Start gputop without replay."
    if view.remote is not None and not over_hosts:
        return f"These are the GPUs of {view.remote}: nothing is launched there.", "Start gputop without -H to launch here."
    return None
