"""Which package may import which, and the check for it: one table for gputop, one for third-party packages.

An import counts wherever it is: at the top, inside a function, under ``TYPE_CHECKING``, or as a module's name in a string
(``import_module("gputop.jobs.store")``, ``python -m gputop.jobs.supervisor``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

GROUND = frozenset(
    (
        *(
            "clocks",
            "command_line",
            "device",
            "errors",
            "facts",
            "filters",
            "frameworks",
            "groups",
            "levels",
            "losses",
            "network",
            "places",
            "preflight",
            "process",
            "profiled",
            "questions",
        ),
        *("run_questions", "snapshot", "stream", "terminal_text", "units", "whereabouts", "wire"),
    )
)
"""Records, formats and words: modules that every package may import, except those inside a training process."""

_TABLE = {
    "command_line": "",
    "device": "",
    "errors": "",
    "facts": "frameworks units",
    "frameworks": "",
    "levels": "",
    "losses": "",
    "network": "units",
    "places": "",
    "preflight": "",
    "terminal_text": "",
    "wire": "",
    "clocks": "wire",
    "process": "whereabouts wire",
    "groups": "command_line process",
    "snapshot": "device losses network process wire",
    "stream": "device process snapshot wire",
    "units": "errors",
    "profiled": "terminal_text units wire",
    "whereabouts": "units wire",
    "run_questions": "snapshot stream wire",
    "questions": "clocks process profiled run_questions whereabouts wire",
    "filters": "errors losses process snapshot units",
    # The training side, which runs inside the user's training process. It writes journals and knows none of their readers.
    "tracking/journal": "places wire",
    "tracking/journal/writing": "losses places tracking/journal",
    "tracking/standing": "facts places tracking/journal tracking/journal/writing wire",
    "tracking/gpus": "places tracking/journal wire",
    "tracking/profiling": "places tracking/journal tracking/standing",
    "tracking/printed/origins": "",
    "tracking/printed": "losses terminal_text tracking/printed/origins",
    "tracking": (
        "facts places tracking/gpus tracking/journal tracking/journal/writing tracking/printed tracking/profiling"
        " tracking/standing"
    ),
    "tracking/auto/losses": "frameworks tracking tracking/journal",
    "tracking/auto/readings": "facts frameworks tracking tracking/journal tracking/journal/writing",
    "tracking/auto/training": (
        "losses tracking/auto/losses tracking/auto/readings tracking tracking/journal tracking/journal/writing"
    ),
    "tracking/auto/models": "facts tracking tracking/auto/readings tracking/auto/training tracking/journal",
    "tracking/auto": (
        "facts tracking tracking/auto/losses tracking/auto/models tracking/auto/readings tracking/auto/training"
        " tracking/journal tracking/standing"
    ),
    "tracking/site": "tracking tracking/reader",
    "adapters": "facts tracking tracking/auto/training tracking/journal",
    "gputop": "adapters errors startup tracking tracking/auto tracking/journal",
    # The machine: sources read it, jobs run on it, the agent takes snapshots of it.
    "tracking/reader": "ground tracking/journal tracking/standing",
    "sources/python_stacks": "ground",
    "sources/host": "ground sources/python_stacks startup",
    "sources/nccl": "ground",
    "sources/network": "ground sources/host",
    "sources": "ground sources/host",
    "sources/nvml": "ground sources sources/host",
    "where": "ground sources/host sources/network sources/python_stacks tracking/journal tracking/standing",
    "profiles": "ground tracking/journal tracking/profiling where",
    "untracked/files": "ground tracking/printed",
    "untracked/windows": "ground doctor/logs sources/host tracking/printed",
    "untracked": (
        "ground doctor/logs doctor/logs/meaning jobs/output sources/host tracking/journal tracking/journal/writing"
        " tracking/printed untracked/files untracked/windows"
    ),
    "untracked/unfollowed": "ground sources/host untracked",
    "programs": "ground",
    "recipes": "ground",
    "jobs": "ground programs recipes",
    "jobs/output": (
        "ground doctor/findings doctor/logs doctor/logs/meaning doctor/logs/numbers doctor/logs/numbers/gpus"
        " doctor/logs/numbers/lost doctor/logs/numbers/paces doctor/logs/numbers/ranks"
        " doctor/logs/patterns jobs tracking/journal"
        " tracking/printed tracking/reader"
    ),
    "agent": (
        "ground untracked untracked/unfollowed jobs jobs/output profiles sources sources/host sources/nccl sources/network"
        " sources/nvml tracking/gpus tracking/journal tracking/reader where"
    ),
    "hosts": "ground agent programs",
    "hosts/prometheus": "ground agent hosts",
    "over_hosts": "ground hosts jobs recipes",
    "joined": "ground",
    "history": "ground",
    "settings": "ground hosts hosts/prometheus",
    "startup": "",
    # The doctor: pure. Snapshots and logs in, findings out; it imports no source, no job and no screen.
    "doctor/facts": "ground",
    "doctor/evidence": "ground doctor/facts history",
    "doctor/findings": "ground doctor/evidence",
    "doctor/logs/patterns": "doctor/findings",
    "doctor/logs/quoted": "",
    "doctor/logs": "ground doctor/findings doctor/logs/patterns doctor/logs/quoted",
    "doctor/logs/meaning": "ground doctor/findings doctor/logs doctor/logs/patterns",
    "doctor/logs/numbers": "ground doctor/findings doctor/logs tracking/printed",
    "doctor/logs/numbers/gpus": "ground doctor/findings doctor/logs doctor/logs/numbers",
    "doctor/logs/numbers/lost": "ground doctor/findings doctor/logs doctor/logs/numbers tracking/printed",
    "doctor/logs/numbers/paces": "ground doctor/findings doctor/logs doctor/logs/numbers tracking/printed",
    "doctor/logs/numbers/ranks": "ground doctor/findings doctor/logs doctor/logs/numbers doctor/logs/numbers/gpus",
    "doctor/preflight": "ground doctor/evidence doctor/findings",
    "doctor/rules/support": (
        "ground doctor/evidence doctor/facts doctor/findings doctor/logs doctor/logs/meaning doctor/logs/patterns"
    ),
    "doctor/rules/hosts": "ground doctor/evidence doctor/facts doctor/findings doctor/rules/support joined",
    "doctor/rules/data_parallel": "ground doctor/evidence doctor/facts doctor/findings doctor/rules/support",
    "doctor/rules/ddp": "ground doctor/evidence doctor/facts doctor/findings doctor/rules/support",
    "doctor/rules/learning/evaluating": "ground doctor/evidence doctor/facts doctor/findings doctor/rules/support",
    "doctor/rules/learning": (
        "ground doctor/evidence doctor/facts doctor/findings doctor/rules/learning/evaluating doctor/rules/support history"
    ),
    "doctor/rules/machine": (
        "ground doctor/evidence doctor/facts doctor/findings doctor/logs/meaning doctor/logs/patterns doctor/rules/support"
    ),
    "doctor/rules/launching": (
        "ground doctor/evidence doctor/facts doctor/findings doctor/logs/meaning doctor/logs/patterns doctor/rules/machine"
        " doctor/rules/support"
    ),
    "doctor/rules/cores": "ground doctor/evidence doctor/facts doctor/findings doctor/rules/support",
    "doctor/rules/pace": "ground doctor/evidence doctor/facts doctor/findings doctor/rules/support",
    "doctor/rules/standstill": "ground doctor/evidence doctor/facts doctor/findings doctor/rules/support",
    "doctor/rules/texts": (
        "ground doctor/evidence doctor/facts doctor/findings doctor/logs doctor/logs/meaning doctor/logs/patterns"
        " doctor/rules/launching doctor/rules/machine doctor/rules/support"
    ),
    # It finds the families by listing its folder.
    "doctor/rules": "doctor/rules/support",
    "doctor": (
        "ground doctor/evidence doctor/findings doctor/logs doctor/logs/meaning doctor/logs/numbers doctor/logs/numbers/gpus"
        " doctor/logs/numbers/lost doctor/logs/numbers/paces doctor/logs/numbers/ranks"
        " doctor/logs/patterns doctor/preflight doctor/rules doctor/rules/support history"
    ),
    "selftest": "ground agent doctor gputop sources sources/nvml",
    "export": "ground agent doctor doctor/findings",
    # The screens: they draw what the stream and the doctor say.
    "tui/state": "ground agent doctor doctor/findings history hosts joined settings",
    "tui/drawing/charts": "units",
    "tui/drawing": "ground history tui/drawing/charts tui/state",
    "tui/drawing/doctor": "ground doctor/findings tui/drawing tui/state",
    "tui/drawing/processes": "ground tui/drawing tui/state",
    "tui/drawing/gpus": (
        "ground doctor/evidence doctor/facts doctor/findings history tui/drawing tui/drawing/doctor tui/drawing/processes"
        " tui/state"
    ),
    "tui/drawing/runs": "ground doctor/findings history tui/drawing tui/drawing/charts tui/drawing/gpus tui/state",
    "tui/drawing/hosts": ("ground doctor/findings hosts joined tui/drawing tui/drawing/doctor tui/drawing/gpus tui/state"),
    "tui/drawing/untracked": (
        "ground doctor/findings history tui/drawing tui/drawing/doctor tui/drawing/gpus tui/drawing/runs tui/state"
    ),
    "tui/terminal": "ground",
    "tui/widgets": (
        "ground settings tui/drawing tui/drawing/doctor tui/drawing/gpus tui/drawing/processes tui/drawing/runs"
        " tui/drawing/untracked tui/state tui/terminal"
    ),
    "tui/screens": (
        "ground doctor/findings history jobs settings tui/drawing tui/drawing/doctor tui/drawing/gpus"
        " tui/drawing/processes tui/drawing/runs tui/drawing/untracked tui/state tui/terminal tui/widgets"
    ),
    "tui/screens/run": (
        "ground history settings tui/drawing tui/drawing/charts tui/drawing/runs tui/drawing/untracked tui/screens"
        " tui/state tui/widgets"
    ),
    "tui/screens/launch": (
        "ground doctor/findings hosts jobs jobs/output over_hosts recipes tui/drawing tui/drawing/doctor tui/screens tui/state"
        " tui/widgets"
    ),
    "tui/screens/profile": "ground tui/drawing tui/screens tui/state tui/widgets",
    "tui/screens/hosts": "ground tui/drawing tui/drawing/hosts tui/screens tui/state tui/terminal tui/widgets",
    "tui": (
        "ground agent doctor doctor/findings history hosts jobs joined over_hosts settings startup tui/drawing"
        " tui/drawing/gpus tui/screens tui/screens/hosts tui/screens/launch tui/screens/profile tui/screens/run tui/state"
        " tui/terminal tui/widgets"
    ),
    # The command line: passes each command to the package that executes it.
    "cli/arguments": "agent errors settings",
    "cli/across": "ground doctor doctor/findings hosts jobs joined over_hosts recipes",
    "cli/doctor": (
        "ground agent cli/arguments cli/stored doctor doctor/findings doctor/logs/meaning doctor/preflight jobs/output sources"
    ),
    "cli/launching": "ground agent jobs recipes",
    "cli/live": "ground profiles",
    "cli/output": "ground hosts joined",
    "cli/stored": ("ground untracked history tracking/gpus tracking/journal tracking/reader tui/drawing tui/drawing/runs"),
    "cli": (
        "ground agent cli/across cli/arguments cli/doctor cli/launching cli/live cli/output cli/stored export gputop hosts"
        " hosts/prometheus jobs jobs/output over_hosts recipes selftest settings sources startup tracking/reader tui where"
    ),
    "__main__": "agent cli startup",
}
MAY_IMPORT: Mapping[str, frozenset[str]] = {
    package: frozenset(words.split()) - {"ground"} | (GROUND if "ground" in words.split() else frozenset())
    for package, words in _TABLE.items()
}
"""Package -> the packages that its modules may import, besides its own; "gputop" is only the package's ``__init__``.

