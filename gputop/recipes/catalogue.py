"""The bundled recipes, and how a recipe with chosen devices and values becomes a command line.

Checks whether torch is installed, but never imports it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gputop.errors import UsageError
from gputop.places import working_dir
from gputop.recipes import faults, table
from gputop.recipes.recipe import Option, Recipe
from gputop.snapshot import Device


@dataclass(frozen=True, slots=True)
class Launch:
    """A command that is ready to start. ``env`` is added to the environment of the process that starts it."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    name: str
    recipe_id: str | None = None
    device_uuids: tuple[str, ...] = ()
    values: Mapping[str, object] = field(default_factory=dict)


__all__ = ["RECIPES", "Launch", "Option", "Recipe", "demos_dir", "device_environment", "find", "prepare", "prepare_elsewhere"]

RECIPES: tuple[Recipe, ...] = (*table.RECIPES, *faults.FAULTS)


def find(recipe_id: str) -> Recipe:
    """Return the recipe with this id.

    Raises:
        UsageError: there is no such recipe.
    """
    for recipe in RECIPES:
        if recipe.id == recipe_id:
            return recipe
    raise UsageError(f"There is no recipe {recipe_id!r}.", f"Choose one of: {', '.join(recipe.id for recipe in RECIPES)}.")


def demos_dir(package: Path | None = None) -> Path:
    """Return the folder of the demos: in the installed package, else next to the package in a checkout.

    Raises:
        UsageError: both are missing.
    """
    package = package or Path(__file__).resolve().parents[1]
    for folder in (package / "_demos", package.parent / "demos"):
        if (folder / "ddp.py").is_file():
            return folder
    raise UsageError("The demos are not installed with this gputop.", "Reinstall gputop from its source or its wheel.")


def prepare(recipe: Recipe, devices: Sequence[Device], values: Mapping[str, object] | None = None, nodes: int = 1) -> Launch:
    """Return the command that runs ``recipe`` on ``devices``; ``values`` overrides defaults, by option name.

    If several machines (``nodes``) start it as one run, the devices are those of one of them.

    Real GPUs are selected by UUID in CUDA_VISIBLE_DEVICES, virtual ones by index in GPUTOP_VIRTUAL_DEVICES.

    Raises:
        UsageError: a value is invalid, the devices do not fit the recipe, or torch is missing.
    """
    _check_devices(recipe, devices, nodes)
    chosen, command = _command(recipe, values)
    return Launch(
        argv=(*_launcher(recipe, len(devices)), *command),
        env={**_environment(recipe, device_environment(devices)), **recipe.env},
        cwd=working_dir(),
        name=chosen["name"],
        recipe_id=recipe.id,
        device_uuids=tuple(device.uuid for device in devices),
        values=chosen,
    )


def prepare_elsewhere(recipe: Recipe, virtual: int | None, values: Mapping[str, object] | None = None) -> Launch:
    """Return the command that runs ``recipe`` on all GPUs of another machine, or on ``virtual`` ones there.

    Only that machine knows how many GPUs it has: torchrun counts them (``--nproc-per-node=gpu``).

    Raises:
        UsageError: a value is invalid, or torch is missing.
    """
    chosen, command = _command(recipe, values)
    seen = virtual_environment(range(virtual)) if virtual is not None else {}
    return Launch(
        argv=(*_launcher(recipe, "gpu" if virtual is None else virtual), *command),
        env={**_environment(recipe, seen), **recipe.env},
        cwd=working_dir(),
        name=chosen["name"],
        recipe_id=recipe.id,
        values=chosen,
    )


