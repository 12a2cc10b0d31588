"""MLflow's database is read without a lock, as it grows, and never in the middle of a transaction."""

from __future__ import annotations

import math
import os
import sqlite3
import time
from pathlib import Path

import pytest

from gputop.untracked.files import mlflow_database
from gputop.untracked.files.mlflow_database import DatabaseFile, described, run_ids
from tests.untracked.files.writers import MlflowDatabase

T0 = 1_700_000_000.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "é ?#%" / "mlflow.db"  # what a URI could mistake


@pytest.fixture
def database(path: Path) -> MlflowDatabase:
    path.parent.mkdir()
    return MlflowDatabase(path)


def test_runs_their_names_and_their_parameters(database: MlflowDatabase, path: Path) -> None:
    database.run("0a", "older", T0)
    database.run("1b", "newer", T0 + 100, lr="0.1", mode="amp")
    assert run_ids(path, 0.0) == ["1b", "0a"]
    assert run_ids(path, T0 + 50) == ["1b"]
    name, settings = described(path, "1b")
    assert (name, dict(settings)) == ("newer", {"lr": "0.1", "mode": "amp"})
    assert described(path, "2c") == (None, [])


def test_values_are_read_once_as_they_are_added(database: MlflowDatabase, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlflow_database, "ROWS", 7)
    database.run("0a", "one", T0)
    database.run("1b", "other", T0)
    database.log("1b", "loss", {0: 9.0}, T0)
    database.log("0a", "train/loss", {step: 1 / (step + 1) for step in range(10)}, T0)
    file = DatabaseFile(path, "0a")
    first, at_end = file.read()
    assert (len(first), at_end) == (7, False)
    rest, at_end = file.read()
    assert at_end
    assert [(value.name, value.step, value.time) for value in first + rest] == [
        ("train/loss", step, T0 + step) for step in range(10)
    ]
    assert [value.value for value in first + rest] == [pytest.approx(1 / (step + 1)) for step in range(10)]
    assert file.read() == ([], True)
    database.log("0a", "train/loss", {10: math.nan}, T0)
    ((value,), _) = file.read()
    assert value.step == 10
    assert math.isnan(value.value)


def test_a_reader_takes_no_lock(database: MlflowDatabase, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database.run("0a", "one", T0)
    database.log("0a", "loss", {0: 0.5}, T0)
    locks = Path("/proc/locks")
    inode = f":{path.stat().st_ino} "
    connect, seen = sqlite3.connect, []

    def connected(*arguments: object, **more: object) -> sqlite3.Connection:
        opened: sqlite3.Connection = connect(*arguments, **more)  # type: ignore[call-overload]
        opened.execute("BEGIN")
        assert opened.execute("SELECT count(*) FROM metrics").fetchall() == [(1 + len(seen),)]
        seen.append(inode in locks.read_text())
        database.log("0a", "loss", {len(seen): 0.25}, T0)  # with timeout=0, any lock of another process makes it fail
        return opened

    monkeypatch.setattr(sqlite3, "connect", connected)
    DatabaseFile(path, "0a").read()
    assert seen == [False] * (1 + len(mlflow_database.PAUSES_S))
    assert sorted(file.name for file in path.parent.iterdir()) == ["mlflow.db"], "and leaves no file behind"


def test_nothing_is_believed_while_a_transaction_is_open(database: MlflowDatabase, path: Path) -> None:
    database.run("0a", "one", T0)
    database.opened.execute("PRAGMA cache_spill = 1")
    database.opened.execute("PRAGMA cache_size = 1")  # so that pages are written before the transaction is complete
    database.opened.executemany(
        "INSERT INTO metrics VALUES ('loss', ?, 1, '0a', ?, 0)", [(step / 7, step) for step in range(5000)]
    )
    assert Path(f"{path}-journal").exists()
    file = DatabaseFile(path, "0a")
    assert file.read() == ([], True)
    assert run_ids(path, 0.0) == []
    database.opened.rollback()
    assert file.read() == ([], True)
    assert run_ids(path, 0.0) == ["0a"]


def test_a_change_while_it_is_read_discards_the_answer(database: MlflowDatabase, path: Path) -> None:
    database.run("0a", "one", T0)
    database.log("0a", "loss", {0: 0.5}, T0)
    kept = path.stat()

    def changed(ask: object) -> list[object]:
        asked.append(ask)
        if len(asked) < changes:
            database.log("0a", "loss", {len(asked): 0.25}, T0)
            os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))  # a file system's clock may tick slowly
        return [("anything",)]

    asked: list[object] = []
    changes = 3
    assert mlflow_database.asked(path, changed) == [("anything",)]
    assert len(asked) == 3, "the first two answers are discarded"
    asked, changes = [], 100
    assert mlflow_database.asked(path, changed) is None
    assert mlflow_database.asked(path, lambda ask: ask("SELECT 1", ())) == [(1,)]


def test_other_files_and_endless_questions_hold_no_values(
    database: MlflowDatabase, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, data in enumerate((b"", b"not a database at all" * 100, b"SQLite format 3\0" + os.urandom(5000))):
        other = tmp_path / f"{number}.db"
        other.write_bytes(data)
        assert (run_ids(other, 0.0), DatabaseFile(other, "0a").read()) == ([], ([], True))
    assert run_ids(tmp_path / "none.db", 0.0) == []
    assert not (tmp_path / "none.db").exists()
    monkeypatch.setattr(mlflow_database, "SECONDS", 0.05)
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
    assert mlflow_database.asked(path, lambda ask: ask(endless, ())) is None
    database.opened.execute("DROP TABLE metrics")
    database.opened.execute("CREATE VIEW metrics AS SELECT 1 AS rowid, 'k' AS key, 1 AS step, 'x' AS timestamp, "
                            "x'00' AS value, 'y' AS is_nan, '0a' AS run_uuid")  # fmt: skip
    database.opened.commit()
    assert DatabaseFile(path, "0a").read() == ([], True)


def test_a_search_names_the_runs_that_began_since(database: MlflowDatabase, path: Path) -> None:
    from gputop.untracked.kinds import MLFLOW_DATABASE
    from gputop.untracked.search import grouped

    now = time.time()
    database.run("0a", "older", now - 100)
    database.run("1b", "newer", now)
    (found,) = grouped({path: MLFLOW_DATABASE}, {path: 0}, now - 1)
    assert (found.root, dict(found.paths), found.certain) == (path / "1b", {path: "1b"}, False)
