from __future__ import annotations

import base64
import json
import math
import os
import random
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.snapshot import FormatError
from gputop.tracking.journal import format as form
from gputop.tracking.journal import identity
from gputop.tracking.journal.read import JournalReader
from gputop.tracking.journal.writing.files import OpenJournal
from gputop.tracking.reader.decimate import Decimator
from tests.fuzzing import examples
from tests.tracking.kit import Everything, Home, home, read_all

assert home


def open_journal(home: Home, run_id: str = "run-a", rank: int = 0, **options: object) -> OpenJournal:
    who = identity.identify(identity.Place(rank, rank, 2, 0), run_id)
    return OpenJournal(who, home.runs, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("thread", [True, False], ids=["ring", "write-through"])
def test_what_was_logged_is_read_back(home: Home, thread: bool) -> None:
    opened = open_journal(home, thread=thread)
    opened.journal.state("fact", "progress", {"total_steps": 5})
    for step in range(5):
        opened.journal.log(loss=1.0 / (step + 1), lr=0.1)
    opened.journal.log({"train/loss": 7}, step=-3)
    opened.journal.log({"a": {"b": 2.5}}, step=10**12)
    opened.finish(form.FINISHED, 0)
    sink = read_all(opened.archive_path)
    assert sink.series["loss"] == [(step, 1.0 / (step + 1)) for step in range(5)]
    assert sink.series["lr"] == [(step, 0.1) for step in range(5)]
    assert sink.series["train/loss"] == [(-3, 7.0)]
    assert sink.series["a/b"] == [(10**12, 2.5)]
    assert [value for _, _, value in sink.events] == [{"type": "fact", "name": "progress", "value": {"total_steps": 5}}]
    assert home.rings() == []


def test_a_live_ring_is_read_without_waiting_for_the_disk(home: Home) -> None:
    opened = open_journal(home)
    reader, sink = JournalReader(opened.archive_path), Everything()
    for step in range(3):
        opened.journal.log(loss=float(step))
        reader.poll(sink)
        assert sink.series["loss"][-1] == (step, float(step))
    assert reader.has_ring
    reader.close()
    opened.finish(form.FINISHED, None)


def test_nan_and_infinities_are_data(home: Home) -> None:
    opened = open_journal(home)
    for value in (math.nan, math.inf, -math.inf, -0.0):
        opened.journal.log(loss=value)
    opened.finish(form.FINISHED, None)
    values = [value for _, value in read_all(opened.archive_path).series["loss"]]
    assert math.isnan(values[0])
    assert values[1:3] == [math.inf, -math.inf]
    assert math.copysign(1.0, values[3]) == -1.0


def test_records_of_many_shapes_survive_many_laps_of_the_ring(home: Home) -> None:
    opened = open_journal(home, ring_bytes=form.RING_BYTES_MIN)
    opened._flusher.stop()  # no flusher: this test flushes
    reader, sink = JournalReader(opened.archive_path), Everything()
    rng = random.Random(7)
    names = [f"m{number}" for number in range(60)]
    wanted: dict[str, list[tuple[int, float]]] = {}
    for step in range(12_000):
        chosen = names[: rng.choice((1, 1, 1, 2, 5, 60))]
        values = {name: rng.random() for name in chosen}
        opened.journal.log(values, step=step)
        for name, value in values.items():
            wanted.setdefault(name, []).append((step, value))
        if step % 100 == 0:
            opened.journal.text("x" * rng.randrange(3000))
            opened._flush()
            reader.poll(sink)
    reader.poll(sink)
    assert opened.journal.position > 5 * form.RING_BYTES_MIN
    assert sink.series == wanted
    assert reader.damaged == 0
    reader.close()
    opened.finish(form.FINISHED, None)
    assert read_all(opened.archive_path).series == wanted


def test_five_thousand_names_at_once_and_one_by_one(home: Home) -> None:
    opened = open_journal(home)
    opened._flusher.stop()  # no flusher: this test flushes
    everything = {f"layer.{number}/grad": float(number) for number in range(5000)}
    opened.journal.log(everything, step=1)
    opened._flush()
    for name, value in everything.items():
        opened.journal.log({name: -value}, step=2)
        if value % 500 == 0:
            opened._flush()
    opened.finish(form.FINISHED, None)
    series = read_all(opened.archive_path).series
    assert len(series) == 5000
    assert series["layer.4999/grad"] == [(1, 4999.0), (2, -4999.0)]
    assert series["layer.0/grad"] == [(1, 0.0), (2, 0.0)]


def test_a_disk_that_is_too_slow_costs_whole_segments_and_nothing_else(home: Home, capfd: pytest.CaptureFixture[str]) -> None:
    opened = open_journal(home, ring_bytes=form.RING_BYTES_MIN)
    opened._flusher.stop()  # no flusher: the disk hangs
    for step in range(40_000):
        opened.journal.log(loss=float(step))
    opened._flush()
    assert opened.journal.words[form.W_DROPPED] > 0
    kept = read_all(opened.archive_path).series["loss"]
    assert kept[-1] == (39_999, 39_999.0)
    assert all(step == value for step, value in kept)
    assert len(kept) > form.RING_BYTES_MIN // 64
    opened.finish(form.FINISHED, None)
    assert "some records are not kept" in capfd.readouterr().err


def test_a_ring_without_an_archive_says_names_and_facts_again(home: Home, capfd: pytest.CaptureFixture[str]) -> None:
    home.state.mkdir(parents=True)
    home.runs.write_text("no directory")
    opened = open_journal(home, ring_bytes=form.RING_BYTES_MIN)
    opened.journal.state("fact", "tags", ["first"])
    for step in range(50_000):
        opened.journal.log(loss=float(step))
    (ring,) = home.rings()
    sink = read_all(None, ring)
    assert sink.series["loss"][-1] == (49_999, 49_999.0)
    assert any(value.get("name") == "tags" for _, _, value in sink.events)
    opened.finish(form.FINISHED, None)
    assert home.rings() == [], "what cannot be kept takes no memory after its end"
    assert capfd.readouterr().err.count("not kept") == 1


def test_the_second_journal_of_a_rank_gets_a_file_of_its_own(home: Home) -> None:
    first, second = open_journal(home), open_journal(home)
    assert [path.name for path in home.archives()] == ["rank-00000-1.gpr", "rank-00000.gpr"]
    assert (first.identity.attempt, second.identity.attempt) == (0, 1)
    first.finish(form.FINISHED, None)
    second.finish(form.FINISHED, None)


def test_files_are_private(home: Home) -> None:
    opened = open_journal(home)
    paths = [*home.archives(), *home.rings()]
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o600, 0o400]
    for path in paths:
        assert path.parent.stat().st_mode & 0o777 == 0o700
    opened.finish(form.FINISHED, None)


