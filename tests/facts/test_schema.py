"""The schema of facts: what it accepts, what it reads of values that nobody can trust, and who must go through it."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gputop.facts import measured, page, parallel, setup, standing, table
from gputop.facts.measured import Batches, Checkpoint
from gputop.facts.parallel import Gradients
from gputop.facts.record import Key, Record
from gputop.facts.setup import BatchNorm, Environment, Model, Optimizer
from gputop.facts.standing import Stalled
from gputop.facts.table import Alert, Facts
from tests import REPOSITORY
from tests.doctor.tracked import ddp_facts
from tests.facts.checks import wrong_facts

RECORDS = {
    item.__name__: item
    for module in (measured, parallel, setup, standing, table)
    for item in vars(module).values()
    if isinstance(item, type) and issubclass(item, Record)
}
del RECORDS["Record"]
WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**400,
    math.nan,
    math.inf,
    "",
    "x",
    [],
    [[]],
    [None],
    [[1]],
    {},
    {"x": math.nan},
    0.5,
)
CHECKPOINT = {"seconds": 0.5, "bytes": None, "path": "last.pt", "step": 7}
WRITERS = ("tracking", "adapters", "jobs", "untracked")
READERS = ("agent", "cli", "doctor", "history", "jobs", "tui")


def test_the_page_is_current() -> None:
    message = f"{page.PAGE} is not current: run `make docs`"
    assert (REPOSITORY / page.PAGE).read_text(encoding="utf-8") == page.markdown(), message


def test_the_page_names_every_key_with_its_meaning() -> None:
    text = page.markdown()
    for record in RECORDS.values():
        for key in record.keys.values():
            meaning = key.meaning or (key.record.__doc__ if key.record is not None else "")
            assert meaning, f"{record.__name__}.{key.name} has no meaning"
            assert " ".join(meaning.split()) in " ".join(text.split()), key.name


def test_a_record_is_filled_as_the_journal_holds_it() -> None:
    filled = Checkpoint.filled(path="last.pt", seconds=0.5, bytes=None, step=7)
    assert filled == CHECKPOINT
    assert list(filled) == ["path", "seconds", "bytes", "step"], "in the order in which it is written"
    assert Optimizer.filled(type="SGD", groups=1, lr=0.1) == {"type": "SGD", "groups": 1, "lr": 0.1}
    assert Model.class_.name == "class"


@pytest.mark.parametrize("change", [{"step": None, "size": 3}, {"stepp": 3}])
def test_an_unknown_key_is_not_filled(change: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="unknown keys"):
        Checkpoint.filled(**{**CHECKPOINT, **change})


def test_a_missing_key_is_not_filled() -> None:
    with pytest.raises(TypeError, match=r"missing keys \['step'\]"):
        Checkpoint.filled(seconds=0.5, bytes=None, path=None)
    assert "early" not in Stalled.filled(since=1.0, step=3, phase="data", stack=[], at=2.0)


def test_violations_of_the_schema_are_found() -> None:
    assert wrong_facts({"gradients": ddp_facts(0, 2, 40)["gradients"]}) == []
    assert wrong_facts({"checkpoint": CHECKPOINT, "optimizer/1": {"type": "SGD", "groups": 1, "lr": 0.1}}) == []
    renamed = {"seconds": 0.5, "size": None, "path": "last.pt", "step": 7}
    assert wrong_facts({"checkpoint": renamed}) == ["checkpoint.size: not in the schema", "checkpoint.bytes: missing"]
    assert wrong_facts({"checkpoint": {**CHECKPOINT, "step": None}}) == ["checkpoint.step: null"]
    assert wrong_facts({"checkpoint": {**CHECKPOINT, "step": "7"}}) == ["checkpoint.step: '7' is not of type integer"]
    assert wrong_facts({"devices": [{"uuid": None}]})[0] == "devices[0].name: missing"
    assert wrong_facts({"metrics": {"loss": {"goal": "min", "unit": None}}}) == ["metrics['loss'].step_metric: missing"]
    assert wrong_facts({"chekpoint": CHECKPOINT}) == ["chekpoint: not in the schema"]
    assert wrong_facts({"count": 3}, own=("count",)) == []
    assert wrong_facts({"stalled": None}) == []


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_a_value_of_a_wrong_type_is_none_or_missing(record: type[Record]) -> None:
    for value in WRONG:
        read = record({key.name: value for key in record.keys.values()})
        for attribute, key in record.keys.items():
            found = getattr(read, attribute)
            assert found in (None, (), {}) or key.fits(value) or _has_the_type(key, found), (key.name, value, found)


def _has_the_type(key: Key[Any], found: Any) -> bool:
    """Whether what was read of a value that fits in part is of the key's type: a device written "1", a list of names."""
    return isinstance(found, tuple | Mapping | Record) or (key.kind.startswith("device") and isinstance(found, int))


def test_what_is_read_is_what_was_written() -> None:
    facts = Facts({**ddp_facts(1, 2, 40), "checkpoint": CHECKPOINT})
    assert facts.ddp is not None
    assert facts.ddp.device_ids == (1,)
    assert facts.batches is not None
    assert facts.batches.recent[40] == 20_040
    assert facts.model is not None
    assert (facts.model.class_, facts.model.wrappers) == ("ResNet", ("DistributedDataParallel",))
    assert facts.model.batch_norm is not None
    assert facts.model.batch_norm.layers == 20
    assert facts.stalled is None
    assert facts.checkpoint is not None
    assert facts.checkpoint.bytes is None
    assert Batches({"called": [[3, 8, 640], [4, 8, 0], [5]]}).called == {3: (8, 640)}


