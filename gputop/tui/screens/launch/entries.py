"""What the launch screen can start: a bundled recipe, or the user's own command. Both fill the same form.

The rules for what may be started live in ``recipes/``; a launchable turns them into fields, and fields into a ``Launch``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from gputop.errors import GputopError, UsageError
from gputop.jobs import store
from gputop.places import working_dir
from gputop.recipes import catalogue, own_commands
from gputop.recipes.catalogue import Launch, Recipe
from gputop.recipes.nodes import NodeOrder
from gputop.recipes.own_commands import OwnCommand
from gputop.recipes.pick import ranked
from gputop.snapshot import Device, Snapshot
from gputop.tui.drawing.line import Line, Span, clean
from gputop.tui.screens.launch import form
from gputop.tui.state.view import View
from gputop.tui.widgets.form import Field

OWN = "own "
"""Key prefix of the user's own commands; with nothing after it, a new command."""
MAX_SERIES_GPUS = 16
"""The largest number of GPUs of a comparison."""
SBATCH = "sbatch"
"""The field for sbatch's options."""
SBATCH_HELP = "sbatch's options, such as -p gpu -N2 --gpus-per-node=8: a Slurm job on such nodes; empty: on this machine"


def has_slurm() -> bool:
    """Return whether jobs can be submitted to Slurm from here."""
    return shutil.which("sbatch") is not None


class Launchable(Protocol):
    """An entry of the launch screen's list."""

    @property
    def key(self) -> str:
        """The entry's unique key."""

    @property
    def title(self) -> Line:
        """The form's title."""

    @property
    def short_title(self) -> Line:
        """The form's title in a narrow frame."""

    @property
    def summary(self) -> str:
        """A few words for the list."""

    @property
    def description(self) -> str:
        """One sentence for the form's frame."""

    def default_devices(self, snapshot: Snapshot) -> tuple[str, ...]:
        """Return the UUIDs to preselect."""

    def fields(self, view: View, values: Mapping[str, str], picked: Iterable[str]) -> list[Field]:
        """Return the form's fields."""

    def update(self, fields: Sequence[Field], view: View) -> None:
        """Update the details shown after the fields."""

    def prepare(self, devices: Sequence[Device], values: Mapping[str, str]) -> Launch:
        """Return what the Start button launches.

        Raises:
            UsageError: the devices and values do not fit together.
        """

    def order(self, values: Mapping[str, str]) -> tuple[NodeOrder, str] | None:
        """Return what Slurm is to run, and with which of sbatch's options; None: it is started on this machine.

        Raises:
            UsageError: it cannot run elsewhere.
        """

    def order_for_hosts(self, values: Mapping[str, str]) -> NodeOrder:
        """Return what each of several hosts is to start.

        Raises:
            UsageError: it cannot run elsewhere.
        """

    def started(self, devices: Sequence[Device], values: Mapping[str, str]) -> str | None:
        """Remember what was started; return a sentence if that fails."""

    def counts(self, available: int) -> tuple[int, ...]:
        """Return the GPU counts to compare, smallest first; fewer than two means that there is nothing to compare."""