def _command(recipe: Recipe, values: Mapping[str, object] | None) -> tuple[dict[str, str], list[str]]:
    """Return the values as text, by option name, and the script with its arguments.

    Raises:
        UsageError: a value is invalid, or torch is missing.
    """
    known = {option.name: option for option in recipe.options}
    given = {**recipe.defaults(), **(values or {})}
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise UsageError(f"{recipe.id} has no option {unknown[0]!r}.", f"It has: {', '.join(known)}.")
    chosen = {name: text for name, option in known.items() if (text := option.parse(given[name])) is not None}
    if "data" in chosen:
        chosen["data"] = str(Path(chosen["data"]).expanduser().absolute())
        if not Path(chosen["data"]).is_dir():
            raise UsageError(f"There is no folder {chosen['data']}.", "Choose the folder with the IDX files, or none.")
    if "checkpoint" in chosen:
        chosen["checkpoint"] = str(Path(chosen["checkpoint"]).expanduser().absolute())
        if not Path(chosen["checkpoint"]).is_file():
            raise UsageError(f"There is no file {chosen['checkpoint']}.", "Choose a file that a demo saved, or none.")
    own_name = recipe.id.rpartition("/")[2]
    chosen.setdefault("name", f"{chosen['model']}-{own_name}" if "model" in chosen else own_name)
    if importlib.util.find_spec("torch") is None:
        raise UsageError("PyTorch is not installed with gputop.", f"Install it with: {sys.executable} -m pip install torch")
    arguments = [part for name, text in chosen.items() for part in known[name].arguments(text)]
    return chosen, [str(demos_dir() / recipe.script), *arguments]


def device_environment(devices: Sequence[Device]) -> dict[str, str]:
    """Return the variables that make only these devices visible to a process, in this order.

    Raises:
        UsageError: real and virtual GPUs are mixed.
    """
    virtual = [device for device in devices if device.kind == "virtual"]
    if not virtual:
        return {"CUDA_VISIBLE_DEVICES": ",".join(device.uuid for device in devices)}
    if len(virtual) != len(devices):
        raise UsageError("Real and virtual GPUs cannot train together.", "Choose GPUs of one kind.")
    return virtual_environment([device.index for device in devices])


def virtual_environment(indices: Iterable[int]) -> dict[str, str]:
    """Return the variables that make only the virtual GPUs with these indices visible to a process, in this order."""
    # One virtual GPU is one core; torchrun would set the same value, with a warning.
    return {"CUDA_VISIBLE_DEVICES": "", "GPUTOP_VIRTUAL_DEVICES": ",".join(map(str, indices)), "OMP_NUM_THREADS": "1"}


def _environment(recipe: Recipe, seen: Mapping[str, str]) -> dict[str, str]:
    found = dict(seen)
    # The scripts start their own runs; automatic tracking joins them. The user's own setting wins.
    found["GPUTOP_AUTO"] = os.environ.get("GPUTOP_AUTO", "1")
    if recipe.mask is not None:
        found["GPUTOP_VIRTUAL_DEVICES" if "GPUTOP_VIRTUAL_DEVICES" in found else "CUDA_VISIBLE_DEVICES"] = recipe.mask
    return found


def _check_devices(recipe: Recipe, devices: Sequence[Device], nodes: int) -> None:
    count, least = len(devices), recipe.min_devices_on_each(nodes)
    if count < least:
        needed = "one GPU" if least == 1 else f"{least} GPUs"
        raise UsageError(f"{recipe.id} needs at least {needed}; {count} chosen.", "Choose more, or try gputop --virtual 4.")
    if recipe.max_devices is not None and count > recipe.max_devices:
        fitting = "one GPU" if recipe.max_devices == 1 else f"at most {recipe.max_devices} GPUs"
        raise UsageError(f"{recipe.id} uses {fitting}; {count} chosen.", "Choose fewer, or another recipe.")
    if len({device.uuid for device in devices}) != count:
        raise UsageError("A GPU is chosen twice.", "Choose each GPU once.")
    lost = next((device for device in devices if device.state == "lost"), None)
    if lost is not None:
        raise UsageError(f"GPU {lost.index} is lost: the driver no longer reaches it.", "Choose another.")


def _launcher(recipe: Recipe, count: int | str) -> tuple[str, ...]:
    if recipe.launcher == "python":
        return (sys.executable, "-u")
    processes = f"--nproc-per-node={recipe.processes or count}"
    if recipe.launcher == "launch":
        return (sys.executable, "-m", "torch.distributed.launch", processes)
    return (sys.executable, "-m", "torch.distributed.run", "--standalone", processes)
