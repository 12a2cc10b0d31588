"""The JSON form of a snapshot: golden, exact on the way back, and strict about what is none."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.snapshot import SCHEMA_VERSION, FormatError, Host, Points, Rank, Run, Snapshot, encode
from tests import samples
from tests.house.how_to import step

GOLDEN = Path(__file__).parent / "golden" / "snapshot.json"


def test_golden_form_has_not_changed() -> None:
    """A change here is a change of the public format: raise SCHEMA_VERSION if a reader could break."""
    found = json.loads(samples.snapshot(points=()).to_json())
    assert found == json.loads(GOLDEN.read_text()), step("A driver reading", "Golden form")


def test_unknown_is_null_and_never_zero() -> None:
    data = json.loads(Snapshot(0, 1.0, 1.0, 1.0, Host("h"), (samples.device(0, power_w=None),)).to_json())
    assert data["devices"][0]["power_w"] is None
    assert data["host"]["cpu_percent"] is None
    assert data["schema_version"] == SCHEMA_VERSION


def test_comes_back_equal() -> None:
    snapshot = samples.snapshot()
    assert Snapshot.from_json(snapshot.to_json()) == snapshot


def test_a_recording_that_does_not_say_when_waits_were_read_opens() -> None:
    data = json.loads(samples.snapshot().to_json())
    for process in data["processes"]:
        del process["waits_read_s"]
    assert Snapshot.from_json(json.dumps(data)) == samples.snapshot()


@given(st.lists(st.floats(), max_size=20), st.dictionaries(st.text(max_size=8), st.floats()))
def test_any_metric_value_comes_back(values: list[float], metrics: dict[str, float]) -> None:
    count = tuple(range(len(values)))
    points = Points("r", 0, "loss", count, tuple(float(c) for c in count), tuple(values))
    run = Run("r", "r", ranks=(Rank(0, metrics=metrics),))
    line = Snapshot(0, 1.0, 1.0, 1.0, Host("h"), runs=(run,), points=(points,)).to_json()
    json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    back = Snapshot.from_json(line)
    assert repr(back.points[0].values) == repr(points.values)
    assert repr(back.runs[0].ranks[0].metrics) == repr(metrics)


@given(st.text())
def test_anything_else_is_refused_with_a_message(text: str) -> None:
    with pytest.raises(FormatError):
        Snapshot.from_json(text)


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": SCHEMA_VERSION + 1},
        {"host": None},
        {"devices": 3},
        {"time": "noon"},
        {"sequence": 1.5},
        {"devices": [{"index": 0}]},
    ],
)
def test_damaged_snapshot_is_refused(change: dict[str, object]) -> None:
    data = json.loads(samples.snapshot().to_json()) | change
    with pytest.raises(FormatError):
        Snapshot.from_json(json.dumps(data))


def test_a_newer_minor_form_is_read() -> None:
    data = json.loads(samples.snapshot().to_json())
    data["devices"][0]["invented_later"] = 1
    assert Snapshot.from_json(json.dumps(data)) == samples.snapshot()


def test_nan_is_data() -> None:
    points = Points("r", 0, "loss", (1,), (1.0,), (math.nan,))
    line = Snapshot(0, 1.0, 1.0, 1.0, Host("h"), points=(points,)).to_json()
    assert '"NaN"' in line
    assert math.isnan(Snapshot.from_json(line).points[0].values[0])


@given(st.lists(st.floats(), max_size=5), st.dictionaries(st.text(max_size=8), st.floats(), max_size=4), st.booleans())
def test_the_quick_form_is_that_of_each_value(values: list[float], metrics: dict[str, float], compact: bool) -> None:
    count = tuple(range(len(values)))
    points = Points("r", 0, "loss", count, tuple(values), tuple(values))
    rank = Rank(0, last_log_at=next(iter(values), None), metrics=metrics, facts={"batches": {"recent": [[1, *values]]}})
    run = Run("r", "r", config={"sizes": (1, 2), "nothing": None}, ranks=(rank,))
    snapshot = dataclasses.replace(samples.snapshot(), runs=(run,), points=(points,))
    assert json.loads(snapshot.to_json(compact)) == encode(snapshot, compact)


def test_records_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        samples.device(0).index = 3  # type: ignore[misc]


@given(st.booleans(), st.one_of(st.none(), st.floats(), st.just(0.0)), st.one_of(st.none(), st.integers(0, 2)))
def test_the_compact_form_comes_back_the_same(simulated: bool, load: float | None, cores: int | None) -> None:
    host = Host("h", simulated=simulated, load_1m=load, cpu_count=cores)
    snapshot = Snapshot(0, 1.0, 1.0, 1.0, host, (samples.device(0), samples.device(1, power_w=0.0)))
    compact = snapshot.to_json(compact=True)
    assert repr(Snapshot.from_json(compact)) == repr(Snapshot.from_json(snapshot.to_json())) == repr(snapshot)
    assert len(compact) < len(snapshot.to_json())
