"""``gputop runs prune``: asks, and never touches a run that is alive, or a file that is not its own."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gputop.cli.stored.prune import choose
from gputop.snapshot import Rank, Run
from gputop.tracking.reader.runs import RunReader
from tests.tracking.kit import Home, clean_environment, eventually, home

assert home

DAY_S = 86_400.0


def prune(home: Home, *arguments: str, answer: str | None = None) -> tuple[int, str]:
    command = [sys.executable, "-m", "gputop", "runs", "prune", *arguments]
    primary, secondary = pty.openpty() if answer is not None else (-1, None)
    with subprocess.Popen(
        command,
        env=clean_environment(home.state),
        stdin=subprocess.DEVNULL if secondary is None else secondary,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        if answer is not None:
            os.write(primary, answer.encode())
        out, _ = process.communicate(timeout=180)
    if secondary is not None:
        os.close(primary)
        os.close(secondary)
    return process.returncode, out


def make(home: Home, *ids: str) -> None:
    for run_id in ids:
        assert home.run("import gputop\ngputop.init().log(loss=1.0)", GPUTOP_RUN_ID=run_id)[0] == 0


def left(home: Home) -> set[str]:
    return {path.name for path in home.runs.iterdir()}


def test_live_runs_are_kept_and_the_others_deleted(home: Home) -> None:
    alive = home.start(
        "import gputop, sys\ngputop.init().log(loss=1.0)\nprint('up', flush=True)\nsys.stdin.read()", GPUTOP_RUN_ID="alive"
    )
    assert alive.stdout is not None
    assert alive.stdout.readline() == "up\n"
    make(home, "old", "older")
    assert prune(home, "--keep", "0", "--older-than", "1d", "--yes") == (0, "No run to delete.\n")
    code, out = prune(home, "--keep", "0", "--yes")
    assert code == 0
    assert out.endswith("2 deleted.\n")
    assert left(home) == {"alive"}
    reader = RunReader(home.runs)
    eventually(lambda: reader.poll().runs[0].state == "running", "the run that lives")
    reader.close()


def test_it_asks_and_takes_only_yes(home: Home) -> None:
    make(home, "one", "two")
    code, out = prune(home, "--keep", "1")
    assert code == 2
    assert "standard input is not a terminal" in out
    for answer in ("\n", "n\n", "what\n"):
        code, out = prune(home, "--keep", "1", answer=answer)
        assert code == 0
        assert "Nothing was deleted." in out
    assert left(home) == {"one", "two"}
    code, out = prune(home, "--keep", "1", answer="y\n")
    assert code == 0
    assert "Delete this run" in out
    assert left(home) == {"two"}, "the newest is kept"


def test_what_is_not_gputops_stays(home: Home, tmp_path: Path) -> None:
    make(home, "mine", "linked")
    (home.runs / "mine" / "notes.txt").write_text("keep me")
    (home.runs / "mine" / "profile-rank-0-20261123-005000.json.gz").write_bytes(b"a profile")
    elsewhere = tmp_path / "elsewhere"
    (home.runs / "linked").rename(elsewhere)
    (home.runs / "linked").symlink_to(elsewhere)
    code, out = prune(home, "--keep", "0", "--yes")
    assert code == 0
    assert "contains other files and was kept" in out
    assert (home.runs / "mine" / "notes.txt").read_text() == "keep me"
    assert not list((home.runs / "mine").glob("*.gpr"))
    assert [path.name for path in (home.runs / "mine").iterdir()] == ["notes.txt"]
    assert list(elsewhere.glob("*.gpr"))


@pytest.mark.parametrize("arguments", [(), ("--keep", "-1"), ("--older-than", "soon", "--yes"), ("--keep", "many")])
def test_wrong_usage_deletes_nothing(home: Home, arguments: tuple[str, ...]) -> None:
    make(home, "one")
    code, out = prune(home, *arguments)
    assert code == 2, out
    assert len(out.strip().splitlines()) == 1
    assert left(home) == {"one"}


def test_the_runs_to_delete_are_chosen() -> None:
    now = time.time()

    def run(run_id: str, days: float, state: str = "finished") -> Run:
        ended = now - days * DAY_S
        return Run(run_id, run_id, state=state, created_at=ended - 60, ended_at=ended, ranks=(Rank(0, state=state),))

    runs = (run("a", 1), run("b", 10), run("c", 100), run("live", 200, "running"), run("stopped", 200, "stalled"))
    names = lambda *arguments: [item.run_id for item in choose(runs, *arguments, now)]  # type: ignore[arg-type]  # noqa: E731
    assert names(5 * DAY_S, None) == ["b", "c"]
    assert names(None, 1) == ["b", "c"]
    assert names(50 * DAY_S, 1) == ["c"]
    assert names(None, 99) == []
    half = Run("half", "half", state="failed", created_at=now - 9e6, ranks=(Rank(0, state="failed"), Rank(1, state="running")))
    assert choose((half,), None, 0, now) == [], "one rank that lives keeps the run"
