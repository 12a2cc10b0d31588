"""Recipes become command lines: for real and virtual GPUs, with values checked."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from gputop.cli.jobs import recipe_values
from gputop.doctor.rules import IDS
from gputop.errors import UsageError
from gputop.recipes.catalogue import RECIPES, Recipe, demos_dir, find, prepare
from gputop.snapshot import Device
from tests import REPOSITORY
from tests.demos.runs import run_demo
from tests.house.how_to import step
from tests.packages import needs
from tests.samples import device

NOT_OFFERED = {"--backend", "--devices", "--help", "--save"}
"""Options of scripts that the launch screen does not show: gputop or the launcher sets them, or they are for tests."""


def virtual(count: int, first: int = 0) -> tuple[Device, ...]:
    return tuple(Device(index, f"virtual-{index}", kind="virtual") for index in range(first, first + count))


def fitting(recipe: Recipe) -> tuple[Device, ...]:
    return virtual(max(recipe.min_devices, recipe.default_devices))


@needs("torch")
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.id)
def test_a_script_takes_the_options_that_its_recipe_names(recipe: Recipe) -> None:
    """The script's own parser is asked, in a real process: --help comes after every option has been read."""
    assert "name" in recipe.defaults(), f"{recipe.id} has no option for the run's name; {step('A demo', 'Options')}"
    script = demos_dir() / recipe.script
    switches = {option.name: "yes" for option in recipe.options if option.switch}
    values = {name: value for name, value in {"steps": 3, "data": str(REPOSITORY)}.items() if name in recipe.defaults()}
    launch = prepare(recipe, fitting(recipe), {**values, **switches})
    arguments = launch.argv[launch.argv.index(str(script)) + 1 :]
    own = {**recipe.env, "COLUMNS": "200", "STARTED_BY_LOOP": "1"}
    asked = run_demo(recipe.script.removesuffix(".py"), *arguments, "--help", ranks=0, env=own)
    assert asked.codes == [0], f"{recipe.script} --help fails; {step('A demo', 'Script')}\n{asked.text}"
    offered = {option.flag for option in recipe.options}
    hidden = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", asked.text)) - offered - NOT_OFFERED
    # A fault offers only what its mistake needs.
    assert recipe.fault or not hidden, f"{recipe.id} does not offer {', '.join(sorted(hidden))}; {step('A demo', 'Options')}"
    for option in recipe.options:
        assert option.help, f"{option.name} has no help text; {step('A demo', 'Options')}"
        assert option.flag in asked.text, f"{recipe.script} --help does not show {option.flag}; {step('A demo', 'Options')}"
        if option.switch:
            assert option.flag in arguments  # alone, without a "yes"
        elif option.default is not None:
            same = f"(default: {option.default})" in asked.text
            assert same, f"{option.name}: the form and the script differ; {step('A demo', 'Options')}"


def test_facts_are_found_beside_what_the_script_says_unless_that_is_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTOP_AUTO", "0")
    assert prepare(find("ddp"), virtual(2)).env["GPUTOP_AUTO"] == "0"
    monkeypatch.delenv("GPUTOP_AUTO")
    assert prepare(find("ddp"), virtual(2)).env["GPUTOP_AUTO"] == "1"


def test_real_gpus_are_chosen_by_uuid_and_in_the_given_order() -> None:
    chosen = (device(3), device(1))
    launch = prepare(find("ddp"), chosen, {"model": "resnet18", "batch_size": "128", "lr": 0.1})
    assert launch.env == {"CUDA_VISIBLE_DEVICES": f"{chosen[0].uuid},{chosen[1].uuid}", "GPUTOP_AUTO": "0"}
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
        ("model-parallel", virtual(1), {}, "at least 2 GPUs"),
        ("model-parallel", virtual(3), {}, "at most 2 GPUs"),
        ("ddp", virtual(2), {"amp": "perhaps"}, "cannot be 'perhaps'"),
        ("inference", virtual(1), {"checkpoint": "/nowhere/model.pt"}, "There is no file"),
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
def test_a_wrong_choice_is_reported_with_the_valid_ones(
    recipe: str, devices: tuple[Device, ...], values: dict[str, object], words: str
) -> None:
    with pytest.raises(UsageError) as told:
        prepare(find(recipe), devices, values)
    assert words in told.value.message
    assert told.value.hint


