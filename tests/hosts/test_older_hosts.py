"""A host whose newest Python is older than gputop's: 3.8 and 3.9 run what travels there, and what is older is named."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputop.hosts import traveling
from gputop.hosts.feed import feeds_of
from gputop.hosts.fleet import read_once
from gputop.hosts.following import links_by
from gputop.process import ProcessQuestion
from gputop.questions import Question
from gputop.run_questions import RunsQuestion
from gputop.snapshot import Snapshot
from gputop.whereabouts.records import WhereQuestion
from tests.hosts.machines.older_hosts import DEADLINE_S, Machine, Told, machine, reached
from tests.hosts.test_traveling import PYTHON, marked
from tests.pythons import python_of
from tests.tracking.kit import eventually, home

assert home
assert machine


@pytest.mark.parametrize("version", ["3.8", "3.9"])
def test_a_host_with_an_older_python_reports_the_same(version: str, machine: Machine, tmp_path: Path) -> None:
    pythons = {"older": python_of(version), "own": PYTHON}
    marks = {name: f"GPUTOP_TEST_HOST={tmp_path}/{name}" for name in pythons}
    feeds = {
        name: feeds_of(
            links_by(
                [name],
                reached(tmp_path / name, python, GPUTOP_TEST_HOST=f"{tmp_path}/{name}", **machine.environment),
                ("agent", "-i", "200ms"),
            )
        )[0]
        for name, python in pythons.items()
    }
    try:
        older, own = (Told(feeds[name], machine) for name in ("older", "own"))

        def both() -> bool:
            older.read()
            own.read()
            return older.last is not None and whole(older.last) and older.kinds == own.kinds

        def whole(snapshot: Snapshot) -> bool:
            untracked = {run.name for run in snapshot.process_runs if run.curves}
            return len(snapshot.runs) >= 3 and untracked >= {"logs.py", "prints.py"}

        try:
            eventually(both, "the same", DEADLINE_S)
        except AssertionError:
            problems = [feed.problem() for feed in feeds.values()]
            notes = older.last and older.last.notes
            raise AssertionError((problems, notes, older.kinds - own.kinds, own.kinds - older.kinds)) from None
        assert older.last is not None
        assert [device.name for device in older.last.devices] == ["NVIDIA H100 80GB HBM3"] * 3
        assert {process.pid for process in older.last.processes if process.devices} == {*machine.pids}
        (run,) = (run for run in older.last.runs if run.name == "tracked")
        assert (run.config, run.step, run.ranks[0].metrics["loss"]) == ({"lr": 0.1}, 29, pytest.approx(1 / 30))
        questions: list[tuple[Question, Callable[[Any], object]]] = [
            (ProcessQuestion(machine.pids[0], environment=True), lambda answer: answer.environment),
            (RunsQuestion((run.run_id,)), lambda answer: answer.runs),
            (WhereQuestion(run.run_id), lambda answer: answer.ranks),
        ]
        for question, answered in questions:
            assert older.answer(question, answered) == own.answer(question, answered)
        for name, python in pythons.items():
            running = {os.readlink(f"/proc/{pid}/exe") for pid in marked(marks[name])}
            assert str(python.resolve()) in running, "it runs on another Python"
    finally:
        for feed in feeds.values():
            feed.close()


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10"])
def test_a_settings_file_on_a_host_is_read(version: str, own_places: Path) -> None:
    """Before Python 3.11, the standard library has no parser of TOML, and a home may be shared with a machine with gputop."""
    settings = own_places / ".config" / "gputop" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("speed = 7\n")
    command = [python_of(version), "-c", traveling.LOADER, "--once", "--json"]
    done = subprocess.run(command, input=traveling.message(), capture_output=True, check=False)
    assert "config.toml, line 1: 'speed' is not a gputop setting." in done.stderr.decode()
    assert Snapshot.from_json(done.stdout.splitlines()[1]).host.source == "none"


@pytest.mark.parametrize("version", ["3.6", "3.7"])
def test_a_host_with_a_python_that_is_too_old_says_which(version: str, tmp_path: Path) -> None:
    (heard,) = read_once(["a"], reached(tmp_path / "bin", python_of(version)), ["--once", "--json"])
    assert heard.status.state == "no_python"
    assert f"needs Python 3.8 or newer there, and its Python is {version}." in str(heard.status.message)
