"""What lets gputop travel to Python 3.8 and 3.9: translated modules, and a standard library with what they use."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gputop.hosts import older_python, traveling
from tests.hosts.newer_names import NAMES, newer
from tests.pythons import python_of

NEWER_PYTHON = Path(__file__).with_name("newer_python.py")


def sources() -> dict[str, str]:
    """What travels of gputop itself: file name -> source."""
    archive = zipfile.ZipFile(io.BytesIO(traveling.message()[traveling.SIZE_DIGITS :]))
    return {name: archive.read(name).decode() for name in archive.namelist() if not name.startswith(("pynvml", "tomli"))}


def lacking(source: str, *, translated: bool = True) -> list[str]:
    """Return what Python 3.8 lacks for a module: its syntax, or names that nothing supplies."""
    try:
        ast.parse(source, feature_version=(3, 8))
    except SyntaxError as error:
        return [f"line {error.lineno}: {error.msg}"]
    tree = older_python.translated(source) if translated else ast.parse(source)
    return sorted({name for name in newer(tree) if name not in SUPPLIED and not name.endswith(METHODS_SUPPLIED)})


OTHERS = ("psutil", "textual", "tomli", "tomllib")
"""Packages that need not be there: what travels imports them only for a screen, or does without."""
SUPPLIED = {
    "dataclass(slots=)",
    "functools.cache",
    "itertools.pairwise",
    "types.UnionType",
    "typing.TypeAlias",
    "zip(strict=)",
}
"""What ``older_python.supply`` adds, beside methods."""
METHODS_SUPPLIED = (".is_relative_to",)
STOPS = {"gputop/jobs/identity.py", "gputop/jobs/job_processes.py"}
"""Modules with names that Python 3.8 lacks and that only a command to stop a job uses: what travels stops nothing."""


def test_what_travels_asks_nothing_of_python_3_8_that_it_lacks() -> None:
    found = {name: lacks for name, source in sources().items() if (lacks := lacking(source, translated="older" not in name))}
    for name in STOPS:
        assert found.pop(name) == ["os.pidfd_open", "signal.pidfd_send_signal"]
    assert not found, "write it otherwise, or let gputop/hosts/older_python.py supply or translate it"


@pytest.mark.parametrize(
    "source",
    [
        "match x:\n    case 1: pass",
        "with (open(a) as b, open(c) as d): pass",
        "def f[T](x: T) -> T: ...",
        "import zoneinfo",
        "from graphlib import TopologicalSorter",
        "from typing import ParamSpec",
        "import os\nos.pidfd_open(1)",
        "(7).bit_count()",
        "anext(x)",
        "bisect(a, x, key=f)",
        "@dataclass(kw_only=True)\nclass A: pass",
        "traceback.format_exception(error)",
        "map(str.removeprefix, a, b)",
        "subprocess.run(a, umask=7)",
    ],
)
def test_what_python_3_8_lacks_is_found(source: str) -> None:
    assert lacking(source)


def test_what_is_translated_and_supplied_counts_as_known() -> None:
    assert not lacking("from functools import cache\nx = {} | {}\ny = x.removeprefix('a')\nzip(x, y, strict=True)")


def test_annotations_stay_as_they_are_written() -> None:
    source = "x: int | None = a | b\ndef f(x: str | None = c | d) -> list[int] | None: ..."
    assert ast.unparse(older_python.translated(source)).splitlines() == [
        "x: int | None = _gputop_union(a, b)",
        "",
        "def f(x: str | None=_gputop_union(c, d)) -> list[int] | None:",
        "    ...",
    ]


TRANSLATED = """
import sys
sys.path.insert(0, sys.argv[1])
import older_python
older_python.supply()
exec(compile(older_python.translated(sys.stdin.read()), "newer_python.py", "exec"))
"""


def test_a_program_of_python_3_10_is_what_it_should_be() -> None:
    done = subprocess.run([sys.executable, NEWER_PYTHON], capture_output=True, text=True, check=False)
    assert done.stdout == "all passed\n", done.stderr


@pytest.mark.parametrize("version", ["3.8", "3.9"])
def test_a_program_of_python_3_10_runs_translated(version: str) -> None:
    command = [python_of(version), "-I", "-c", TRANSLATED, str(Path(older_python.__file__).parent)]
    done = subprocess.run(command, input=NEWER_PYTHON.read_text(), capture_output=True, text=True, check=False)
    assert done.stdout == "all passed\n", done.stderr


IMPORTS = """
import importlib, sys
lacks = []
for name in NAMES:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] not in OTHERS:  # or it travels without what it needs, and is not used
            lacks.append(f"{name}: {error}")
    except Exception as error:
        lacks.append(f"{name}: {error!r}")
print("|".join(lacks))
"""


@pytest.mark.parametrize("version", ["3.8", "3.9"])
def test_every_module_that_travels_can_be_imported(version: str) -> None:
    loader, main, _ = traveling.LOADER.partition("from gputop.__main__ import main")
    assert main
    names = [name[: -len(".py")].replace("/", ".") for name in sources()]
    names = [name[: -len(".__init__")] if name.endswith(".__init__") else name for name in names if "__main__" not in name]
    script = loader + IMPORTS.replace("NAMES", repr(names)).replace("OTHERS", repr(("gputop", *OTHERS)))
    done = subprocess.run([python_of(version), "-c", script], input=traveling.message(), capture_output=True, check=False)
    assert done.stdout.decode() == "gputop-connected\n\n", done.stderr.decode()


NAMED = """
import ast, importlib, json, sys
sys.path.insert(0, sys.argv[1])
import older_python
older_python.supply()
lacks = []
def look(file, module, name):
    try:
        found = importlib.import_module(module)
        if not hasattr(found, name):
            importlib.import_module(module + "." + name)
    except ImportError:
        lacks.append(f"{file}: {module}.{name}")
for file, source in json.load(sys.stdin).items():
    tree = ast.parse(source)
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported.update({alias.asname or alias.name: alias.name for alias in node.names})
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                if node.module.partition(".")[0] not in OTHERS:
                    look(file, node.module, alias.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = imported.get(node.value.id, "gputop")
            if module.partition(".")[0] not in OTHERS:
                look(file, module, node.attr)
print(json.dumps(lacks))
"""


@pytest.mark.parametrize("version", ["3.8", "3.9"])
def test_every_name_of_the_standard_library_that_travels_is_there(version: str) -> None:
    script = NAMED.replace("OTHERS", repr(("gputop", "pynvml", *OTHERS)))
    command = [python_of(version), "-I", "-c", script, str(Path(older_python.__file__).parent)]
    done = subprocess.run(command, input=json.dumps(sources()), capture_output=True, text=True, check=True)
    assert [lacks for lacks in json.loads(done.stdout) if lacks.partition(":")[0] not in STOPS] == []


def test_the_list_of_newer_names_is_right() -> None:
    pairs = [(module, name) for module, names in NAMES.items() for name in names.split()]
    ask = "import importlib, json, sys; pairs = json.load(sys.stdin); has = lambda m, n: hasattr(importlib.import_module(m), n)"
    ask += "; print(json.dumps([has(*pair) for pair in pairs]))"
    for python, known in ((sys.executable, True), (python_of("3.8"), False)):
        done = subprocess.run([python, "-I", "-c", ask], input=json.dumps(pairs), capture_output=True, text=True, check=True)
        assert [pair for pair, found in zip(pairs, json.loads(done.stdout), strict=True) if found is not known] == []
