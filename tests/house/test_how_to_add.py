"""Each step of "How to add" in CONTRIBUTING.md has a test that fails, and prints the step, where it was left out.

What a step promises by its behavior is tested beside that; here is what would else fail silently, or without saying why.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from gputop.frameworks import FRAMEWORKS
from gputop.recipes.catalogue import RECIPES
from gputop.snapshot import Device
from tests import REPOSITORY
from tests.house.how_to import step, steps
from tests.house.walls import MAY_IMPORT_LIBRARY

PACKAGE = REPOSITORY / "gputop"
NVML = PACKAGE / "sources" / "nvml"
SCREENS = PACKAGE / "tui" / "screens"
ADAPTERS = PACKAGE / "adapters"
RAW_READINGS = {"nvlink_tx_kib", "nvlink_rx_kib", "pcie_tx_bytes", "pcie_rx_bytes", "mig_count"}
"""Counters that are read for a rate, and the number of MIG instances; no fields of their own."""
NOT_OF_AN_H100 = {"memory_denied", "fan", "nvlinks_active", "reset_required", "license"}
"""Readings of the simulated driver that its idle H100 does not have."""
WHO = {"index", "uuid", "kind", "state"}
"""Fields that every device has."""
UNITS = ("_s", "_percent", "_w", "_j", "_c", "_mhz")
NO_RULE = {"D09"}
"""Ids that are passed over: no rule has them."""
ASKING = ("_ask_number", "_ask_wide", "number", "wide_number", "Field")
KEY_NAMES = {
    "question_mark": "?",
    "plus": "+",
    "minus": "-",
    "full_stop": ".",
    "left_curly_bracket": "{",
    "left_parenthesis": "(",
    "right_parenthesis": ")",
    "right_curly_bracket": "}",
    "equals_sign": "+",
    "colon": ":",
}
"""Textual's name of a key -> what the help calls it; "=" is "+" without Shift."""


@pytest.fixture(autouse=True)
def loud_rules() -> None:
    """Load no rule, as the other tests do: one that names a function that is not there cannot be imported."""


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(text(path))


def modules(folder: Path) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(folder.rglob("*.py")):
        yield path, parsed(path)


