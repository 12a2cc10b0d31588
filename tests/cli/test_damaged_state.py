"""Damaged and hostile files of gputop: each costs itself alone, and no command ends in a traceback. All in one process."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gputop.agent.feed import ReplayFeed
from gputop.agent.sampler import Sampler
from gputop.agent.source import NoSource
from gputop.cli import jobs as jobs_command
from gputop.cli import runs as runs_command
from gputop.cli.main import main
from gputop.cli.output.once import once_text
from gputop.cli.parser import build_parser
from gputop.cli.stored.plot import plot
from gputop.cli.stored.show import show_lines
from gputop.doctor.diagnosis import Doctor
from gputop.errors import GputopError
from gputop.jobs import record, store
from gputop.jobs.output.matches import LogMatches
from gputop.jobs.output.printed_runs import PrintedRuns
from gputop.places import jobs_dir
from gputop.recipes import own_commands
from gputop.settings.file import Loaded, read_settings, save_settings
from gputop.settings.values import Settings
from gputop.snapshot import FormatError, Problem, Snapshot
from gputop.sources.recording import Recorder, read_recording
from gputop.tracking.journal import format as form
from gputop.tracking.journal import identity
from gputop.tracking.journal.writing.files import OpenJournal
from gputop.tracking.reader import labels
from gputop.tracking.reader.runs import RunReader
from gputop.tracking.reader.unreadable import notes_of
from gputop.wire import parse_json
from tests import samples
from tests.fuzzing import examples
from tests.real_processes import eventually
from tests.tracking.kit import Home, home

assert home

FUZZ = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
seeds = st.integers(0, 2**32)


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


ODD = (
    *(None, True, 0, -1, 10**400, 1e300, float("nan"), "x", "\x1b[2J", "\ud800", "\0", "../../x"),
    *([], {}, [[1]], [None], {"a": {"b": 1}}),
)
HOSTILE_JSON = (
    *map(deep, (200, 900, 3000)),
    '{"a":' * 400 + "1" + "}" * 400,
    '"\\ud800"',
    "1" * 4000,
    "1" * 5000,
    "1e400",
    "NaN",
)


def write_run(home: Home, run_id: str, live: bool = False) -> OpenJournal:
    opened = OpenJournal(identity.identify(identity.Place(0, 0, 1, 0), run_id), home.runs)
    opened.journal.state(
        "card", "run", {"name": f"name-{run_id}", "project": None, "job_id": None, "command": ["python", "x.py"]}
    )
    opened.journal.state("config", "lr", 0.1)
    for step in range(60):
        opened.journal.log(loss=1.0 / (step + 1), accuracy=float(step))
    if not live:
        opened.finish(form.FINISHED, None)
    return opened


def damaged(raw: bytes, places: tuple[tuple[int, int], ...], chance: random.Random) -> bytes:
    """Return ``raw`` with some bytes changed or cut off, inside one of ``places``."""
    data = bytearray(raw)
    for _ in range(chance.choice((1, 1, 1, 2, 8))):
        at = chance.randrange(*chance.choice(places))
        word = at // 8 * 8
        kind = chance.randrange(6)
        if kind == 0:
            data[at : at + 1] = bytes((chance.randrange(256),))
        elif kind == 1:
            data[at : at + 1] = chance.choice((b"\0", b"\xff", b"\x1b", b"/", b"[", b"{", b'"'))
        elif kind == 2:
            data[word : word + 8] = struct.pack("<q", chance.choice((0, -1, 2**63 - 1, -(2**63), 2**31, 2**32, 8)))
        elif kind == 3:
            data[word : word + 8] = struct.pack("<d", chance.choice((float("nan"), float("inf"), 1e300, -1e308)))
        elif kind == 4:
            data[at : at + 16] = chance.randbytes(16)
        elif chance.random() < 0.2:
            del data[at:]
    return bytes(data)


def use_everything(home: Home) -> None:
    """Read all runs as the commands and screens do."""
    reader = RunReader(home.runs)
    update = reader.poll()
    reader.poll()
    listed = runs_command.list_text(update.runs)
    assert "name-good" in listed
    notes_of(reader.unreadable(), reader.unreadable_labels())
    for run in update.runs:
        show_lines(run, {})
        plot(run, [points for points in update.points if points.run_id == run.run_id])
    snapshot = dataclasses.replace(samples.snapshot(0), runs=update.runs, points=update.points)
    again = Snapshot.from_json(snapshot.to_json(compact=True))
    once_text(again)
    Doctor().observe(again)
    reader.close()


def test_a_zero_byte_in_the_path_of_a_ring_hides_no_run(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(home, "good")
    write_run(home, "bad")
    path = home.runs / "bad" / "rank-00000.gpr"
    raw = bytearray(path.read_bytes())
    raw[1030] = 0
    path.write_bytes(raw)
    assert main(["runs"]) == 0
    said = capsys.readouterr()
    assert "name-good" in said.out
    assert "name-bad" in said.out, "what the journal holds is readable without its ring"
    assert main(["runs", "export", "bad", "--csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 121


def test_a_run_that_cannot_be_read_is_named_and_the_rest_is_shown(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(home, "good")
    (home.runs / "bad").mkdir()
    (home.runs / "bad" / "rank-00000.gpr").write_bytes(b"\0" * 10_000)
    for command in (["runs"], ["runs", "prune", "--keep", "9"]):
        assert main(command) == 0
        said = capsys.readouterr()
        assert ("name-good" in said.out) == (command == ["runs"])
        assert said.err.startswith("gputop: Run bad cannot be read: ")
        assert "not a journal of gputop" in said.err
    for command in (["runs", "show", "bad"], ["runs", "export", "bad", "--csv"], ["runs", "plot", "bad"]):
        assert main(command) == 1
        assert capsys.readouterr().err.startswith("gputop: Run bad cannot be read: ")
    assert main(["runs", "show", "good"]) == 0
    assert capsys.readouterr().err == ""


def changed(home: Home, run_id: str, offset: int, data: bytes) -> Path:
    """Write a run, and then ``data`` into its journal; return the journal."""
    write_run(home, run_id)
    (path,) = (home.runs / run_id).glob("*.gpr")
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)
    return path


def test_runs_of_another_version_are_named_on_the_screen_and_the_rest_is_shown(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(home, "good")
    newer = changed(home, "newer", 8, struct.pack("<H", form.MAJOR + 1))
    odd = changed(home, "odd", form.LIVE_OFFSET + 8 * 5, struct.pack("<q", 7))
    reader = RunReader()
    sampler = Sampler(NoSource(Problem("none", "no driver", "")), 1.0, runs=reader)
    shot = sampler.take()
    assert [run.run_id for run in shot.runs if not run.run_id.startswith("pid-")] == ["good"]
    (note,) = shot.notes
    assert f"Run newer cannot be read: {newer}: written by a newer gputop" in note.message
    assert note.hint == "Nor can 1 other. gputop runs names them all."
    assert note.message in once_text(shot)
    assert main(["runs"]) == 0
    said = capsys.readouterr()
    assert "name-good" in said.out
    assert f"gputop: Run newer cannot be read: {newer}: " in said.err
    assert f"gputop: Run odd cannot be read: {odd}: its state 7 is none that this gputop knows" in said.err
    newer.unlink()
    assert [note.message for note in sampler.take().notes] == [f"Run odd cannot be read: {reader.unreadable()['odd']}."]
    odd.unlink()
    assert not sampler.take().notes


def test_damaged_labels_are_named_and_never_replaced(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    for run_id in ("other", "x"):
        write_run(home, run_id)
        assert main(["runs", "rename", run_id, f"mine-{run_id}"]) == 0
    capsys.readouterr()
    file = home.runs / "x" / labels.FILE
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    problem = f"The name and tags given to run x cannot be read: {file}: not JSON: "
    for command in (["runs"], ["runs", "show", "x"]):
        assert main(command) == 0
        said = capsys.readouterr()
        assert "name-x" in said.out, "the name that the script gave it"
        assert said.err.count(problem) == 1
        assert said.err.count("Move that file away to silence this message.") == 1
    for command in (["runs", "rename", "x", "new"], ["runs", "tag", "x", "new"], ["runs", "tag", "x", "new", "--remove"]):
        assert main(command) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.count(problem) == 1
        assert said.err.endswith(" Repair that file, or move it away.\n")
        assert file.read_bytes() == whole[:-5]
    sampler = Sampler(NoSource(Problem("none", "no driver", "")), 1.0, runs=RunReader())
    shot = sampler.take()
    assert [note.message.startswith(problem) for note in shot.notes] == [True]
    assert once_text(shot).count(problem) == 1
    file.write_bytes(whole)  # in place: its directory does not change
    shot = sampler.take()
    assert not shot.notes
    assert {run.name for run in shot.runs} >= {"mine-other", "mine-x"}


@FUZZ
@given(seed=seeds)
@example(seed=271814)  # a ring that claims an endless stream used up what may be read of all runs
def test_a_damaged_journal_affects_no_other(seed: int, home: Home) -> None:
    if not home.runs.exists():
        write_run(home, "good")
        write_run(home, "bad")
        write_run(home, "live", live=True)
    chance = random.Random(seed)
    archive = home.runs / "bad" / "rank-00000.gpr"
    whole = archive.with_suffix(".whole")
    if not whole.exists():
        whole.write_bytes(archive.read_bytes())
        for ring in home.rings():
            (home.state / "ring.whole").write_bytes(ring.read_bytes())
    header = ((0, 448), (1024, 1224))
    archive.write_bytes(damaged(whole.read_bytes(), (*header, (4096, 5600)), chance))
    ring_whole = home.state / "ring.whole"
    for ring in home.rings() if ring_whole.exists() else ():
        ring.unlink()
        ring.write_bytes(damaged(ring_whole.read_bytes(), (*header, (4096, 4700), (65536, 67000)), chance))
    use_everything(home)


@pytest.mark.parametrize("hostile", HOSTILE_JSON, ids=lambda text: text[:12])
def test_hostile_json_in_a_journal_affects_nothing_else(home: Home, hostile: str) -> None:
    def json_record(kind: int, text: str) -> bytes:
        body = text.encode() + b" " * (-len(text) % 8)
        return form.RECORD_HEAD.pack(kind, 1, form.RECORD_HEAD.size + len(body), 0, 0) + body

    write_run(home, "good")
    page = form.pack_header(form.ARCHIVE, 0, identity.identify(identity.Place(0, 0, 1, 0), "bad"), "")
    named = [
        ("config", "x"),
        ("fact", "devices"),
        ("fact", "progress"),
        ("fact", "data_parallel"),
        ("anchor", "x"),
        ("card", "x"),
    ]
    records = [
        json_record(form.EVENT, json.dumps({"type": kind, "name": name})[:-1] + f',"value":{hostile}}}') for kind, name in named
    ]
    records += [
        json_record(form.EVENT, f'{{"type":"card","name":"run","value":{{"{key}":{hostile}}}}}')
        for key in ("name", "project", "job_id", "command")
    ]
    records.append(json_record(form.SCHEMA, f"[{hostile}]"))
    records.append(struct.pack("<HHIqqd", form.SCALARS, 1, 32, 1, 2**63 - 1, 1.0))
    for part in ([one] for one in records[:-2]):
        path = home.runs / "bad" / "rank-00000.gpr"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(page) + b"".join(part + records[-2:]))
        use_everything(home)


def only_words(action: Callable[[], Any]) -> None:
    """Do something that may fail with an error for the user, and in no other way."""
    with contextlib.suppress(GputopError):
        action()


def test_a_recording_with_an_odd_header_is_reported_without_a_traceback(tmp_path: Path) -> None:
    path = tmp_path / "recording"
    for version in (*ODD[:10], [], {}):
        path.write_text(json.dumps({"gputop_recording": version}) + "\n")
        only_words(lambda: list(read_recording(path)))
        path.write_text(json.dumps({"schema_version": version}) + "\n")
        only_words(lambda: list(read_recording(path)))
        with contextlib.suppress(FormatError):
            Snapshot.from_json(path.read_bytes())
    for text in (*HOSTILE_JSON, "[" * 100_000, '{"gputop_recording":1,"x":' + deep(20_000) + "}"):
        path.write_text(text + "\n")
        only_words(lambda: list(read_recording(path)))


@FUZZ
@given(seed=seeds)
def test_a_damaged_recording_is_reported_without_a_traceback(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    path, whole = tmp_path / "recording", tmp_path / "whole"
    if not whole.exists():
        with Recorder(whole) as recorder:
            recorder.write(samples.snapshot(0).to_json())
            recorder.write(samples.ranks_on_one_gpu(1).to_json())
    lines = whole.read_bytes().splitlines(keepends=True)
    place = chance.randrange(len(lines))
    if chance.random() < 0.5:
        data = json.loads(lines[place])
        key = chance.choice(list(data))
        data[key] = chance.choice(ODD)
        lines[place] = json.dumps(data).encode() + b"\n"
    else:
        lines[place] = damaged(lines[place], ((0, len(lines[place]) - 20),), chance)
    path.write_bytes(b"".join(lines))
    only_words(lambda: [Doctor().observe(snapshot) for snapshot in read_recording(path)])
    only_words(lambda: [once_text(snapshot) for snapshot in read_recording(path)])


def test_a_line_without_an_end_is_not_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.sources.recording.LINE_MAX_BYTES", 1 << 20)
    with pytest.raises(GputopError, match="longer than any snapshot"):
        list(read_recording(Path("/dev/zero")))


def test_a_recording_that_cannot_be_read_to_its_end_is_reported() -> None:
    with pytest.raises(GputopError, match="cannot be read: Input/output error"):
        list(read_recording(Path("/proc/self/mem")))  # its beginning is not mapped


def test_a_recording_may_come_through_a_pipe(tmp_path: Path) -> None:
    with Recorder(tmp_path / "recording") as recorder:
        recorder.write(samples.snapshot(0).to_json())
    ours, theirs = os.pipe()
    with os.fdopen(ours), os.fdopen(theirs, "wb") as packed:
        packed.write((tmp_path / "recording").read_bytes())
        packed.close()
        assert len(list(read_recording(Path(f"/dev/fd/{ours}")))) == 1


def test_a_replay_of_a_damaged_recording_ends_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "recording"
    path.write_text("[" * 100_000 + "\n")
    feed = ReplayFeed(path)
    feed.start(lambda: None)
    try:
        assert "line 1" in (eventually(feed.problem, bool) or "")
    finally:
        feed.close()


@FUZZ
@given(seed=seeds)
def test_a_damaged_settings_file_gives_the_defaults_and_a_reason(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    path = tmp_path / "config.toml"
    whole = b'interval_s = 0.5\ntheme = "dark"\nascii = true\ngpus = ["0", 1]\nsmoothing = 0.3\nnccl_ras = false\n'
    path.write_bytes(damaged(whole, ((0, len(whole)),), chance))
    loaded = read_settings(path)
    only_words(lambda: save_settings(loaded.settings, path))


@pytest.mark.parametrize(
    "text",
    ["a=" + deep(20_000), "smoothing = " + "9" * 5000, "a." * 3000 + "b = 1", "gpus = " + deep(900), "\0", "interval_s = nan"],
    ids=lambda text: text[:12],
)
def test_a_hostile_settings_file_gives_the_defaults(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    loaded = read_settings(path)
    assert loaded.problems or "b = 1" in text
    only_words(lambda: save_settings(loaded.settings, path))


def pipe(path: Path) -> None:
    os.mkfifo(path)


def directory(path: Path) -> None:
    path.mkdir()


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.symlink_to(path)


def huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


@pytest.mark.parametrize("put", [pipe, directory, endless, loop, huge])
def test_something_else_in_place_of_a_settings_file_is_neither_waited_for_nor_read_whole(
    put: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUTOP_CONFIG", str(tmp_path / "config.toml"))
    for path in (tmp_path / "config.toml", own_commands.file()):
        put(path)
    loaded = read_settings()
    assert "cannot be read" in loaded.problems[0].message
    only_words(lambda: save_settings(loaded.settings))
    assert own_commands.load() == ()
    only_words(lambda: own_commands.remember(own_commands.OwnCommand("mine", "true", "/")))


def test_no_settings_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTOP_CONFIG", os.devnull)
    assert read_settings() == Loaded(Settings())


def test_unreadable_own_commands_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTOP_CONFIG", str(tmp_path / "config.toml"))
    for text in (deep(20_000), '{"commands":' + deep(20_000) + "}", "null", '{"commands":3}'):
        own_commands.file().write_text(text)
        assert own_commands.load() == ()


@FUZZ
@given(seed=seeds)
def test_a_damaged_job_affects_no_other(seed: int, home: Home) -> None:
    chance = random.Random(seed)
    spec = {
        "name": "n",
        "recipe_id": "r",
        "argv": ["a", "b"],
        "env": {},
        "cwd": "/",
        "device_uuids": ["x"],
        "values": {"epochs": 3},
        "hostname": "h",
        "created_at": 1.0,
        "after": [],
    }
    process = {"pid": 1, "start_ticks": 3, "boot_id": "x"}
    status = {
        "state": "ended",
        "supervisor": process,
        "child": process,
        "started_at": 1.0,
        "ended_at": 2.0,
        "exit_code": 1,
        "signal": None,
        "asked": [],
        "swept": [1],
        "survivors": [],
    }
    store._ended.clear()
    good, bad = "20261122-141300-0000", "20261122-141300-0001"
    for job_id in (good, bad):
        parts = json.loads(json.dumps({record.SPEC: {"id": job_id, **spec}, record.STATUS: status}))
        if job_id == bad:
            part = parts[chance.choice(list(parts))]
            part[chance.choice(list(part))] = chance.choice(ODD)
            part.pop(chance.choice(list(part)), None)
        (jobs_dir() / job_id).mkdir(parents=True, exist_ok=True)
        (jobs_dir() / job_id / record.OUT_LOG).write_text("{'loss': 1.0, 'step': 3}\nRuntimeError: CUDA out of memory\n")
        for name, data in parts.items():
            (jobs_dir() / job_id / name).write_text(json.dumps(data))
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        jobs_command.jobs(build_parser().parse_args(["jobs"]))
        jobs_command.jobs(build_parser().parse_args(["jobs", "--json"]))
    assert said.getvalue().count(good) == 2 + said.getvalue().count(f"/{good}")
    PrintedRuns().poll(set())
    LogMatches().poll()


def test_json_is_read_up_to_a_depth() -> None:
    assert parse_json(deep(100)) == json.loads(deep(100))
    assert parse_json("[" + ",".join(["[]"] * 1000) + "]") == [[]] * 1000
    for levels in (101, 900, 20_000):
        for text in (deep(levels), deep(levels).encode()):
            with pytest.raises(FormatError, match="nested too deeply"):
                parse_json(text)
