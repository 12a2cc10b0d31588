"""Small files that change between being found and being read: replaced by all kinds of things while every reader reads them.

What a reader returns is what the file held at some time, or nothing; it raises nothing but a sentence for the user.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gputop.errors import GputopError
from gputop.jobs import store
from gputop.places import jobs_dir
from gputop.recipes import own_commands
from gputop.recipes.own_commands import OwnCommand
from gputop.settings.file import read_settings
from gputop.settings.values import Settings
from gputop.sources.recording import Recorder, read_recording
from gputop.tracking.gpus import record as gpu_record
from gputop.tracking.reader import kept, labels
from gputop.tracking.reader.labels import Labels
from gputop.tracking.reader.launched import recipe_of
from gputop.tracking.reader.runs import RunReader
from gputop.tracking.reader.stopped import job_end
from gputop.tui.state.layout import Layout, read_layout
from tests import samples
from tests.tracking.kit import Home, home
from tests.tracking.reader.test_kept import journal

assert home
ROUNDS = 150


class Flipping:
    """Replaces a file over and over: by itself, part of itself, a pipe, a link, a folder, nothing; at last by itself."""

    def __init__(self, path: Path) -> None:
        self.path, self.whole = path, path.read_bytes()
        self.other = path.with_name(f"{path.name}-other")
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._flip)
        self.flips = 0

    def __enter__(self) -> Flipping:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.set()
        self._thread.join()
        self._put(lambda: self.other.write_bytes(self.whole))

    def _put(self, make: Callable[[], object]) -> None:
        make()
        if os.path.isdir(self.path) or os.path.isdir(self.other):
            shutil.rmtree(self.path) if self.path.is_dir() else self.path.unlink(missing_ok=True)
        self.other.rename(self.path)

    def _flip(self) -> None:
        half = self.whole[: len(self.whole) // 2]
        kinds: tuple[Callable[[], object], ...] = (
            lambda: self.other.write_bytes(self.whole),
            lambda: self.other.write_bytes(half),
            lambda: os.mkfifo(self.other),
            lambda: self.other.write_bytes(self.whole + self.whole),
            lambda: self.other.symlink_to("/dev/zero"),
            lambda: self.other.mkdir(),
            lambda: self.other.write_bytes(b""),
        )
        while not self._ends.is_set():
            self._put(kinds[self.flips % len(kinds)])
            if self.path.is_file() and not self.path.is_symlink() and self.flips % 3 == 0:
                os.truncate(self.path, len(half))
            elif self.flips % 5 == 0 and not self.path.is_dir():
                self.path.unlink()
            self.flips += 1


def _recorded(path: Path) -> int:
    with contextlib.suppress(GputopError):
        return len(list(read_recording(path)))
    return 0


def _labels(path: Path) -> Labels:
    with contextlib.suppress(labels.UnreadableError):
        return labels.read(path.parent)
    return labels.NONE


def _listed_jobs() -> set[str]:
    store._ended.clear()
    return {job.id for job in store.read_jobs().jobs}


def _runs(home: Home) -> set[str]:
    reader = RunReader(home.runs)
    try:
        return {run.name for run in reader.poll().runs}
    finally:
        reader.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name", ["config.toml", "commands.json", "layout.json", "labels.json", "kept", "gpu", "status.json", "spec.json", "journal"]
)
def test_a_file_that_becomes_something_else_is_read_as_it_was_or_not_at_all(
    name: str, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUTOP_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").write_text('theme = "light"\n')
    own = OwnCommand("mine", "true", "/")
    own_commands.remember(own)
    (home.state / "layout.json").parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    (home.state / "layout.json").write_text('{"sort": "memory"}')
    archive = journal(home, "x", 10)
    given = Labels("given", ("tag",))
    labels.write(archive.parent, given)
    assert _runs(home) == {"given"}, "which also keeps a summary"
    (archive.parent / "GPU-0.gpu").write_text("[1.0,0,50,1000,99.5]\n")
    for job_id in ("good", "odd"):
        (jobs_dir() / job_id).mkdir(parents=True, mode=0o700)
        spec = {"id": job_id, "name": "n", "argv": ["true"], "env": {}, "cwd": "/", "recipe_id": "r", "created_at": 1.0}
        (jobs_dir() / job_id / "spec.json").write_text(json.dumps(spec))
        (jobs_dir() / job_id / "status.json").write_text('{"state": "ended", "exit_code": 0, "asked": []}')
    readers: Mapping[str, tuple[Path, Callable[[], object], tuple[object, ...]]] = {
        "config.toml": (tmp_path / "config.toml", lambda: read_settings().settings.theme, ("light", Settings().theme)),
        "commands.json": (own_commands.file(), own_commands.load, ((own,), ())),
        "layout.json": (home.state / "layout.json", read_layout, (Layout(sort="memory"), Layout())),
        "labels.json": (archive.parent / labels.FILE, lambda: _labels(archive.parent / labels.FILE), (given, labels.NONE)),
        "kept": (
            kept._path_of(archive),
            lambda: (lambda found: found and found.identity.run_id)(kept.load(archive, 2)),
            ("x", None),
        ),
        "gpu": (
            archive.parent / "GPU-0.gpu",
            lambda: [reading.power_w for reading in gpu_record.read(archive.parent).get("GPU-0", [])],
            ([99.5], [99.5, 99.5], []),
        ),
        "status.json": (jobs_dir() / "odd" / "status.json", lambda: (job_end("odd"), _listed_jobs() >= {"good"})[1], (True,)),
        "spec.json": (jobs_dir() / "odd" / "spec.json", lambda: (recipe_of("odd"), _listed_jobs() >= {"good"})[1], (True,)),
        "journal": (archive, lambda: tuple(_runs(home)), (("given",), ())),
    }
    path, read, allowed = readers[name]
    assert read() == allowed[0]
    gc.collect()  # what other tests left open may be closed at any time
    descriptors = len(os.listdir("/proc/self/fd"))
    with Flipping(path) as flipping:
        seen = [read() for _ in range(ROUNDS)]
        while flipping.flips < 30:
            seen.append(read())
    assert [found for found in seen if found not in allowed] == []
    assert read() == allowed[0], "whole again"
    assert len(os.listdir("/proc/self/fd")) <= descriptors


@pytest.mark.timeout(120)
def test_a_recording_may_grow_shrink_or_vanish_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "recording"
    with Recorder(path) as recorder:
        for second in range(5):
            recorder.write(samples.snapshot(second).to_json())
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    changes: Mapping[str, tuple[Callable[[], object], range]] = {
        "grown": (lambda: path.write_bytes(whole + lines[-1]), range(5, 7)),
        "half a line more": (lambda: path.write_bytes(whole + lines[-1][:100]), range(5, 6)),
        "truncated": (lambda: os.truncate(path, len(whole) - 50), range(1, 6)),
        "emptied": (lambda: os.truncate(path, 0), range(1, 6)),
        "removed": (path.unlink, range(5, 6)),
        "replaced": (lambda: (path.with_name("other").write_bytes(b"x"), path.with_name("other").rename(path)), range(5, 6)),
    }
    for what, (change, allowed) in changes.items():
        path.write_bytes(whole)
        reading = read_recording(path)
        seen = [next(reading)]
        change()
        with contextlib.suppress(GputopError):
            seen.extend(reading)
        assert len(seen) in allowed, what
        assert [shot.to_json() for shot in seen[:5]] == [
            samples.snapshot(second).to_json() for second in range(len(seen[:5]))
        ], what
    path.unlink()
    assert _recorded(path) == 0