@needs("torch")
def test_over_several_machines_the_gpus_of_all_count_unless_the_mistake_is_about_those_of_one() -> None:
    recipe, crowded = find("faults/no-sampler"), find("faults/ranks-on-one-gpu")
    assert prepare(recipe, virtual(1), nodes=2).argv
    with pytest.raises(UsageError, match="at least 2 GPUs; 1 chosen"):
        prepare(recipe, virtual(1))
    with pytest.raises(UsageError, match="at least 2 GPUs; 1 chosen"):
        prepare(crowded, virtual(1), nodes=2)


def test_an_unknown_recipe_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="faults/ranks-on-one-gpu"):
        find("dpp")


def test_missing_torch_is_reported_and_torch_is_never_imported() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from gputop.recipes.catalogue import find, prepare\n"
        "from gputop.snapshot import Device\n"
        "try: prepare(find('single'), [Device(0, 'virtual-0', kind='virtual')]); print('prepared', 'torch' in sys.modules)\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )

    def run(*flags: str) -> str:
        return subprocess.run(
            [sys.executable, *flags, "-c", code, str(REPOSITORY)], capture_output=True, text=True
        ).stdout.strip()

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


@pytest.mark.parametrize("recipe", [recipe for recipe in RECIPES if recipe.fault], ids=lambda recipe: recipe.id)
def test_a_fault_names_the_same_cause_in_its_script_and_its_recipe(recipe: Recipe) -> None:
    text = ast.get_docstring(ast.parse((demos_dir() / recipe.script).read_text())) or "(none)"
    assert text.splitlines()[0].endswith(f"(Doctor: {recipe.fault})"), step("A demo", "Script")
    assert "The fix: " in text, step("A demo", "Script")
    assert recipe.fault in IDS, f"there is no rule {recipe.fault}; {step('A demo', 'Recipe')}"


def test_every_script_is_a_recipe_and_every_fault_is_another_one() -> None:
    parts = {"cpu_data_parallel", "costly", "devices", "digits", "idx", "models", "options", "precision", "progress", "sync_bn"}
    scripts = {str(path.relative_to(demos_dir())) for path in demos_dir().rglob("*.py") if path.stem not in parts}
    described = {recipe.script for recipe in RECIPES}
    assert scripts <= described, f"{', '.join(sorted(scripts - described))} is in no recipe; {step('A demo', 'Recipe')}"
    assert described <= scripts, f"{', '.join(sorted(described - scripts))} is not in demos/; {step('A demo', 'Script')}"
    faults = Counter(recipe.fault for recipe in RECIPES if recipe.fault)
    twice = sorted(rule for rule, times in faults.items() if times > 1)
    assert not twice, f"{', '.join(twice)} has two faults; {step('A demo', 'Recipe')}"
    assert len(faults) >= 20
    assert len({recipe.id for recipe in RECIPES}) == len(RECIPES)


def test_a_fault_in_the_command_or_environment_is_part_of_the_launch() -> None:
    assert "--nproc-per-node=1" in prepare(find("faults/fewer-ranks"), virtual(2)).argv
    assert "torch.distributed.launch" in prepare(find("faults/local-rank-argument"), virtual(2)).argv
    assert prepare(find("faults/plain-python"), virtual(2)).argv[:2] == (sys.executable, "-u")
    assert prepare(find("faults/debug-flags"), virtual(2)).env["CUDA_LAUNCH_BLOCKING"] == "1"
    repeated = find("faults/mask-with-a-repeat")
    assert prepare(repeated, virtual(1)).env["GPUTOP_VIRTUAL_DEVICES"] == "0,0"
    assert prepare(repeated, (device(1),)).env["CUDA_VISIBLE_DEVICES"] == "0,0"


def test_a_switch_stands_alone_or_not_at_all() -> None:
    assert "--amp" in prepare(find("ddp"), virtual(2), {"amp": "yes"}).argv
    assert "--amp" not in prepare(find("ddp"), virtual(2), {"amp": "no"}).argv
    assert recipe_values(find("ddp"), ["--amp", "--lr", "0.1"])[1] == {"amp": "yes", "lr": "0.1"}