A package that is a module directly below ``gputop`` (``errors``) is on the ground floor.
"""

MAY_IMPORT_LIBRARY: Mapping[str, tuple[str, ...]] = {
    "pynvml": ("sources/nvml/",),
    "psutil": ("sources/host/",),
    "prometheus_client": ("export/server.py",),
    "textual": ("tui/",),
    "rich": ("tui/",),
    "plotext": ("tui/drawing/",),
    "accelerate": ("adapters/accelerate.py",),
    "keras": ("adapters/keras.py",),
    "lightning": ("adapters/lightning.py",),
    "pytorch_lightning": ("adapters/lightning.py",),
    "transformers": ("adapters/huggingface.py",),
    "tensorboard": (),
    "wandb": (),
    "torch": (),
    "numpy": (),
    "tomli": ("settings/file.py",),
}
"""Library -> the folders and modules of gputop that may import it. Any other one may be imported nowhere."""
STANDARD_LIBRARY_ONLY = ("tracking/",)
"""Folders that import nothing but the standard library and gputop: they run inside trainings."""


@dataclass(frozen=True, slots=True)
class Import:
    """One import of one module. ``importer`` is a path below the package, ``imported`` a dotted name."""

    importer: str
    imported: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


class House:
    """The modules of a package and their imports; ``changed`` replaces the source of modules, or adds some."""

    def __init__(self, package: Path, changed: Mapping[str, str] | None = None) -> None:
        self.name = package.name
        found = {path.relative_to(package).as_posix(): path.read_text("utf-8") for path in sorted(package.rglob("*.py"))}
        self.sources = {name: source for name, source in found.items() if not name.startswith("_demos/")} | dict(changed or {})
        self._by_module = {self.module(name): name for name in self.sources}
        self.imports = [
            Import(name, imported, line) for name, source in self.sources.items() for imported, line in self._imported(source)
        ]

    def module(self, name: str) -> str:
        """Return the dotted name of a path below the package."""
        parts = [self.name, *name.removesuffix(".py").split("/")]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def package(self, module: str) -> str:
        """Return the package, a key of ``MAY_IMPORT``, to which one of our modules belongs."""
        name = self._by_module[module]
        folder, _, file = name.rpartition("/")
        return folder or (self.name if file == "__init__.py" else file.removesuffix(".py"))

    def _imported(self, source: str) -> Iterator[tuple[str, int]]:
        for kind, module, name, line in named_in(source):
            module = module.removesuffix(".")  # of f"gputop.adapters.{name}"
            whole = f"{module}.{name}"
            if kind == "import" or (kind == "text" and module in self._by_module and module != self.name):
                yield module, line
            elif kind == "from":
                yield (whole if whole in self._by_module else module), line

    def ours(self) -> Iterator[tuple[Import, str]]:
        """Yield (import, imported module) for each import of one of our modules by another one."""
        for found in self.imports:
            module = found.imported
            while module and module not in self._by_module:
                module = module.rpartition(".")[0]
            if module and module != self.module(found.importer):
                yield found, module

    def wrong_walls(self) -> list[str]:
        """Return the imports between packages that ``MAY_IMPORT`` does not allow, and packages that it does not list."""
        wrong = [
            f"{package} is not listed: add it to _TABLE in tests/house/walls.py"
            for package in sorted({self.package(module) for module in self._by_module} - MAY_IMPORT.keys())
        ]
        for found, module in self.ours():
            package, other = self.package(self.module(found.importer)), self.package(module)
            if package != other and other not in MAY_IMPORT.get(package, ()):
                wrong.append(f"{found}, but MAY_IMPORT in tests/house/walls.py does not let {package} import {other}")
        return list(dict.fromkeys(wrong))

    def unused_permissions(self) -> list[str]:
        """Return the arrows of ``MAY_IMPORT`` that no import uses."""
        used = {(self.package(self.module(found.importer)), self.package(module)) for found, module in self.ours()}
        return [
            f"{package} no longer imports {other}: take it out of MAY_IMPORT in tests/house/walls.py"
            for package, words in _TABLE.items()
            for other in words.split()
            if other != "ground" and (package, other) not in used
        ]

    def wrong_libraries(self, standard_library: frozenset[str]) -> list[str]:
        """Return the imports of libraries outside the places that may import them."""
        wrong = []
        for found in self.imports:
            top = found.imported.partition(".")[0]
            if top == self.name or top in standard_library:
                continue
            if found.importer.startswith(STANDARD_LIBRARY_ONLY) and top not in MAY_IMPORT_LIBRARY:
                wrong.append(f"{found}, but a training process loads the standard library only")
                continue
            allowed = MAY_IMPORT_LIBRARY.get(top)
            if allowed is None:
                wrong.append(f"{found}, but MAY_IMPORT_LIBRARY in tests/house/walls.py does not list it")
            elif not found.importer.startswith(allowed):
                where = f"only {', '.join(allowed)}" if allowed else "nothing of gputop"
                wrong.append(f"{found}, but {where} may")
        return wrong

    def cycle(self) -> list[str]:
        """Return the modules of one import cycle in order; nothing if there is none."""
        edges: dict[str, list[str]] = {module: [] for module in self._by_module}
        for found, module in self.ours():
            edges[self.module(found.importer)].append(module)
        return find_cycle(edges)


def as_table(package: Path) -> str:
    """Return ``MAY_IMPORT`` as a Markdown table, with the first sentence of each package's docstring."""
    rows = ["| package | owns | imports |", "|---|---|---|"]
    for name, allowed in _TABLE.items():
        folder = package if name == package.name else package / name
        source = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        words = (ast.get_docstring(ast.parse(source.read_text("utf-8"))) or "") if source.exists() else ""
        owns = " ".join(words.split("\n\n")[0].split()) or "what Python loads first under `gputop run`"
        imports = ", ".join(f"`{other}`" for other in allowed.split()).replace("`ground`", "ground floor")
        rows.append(f"| `{name}` | {owns.replace('|', '/')} | {imports or '-'} |")
    return "\n".join(rows)


