"""The files of a run in the formats of their libraries: read in pieces, cut off, damaged, and rewritten."""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.jobs.output.follower import Backlog
from gputop.untracked.files.lines import Lines
from gputop.untracked.files.mlflow import MetricFile
from gputop.untracked.files.table import Table
from gputop.untracked.files.tensorboard import RECORD_BYTES, EventFile
from gputop.untracked.files.trainer_state import TrainerState
from gputop.untracked.files.values import NAME_CHARACTERS, Parser, Value
from gputop.untracked.files.wandb import RunFile
from gputop.untracked.kinds import MLFLOW as MLFLOW_KIND
from gputop.untracked.kinds import TABLE, TENSORBOARD, TRAINER_STATE, WANDB
from gputop.untracked.source import Source
from tests.fuzzing import examples
from tests.untracked.files.writers import WandbFile, event, field, float32, simple, tensor, tfrecord_head, varint

T0 = 1_700_000_000.0


def all_of(parser: Parser, data: bytes, piece: int = 1 << 20) -> list[Value]:
    found: list[Value] = []
    for at in range(0, len(data), piece):
        found += parser.feed(data[at : at + piece])
    return found + parser.end()


def events(count: int = 20) -> bytes:
    return event(T0, 0) + b"".join(event(T0 + step, step, simple("train/loss", 1 / (step + 1))) for step in range(count))


def wandb_file(count: int = 20, more: int = 0) -> bytes:
    file = WandbFile()
    for step in range(count):
        file.record(field(13, field(3, "x" * more)))
        file.history(step, {"loss": 1 / (step + 1), "_step": step, "_timestamp": T0 + step, "_runtime": 1.5})
    return bytes(file.data)


HISTORY = [{"loss": 1 / step, "learning_rate": 1e-4, "epoch": step / 10, "step": step} for step in range(1, 21)]
STATE = json.dumps({"best_metric": None, "global_step": 20, "log_history": HISTORY}, indent=2).encode()
CSV = b"epoch,step,train_loss,val_loss\n" + b"".join(b"0,%d,%.4f,\n" % (step, 1 / (step + 1)) for step in range(20))
JSONL = b"".join(b'{"step": %d, "train_loss": %.4f}\n' % (step, 1 / step) for step in range(1, 21))
MLFLOW = b"".join(b"%d %.4f %d\n" % ((T0 + step) * 1000, 1 / (step + 1), step) for step in range(20))
FILES: dict[str, tuple[Callable[[], Parser], bytes]] = {
    "tensorboard": (EventFile, events()),
    "wandb": (RunFile, wandb_file()),
    "csv": (Table, CSV),
    "json lines": (Lines, JSONL),
    "trainer state": (TrainerState, STATE),
    "mlflow": (lambda: MetricFile("loss"), MLFLOW),
}


def test_scalars_of_event_files_with_their_steps_and_times() -> None:
    shape = field(2, field(2, field(1, 1)))
    data = (
        events(3)
        + event(T0, 7, simple("a", 0.5), simple("b", math.nan), field(1, "histogram") + field(5, b"\0" * 90))
        + event(
            T0, 8, tensor("tf2", 1, field(4, struct.pack("<f", 0.25))), tensor("packed", 1, field(5, struct.pack("<f", 2.0)))
        )
        + event(T0, 9, tensor("single", 1, float32(5, 4.0)), tensor("double", 2, field(4, struct.pack("<d", 0.125))))
        + event(T0, 10, tensor("int", 9, field(10, varint(-3))), tensor("half", 19, field(4, struct.pack("<e", 1.5))))
        + event(T0, 11, tensor("text", 7, field(8, "hello"), plugin="text"), field(1, "v") + field(8, field(1, 1) + shape))
        + event(math.inf, 12, simple("late", 1.0))
    )
    values = all_of(EventFile(), data)
    assert values[:3] == [Value("train/loss", step, T0 + step, pytest.approx(1 / (step + 1))) for step in range(3)]
    assert [value for value in values if math.isnan(value.value)] == [values[4]]
    assert {value.name: (value.step, value.value) for value in values[5:]} == {
        "tf2": (8, 0.25),
        "packed": (8, 2.0),
        "single": (9, 4.0),
        "double": (9, 0.125),
        "int": (10, -3.0),
        "half": (10, 1.5),
        "late": (12, 1.0),
    }
    assert values[-1].time is None


def test_an_event_file_is_read_on_behind_damage_and_around_what_is_too_large() -> None:
    image = tfrecord_head(RECORD_BYTES + 1) + bytes(RECORD_BYTES + 5)
    assert len(all_of(EventFile(), events(5) + image + events(5), 100_000)) == 10
    broken = bytearray(events(9) + b"\0" * 5000 + b"\1\0\0\0\0\0\0\0" * 500 + events(9))
    broken[300] ^= 0xFF  # within a record: its own value may be lost, no other
    assert len(all_of(EventFile(), bytes(broken), 777)) >= 17
    middle = EventFile()
    middle.skip(1000)
    assert [value.step for value in all_of(middle, events(20)[-200:])][-1] == 19