HEADERS = {
    "foreign": lambda page: b"\x7fELF" + page[4:],
    "newer": lambda page: page[:8] + struct.pack("<H", 2) + page[10:],
    "short": lambda page: page[:100],
    "sizes": lambda page: page[:24] + struct.pack("<Q", 2**60) + page[32:],
    "no run": lambda page: page[:424] + bytes(72) + page[496:],
    "positions": lambda page: page[:64] + struct.pack("<q", -8) + page[72:],
}


@pytest.mark.parametrize("damage", HEADERS)
def test_a_header_that_cannot_be_is_refused(home: Home, tmp_path: Path, damage: str) -> None:
    opened = open_journal(home)
    opened.journal.log(loss=1.0)
    opened.finish(form.FINISHED, None)
    (archive,) = home.archives()
    archive.write_bytes(HEADERS[damage](archive.read_bytes()))
    with pytest.raises(FormatError):
        JournalReader(archive)


FIRST_VERSION = (
    "eNpzDwgN8Q/wMmRkAAIBKEYBjAxMDLjBCkb8fBhgRqMZGQYHmAT1Lzuau14wY1eP291aZv/mTBcn1f4kIgBIXVpmUXEJFfybkU8VY0bBKBgFo2"
    "AUjIJRMApGwSgYBaNgFAwxwALEDUD8Hwpg/dtqpZLKglQlK6XkxKIUJR2lvMRcEK+oNA/IKUvMKQXyqmGiOal5qSVA8YKi/KzU5BKgSAGQl5yf"
    "m5uYl6JkFa1UUFmSkQ/SWVKUmJmnV1CpFFtbqwACIPs9kOxnwrA/Py8tMx3hgpwihAMM9AwhpigogPRpIJkD675HK+XkFxcDtQD1xQLVMULVwQ"
    "AXSmh8sJ81EwR22sPUwcKDG0XdAwx1MHfzQOlQMLgKVwdyjwOSOhG4P3NSy1JzgB7LzEvLB7ozN7W4ODEd5NOU/LxUJZj/AIophX0="
)
"""An archive as the first version wrote it, of an exited process, compressed."""


def test_a_journal_of_the_first_version_is_read(home: Home) -> None:
    archive = home.runs / "first" / "rank-00000.gpr"
    archive.parent.mkdir(parents=True)
    archive.write_bytes(zlib.decompress(base64.b64decode(FIRST_VERSION)))
    run = home.only_run()
    assert (run.name, run.project, run.command, run.config) == ("lenet", "p", ("python", "train.py"), {"lr": 0.1})
    (rank,) = run.ranks
    assert (rank.pid, rank.hostname, rank.state, rank.exit_code, rank.step) == (4242, "host", "failed", 3, 2)
    said = read_all(archive)
    assert said.series == {"loss": [(0, 1.0), (1, 0.5), (2, 1 / 3)], "lr": [(0, 0.1), (1, 0.1), (2, 0.1)]}
    assert said.events[-1] == (form.TEXT, 2, {"level": "info", "message": "done"})