class RecipeEntry:
    """A bundled recipe."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.key = recipe.id
        self.title: Line = (Span(recipe.id, "accent"), Span(f"  {recipe.title}", "title"))
        self.short_title: Line = (Span(recipe.title, "title"),)  # the id is in the list next to it
        self.summary = recipe.title.removeprefix("Fault: ")
        self.description = recipe.description

    def default_devices(self, snapshot: Snapshot) -> tuple[str, ...]:
        """Return the least busy devices, as many as the recipe asks for."""
        return form.default_devices(self.recipe, snapshot)

    def fields(self, view: View, values: Mapping[str, str], picked: Iterable[str]) -> list[Field]:
        """Return Start, the GPUs, Slurm if it is available, and the recipe's options."""
        fields = form.fields_of(self.recipe, view, values, picked)
        if has_slurm() and self.recipe.launcher == "torchrun":  # the others train on one machine
            at = next(place for place, field in enumerate(fields) if field.name == form.OPTIONS)
            fields.insert(at, Field(SBATCH, "Slurm", "text", values.get(SBATCH, ""), help=SBATCH_HELP))
        counts = self.counts(len(form.usable(view.snapshot)))
        if len(counts) > 1:
            fields.append(form.compare_field(counts))
        return fields

    def update(self, fields: Sequence[Field], view: View) -> None:
        """Update the free memory, the number of processes and the batch size."""
        form.update_details(fields, self.recipe, view)
        _update_start(fields)

    def prepare(self, devices: Sequence[Device], values: Mapping[str, str]) -> Launch:
        """Return the recipe's command."""
        return catalogue.prepare(self.recipe, devices, self._options(values))

    def order(self, values: Mapping[str, str]) -> tuple[NodeOrder, str] | None:
        """Return the recipe, which a Slurm job runs on all GPUs of its nodes, if the form asks for that."""
        return _order_for_slurm(self, values)

    def order_for_hosts(self, values: Mapping[str, str]) -> NodeOrder:
        """Return the recipe with these values, on as many GPUs of each host as suit it."""
        return NodeOrder(store.new_id(), 0, 1, recipe=self.recipe.id, values=self._options(values), cwd=working_dir())

    def _options(self, values: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in values.items() if name != SBATCH}

    def started(self, devices: Sequence[Device], values: Mapping[str, str]) -> str | None:
        """Return None: recipes are bundled, so there is nothing to remember."""
        return None

    def counts(self, available: int) -> tuple[int, ...]:
        """Return 1, 2, 4, … up to the number of GPUs present and to the recipe's own limit."""
        if self.recipe.fault is not None or self.recipe.processes is not None:
            return ()
        most = min(available, MAX_SERIES_GPUS, self.recipe.max_devices or MAX_SERIES_GPUS)
        return tuple(count for count in _doubling(most) if count >= self.recipe.min_devices)


class OwnEntry:
    """A command of the user's own; None stands for one not yet written."""

    def __init__(self, own: OwnCommand | None) -> None:
        self.own = own
        self.key = OWN + (own.name if own is not None else "")
        name = clean(own.name) if own is not None else "your own command"
        self.title: Line = (Span(name, "accent"), Span("  tracked as with gputop run", "title"))
        self.short_title: Line = (Span(name, "accent"),)
        self.summary = own.command if own is not None else ""
        self.description = "Any command line: python, torchrun, accelerate, deepspeed; tracked without changing it."

    def default_devices(self, snapshot: Snapshot) -> tuple[str, ...]:
        """Return the least busy devices, as many as the command used last time."""
        devices = form.usable(snapshot)
        free = ranked(device for device in devices if not form.is_busy(device, snapshot))
        chosen = {device.uuid for device in free[: self.own.gpus if self.own is not None else 1]}
        return tuple(device.uuid for device in devices if device.uuid in chosen)

    def fields(self, view: View, values: Mapping[str, str], picked: Iterable[str]) -> list[Field]:
        """Return the command's own fields, Start, and the GPUs."""
        own = self.own or OwnCommand("", "", working_dir())
        written = " ".join(f"{name}={_quoted(value)}" for name, value in own.environment.items())
        known = {"command": own.command, "cwd": own.cwd, "name": own.name, "environment": written, SBATCH: own.sbatch, **values}
        helps = {
            "command": "as in a terminal; {gpus} is the number of chosen GPUs: torchrun --nproc-per-node={gpus} train.py",
            "cwd": "the folder that the command runs in",
            "name": "of the run, and in this list; the same name replaces the command",
            "environment": "variables to add to yours: OMP_NUM_THREADS=4 DATA='/my data'",
            SBATCH: SBATCH_HELP,
        }
        labels = {"command": "Command", "cwd": "Folder", "name": "Name", "environment": "Variables"}
        if has_slurm():
            labels[SBATCH] = "Slurm"
        typed = [Field(name, labels[name], "text", known[name], help=helps[name]) for name in labels]
        typed[0].check = _check_command
        typed[3].check = own_commands.variables_of
        start = Field(form.START, "Start", "button", help="start it; F5 or Ctrl-S does it from anywhere")
        for field in typed:
            field.fresh = not field.value
        return [*typed, start, *form.device_fields(view, picked)]

    def update(self, fields: Sequence[Field], view: View) -> None:
        """Update the free memory and the number of GPUs."""
        form.update_devices(fields, view)
        count = len(form.chosen_uuids(fields))
        for field in fields:
            if field.name == form.START:
                text = f"F5  {count} GPU{'s' if count != 1 else ''} visible" if count else "F5  every GPU stays visible"
                field.detail = (Span(text, "dim"),)
        _update_start(fields)

    def prepare(self, devices: Sequence[Device], values: Mapping[str, str]) -> Launch:
        """Return the command, checked and tracked."""
        return own_commands.prepare(self._written(devices, values), devices)

    def order(self, values: Mapping[str, str]) -> tuple[NodeOrder, str] | None:
        """Return what Slurm is to run, if the form asks for that."""
        return _order_for_slurm(self, values)

    def order_for_hosts(self, values: Mapping[str, str]) -> NodeOrder:
        """Return the command, in the folder of the same name there."""
        own = self._written((), values)
        folder = os.path.abspath(os.path.expanduser(own.cwd))
        variables, words = own_commands.for_elsewhere(own)
        return NodeOrder(store.new_id(), 0, 1, command=words, environment=variables, cwd=folder, name=own.name)

    def started(self, devices: Sequence[Device], values: Mapping[str, str]) -> str | None:
        """Save the command among the user's own."""
        try:
            own_commands.remember(self._written(devices, values))
        except GputopError as error:
            return str(error)
        return None

    def counts(self, available: int) -> tuple[int, ...]:
        """Return nothing: only the user knows whether the command scales."""
        return ()

    def _written(self, devices: Sequence[Device], values: Mapping[str, str]) -> OwnCommand:
        command = values.get("command", "").strip()
        name = values.get("name", "").strip() or own_commands.named_after(own_commands.split(command)[1])
        environment = own_commands.variables_of(values.get("environment", ""))
        cwd, sbatch = values.get("cwd", "").strip() or working_dir(), values.get(SBATCH, "").strip()
        return OwnCommand(name, command, cwd, environment, max(1, len(devices)), sbatch)