def test_history_of_wandb_files_over_blocks_and_behind_damage() -> None:
    file = WandbFile()
    file.history(0, {"loss": 0.5, "_timestamp": T0})
    file.history(1, {"a.b": 1.5}, nested=True)
    file.history(2, {"nan": "NaN", "image": {"_type": "image-file"}, "text": "no", "flag": True, "_runtime": 3})
    values = all_of(RunFile(), bytes(file.data))
    assert values[:2] == [Value("loss", 0, T0, 0.5), Value("a.b", 1, None, 1.5)]
    assert [(value.name, math.isnan(value.value)) for value in values[2:]] == [("nan", True)]
    large = wandb_file(50, more=5000)
    assert len(large) > 6 * 32768
    expected = [(step, T0 + step) for step in range(50)]
    assert [(value.step, value.time) for value in all_of(RunFile(), large, 1000)] == expected
    damaged = large[:40_000] + os.urandom(500) + large[40_500:]
    assert len(all_of(RunFile(), damaged)) > 40
    middle = RunFile()
    middle.skip(70_001)
    assert 20 < len(all_of(middle, large[70_001:])) < 50
    other = RunFile()
    assert (other.feed(events()), other.refused) == ([], True)


def test_tables_with_a_heading_and_no_data_sets() -> None:
    padded = b"      epoch,  train/box_loss,   metrics/mAP50(B),  lr/pg0\n    1,   0.9,   0.2,  0.01\n    2,  0.8,,0.01\n"
    assert [value[:2] + value[3:] for value in all_of(Table(), padded)] == [
        ("train/box_loss", 1, 0.9),
        ("metrics/mAP50(B)", 1, 0.2),
        ("lr/pg0", 1, 0.01),
        ("train/box_loss", 2, 0.8),
        ("lr/pg0", 2, 0.01),
    ]
    keras = b"\xef\xbb\xbfepoch;accuracy;loss\r\n0;0.5;nan\r\n1;0.6;0.4"
    assert [value.step for value in all_of(Table(), keras, 3)] == [0, 0, 1, 1]
    timed = b"step,loss,timestamp\n3,0.5,1700000000.5\n"
    assert all_of(Table(), timed) == [Value("loss", 3, T0 + 0.5, 0.5)]
    for other in (b"image,label\n1.png,3\n", b"step,price\n1,2\n", b"loss,accuracy\n1,2\n", b"\0\1\2\n" * 9):
        table = Table()
        assert (all_of(table, other), table.refused) == ([], True)
    lines = Lines()
    assert all_of(lines, b'{"question": "loss?", "answer": 42}\n' * 40_000) == []
    assert lines.refused


def test_other_formats() -> None:
    assert [(value.name, value.step) for value in all_of(TrainerState(), STATE)][:2] == [("loss", 1), ("learning_rate", 1)]
    assert len(all_of(TrainerState(), STATE)) == 40
    assert all_of(MetricFile("loss"), MLFLOW + b"x y z\n1\n" + b"9" * 5000 + b"\n1700000000000 7.5 3")[-1] == Value(
        "loss", 3, T0, 7.5
    )
    assert [value.step for value in all_of(Lines(), JSONL)] == list(range(1, 21))


def test_a_value_is_passed_on_once_however_often_its_file_is_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_bytes(CSV)
    source = Source(TABLE, {path: ""})
    found = source.read()[0]
    wider = CSV.replace(b"val_loss", b"val_loss,val_acc").replace(b",\n", b",,\n")
    for more in (b"1,20,0.01,,0.9\n", b"1,20,0.01,,0.9\n1,21,0.005,,\n"):
        path.write_bytes(wider + more)
        found += source.read()[0]
    path.with_suffix(".new").write_bytes(wider + b"1,20,0.01,,0.9\n1,21,0.005,,\n1,22,,,0.95\n")
    path.with_suffix(".new").replace(path)
    found += source.read()[0]
    assert [value.step for value in found if value.name == "train_loss"] == list(range(22))
    assert [(value.step, value.value) for value in found if value.name == "val_acc"] == [(20, 0.9), (22, 0.95)]
    assert all(value.time is not None for value in found)

    states = {tmp_path / f"checkpoint-{step}" / "trainer_state.json": step for step in (10, 20)}
    for path, step in states.items():
        path.parent.mkdir()
        path.write_text(json.dumps({"log_history": HISTORY[:step]}))
    state = Source(TRAINER_STATE, dict.fromkeys(list(states)[:1], ""))
    found = state.read()[0]
    state.update(dict.fromkeys(states, ""))
    found += state.read()[0]
    assert [value.step for value in found if value.name == "loss"] == list(range(1, 21))


