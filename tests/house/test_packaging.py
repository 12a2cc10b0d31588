"""The wheel: demos travel in it and are found from it, as they are from a checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests import REPOSITORY


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(target)]
    subprocess.run([*command, str(REPOSITORY)], check=True)
    return next(target.glob("*.whl"))


def test_every_demo_is_in_the_wheel(wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    scripts = [path.relative_to(REPOSITORY / "demos") for path in (REPOSITORY / "demos").rglob("*.py")]
    assert len(scripts) >= 8
    assert {f"gputop/_demos/{path}" for path in scripts} <= packed
    assert "gputop/tui/gputop.tcss" in packed


def test_recipes_are_found_from_an_installed_wheel_and_run(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    code = "from gputop.recipes.catalogue import RECIPES, demos_dir; print(demos_dir()); [print(r.script) for r in RECIPES]"
    environment = {**os.environ, "PYTHONPATH": str(site)}
    out = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path, env=environment
    ).stdout.split("\n")
    assert Path(out[0]) == site / "gputop" / "_demos"
    script = site / "gputop" / "_demos" / "single.py"
    ran = subprocess.run(
        [sys.executable, str(script), "--steps", "2", "--batch-size", "8"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_every_file_has_its_place_and_a_name_that_any_system_can_hold() -> None:
    """What a program under attack leaves in the current folder, or a colleague's notes, must not be committed."""
    git = subprocess.run(["git", "-C", str(REPOSITORY), "ls-files", "-z"], capture_output=True, text=True, check=False)
    if git.returncode:
        pytest.skip(f"this is no git checkout: {git.stderr.strip()}")
    files = git.stdout.rstrip("\0").split("\0")
    rooms = {".ci", "benchmarks", "demos", "docs", "gputop", "tests"}
    at_the_top = {".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md"}
    at_the_top |= {"constraints.txt", "pyproject.toml"}
    assert not [file for file in files if file.partition("/")[0] not in (rooms if "/" in file else at_the_top)]
    assert not [file for file in files if not re.fullmatch(r"[A-Za-z0-9._/+()\[\], -]+", file)]


def test_recipes_are_found_from_the_checkout() -> None:
    from gputop.recipes.catalogue import RECIPES, demos_dir

    assert demos_dir() == REPOSITORY / "demos"
    assert {recipe.id for recipe in RECIPES} >= {
        "single",
        "data-parallel",
        "ddp",
        "faults/ranks-on-one-gpu",
        "faults/dp-small-batch",
    }


def test_the_distribution_has_its_name_in_one_place() -> None:
    name = re.search(r'^name = "(.+)"$', (REPOSITORY / "pyproject.toml").read_text(), re.MULTILINE)
    assert name is not None
    tracked = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=REPOSITORY, check=False).stdout.split()
    texts = [REPOSITORY / path for path in tracked if Path(path).suffix in {".py", ".md", ".toml", ".txt", ""}]
    holding = [path.name for path in texts if path.is_file() and name[1] in path.read_text(errors="ignore")]
    assert holding == ["pyproject.toml"]


def test_no_text_tells_the_user_to_install_the_other_gputop() -> None:
    pattern = re.compile(r"(pip|pipx|uv|uvx)\s+(tool\s+)?(install|run)?\s*['\"]?gputop\b")
    for path in (REPOSITORY / "README.md", *(REPOSITORY / "gputop").rglob("*.py"), *(REPOSITORY / "demos").rglob("*.py")):
        assert not pattern.search(path.read_text()), path