def test_only_a_new_kind_of_record_is_skipped(home: Home) -> None:
    opened = open_journal(home, thread=False)
    opened.journal.log(loss=1.0)
    archive = opened.archive_path
    assert archive is not None
    with archive.open("ab") as file:
        file.write(struct.pack("<HHIqq8s", 9, 3, 32, 0, 0, b"of later"))
        file.write(struct.pack("<HHIqqd", form.SCALARS, 0, 32, 1, 0, 2.0))
    opened.journal.note_archive(form.ARCHIVE_STOPPED)  # what follows is not this journal's
    said = read_all(archive)
    assert said.series == {"loss": [(0, 1.0), (1, 2.0)]}
    opened.finish(form.FINISHED, None)


def test_links_are_not_followed(home: Home, tmp_path: Path) -> None:
    opened = open_journal(home)
    opened.finish(form.FINISHED, None)
    link = tmp_path / "link.gpr"
    link.symlink_to(home.archives()[0])
    with pytest.raises(OSError, match="symbolic"):
        JournalReader(link)


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 2**32), holes=st.integers(1, 30))
def test_any_damage_is_survived_and_costs_only_its_segments(
    tmp_path_factory: pytest.TempPathFactory, seed: int, holes: int
) -> None:
    directory = tmp_path_factory.mktemp("damage")
    who = identity.identify(identity.Place(0, 0, 1, 0), "run-a")
    opened = OpenJournal(who, directory / "runs", thread=False)
    record = b"".join(struct.pack("<HHIqqd", 1, 0, 32, step, step, float(step)) for step in range(2044))
    raw = form.pack_json(form.SCHEMA, 0, 0, 0, ["loss"])
    stream = bytearray(raw + struct.pack("<HHI", 0, 0, form.SEGMENT_BYTES - len(raw)))
    stream += bytes(form.SEGMENT_BYTES - len(stream))
    padding = form.SEGMENT_BYTES - len(record)
    for _ in range(4):
        stream += record + struct.pack("<HHI", 0, 0, padding) + bytes(padding - 8)
    rng = random.Random(seed)
    hit = set()
    for _ in range(holes):
        position = rng.randrange(form.SEGMENT_BYTES, len(stream))
        stream[position] = rng.randrange(256)
        hit.add(position // form.SEGMENT_BYTES)
    archive = opened.archive_path
    assert archive is not None
    opened.finish(form.FINISHED, None)
    archive.write_bytes(archive.read_bytes()[: form.HEADER_BYTES] + bytes(stream[: rng.randrange(len(stream))]))
    sink = read_all(archive)
    archive.write_bytes(archive.read_bytes()[: form.HEADER_BYTES] + bytes(stream))
    sink = read_all(archive)
    seen = sink.series.get("loss", [])
    assert len(seen) >= 2044 * (4 - len(hit))


@settings(max_examples=examples(100), deadline=None)
@given(
    values=st.lists(st.floats(width=32), max_size=700),
    pieces=st.lists(st.integers(1, 90), min_size=1, max_size=20),
    limit=st.integers(16, 200),
)
def test_decimation_keeps_extremes_ends_and_order(values: list[float], pieces: list[int], limit: int) -> None:
    series, index, turn = Decimator(limit), 0, 0
    while index < len(values):
        upto = index + pieces[turn % len(pieces)]
        part = values[index:upto]
        series.extend(range(index, index + len(part)), [0] * len(part), part, float)
        index, turn = index + len(part), turn + 1
    steps, times, got_values = series.columns()
    assert len(steps) == len(times) == len(got_values) <= limit
    assert list(steps) == sorted(set(steps))
    kept = list(zip(steps, got_values, strict=True))
    for step, value in kept:
        assert value == values[step] or math.isnan(values[step])
    if len(values) < limit:
        assert len(kept) == len(values)
    finite = [value for value in values if math.isfinite(value)]
    if finite:
        got = [value for value in got_values if math.isfinite(value)]
        assert (min(got), max(got)) == (min(finite), max(finite))
    assert any(math.isnan(value) for value in values) == any(map(math.isnan, got_values))
    for odd in (math.inf, -math.inf):
        assert (odd in values) == (odd in got_values)
    if values:
        assert kept[-1][0] == len(values) - 1


def test_the_reader_of_a_fast_writer_is_never_wrong(home: Home) -> None:
    """A writer at full speed on another thread, a reader that is overtaken: each value read is one that was written."""
    import threading

    opened = open_journal(home, ring_bytes=form.RING_BYTES_MIN)
    stop = threading.Event()

    def write() -> None:
        step = 0
        while not stop.is_set():
            opened.journal.log(a=float(step), b=-float(step), step=step)
            step += 1

    thread = threading.Thread(target=write)
    thread.start()
    reader, sink = JournalReader(opened.archive_path), Everything()
    try:
        while len(sink.series.get("a", [])) < 60_000:
            reader.poll(sink)
    finally:
        stop.set()
        thread.join()
    opened.finish(form.FINISHED, None)
    reader.close()
    steps = [step for step, _ in sink.series["a"]]
    assert steps == sorted(set(steps))
    assert all(value == step for step, value in sink.series["a"])
    assert all(value == -step for step, value in sink.series["b"])


def test_json_that_is_too_long_is_refused_and_reported_but_not_raised(home: Home, capfd: pytest.CaptureFixture[str]) -> None:
    opened = open_journal(home)
    opened.journal.state("config", "huge", ["x" * 900] * 900)
    opened.journal.log(loss=1.0)
    opened.finish(form.FINISHED, None)
    assert read_all(opened.archive_path).series["loss"] == [(0, 1.0)]
    assert "more than a record holds" in capfd.readouterr().err


def test_the_area_of_names_is_json_lines(home: Home) -> None:
    opened = open_journal(home)
    opened.journal.log(loss=1.0)
    opened.journal.log(loss=1.0, acc=2.0)
    (ring,) = home.rings()
    raw = ring.read_bytes()[form.HEADER_BYTES : form.RING_DATA_OFFSET].split(b"\0")[0]
    assert [json.loads(line)["names"] for line in raw.splitlines()] == [["loss"], ["loss", "acc"]]
    opened.finish(form.FINISHED, None)
    assert not os.path.exists(ring)


def test_calls_that_pile_up_are_dropped_and_counted(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    opened = open_journal(home)
    journal = opened.journal

    def interrupts(depth: int) -> None:
        """Log from within a call that writes, as signal handlers do that interrupt each other."""
        journal.text("interrupted")
        if depth:
            journal._numbers({"loss": Logs(depth - 1)}, None, 0)

    class Logs:
        def __init__(self, depth: int) -> None:
            self.depth = depth

        def __float__(self) -> float:
            interrupts(self.depth)
            return 1.0

    journal._exclusively(lambda: interrupts(100))
    journal.log(loss=2.0)
    dropped = journal.dropped_calls
    assert 0 < dropped < 100
    opened.finish(form.FINISHED, None)
    said = read_all(opened.archive_path)
    assert sum(kind == form.TEXT for kind, _, _ in said.events) == 101 - dropped
    assert said.series["loss"] == [(0, 2.0)]
    assert (
        capsys.readouterr().err
        == f"gputop: {dropped} log calls were dropped: signal handlers that log interrupted each other.\n"
    )


@pytest.mark.parametrize("character", ["ü", "\u20ac", "\U0001f600", '"', "\x01", "\ud800", "x"])
def test_many_long_names_in_one_call_are_all_kept(home: Home, character: str, capsys: pytest.CaptureFixture[str]) -> None:
    opened = open_journal(home)
    names = [character * 190 + str(number) for number in range(300)]
    for step in range(2):
        opened.journal.log({"loss": float(step), **dict.fromkeys(names, 1.5)}, step=step)
    opened.journal.log(loss=2.0)
    opened.finish(form.FINISHED, None)
    series = read_all(opened.archive_path).series
    assert series.pop("loss") == [(0, 0.0), (1, 1.0), (2, 2.0)]
    assert len(series) == 300
    assert all(points == [(0, 1.5), (1, 1.5)] for points in series.values())
    assert capsys.readouterr().err == ""


def test_known_names_are_logged_when_there_are_too_many_sets_of_names(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(form, "SCHEMAS", 50)
    monkeypatch.setattr(form, "SCHEMAS_OF_ONE", 10)
    opened = open_journal(home)
    for step in range(100):
        opened.journal.log({"loss": float(step), f"image{step}": 1.0, "acc": 0.5}, step=step)
    for step in range(100, 200):
        opened.journal.log({f"image{step % 45}": 2.0}, step=step)
    opened.finish(form.FINISHED, None)
    series = read_all(opened.archive_path).series
    assert series["loss"] == [(step, float(step)) for step in range(100)]
    assert series["acc"] == [(step, 0.5) for step in range(100)]
    assert {name for name in series if name.startswith("image")} == {f"image{step}" for step in range(40)}
    assert [step for step, value in series["image10"] if value == 2.0], "a name that is known gets one of the last places"
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "different sets of metric names" in err
