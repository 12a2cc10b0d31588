"""The walls between packages, by walking the imports and by asking a fresh interpreter; and that they would be noticed."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from gputop.agent.first_look import OPTION as FIRST_LOOK
from gputop.agent.process import CHANGES
from tests import REPOSITORY
from tests.house.walls import MAY_IMPORT, House, as_table, find_cycle, named_in

STANDARD_LIBRARY = frozenset(sys.stdlib_module_names)
MODULES_MOST, TEST_MODULES_MOST = 21, 25
"""More modules in one folder are several ideas: is there a package within the package? Tests have some helpers, too."""


@pytest.fixture(scope="module")
def house() -> House:
    return House(REPOSITORY / "gputop")


def test_packages_import_what_the_table_allows(house: House) -> None:
    assert not house.wrong_walls(), "\n".join(house.wrong_walls())


def test_the_table_allows_nothing_that_is_not_used(house: House) -> None:
    assert not house.unused_permissions(), "\n".join(house.unused_permissions())


def test_packages_depend_on_one_another_in_one_direction() -> None:
    assert not find_cycle(MAY_IMPORT), " -> ".join(find_cycle(MAY_IMPORT))


def test_there_are_no_import_cycles(house: House) -> None:
    assert not house.cycle(), " -> ".join(house.cycle())


def test_libraries_are_imported_in_their_places_only(house: House) -> None:
    wrong = house.wrong_libraries(STANDARD_LIBRARY)
    assert not wrong, "\n".join(wrong)


def test_no_folder_is_too_large(house: House) -> None:
    folders = [name.rpartition("/")[0] for name in house.sources]
    large = {folder: folders.count(folder) for folder in set(folders) if folders.count(folder) > MODULES_MOST}
    assert not large
    places = {REPOSITORY / "benchmarks", *(path.parent for path in (REPOSITORY / "demos").rglob("*.py"))}
    assert not {place for place in places if len(list(place.glob("*.py"))) > MODULES_MOST}
    packages = [path.parent for path in (REPOSITORY / "tests").rglob("__init__.py")]
    folders = [package.relative_to(REPOSITORY).as_posix() for package in packages for _ in package.glob("*.py")]
    large = {folder: folders.count(folder) for folder in set(folders) if folders.count(folder) > TEST_MODULES_MOST}
    assert not large


def test_a_test_named_after_a_module_is_in_its_folder(house: House) -> None:
    """Such as ``tests/jobs/output/test_search.py``, unless it imports no module of that name."""
    wrong = []
    for path in sorted((REPOSITORY / "tests").rglob("test_*.py")):
        name, folder = path.stem.removeprefix("test_"), path.parent.relative_to(REPOSITORY / "tests").as_posix()
        of_name = {house.module(path) for path in house.sources if path.rpartition("/")[2] == f"{name}.py"}
        named = {word for _, module, part, _ in named_in(path.read_text("utf-8")) for word in (module, f"{module}.{part}")}
        homes = {module.rpartition(".")[0].removeprefix("gputop").replace(".", "/").strip("/") or "." for module in of_name}
        if of_name & named and folder not in homes:
            wrong.append(f"{path.relative_to(REPOSITORY)} belongs to tests/{' or tests/'.join(sorted(homes))}")
    assert not wrong, "\n".join(wrong)


def test_tests_are_in_the_folders_of_what_they_test() -> None:
    packages = {path.parent.relative_to(REPOSITORY / "gputop") for path in (REPOSITORY / "gputop").rglob("*.py")}
    others = {
        Path("demos"),
        Path("docs"),
        Path("gpu"),
        Path("house"),
        Path("nursery"),
        Path("nvml_sim"),
        Path("doctor/scenes"),
        Path("tracking/conformance"),
    }
    folders = {path.parent.relative_to(REPOSITORY / "tests") for path in (REPOSITORY / "tests").rglob("test_*.py")}
    assert folders <= packages | others, f"no package of these names: {sorted(map(str, folders - packages - others))}"


def test_the_architecture_page_shows_the_table() -> None:
    page = (REPOSITORY / "docs" / "architecture.md").read_text()
    shown = page.partition("<!-- packages -->")[2].partition("<!-- /packages -->")[0].strip()
    assert shown == as_table(REPOSITORY / "gputop"), "docs/architecture.md is not current: run `make docs`"


BREACHES = {
    "a source that imports the screen": (
        "sources/base.py",
        "from gputop.tui import state",
        "sources/base.py:999 imports gputop.tui.state",
    ),
    "a record that imports jobs": (
        "history/series.py",
        "def f() -> None:\n    from gputop.jobs import store",
        "history/series.py:1000 imports gputop.jobs.store",
    ),
    "a screen that reads /proc": (
        "tui/screens/details.py",
        "from gputop.sources.host import procfs",
        "does not let tui/screens import sources/host",
    ),
    "a sampler that imports the command line by name": (
        "agent/sampler.py",
        "NAME = 'gputop.cli.parser'",
        "does not let agent import cli",
    ),
    "an import for types": (
        "doctor/diagnosis.py",
        "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from gputop.agent.feed import Feed",
        "does not let doctor import agent",
    ),
    "a framework outside its adapter": (
        "tracking/auto/hooks.py",
        "def f() -> None:\n    import lightning",
        "tracking/auto/hooks.py:1000 imports lightning, but only adapters/lightning.py may",
    ),
    "a framework that has no adapter": (
        "doctor/report.py",
        "def f() -> None:\n    import deepspeed",
        "doctor/report.py:1000 imports deepspeed, but MAY_IMPORT_LIBRARY in tests/house/walls.py does not list it",
    ),
    "a part of a package by a name that is put together": (
        "doctor/report.py",
        "def f(name: str) -> None:\n    importlib.import_module(f'gputop.jobs.{name}')",
        "does not let doctor import jobs",
    ),
    "a framework by name": (
        "doctor/diagnosis.py",
        "def f() -> None:\n    importlib.import_module('keras')",
        "doctor/diagnosis.py:1000 imports keras, but only adapters/keras.py may",
    ),
    "torch in a training process": (
        "tracking/run.py",
        "def f() -> None:\n    import torch",
        "imports torch, but nothing of gputop may",
    ),
    "a library in a training process": ("tracking/run.py", "import yaml", "loads the standard library only"),
    "a new package": ("weather/report.py", "X = 1", "weather is not listed: add it to _TABLE"),
}


@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_is_noticed(name: str) -> None:
    path, code, words = BREACHES[name]
    copy = broken(path, code)
    found = [*copy.wrong_walls(), *copy.wrong_libraries(STANDARD_LIBRARY)]
    assert any(words in line for line in found), found


def test_a_lazy_import_that_closes_a_cycle_is_noticed() -> None:
    back = "def f() -> None:\n    from gputop.tracking.auto import install"
    assert broken("tracking/auto/training/state.py", back).cycle()
    typed = "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from gputop.tui.app import GputopApp"
    cycle = broken("tui/screen_factory.py", typed).cycle()
    assert {"gputop.tui.app", "gputop.tui.screen_factory"} <= set(cycle)


def broken(path: str, code: str) -> House:
    """Return the package with ``code`` at line 999 of one of its modules."""
    module = REPOSITORY / "gputop" / path
    source = module.read_text() if module.exists() else ""
    return House(REPOSITORY / "gputop", {path: source + "\n" * (998 - source.count("\n")) + code + "\n"})


@cache
def loaded_by(statement: str) -> frozenset[str]:
    code = f"import sys; {statement}; print(' '.join(sys.modules))"
    return frozenset(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize(
    "name",
    ["textual", "torch", "numpy", "psutil", "pynvml", "plotext", "rich", "asyncio", "gputop.facts", "gputop.facts.table"],
)
def test_import_gputop_is_light(name: str) -> None:
    assert name not in loaded_by("import gputop")


@pytest.mark.parametrize("name", ["textual", "torch", "numpy", "plotext", "rich", "psutil"])
def test_the_sampler_loads_no_screen(name: str) -> None:
    assert name not in loaded_by("import gputop.agent.serving, gputop.cli.main, gputop.cli.output.once")


@pytest.mark.parametrize("words", [["agent", CHANGES, FIRST_LOOK, "-i", "1"], ["agent", "--no-stand-in"], ["-i", "1"]])
def test_the_sampler_and_the_dashboard_load_no_other_command(words: list[str]) -> None:
    loaded = loaded_by(f"from gputop.cli.parser import parse; parse({words!r})")
    assert not loaded & {f"gputop.cli.arguments.{name}" for name in ("doctor", "itself", "jobs")}


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="dataclasses use it for every class there")
def test_the_sampler_loads_no_inspect() -> None:
    """Whoever adds a dataclass without a docstring has dataclasses load it: 1 MiB with what it imports."""
    readers = "gputop.agent.answering, gputop.untracked.curves, gputop.agent.gpu_pasts, gputop.untracked.windows.panes"
    readers += ", gputop.jobs.store"
    start = f"from gputop.__main__ import _run_sampler; sys.argv[1:] = ['agent', {CHANGES!r}, '-i', 'wrong']; _run_sampler()"
    loaded = loaded_by(f"{start}; import gputop.agent.serving, gputop.sources.nvml.source, {readers}")
    assert "gputop.sources.nvml.source" in loaded
    assert not loaded & {"argparse", "gputop.cli.main"}
    assert not loaded & {"inspect", "ast", "dis"}
    assert not loaded & {"urllib.parse", "shutil", "subprocess", "tempfile", "random"}


def test_one_reading_loads_nothing_that_starts_a_process() -> None:
    once = "from gputop.cli import machine, parser; machine.sampler_of(parser.parse(['--once']))"
    loaded = loaded_by(f"{once}; import gputop.untracked.curves, gputop.cli.output.once")
    assert {"pynvml", "ctypes.util"} <= loaded
    assert not loaded & {"shutil", "subprocess", "tempfile", "random"}


def test_one_reading_as_text_loads_nothing_for_json_translations_or_windows() -> None:
    start = "from gputop.startup.light_imports import import_argparse; import_argparse()"
    once = "from gputop.cli import machine, parser; machine.sampler_of(parser.parse(['--once']))"
    loaded = loaded_by(f"{start}; {once}; import gputop.untracked.curves, gputop.cli.output.once")
    assert {"argparse", "gputop.snapshot", "gputop.untracked.run_curves"} <= loaded
    assert not loaded & {"json", "gettext", "gputop.untracked.windows.panes"}


def test_what_judges_stacks_is_loaded_with_the_first_stack() -> None:
    loaded = loaded_by("import gputop.agent.serving")
    assert not loaded & {"gputop.whereabouts.activities", "gputop.sources.python_stacks.reader"}


def test_readers_of_foreign_files_are_loaded_only_once_there_is_an_untracked_run() -> None:
    loaded = {name for name in loaded_by("import gputop.agent.serving") if name.startswith("gputop.untracked")}
    assert loaded == {"gputop.untracked", "gputop.untracked.found"}


def test_the_launch_screen_reads_error_texts_only_of_jobs_that_failed() -> None:
    assert "gputop.doctor.logs.scan" not in loaded_by("import gputop.tui.screens.launch.screen, gputop.tui.lazy_doctor")


def test_a_training_process_loads_no_reader() -> None:
    loaded = loaded_by("import gputop, gputop.tracking.session, gputop.tracking.auto.install")
    assert not {name for name in loaded if name.startswith(("gputop.tracking.reader", "gputop.snapshot", "gputop.doctor"))}
