"""Recipes become command lines: for real and virtual GPUs, with values checked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gputop.errors import UsageError
from gputop.launch.recipes import RECIPES, Recipe, demos_dir, find, prepare
from gputop.snapshot import Device
from tests.samples import device

ROOT = Path(__file__).resolve().parents[1]


def virtual(count: int, first: int = 0) -> tuple[Device, ...]:
    return tuple(Device(index, f"virtual-{index}", kind="virtual") for index in range(first, first + count))


def fitting(recipe: Recipe) -> tuple[Device, ...]:
    return virtual(max(recipe.min_devices, recipe.default_devices))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.id)
def test_a_script_takes_the_options_that_its_recipe_names(recipe: Recipe) -> None:
    """The script's own parser is asked, in a real process: --help comes after every option has been read."""
    script = demos_dir() / recipe.script
    launch = prepare(recipe, fitting(recipe), {"steps": 3, "data": str(ROOT)})
    arguments = launch.argv[launch.argv.index(str(script)) + 1 :]
    asked = subprocess.run(
        [sys.executable, str(script), *arguments, "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert asked.returncode == 0, asked.stderr
    for option in recipe.options:
        assert option.flag in asked.stdout
        if option.default is not None:
            assert f"(default: {option.default})" in asked.stdout, f"{option.name}: the form and the script differ"


def test_real_gpus_are_chosen_by_uuid_and_in_the_given_order() -> None:
    chosen = (device(3), device(1))
    launch = prepare(find("ddp"), chosen, {"model": "resnet18", "batch_size": "128", "lr": 0.1})
    assert launch.env == {"CUDA_VISIBLE_DEVICES": f"{chosen[0].uuid},{chosen[1].uuid}"}
    assert launch.device_uuids == (chosen[0].uuid, chosen[1].uuid)
    assert launch.argv[1:4] == ("-m", "torch.distributed.run", "--standalone")
    assert "--nproc-per-node=2" in launch.argv
    assert launch.name == "resnet18-ddp"
    line = " ".join(launch.argv)
    assert "--batch-size 128" in line
    assert "--lr 0.1" in line
    assert "--steps" not in line  # an option without a value is left to the script


def test_virtual_gpus_are_chosen_by_index_and_cuda_is_hidden() -> None:
    launch = prepare(find("data-parallel"), virtual(2, first=2))
    assert launch.env["GPUTOP_VIRTUAL_DEVICES"] == "2,3"
    assert launch.env["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.parametrize(
    ("recipe", "devices", "values", "words"),
    [
        ("ddp", (), {}, "at least one GPU"),
        ("data-parallel", virtual(1), {}, "at least 2 GPUs"),
        ("single", virtual(2), {}, "uses one GPU"),
        ("ddp", (*virtual(1), device(0)), {}, "cannot train together"),
        ("ddp", virtual(1) * 2, {}, "chosen twice"),
        ("ddp", (device(0, state="lost"),), {}, "is lost"),
        ("ddp", virtual(2), {"batch_size": "many"}, "not a whole number"),
        ("ddp", virtual(2), {"batch_size": 0}, "Batch size is 0"),
        ("ddp", virtual(2), {"lr": "nan"}, "Learning rate is nan"),
        ("ddp", virtual(2), {"model": "vgg"}, "cannot be 'vgg'"),
        ("ddp", virtual(2), {"colour": "red"}, "no option 'colour'"),
        ("ddp", virtual(2), {"data": "/nowhere/at/all"}, "There is no folder"),
    ],
)
def test_a_wrong_choice_is_told_with_a_way_out(
    recipe: str, devices: tuple[Device, ...], values: dict[str, object], words: str
) -> None:
    with pytest.raises(UsageError) as told:
        prepare(find(recipe), devices, values)
    assert words in told.value.message
    assert told.value.hint


def test_an_unknown_recipe_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="faults/ranks-on-one-gpu"):
        find("dpp")


def test_missing_torch_is_told_and_torch_is_never_imported() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from gputop.launch.recipes import find, prepare\n"
        "from gputop.snapshot import Device\n"
        "try: prepare(find('single'), [Device(0, 'virtual-0', kind='virtual')]); print('prepared', 'torch' in sys.modules)\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )

    def run(*flags: str) -> str:
        return subprocess.run([sys.executable, *flags, "-c", code, str(ROOT)], capture_output=True, text=True).stdout.strip()

    assert run() == "prepared False"
    without = run("-S", "-I")  # no site-packages: an interpreter without torch
    assert without.startswith("UsageError PyTorch is not installed")
    assert "pip install torch" in without


def test_demos_are_found_in_a_wheel_first_and_else_beside_the_package(tmp_path: Path) -> None:
    package = tmp_path / "gputop"
    package.mkdir()
    with pytest.raises(UsageError, match="not installed"):
        demos_dir(package)
    shutil.copytree(demos_dir(), tmp_path / "demos")
    assert demos_dir(package) == tmp_path / "demos"
    shutil.copytree(demos_dir(), package / "_demos")
    assert demos_dir(package) == package / "_demos"