def entries() -> list[Launchable]:
    """Return everything that can be started: recipes, faults, and the user's own commands, with a new one last."""
    return [
        *(RecipeEntry(recipe) for recipe in catalogue.RECIPES),
        *(OwnEntry(own) for own in own_commands.load()),
        OwnEntry(None),
    ]


def entry(key: str) -> Launchable:
    """Return the entry with this key; the key of a forgotten command gives a new command."""
    if key.startswith(OWN):
        return OwnEntry(next((own for own in own_commands.load() if own.name == key.removeprefix(OWN)), None))
    return RecipeEntry(catalogue.find(key))


def forget(key: str) -> bool:
    """Remove the user's own command from the list; return False if the key does not name one.

    Raises:
        GputopError: the list cannot be written.
    """
    if not key.startswith(OWN) or key == OWN:
        return False
    own_commands.forget(key.removeprefix(OWN))
    return True


def _order_for_slurm(entry: Launchable, values: Mapping[str, str]) -> tuple[NodeOrder, str] | None:
    sbatch = values.get(SBATCH, "").strip()
    return (entry.order_for_hosts(values), sbatch) if sbatch else None


def _doubling(most: int) -> Iterable[int]:
    count = 1
    while count < most:
        yield count
        count *= 2
    if most >= 1:
        yield most


def _update_start(fields: Sequence[Field]) -> None:
    """Say next to Start that Slurm starts it, if the form asks for that."""
    sbatch = next((str(field.value).strip() for field in fields if field.name == SBATCH), "")
    for field in fields:
        if field.name == form.START and sbatch:
            field.detail = (Span(clean(f"F5  a Slurm job: sbatch {sbatch}"), "dim"),)


def _check_command(text: str) -> None:
    if not text.strip():
        raise UsageError("empty.", "Write the command.")
    own_commands.split(text)


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "'\\''") + "'" if not value or any(sign in value for sign in " '\"\\$") else value
