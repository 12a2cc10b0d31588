"""What can be launched: the bundled recipes, and a recipe with chosen devices and values as a command line.

Imports the standard library and gputop's records alone; whether torch is there is looked up, never imported.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gputop.errors import UsageError
from gputop.snapshot import Device


@dataclass(frozen=True, slots=True)
class Option:
    """One value that a person may choose. ``kind`` is "int", "float", "choice" or "text".

    ``name`` is the word of the field ("batch_size"); the script's option is ``flag``. ``default`` None: not passed on.
    """

    name: str
    label: str
    kind: str
    default: int | float | str | None
    help: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None

    @property
    def flag(self) -> str:
        """The script's option: "--batch-size"."""
        return "--" + self.name.replace("_", "-")

    def parse(self, value: object) -> str | None:
        """Return the value as the script's argument; None or an empty text leaves the script's own default.

        Raises:
            UsageError: the value is not of this option's kind.
        """
        text = "" if value is None else str(value).strip()
        if not text:
            return None
        if self.kind == "choice" and text not in self.choices:
            raise UsageError(f"{self.label} cannot be {text!r}.", f"Choose one of: {', '.join(self.choices)}.")
        if self.kind in ("int", "float"):
            self._check_number(text)
        return text

    def _check_number(self, text: str) -> None:
        try:
            number = int(text) if self.kind == "int" else float(text)
        except ValueError:
            kind = "a whole number" if self.kind == "int" else "a number"
            raise UsageError(
                f"{self.label} is {text!r}, which is not {kind}.", f"Write it like {self.default or 10}."
            ) from None
        # Written so that "nan", which is less than nothing, is refused too.
        if self.minimum is not None and not number >= self.minimum:
            raise UsageError(f"{self.label} is {text}.", f"It has to be at least {self.minimum:g}.")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Something that can be launched. ``script`` is below the demos' folder; ``launcher`` is "python" or "torchrun".

    ``max_devices`` None: as many as there are. ``default_devices`` is how many a form should choose at first.
    """

    id: str
    title: str
    description: str
    teaches: str
    launcher: str
    script: str
    options: tuple[Option, ...]
    min_devices: int = 1
    max_devices: int | None = None
    default_devices: int = 2
    fault: str | None = None
    """The doctor's id of the mistake that this recipe makes ("A07"), None for a healthy one."""

    def defaults(self) -> dict[str, object]:
        """Return the value of every option that a form starts with."""
        return {option.name: option.default for option in self.options}