def test_a_record_without_a_vital_key_says_nothing() -> None:
    whole = {"steps": 3, "backwards": 3, "synced_backwards": 3, "unsynced_steps": 0}
    assert Gradients.of(whole) is not None
    assert Gradients.of({**whole, "synced_backwards": None}) is None
    assert BatchNorm.of({"synced": 1}) is None
    assert Gradients.of({}) is Gradients.of("steps") is None


def test_null_differs_from_missing() -> None:
    fact = Environment({"device_order": None})
    assert fact.has(Environment.device_order)
    assert not fact.has(Environment.omp_num_threads)


def test_a_record_is_not_changed() -> None:
    with pytest.raises(AttributeError, match="cannot be changed"):
        Alert({}).title = "t"  # type: ignore[misc]


# ---- nobody names a key beside the schema


@cache
def sources(*packages: str, words: tuple[str, ...] = ("",)) -> list[tuple[str, ast.AST]]:
    """Return (path, node) of everything in the sources of these packages that contain one of these words."""
    paths = [path for package in packages for path in sorted((REPOSITORY / "gputop" / package).rglob("*.py"))]
    texts = {path.relative_to(REPOSITORY).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    trees = [(name, ast.parse(text)) for name, text in texts.items() if any(word in text for word in words)]
    return [(name, node) for name, tree in trees for node in ast.walk(tree)]


def test_every_record_is_filled_with_all_of_its_keys() -> None:
    """Also where no test of this machine comes to, such as the facts of a GPU."""
    filled = set()
    for name, node in sources(*WRITERS):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "filled"):
            continue
        owner = node.func.value
        record = RECORDS[owner.attr if isinstance(owner, ast.Attribute) else owner.id]  # type: ignore[attr-defined]
        filled.add(record.__name__)
        given = {keyword.arg for keyword in node.keywords if keyword.arg is not None}
        place = f"{name}:{node.lineno} {record.__name__}"
        assert given <= record.keys.keys(), f"{place}: unknown keys {sorted(given - record.keys.keys())}"
        if all(keyword.arg is not None for keyword in node.keywords):
            missing = [key for key, what in record.keys.items() if key not in given and not what.optional]
            assert not missing, f"{place}: missing keys {missing}"
    assert filled == RECORDS.keys() - {"Facts", "Summary"}, "each record has a writer"


def test_tracking_writes_facts_of_the_schema_under_names_of_the_schema() -> None:
    names = {key.name for key in Facts.keys.values()}
    for name, node in sources(*WRITERS):
        is_told = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("fact", "tell")
        if is_told and len(node.args) == 2 and isinstance(node.args[0], ast.Constant):  # type: ignore[attr-defined]
            assert node.args[0].value in names, f"{name}:{node.lineno}: no such fact"  # type: ignore[attr-defined]
            literal = isinstance(node.args[1], ast.Dict)  # type: ignore[attr-defined]
            assert not literal, f"{name}:{node.lineno}: fill a record of gputop/facts"  # type: ignore[attr-defined]
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Attribute) and target.attr in ("_cheap", "_dear"):
            assert isinstance(node.value, ast.Dict)  # type: ignore[attr-defined]
            said = {key.value for key in node.value.keys if isinstance(key, ast.Constant)}  # type: ignore[attr-defined]
            assert said, name
            assert said <= names, f"{name}: no such facts {sorted(said - names)}"


def test_readers_name_keys_through_the_schema() -> None:
    """``facts.get("ddp")``, ``facts["ddp"]`` and ``"ddp" in facts`` would go on, and find nothing, where a key is renamed."""
    for name, node in sources(*READERS, words=("facts", "stated")):
        if isinstance(node, ast.Subscript):
            read: ast.AST | None = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            read = node.func.value
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            read = node.comparators[0]
        else:
            continue
        is_facts = isinstance(read, ast.Attribute) and read.attr in ("facts", "stated")
        assert not is_facts, f"{name}:{node.lineno}: read it as Facts(rank.facts)"  # type: ignore[attr-defined]


def test_the_doctor_names_no_key_in_a_text() -> None:
    """``doctor/facts`` reads attributes: no text in it is the name of a key, but where a text means something else."""
    other = {"data_parallel", "ddp", "cpu"}  # mesh dimensions and kinds of wrappers
    keys = {key.name for record in RECORDS.values() for key in record.keys.values()}
    for name, node in sources("doctor/facts"):
        if isinstance(node, ast.Constant) and node.value in keys:
            assert node.value in other, f"{name}:{node.lineno}: {node.value!r}"


def test_the_schema_is_cheap_to_import() -> None:
    """It is loaded into trainings: no generated code, nothing but what tracking has loaded anyway."""
    own = [f"gputop.facts.{name}" for name in ("measured", "parallel", "record", "rows", "setup", "standing", "table")]
    for path in ("__init__.py", *(f"{name.rpartition('.')[2]}.py" for name in own)):
        tree = ast.parse(Path(REPOSITORY, "gputop", "facts", path).read_text(encoding="utf-8"))
        modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert modules <= {"__future__", "collections.abc", "math", "typing", *own}
