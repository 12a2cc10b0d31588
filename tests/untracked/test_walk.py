"""The search for files: bounded, and likely folders first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gputop.untracked import walk as walk_module
from gputop.untracked.walk import LIVE, walk, walk_together


def names(folder: Path, *, entries: int = 1000, of_a_folder: int = 1000, files: int = 100) -> list[str]:
    bounds = LIVE._replace(entries=entries, entries_of_a_folder=of_a_folder, files=files, seconds=30.0)
    return [path.relative_to(folder).as_posix() for path, _ in walk([folder], 0.0, os.geteuid(), bounds).files]


def put(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")


def test_a_search_ends_and_looks_into_likely_folders_first(tmp_path: Path) -> None:
    for number in range(200):
        put(tmp_path / "a data set" / f"image{number}.png")
        put(tmp_path / f"folder{number}" / "x")
    event = "outputs/2026-01-01/12-00-00/lightning_logs/version_0/metrics.csv"
    for path in (event, "a/b/c/d/e/metrics.csv", "a/b/c/d/e/f/metrics.csv", ".hidden/metrics.csv", "venv/metrics.csv"):
        put(tmp_path / path)
    assert names(tmp_path) == [event, "a/b/c/d/e/metrics.csv"]
    assert names(tmp_path, entries=230) == [event], "the data set comes later"
    assert names(tmp_path, entries=1) == []
    assert names(tmp_path, files=1) == [event]
    (tmp_path / "loop").symlink_to(tmp_path)
    assert len(names(tmp_path)) == 2
    assert walk([tmp_path / "gone", tmp_path / "loop"], 0.0, os.geteuid()).files == [], "not even as a start"


def test_a_folder_with_very_many_entries_uses_up_no_search(tmp_path: Path) -> None:
    for number in range(300):
        put(tmp_path / "exp" / f"{number}.png")
    put(tmp_path / "mine" / "history.csv")
    assert names(tmp_path, entries=200) == []
    assert names(tmp_path, entries=200, of_a_folder=50) == ["mine/history.csv"]


def test_a_folder_is_listed_once_while_nothing_comes_or_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    listed: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(path) or scandir(path))
    put(work / "logs" / "metrics.csv")
    for folder in (work, work / "logs"):
        os.utime(folder, (1, 1))
    assert names(work) == names(work) == ["logs/metrics.csv"]
    assert len(listed) == 2
    os.utime(work / "logs" / "metrics.csv", (5, 5))
    assert walk([work], 6.0, os.geteuid()).files == []
    os.utime(work / "logs" / "metrics.csv", (7, 7))
    assert len(walk([work], 6.0, os.geteuid()).files) == 1, "a file that is written to leaves its folder as it is"
    assert len(listed) == 2
    put(work / "logs" / "history.csv")
    assert sorted(names(work)) == ["logs/history.csv", "logs/metrics.csv"]
    (work / "logs").rename(work / "runs")
    (work / "runs" / "history.csv").unlink()
    assert names(work) == ["runs/metrics.csv"]
    assert names(work, entries=1) == [], "what is known counts as well"


def test_runs_that_work_in_one_folder_share_a_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walks: list[float] = []

    def counted(folders: list[Path], since: float, uid: int | None) -> object:
        walks.append(since)
        return walk(folders, since, uid)

    monkeypatch.setattr(walk_module, "walk", counted)
    monkeypatch.setattr(walk_module, "SHARED_S", 1e9)
    old, new = tmp_path / "old" / "metrics.csv", tmp_path / "new" / "metrics.csv"
    for path, at in ((old, 605.0), (new, 615.0)):
        put(path)
        os.utime(path, (at, at))
    me = os.geteuid()
    assert {path for path, _ in walk_together([tmp_path], 602.0, me).files} == {old, new}
    assert [path for path, _ in walk_together([tmp_path], 610.0, me).files] == [new], "the other is older than this run"
    assert walks == [600.0]
    assert walk_together([tmp_path], 30.0, me).files
    assert walk_together([tmp_path / "new"], 610.0, me).files
    assert walks == [600.0, 0.0, 600.0], "runs of another time, and of another folder"
    monkeypatch.setattr(walk_module, "SHARED_S", -1.0)
    put(tmp_path / "newest" / "metrics.csv")
    assert len(walk_together([tmp_path], 602.0, me).files) == 3, "what comes later is found by the next walk"


def test_an_mlflow_run_of_a_shared_walk_is_left_out_if_it_is_too_old(tmp_path: Path) -> None:
    metric = tmp_path / "mlruns" / "0" / "abc" / "metrics" / "loss"
    put(metric)
    put(metric.parent.parent / "meta.yaml")
    os.utime(metric, (605, 605))
    assert walk_together([tmp_path], 602.0, os.geteuid()).runs_of_mlflow == {metric.parent.parent: [metric]}
    assert walk_together([tmp_path], 610.0, os.geteuid()).runs_of_mlflow == {}