@dataclass(frozen=True, slots=True)
class Launch:
    """A command that is ready to start. ``env`` is what is added to the environment of the one who starts it."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    name: str
    recipe_id: str | None = None
    device_uuids: tuple[str, ...] = ()
    values: Mapping[str, object] = field(default_factory=dict)


def _options(**defaults: int | float | str | None) -> tuple[Option, ...]:
    """Return the options that every demo has, with ``defaults`` where a recipe differs."""
    table = (
        Option(
            "model", "Model", "choice", "lenet", "LeNet learns in seconds; ResNet-18 is work for a GPU", ("lenet", "resnet18")
        ),
        Option("epochs", "Epochs", "int", 50, "passes over the data", minimum=1),
        Option("batch_size", "Batch size", "int", 64, "samples per optimizer step", minimum=1),
        Option("lr", "Learning rate", "float", 0.01, "of SGD with momentum 0.9", minimum=0),
        Option("steps", "Steps", "int", None, "end after so many optimizer steps; empty: all epochs", minimum=1),
        Option("data", "Data folder", "text", None, "MNIST or Fashion-MNIST IDX files; empty: digits drawn by the program"),
        Option("train_samples", "Training images", "int", 20_000, "how many images to train on", minimum=1),
        Option("seed", "Seed", "int", 0, "of the weights and of the order of the samples"),
        Option("name", "Name", "text", None, "of the run; empty: model and recipe"),
    )
    changed = {option.name: option for option in table}
    for name, default in defaults.items():
        old = changed[name]
        changed[name] = Option(old.name, old.label, old.kind, default, old.help, old.choices, old.minimum)
    return tuple(changed.values())


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        "single",
        "One GPU",
        "Trains a classifier on one GPU: what every other recipe is compared with.",
        "Model and data go to the device with .to(); the loss falls; the GPU is busy.",
        "python",
        "single.py",
        _options(),
        max_devices=1,
        default_devices=1,
    ),
    Recipe(
        "data-parallel",
        "DataParallel",
        "One process drives all chosen GPUs with nn.DataParallel; the batch is cut into one piece for each.",
        "How a batch is scattered and gradients are added up; why GPU 0 has more to do.",
        "python",
        "data_parallel.py",
        _options(batch_size=128),
        min_devices=2,
    ),
    Recipe(
        "ddp",
        "DistributedDataParallel",
        "torchrun starts one process for each chosen GPU; they average their gradients at every step.",
        "Device from LOCAL_RANK, DistributedSampler with set_epoch, wrap after .to, save on rank 0.",
        "torchrun",
        "ddp.py",
        _options(),
    ),
    Recipe(
        "faults/ranks-on-one-gpu",
        "Fault: all ranks on one GPU",
        "The DDP recipe with one mistake: every rank takes GPU 0, as with a cuda:0 left in the code.",
        "One GPU works for all ranks, the others idle, and nothing complains.",
        "torchrun",
        "faults/ranks_on_one_gpu.py",
        _options(),
        min_devices=2,
        fault="A07",
    ),
    Recipe(
        "faults/dp-small-batch",
        "Fault: batch smaller than the GPUs",
        "The DataParallel recipe with one mistake: a batch of 1, so that only GPU 0 gets a sample.",
        "nn.DataParallel gives ceil(batch / GPUs) samples to each GPU until none are left.",
        "python",
        "faults/dp_small_batch.py",
        _options(batch_size=1, lr=0.001),
        min_devices=2,
        fault="B01",
    ),
)


def find(recipe_id: str) -> Recipe:
    """Return the recipe with this id.

    Raises:
        UsageError: there is none.
    """
    for recipe in RECIPES:
        if recipe.id == recipe_id:
            return recipe
    raise UsageError(f"There is no recipe {recipe_id!r}.", f"Choose one of: {', '.join(recipe.id for recipe in RECIPES)}.")


def demos_dir(package: Path | None = None) -> Path:
    """Return the folder of the demos: inside the installed package, else beside it in a checkout.

    Raises:
        UsageError: neither has them.
    """
    package = package or Path(__file__).resolve().parents[1]
    for folder in (package / "_demos", package.parent / "demos"):
        if (folder / "ddp.py").is_file():
            return folder
    raise UsageError("The demos are not installed with this gputop.", "Install gputop from its source or its wheel again.")


def prepare(recipe: Recipe, devices: Sequence[Device], values: Mapping[str, object] | None = None) -> Launch:
    """Return the command that trains ``recipe`` on ``devices``; ``values`` replaces defaults, by option name.

    Real GPUs are chosen by UUID in CUDA_VISIBLE_DEVICES, virtual ones by index in GPUTOP_VIRTUAL_DEVICES.

    Raises:
        UsageError: a value is wrong, the devices do not suit, or torch is missing.
    """
    _check_devices(recipe, devices)
    known = {option.name: option for option in recipe.options}
    given = {**recipe.defaults(), **(values or {})}
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise UsageError(f"{recipe.id} has no option {unknown[0]!r}.", f"It has: {', '.join(known)}.")
    chosen = {name: text for name, option in known.items() if (text := option.parse(given[name])) is not None}
    if "data" in chosen:
        chosen["data"] = str(Path(chosen["data"]).expanduser().absolute())
        if not Path(chosen["data"]).is_dir():
            raise UsageError(f"There is no folder {chosen['data']}.", "Choose the folder that holds the IDX files, or none.")
    chosen.setdefault("name", f"{chosen['model']}-{recipe.id.rpartition('/')[2]}")
    if importlib.util.find_spec("torch") is None:
        raise UsageError("PyTorch is not installed beside gputop.", f"Install it with: {sys.executable} -m pip install torch")
    script = str(demos_dir() / recipe.script)
    arguments = [part for name, text in chosen.items() for part in (known[name].flag, text)]
    return Launch(
        argv=(*_launcher(recipe, len(devices)), script, *arguments),
        env=device_environment(devices),
        cwd=os.getcwd(),
        name=chosen["name"],
        recipe_id=recipe.id,
        device_uuids=tuple(device.uuid for device in devices),
        values=chosen,
    )


def device_environment(devices: Sequence[Device]) -> dict[str, str]:
    """Return the environment that shows a process these devices and no others, in this order.

    Raises:
        UsageError: real and virtual GPUs are mixed.
    """
    virtual = [device for device in devices if device.kind == "virtual"]
    if not virtual:
        return {"CUDA_VISIBLE_DEVICES": ",".join(device.uuid for device in devices)}
    if len(virtual) != len(devices):
        raise UsageError("Real and virtual GPUs cannot train together.", "Choose GPUs of one kind.")
    # One virtual GPU is one core; torchrun would set the same, with a warning.
    mask = ",".join(str(device.index) for device in devices)
    return {"CUDA_VISIBLE_DEVICES": "", "GPUTOP_VIRTUAL_DEVICES": mask, "OMP_NUM_THREADS": "1"}


def _check_devices(recipe: Recipe, devices: Sequence[Device]) -> None:
    count = len(devices)
    if count < recipe.min_devices:
        needed = "one GPU" if recipe.min_devices == 1 else f"{recipe.min_devices} GPUs"
        raise UsageError(f"{recipe.id} needs at least {needed}; {count} chosen.", "Choose more, or try gputop --virtual 4.")
    if recipe.max_devices is not None and count > recipe.max_devices:
        fitting = "one GPU" if recipe.max_devices == 1 else f"at most {recipe.max_devices} GPUs"
        raise UsageError(f"{recipe.id} uses {fitting}; {count} chosen.", "Choose fewer, or another recipe.")
    if len({device.uuid for device in devices}) != count:
        raise UsageError("A GPU is chosen twice.", "Choose each GPU once.")
    lost = next((device for device in devices if device.state == "lost"), None)
    if lost is not None:
        raise UsageError(f"GPU {lost.index} is lost: the driver no longer reaches it.", "Choose another.")


def _launcher(recipe: Recipe, count: int) -> tuple[str, ...]:
    if recipe.launcher == "python":
        return (sys.executable, "-u")
    return (sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}")