def called(node: ast.AST) -> str:
    """Return the last name of what a call calls: "_ask_number" of self._ask_number(...)."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


@cache
def names_in(tree: ast.AST) -> frozenset[str]:
    """Return the names, attributes, arguments, keywords and whole strings of a module."""
    names = {getattr(node, key, None) for node in ast.walk(tree) for key in ("id", "attr", "arg", "name")}
    return texts_in(tree).union(name for name in names if isinstance(name, str))


@cache
def texts_in(tree: ast.AST) -> frozenset[str]:
    """Return the whole strings of a module."""
    return frozenset(node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))


def none_of(missing: Iterable[object], walk: str, name: str) -> None:
    listed = ", ".join(sorted(map(str, missing)))
    assert not listed, f"{listed}: {step(walk, name)}"


def test_every_step_is_named_by_a_test() -> None:
    named = set()
    for path in (REPOSITORY / "tests").rglob("test_*.py"):
        for node in ast.walk(parsed(path)) if "tests.house.how_to" in text(path) else ():
            if called(node) in ("step", "none_of"):
                words = [arg.value for arg in node.args[-2:] if isinstance(arg, ast.Constant)]  # type: ignore[attr-defined]
                named.add(tuple(words))
    assert len(steps()) >= 25
    assert set(steps()) - named == set(), "no test prints these steps of CONTRIBUTING.md where they are left out"


# ---- a driver reading

FIELDS = {field.name for field in fields(Device)}


def test_each_reading_is_a_field_of_a_device() -> None:
    asked = set()
    for _, tree in modules(NVML):
        for node in ast.walk(tree):
            if called(node) in ASKING and node.args and isinstance(node.args[0], ast.Constant):  # type: ignore[attr-defined]
                asked.add(node.args[0].value)  # type: ignore[attr-defined]
            if (
                isinstance(node, ast.Subscript)
                and ast.unparse(node.value) == "self.values"
                and isinstance(node.slice, ast.Constant)
            ):
                asked.add(node.slice.value)
    none_of(asked - FIELDS - RAW_READINGS, "A driver reading", "Field")


def test_each_field_of_a_device_has_its_unit_and_may_be_unknown() -> None:
    known = {field.name for field in fields(Device) if field.name not in WHO and field.default not in (None, ())}
    none_of(known, "A driver reading", "Field")
    measured = {field.name for field in fields(Device) if field.type == "float | None"}
    none_of({name for name in measured if not name.endswith(UNITS)}, "A driver reading", "Field")


def test_each_field_of_a_device_is_read() -> None:
    none_of(FIELDS.difference(*(names_in(tree) for _, tree in modules(NVML))), "A driver reading", "Call")


def test_the_simulated_driver_answers_each_call() -> None:
    calls = {name for _, tree in modules(NVML) for name in texts_in(tree) if re.fullmatch(r"nvml[A-Z]\w+", name)}
    answered = set(re.findall(r"\b\w+\b", text(REPOSITORY / "tests" / "nvml_sim" / "nvml_sim.c")))
    not_the_drivers = {"nvmlEventSetWait"}  # its answer is a name with a version
    none_of(calls - answered - not_the_drivers, "A driver reading", "Simulated driver")


def test_the_simulated_driver_answers_each_field_of_a_batch() -> None:
    asked = [node.args[1] for _, tree in modules(NVML) for node in ast.walk(tree) if called(node) == "Field"]  # type: ignore[attr-defined]
    numbers = {number.value for number in asked if isinstance(number, ast.Constant)}
    source = text(REPOSITORY / "tests" / "nvml_sim" / "nvml_sim.c")
    answered = {int(number) for number in re.findall(r"(?:\{|field->id == )(\d+)\b", source)}
    none_of({f"field {number}" for number in numbers - answered}, "A driver reading", "Simulated driver")


def test_each_reading_of_the_simulated_driver_is_known_to_it() -> None:
    folder = REPOSITORY / "tests" / "nvml_sim"
    keys = set(re.findall(r"\bX\((\w+)\)", text(folder / "scenario.h"))) - {"name"}
    used = set(re.findall(r"\bR_(\w+)", text(folder / "nvml_sim.c")))
    named = names_in(ast.parse(text(folder / "scenario.py")))
    none_of(used - keys - {"name"}, "A driver reading", "Simulated driver")
    none_of(used - named - NOT_OF_AN_H100, "A driver reading", "Simulated driver")


def test_each_field_of_a_device_is_expected_of_the_driver() -> None:
    tested = names_in(ast.parse(text(REPOSITORY / "tests" / "sources" / "nvml" / "test_source.py")))
    none_of(FIELDS - tested, "A driver reading", "Reading test")


# ---- a rule


def test_each_rule_names_a_function_that_judges() -> None:
    for path, tree in modules(PACKAGE / "doctor" / "rules"):
        defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        for node in tree.body:
            if not (isinstance(node, ast.Assign) and called(node.value) == "Rule"):
                continue
            rule = ast.unparse(node.targets[0])
            judges = [word.value for word in node.value.keywords if word.arg in ("judge", "judge_machine")]  # type: ignore[attr-defined]
            assert judges, f"{path.name}: {rule} has no judge. {step('A rule', 'Judge')}"
            unknown = [judge.id for judge in judges if isinstance(judge, ast.Name) and judge.id not in defined]
            assert not unknown, f"{path.name}: {rule} names {unknown[0]}, which is not there. {step('A rule', 'Judge')}"


def test_each_rule_has_an_id_and_a_place_of_its_own_and_hides_others_that_exist() -> None:
    made = [
        (ast.unparse(node.targets[0]), {word.arg: word.value for word in node.value.keywords})
        for _, tree in modules(PACKAGE / "doctor" / "rules")
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and called(node.value) == "Rule"
    ]
    ids = {name: ast.literal_eval(words["id"]) for name, words in made}
    none_of({f"{name} = Rule(id={known!r})" for name, known in ids.items() if known != name}, "A rule", "Rule")
    orders = Counter(ast.literal_eval(words["order"]) for _, words in made)
    none_of({f"several rules have the order {order}" for order, times in orders.items() if times > 1}, "A rule", "Rule")
    hidden = {name for _, words in made if "hides" in words for name in texts_in(words["hides"])}
    none_of({f"{name} is hidden, and no rule" for name in hidden - set(ids)}, "A rule", "Rule")
    before = {f"{name[0]}{number:02}" for name in set(ids) - {"LOG"} for number in range(1, int(name[1:]))}
    none_of({f"{name} is free" for name in before - set(ids) - NO_RULE}, "A rule", "Rule")


# ---- a demo


def test_each_demo_is_run_by_a_test() -> None:
    run = frozenset().union(*(names_in(parsed(path)) for path in (REPOSITORY / "tests" / "demos").glob("test_*.py")))
    stems = {name.removesuffix(".py").rpartition("/")[2] for name in run}
    none_of({recipe.script for recipe in RECIPES if Path(recipe.script).stem not in stems}, "A demo", "Run test")


def test_the_doctor_is_measured_on_each_healthy_demo() -> None:
    truth = names_in(ast.parse(text(REPOSITORY / "benchmarks" / "accuracy" / "truth.py")))
    none_of({recipe.id for recipe in RECIPES if not recipe.fault} - truth, "A demo", "Truth")


def test_a_fault_that_ends_or_stalls_is_listed_as_such() -> None:
    listed = names_in(ast.parse(text(REPOSITORY / "benchmarks" / "accuracy" / "truth.py")))
    tests = parsed(REPOSITORY / "tests" / "demos" / "test_faults.py").body
    failing = re.compile(r"\.codes == \[(?!0\b)|\.codes == \[0, (?!0\b)|\.returncode != 0")
    end = {Path(name).stem for test in tests if failing.search(ast.unparse(test)) for name in texts_in(test) if "/" in name}
    faults = {recipe.fault for recipe in RECIPES if recipe.fault and Path(recipe.script).stem in end}
    # A rule that judges a standstill, or reads the fact of one, sees nothing while steps come.
    still = {
        ast.unparse(node.targets[0])
        for path, tree in modules(PACKAGE / "doctor" / "rules")
        if path.parent.name == "standstill" or "stall" in names_in(tree)
        for node in tree.body
        if isinstance(node, ast.Assign) and called(node.value) == "Rule"
    }
    none_of(faults.union(recipe.fault for recipe in RECIPES if recipe.fault in still) - listed, "A demo", "Truth")


def test_a_page_lists_each_healthy_demo() -> None:
    table = text(REPOSITORY / "docs" / "launching.md").partition("## Demos")[2].partition("\n## ")[0]
    none_of({recipe.id for recipe in RECIPES if not recipe.fault and f"`{recipe.id}`" not in table}, "A demo", "Page")


# ---- a screen


def screens() -> dict[str, Path]:
    """Return the classes of screens that open over the dashboard, and their modules; not those that others are built on."""
    classes: dict[str, tuple[Path, set[str]]] = {}
    for path, tree in modules(SCREENS):
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                classes[node.name] = path, {ast.unparse(base).partition("[")[0] for base in node.bases}
    below = {"SubScreen", "ModalScreen"}
    while more := {name for name, (_, bases) in classes.items() if bases & below} - below:
        below |= more
    built_on = set().union(*(bases for _, bases in classes.values()))
    return {name: path for name, (path, _) in classes.items() if name in below - built_on}


def openers() -> dict[str, str]:
    """Return the names of ``OPENERS`` and the functions behind them."""
    tree = ast.parse(text(PACKAGE / "tui" / "screen_factory.py"))
    (table,) = (node.value for node in tree.body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "OPENERS")
    assert isinstance(table, ast.Dict)
    return {ast.literal_eval(key): ast.unparse(value) for key, value in zip(table.keys, table.values, strict=True) if key}


def app_actions() -> dict[str, str]:
    """Return the app's actions and the screens that they open; "" where an action opens none."""
    found = {}
    for node in ast.walk(ast.parse(text(PACKAGE / "tui" / "app.py"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("action_"):
            opened = [call.args[0].value for call in ast.walk(node) if called(call) == "_open"]  # type: ignore[attr-defined]
            found[node.name.removeprefix("action_")] = opened[0] if opened else ""
    return found


def test_each_screen_has_an_opener() -> None:
    imported = {
        (path, alias.name)
        for path, tree in modules(PACKAGE / "tui")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    lonely = {name for name, path in screens().items() if not any(other != path for other, what in imported if what == name)}
    none_of(lonely, "A screen", "Opener")


def test_each_screen_has_a_name() -> None:
    named = set()
    for path in screens().values():
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base).partition("[")[0] for base in node.bases}
                assigned = {ast.unparse(item.targets[0]) for item in node.body if isinstance(item, ast.Assign)}
                named |= {node.name} if "NAME" in assigned or "Question" in bases else set()
    none_of(set(screens()) - named, "A screen", "Screen")


def test_each_screen_that_an_action_opens_exists() -> None:
    none_of(set(app_actions().values()) - {""} - set(openers()), "A screen", "Opener")
    files = {path.stem for path, _ in modules(SCREENS)} | {path.parent.name for path, _ in modules(SCREENS)}
    wanted = re.findall(r"from gputop\.tui\.screens\.(\w+)", text(PACKAGE / "tui" / "screen_factory.py"))
    none_of(set(wanted) - files, "A screen", "Screen")


def test_each_opener_has_an_action() -> None:
    none_of(set(openers()) - set(app_actions().values()), "A screen", "Action")


def test_each_key_has_an_action_and_each_action_that_opens_a_screen_a_key() -> None:
    from gputop.tui.state.keys import APP_KEYS

    bound = {key.action.partition("(")[0] for key in APP_KEYS}
    none_of(bound - set(app_actions()), "A screen", "Action")
    none_of({action for action, screen in app_actions().items() if screen} - bound, "A screen", "Key")


def test_the_help_describes_each_key_of_the_app() -> None:
    from gputop.tui.state.keys import APP_KEYS, KEYS

    words = [word for line in KEYS for word in line.keys.split()]
    described = {*words, *map(str.lower, words)}
    keys = {key for item in APP_KEYS for key in item.keys.split(",")}
    none_of(
        {key for key in keys if KEY_NAMES.get(key, key).replace("+", "-") not in {w.replace("+", "-") for w in described}},
        "A screen",
        "Help",
    )


def test_each_screen_is_shown_by_a_test_at_each_size() -> None:
    """In ``test_looks``, or among those that ``test_sizes`` shows at all sizes."""
    folder = REPOSITORY / "tests" / "tui" / "screens"
    tests = [node for node in parsed(folder / "test_looks.py").body if isinstance(node, ast.FunctionDef)]
    tests = [test for test in tests if any("SIZES" in names_in(item) for item in test.decorator_list)]
    shown = {called(node) for tree in (*tests, parsed(folder / "test_sizes.py")) for node in ast.walk(tree)}
    none_of(set(screens()) - shown, "A screen", "Picture")


# ---- an adapter


def adapters() -> dict[str, set[str]]:
    """Return the adapters' modules, and the packages of others that each imports."""
    found = {}
    for path, tree in modules(ADAPTERS):
        if path.stem in ("__init__", "joining"):
            continue
        names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        names += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
        found[path.stem] = {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"gputop"}
    return found


def walls() -> dict[str, set[str]]:
    """Return the adapters' modules, and the packages that the table of libraries lets each import."""
    found: dict[str, set[str]] = {}
    for library, places in MAY_IMPORT_LIBRARY.items():
        for place in places:
            if place.startswith("adapters/"):
                found.setdefault(Path(place).stem, set()).add(library)
    return found


LIBRARIES = set().union(*adapters().values(), *walls().values())


def test_each_adapter_is_listed_and_each_listed_one_exists() -> None:
    tree = ast.parse(text(ADAPTERS / "__init__.py"))
    (names,) = (ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign))
    docstring = ast.get_docstring(tree) or ""
    none_of(set(names) - set(adapters()), "An adapter", "Module")
    none_of(set(adapters()) - set(names), "An adapter", "List")
    none_of({name for name in adapters() if f"gputop.adapters.{name}." not in docstring}, "An adapter", "List")


def test_the_hooks_of_each_adapter_are_harmless() -> None:
    bare = set()
    for name in adapters():
        for node in ast.walk(parsed(ADAPTERS / f"{name}.py")):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                decorators = {getattr(item, "id", "") for item in node.decorator_list}
                bare |= set() if "harmless" in decorators else {f"{name}.{node.name}"}
    none_of(bare, "An adapter", "Module")
    none_of(
        {name for name in adapters() if "Membership" not in names_in(parsed(ADAPTERS / f"{name}.py"))}, "An adapter", "Module"
    )


def test_each_framework_has_a_wall() -> None:
    none_of(LIBRARIES - set(MAY_IMPORT_LIBRARY), "An adapter", "Wall")
    none_of(set(adapters()) - set(walls()), "An adapter", "Wall")


def test_each_framework_is_described() -> None:
    described = {module for framework in FRAMEWORKS.values() for module in framework.modules}
    none_of(LIBRARIES - described, "An adapter", "Framework")


@cache
def packages() -> Mapping[str, Sequence[str]]:
    return packages_distributions()


def packages_of(module: str) -> set[str]:
    """Return the packages that hold a module: ``ignite`` is in pytorch-ignite. Its own name if it is not installed."""
    return {name.replace("-", "_") for name in packages().get(module, [module])}


def test_each_framework_is_installed_for_the_tests() -> None:
    project = text(REPOSITORY / "pyproject.toml")
    extra = re.search(r"^frameworks = \[(.*?)\]", project, re.DOTALL | re.MULTILINE)
    assert extra is not None
    installed = {name.replace("-", "_") for name in re.findall(r'"([\w-]+)', extra[1])}
    pinned = {name.replace("-", "_") for name in re.findall(r"^([\w-]+)==", text(REPOSITORY / "constraints.txt"), re.MULTILINE)}
    none_of({name for name in LIBRARIES if not packages_of(name) & installed}, "An adapter", "Packages")
    none_of({name for name in LIBRARIES if not packages_of(name) & pinned}, "An adapter", "Packages")
    none_of({name for name in LIBRARIES if f'"{name}.*"' not in project}, "An adapter", "Packages")


def test_each_adapter_trains_in_a_test() -> None:
    path = REPOSITORY / "tests" / "adapters" / "test_adapters.py"
    scripts = "\n".join(texts_in(parsed(path)))
    none_of({name for name in adapters() if f"gputop.adapters.{name} import" not in scripts}, "An adapter", "Adapter test")
    needed = {word for node in ast.walk(parsed(path)) if called(node) == "needs" for word in texts_in(node)}
    none_of(LIBRARIES - needed, "An adapter", "Adapter test")


def test_the_note_shows_each_adapter() -> None:
    section = text(REPOSITORY / "docs" / "migrating.md").partition("## With a framework")[2].partition("\n## ")[0]
    table = "\n".join(line for line in section.splitlines() if line.startswith("|"))
    none_of({name for name in adapters() if f"gputop.adapters.{name}." not in table}, "An adapter", "Page")