def test_what_a_file_without_times_held_before_it_was_read_has_one_time(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("step,loss\n" + "".join(f"{step},{1 / (step + 1):.4f}\n" for step in range(300)))
    source, found, at_end = Source(replace(TABLE, read_bytes=500), {path: ""}), [], False
    for later in range(100):
        os.utime(path, (T0 + later, T0 + later))
        values, at_end = source.read()
        found += values
        if at_end:
            break
    assert at_end
    assert len(found) == 300
    assert {value.time for value in found} == {T0}


def test_files_are_followed_as_they_grow_and_read_from_their_end(tmp_path: Path) -> None:
    for kind, data, name in ((TENSORBOARD, events(300), "events.out.tfevents.1"), (WANDB, wandb_file(300, 500), "run-1.wandb")):
        path = tmp_path / name
        path.write_bytes(b"")
        source = Source(kind, {path: "valid/"})
        found: list[Value] = []
        cuts = [0, *sorted(random.Random(1).sample(range(len(data)), 20)), len(data)]
        for start, end in itertools.pairwise(cuts):
            with path.open("ab") as file:
                file.write(data[start:end])
            found += source.read()[0]
        assert [value.step for value in found] == list(range(300))
        assert {value.name for value in found} == {"valid/" + ("train/loss" if kind is TENSORBOARD else "loss")}
        tail = Source(replace(kind, backlog=Backlog(0, len(data) // 2)), {path: ""}).read()[0]
        assert [value.step for value in tail] == list(range(300 - len(tail), 300))
        assert 50 < len(tail) < 200


NAMES = "loss\x1b[31m \x9b2J evil\u202ename \r\n\t" + "y" * 5000


def test_a_metric_of_mlflow_with_a_hostile_file_name_has_a_name_that_is_safe_to_show() -> None:
    path = Path("mlruns/0/run/metrics/val/\x1b]0;title\x07lo\u202ess\n\x9b2J")
    assert {value.name for value in all_of(MLFLOW_KIND.parser(path), MLFLOW)} == {"val/loss 2J"}


@pytest.mark.parametrize("what", ["tensorboard", "wandb"])
def test_names_are_safe_to_show(what: str) -> None:
    file = WandbFile()
    file.history(1, {NAMES: 1.0})
    parser, data = (EventFile(), event(T0, 1, simple(NAMES, 1.0))) if what == "tensorboard" else (RunFile(), bytes(file.data))
    (value,) = all_of(parser, data)
    assert value.name.isprintable()
    assert value.name.startswith("loss 2J evilname")
    assert len(value.name) <= NAME_CHARACTERS


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_any_bytes_are_read_without_an_error(data: st.DataObject) -> None:
    make, sound = FILES[data.draw(st.sampled_from(sorted(FILES)), "format")]
    raw = bytearray(data.draw(st.one_of(st.just(sound), st.binary(max_size=300))))
    for _ in range(data.draw(st.integers(0, 8))):
        at = data.draw(st.integers(0, max(0, len(raw) - 1)))
        what = data.draw(st.sampled_from(["cut", "change", "insert", "repeat"]))
        if what == "cut":
            del raw[at : at + data.draw(st.integers(1, 200))]
        elif what == "insert":
            raw[at:at] = data.draw(st.binary(max_size=40))
        elif what == "repeat":
            raw += raw[at : at + 500]
        elif raw:
            raw[at] = data.draw(st.integers(0, 255))
    parser = make()
    values = []
    while raw:
        size = data.draw(st.sampled_from([1, 7, 100, 5000]))
        values += parser.feed(bytes(raw[:size]))
        del raw[:size]
        if raw and data.draw(st.integers(0, 9)) == 0:
            gap = min(len(raw), 50)
            del raw[:gap]
            parser.skip(gap)
    values += parser.end()
    for value in values:
        assert value.name.isprintable()
        assert 0 < len(value.name) <= NAME_CHARACTERS
        assert 0 <= value.step < 1 << 53
        assert isinstance(value.value, float)
        assert value.time is None or math.isfinite(value.time)


@pytest.mark.parametrize("what", sorted(FILES))
def test_what_never_ends_is_not_kept(what: str) -> None:
    make, sound = FILES[what]
    for piece in (b"\0", b"\xff", b"{", b"9", b",", b"\x0a\xff\xff\xff\xff\x0f", b"\x09" + bytes(7), b"[" * 1000 + b"\n"):
        parser = make()
        parser.feed(sound[: len(sound) // 2])
        data = piece * (60_000 // len(piece))
        for _ in range(4):
            parser.feed(data)
        held = [value for value in vars(parser).values() if isinstance(value, bytes | bytearray | str | dict)]
        assert sum(map(len, held)) <= len(sound) + 4 * len(data)


@pytest.mark.parametrize(
    "heading",
    [
        "Epoch,Train Loss",
        "Step,Training Loss",
        "# epoch,loss",
        "train_iter,train_loss",
        "num_steps,loss",
        "training_iteration,loss",
        "train/step,train/loss",
    ],
)
def test_headings_of_tables_as_people_write_them(heading: str) -> None:
    table = Table()
    found = [*table.feed(f"{heading}\n10,2.5\n20,2.25\n".encode()), *table.end()]
    assert [(value.step, value.value) for value in found] == [(10, 2.5), (20, 2.25)]


def test_comments_above_a_table_are_not_a_heading() -> None:
    table = Table()
    found = table.feed(b"# started by ada, 2026\n\n# with loss, no steps\nepoch,loss\n1,2.5\n")
    assert [(value.step, value.value) for value in found] == [(1, 2.5)]
