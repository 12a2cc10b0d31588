"""The lines of one stream: read alone or as changes, they say the same."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.agent.process import CHANGES
from gputop.snapshot import FormatError, Host, Points, ProcessRun, Rank, Run, Snapshot
from gputop.stream import PACKED_MIN, SnapshotReader, SnapshotWriter
from tests import samples
from tests.fuzzing import examples


def test_a_stream_is_read_as_its_lines_are() -> None:
    """What is as it was is the same record; a field that went, came or changed is as if read alone."""
    still, moving = samples.rank_process(1, ()), samples.rank_process(2, (), cpu_percent=None)
    moved = dataclasses.replace(moving, cpu_percent=math.nan, command=("python", "x.py"), devices=(), workers=None)
    run, ended = Run("a", "a", "running"), Run("a", "a", "finished", ranks=(Rank(0, facts={"line": 3}),))
    reader = SnapshotReader()
    first: Snapshot | None = None
    for processes, runs in (((still, moving), (run,)), ((moved, still), (ended,)), ((still, moving), ()), ((), (run, ended))):
        line = Snapshot(0, 1.0, 1.0, 1.0, Host("h"), processes=processes, runs=runs).to_json(compact=True)
        found = reader.read(line)
        assert repr(found) == repr(Snapshot.from_json(line))
        first = first or found
        assert all(process is first.processes[0] for process in found.processes if process.pid == still.pid)


@pytest.mark.parametrize(
    "processes", [3, None, [3], [{}], [{"pid": []}], [{"pid": 1, "cpu_percent": "much"}], [{"pid": "one"}]]
)
def test_a_damaged_line_of_a_stream_is_refused_and_the_next_one_read(processes: object) -> None:
    good = json.loads(Snapshot(0, 1.0, 1.0, 1.0, Host("h"), processes=(samples.rank_process(1, ()),)).to_json())
    reader = SnapshotReader()
    with pytest.raises(FormatError):
        reader.read(json.dumps(good | {"processes": processes}))
    assert reader.read(json.dumps(good)) == Snapshot.from_json(json.dumps(good))


VALUES = st.floats().map(lambda value: value + 0.0) | st.sampled_from([0.0, 1.0])
"""Without -0.0, which nothing of a process is."""
PROCESSES = st.lists(
    st.builds(
        lambda pid, share, command, cores: dataclasses.replace(
            samples.rank_process(pid, ()), cpu_percent=share, command=command, cores_used=cores
        ),
        st.integers(1, 4),
        st.none() | VALUES,
        st.none() | st.tuples(st.sampled_from("ab")),
        st.just(()) | st.tuples(st.integers(0, 1)),
    ),
    max_size=4,
    unique_by=lambda process: process.pid,
)
RUNS = st.lists(
    st.builds(
        lambda run_id, state, loss, fact: Run(
            run_id, run_id, state, ranks=(Rank(0, metrics={"loss": loss}, facts={"line": 3, "free": fact}),), config={"x": fact}
        ),
        st.sampled_from("ab"),
        st.sampled_from(["running", "failed"]),
        VALUES,
        st.sampled_from([0, 0.0, -0.0, False, 1, 1.0, True, [1], [True], {"a": 1}, {"a": 1.0}]),
    ),
    max_size=2,
    unique_by=lambda run: run.run_id,
)
POINTS = st.lists(
    st.builds(
        lambda rank, steps, values: Points(
            "a", rank, "loss", steps, tuple(float(step) for step in steps), (values * len(steps))[: len(steps)]
        ),
        st.integers(0, 1),
        st.sampled_from([(), (1,), (1, 2), tuple(range(-1, PACKED_MIN)), (1,) * PACKED_MIN, (2**70,) * PACKED_MIN]),
        st.tuples(VALUES, VALUES),
    ),
    max_size=4,
)


@given(st.lists(st.tuples(PROCESSES, RUNS, POINTS, st.integers(0, 2), st.booleans()), max_size=5))
@settings(max_examples=examples(60))
def test_changes_say_what_whole_lines_say(
    ticks: list[tuple[list[object], list[object], list[object], int, bool]],
) -> None:
    writer, reader = SnapshotWriter(), SnapshotReader()
    for second, (processes, runs, points, power, lost) in enumerate(ticks):
        snapshot = Snapshot(
            second,
            float(second),
            float(second),
            1.0,
            Host("h"),
            (samples.device(0), samples.device(1, power_w=power or None)),
            tuple(processes),  # type: ignore[arg-type]
            tuple(runs),  # type: ignore[arg-type]
            tuple(points),  # type: ignore[arg-type]
            process_runs=(ProcessRun("pid:1", "train.py", world_size=power or None),),
        )
        if lost:
            writer.forget()
        assert repr(reader.read(writer.line(snapshot))) == repr(Snapshot.from_json(snapshot.to_json()))


@pytest.mark.parametrize(
    ("before", "after"), [(1, True), (True, 1.0), (1.0, 1), (0.0, -0.0), ({"a": [1]}, {"a": [True]}), ({"a": 0}, {"a": 0.0})]
)
def test_values_that_are_equal_and_written_differently_are_sent(before: object, after: object) -> None:
    writer, reader, whole = SnapshotWriter(), SnapshotReader(), SnapshotReader()
    for second, value in enumerate((before, after)):
        rank = Rank(0, facts={"fact": value})
        snapshot = Snapshot(
            second, 1.0, 1.0, 1.0, Host("h"), runs=(Run("a", "a", "running", ranks=(rank,), config={"x": value}),)
        )
        for found in (reader.read(writer.line(snapshot)), whole.read(snapshot.to_json(compact=True))):
            assert repr(found.runs) == repr(snapshot.runs)


def test_what_did_not_change_is_not_sent_again() -> None:
    process = samples.rank_process(1, ())
    first = Snapshot(0, 1.0, 1.0, 1.0, Host("h"), (samples.device(0),), (process,))
    writer, reader = SnapshotWriter(), SnapshotReader()
    known = reader.read(writer.line(first))
    line = writer.line(dataclasses.replace(first, sequence=1, devices=(samples.device(0, power_w=1.5),)))
    sent = json.loads(line)
    assert sent["processes"] == [process.pid]
    assert sent["devices"] == [{"uuid": samples.device(0).uuid, "power_w": 1.5}]
    assert reader.read(line).processes[0] is known.processes[0]


def test_the_fields_of_a_record_that_was_sent_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    process, writer = samples.rank_process(1, ()), SnapshotWriter()
    snapshot = Snapshot(0, 1.0, 1.0, 1.0, Host("h"), processes=(process,))
    rows, read = writer._rows["processes"], []
    fields = rows._read
    monkeypatch.setattr(rows, "_read", lambda record: (read.append(record), fields(record))[1])
    for sequence in range(3):
        writer.line(dataclasses.replace(snapshot, sequence=sequence))
    assert read == [process]
    changed = dataclasses.replace(process, state="D")
    line = writer.line(dataclasses.replace(snapshot, sequence=3, processes=(changed,)))
    assert json.loads(line)["processes"] == [{"pid": process.pid, "state": "D"}]
    assert read == [process, changed]
    writer.forget()
    assert json.loads(writer.line(dataclasses.replace(snapshot, processes=(changed,))))["processes"][0]["command"]


def test_a_long_column_is_sent_as_its_bytes() -> None:
    numbers = tuple(1e9 + 1 / (place + 3) for place in range(100))
    points = tuple(Points("a", 0, name, tuple(range(100)), numbers, numbers) for name in ("loss", "lr"))
    snapshot = Snapshot(0, 1.0, 1.0, 1.0, Host("h"), points=points)
    line = SnapshotWriter().line(snapshot)
    assert len(line) < 0.6 * len(snapshot.to_json(compact=True))
    assert SnapshotReader().read(line).points == points


def test_equal_columns_of_a_line_are_one_object() -> None:
    """64 ranks that step together have one column of steps, which is read and kept once."""
    steps, rates = tuple(range(100)), (3e-4,) * 100
    times = [tuple(rank + step / 100 for step in steps) for rank in range(2)]
    points = tuple(Points("a", rank, "lr", steps, times[rank], rates) for rank in range(2))
    snapshot = Snapshot(0, 1.0, 1.0, 1.0, Host("h"), points=points)
    first, second = SnapshotReader().read(SnapshotWriter().line(snapshot)).points
    assert (first, second) == points
    assert first.steps is second.steps
    assert first.values is second.values
    assert first.times is not second.times


@pytest.mark.parametrize(
    "columns",
    [
        {"steps": "AAAA", "times": [1.0], "values": [1.0]},
        {"steps": [1], "times": [1.0], "values": "AAAAAAAAAAA"},
        {"steps": [1], "times": "é", "values": [1.0]},
        {"values": ""},
        {"rank": "0", "steps": "", "times": "", "values": ""},
        {"metric": None, "steps": "", "times": "", "values": ""},
        {"run_id": 3, "steps": "", "times": "", "values": ""},
    ],
)
def test_damaged_columns_are_refused(columns: dict[str, object]) -> None:
    line = json.loads(SnapshotWriter().line(Snapshot(0, 1.0, 1.0, 1.0, Host("h"))))
    line["points"] = [{"run_id": "a", "rank": 0, "metric": "loss", **columns}]
    with pytest.raises(FormatError):
        SnapshotReader().read(json.dumps(line))


def test_changes_after_a_line_that_was_not_read_are_refused() -> None:
    snapshots = [
        dataclasses.replace(samples.snapshot(second), processes=(samples.rank_process(second, ()),)) for second in range(4)
    ]
    writer, reader = SnapshotWriter(), SnapshotReader()
    reader.read(writer.line(snapshots[0]))
    with pytest.raises(FormatError):
        reader.read("{")
    for snapshot in snapshots[1:3]:
        with pytest.raises(FormatError):
            reader.read(writer.line(snapshot))
    writer.forget()
    assert reader.read(writer.line(snapshots[3])) == Snapshot.from_json(snapshots[3].to_json())


@pytest.mark.parametrize("rows", [[7], [{"pid": 7, "cpu_percent": "much"}], [[1]], 3, [None]])
def test_a_damaged_row_of_changes_is_refused(rows: object) -> None:
    writer, reader = SnapshotWriter(), SnapshotReader()
    snapshot = Snapshot(0, 1.0, 1.0, 1.0, Host("h"), processes=(samples.rank_process(7, ()),))
    empty = dataclasses.replace(snapshot, sequence=1, processes=())
    reader.read(writer.line(snapshot))
    reader.read(writer.line(empty))
    changed = json.loads(writer.line(dataclasses.replace(empty, sequence=2))) | {"processes": rows}
    with pytest.raises(FormatError):
        reader.read(json.dumps(changed))


def test_the_agent_sends_changes_if_asked_and_a_whole_line_on_request() -> None:
    command = [sys.executable, "-m", "gputop", "agent", "--virtual", "1", "-i", "0.2s"]
    with subprocess.Popen([*command, CHANGES], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        lines = [json.loads(agent.stdout.readline()) for _ in range(2)]
        agent.stdin.write(b'{"whole": true}\n')
        agent.stdin.flush()
        while "since" in (last := json.loads(agent.stdout.readline())):
            lines.append(last)
        agent.stdin.close()
    assert ["since" in line for line in lines] == [False] + [True] * (len(lines) - 1)
    assert "host" in last