@cache
def named_in(source: str) -> tuple[tuple[str, str, str, int], ...]:
    """Return (kind, module, name, line) of the imports ("import", "from") and strings ("text") in a source."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [("import", alias.name, "", node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found += [("from", str(node.module), alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__"):
            if node.args and isinstance(node.args[0], ast.Constant) and not str(node.args[0].value).startswith("gputop"):
                found.append(("import", str(node.args[0].value), "", node.lineno))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("gputop."):
            found.append(("text", node.value, "", node.lineno))
    return tuple(found)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def find_cycle(edges: Mapping[str, list[str]] | Mapping[str, frozenset[str]]) -> list[str]:
    """Return the nodes of one cycle in order; nothing if there is none."""
    done: set[str] = set()
    for start in sorted(edges):
        if start in done:
            continue
        path, waiting = [start], [(start, iter(sorted(edges[start])))]
        while waiting:
            node, others = waiting[-1]
            other = next((item for item in others if item not in done), None)
            if other is None:
                done.add(node)
                waiting.pop()
                path.pop()
            elif other in path:
                return [*path[path.index(other) :], other]
            else:
                path.append(other)
                waiting.append((other, iter(sorted(edges.get(other, ())))))
    return []


def write_table(repository: Path) -> None:
    """Put the table into docs/architecture.md, between its markers."""
    page = repository / "docs" / "architecture.md"
    before, begin, rest = page.read_text("utf-8").partition("<!-- packages -->")
    _, end, after = rest.partition("<!-- /packages -->")
    assert end, "the page has lost its markers"
    page.write_text(f"{before}{begin}\n{as_table(repository / 'gputop')}\n{end}{after}", "utf-8")


if __name__ == "__main__":
    write_table(Path(__file__).resolve().parents[2])
