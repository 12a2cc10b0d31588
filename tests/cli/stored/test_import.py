"""``gputop runs import``: the files of ended trainings become runs, once."""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

import pytest

from gputop.cli.main import main
from gputop.places import state_dir
from gputop.snapshot import Run
from gputop.tracking.reader.runs import RunReader
from tests.tracking.kit import Home, home
from tests.untracked.files.writers import WandbFile, event, event_file, simple
from tests.untracked.test_curves import (
    LOSSES,
    write_csv,
    write_lines,
    write_mlflow,
    write_mlflow_database,
    write_state,
    write_wandb,
)

assert home

T0 = 1_700_000_000.0


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["runs", *words]) == code
    out, err = capsys.readouterr()
    return err if code else out


def stored(home: Home) -> dict[str, Run]:
    return {run.name: run for run in RunReader(home.runs).poll().runs}


def test_a_run_has_the_name_and_the_configuration_that_its_files_give(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = WandbFile()
    file.run("sweet-\x1b[31mdawn-7", lr=0.1, model={"depth": 12, "name": "vit"}, layers=[1, 2], _wandb={"m": 1})
    file.configure(lr=0.01, note="x" * 1000)
    file.history(1, {"loss": 0.5})
    path = tmp_path / "wandb" / "run-1" / "run-ab12.wandb"
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(file.data))
    metrics = write_mlflow(tmp_path).parents[2]
    texts = {"commit": "1234e56", "id": "007", "shape": "1_000"}
    for folder, said_there in (
        ("params", {"lr": "0.001", "batch": "64", "mode": "amp", "bad": "nan", **texts}),
        ("tags", {"mlflow.runName": "base"}),
    ):
        (metrics / folder).mkdir()
        for name, text in said_there.items():
            (metrics / folder / name).write_text(text)
    said(capsys, "import", str(tmp_path))
    runs = stored(home)
    assert set(runs) == {"sweet-dawn-7", "base"}
    config = dict(runs["sweet-dawn-7"].config)
    assert config.pop("note") == "x" * 200 + "…"
    assert config == {
        "lr": 0.01,
        "model.depth": 12,
        "model.name": "vit",
        "layers": "[1, 2]",
        "imported_from": str(path),
    }
    (tmp_path / "database").mkdir()
    database = write_mlflow_database(tmp_path / "database")
    said(capsys, "import", str(database))
    runs = stored(home)
    assert set(runs) == {"sweet-dawn-7", "base", "today", "yesterday"}
    assert dict(runs["today"].config) == {"lr": 0.1, "imported_from": f"{database}/0a1b"}
    assert (runs["today"].step, dict(runs["today"].ranks[0].metrics)) == (49, {"train/loss": pytest.approx(1 / 50)})
    expected = {"lr": 0.001, "batch": 64, "mode": "amp", "bad": "nan", **texts, "imported_from": str(metrics)}
    assert dict(runs["base"].config) == expected


def test_files_of_ended_trainings_become_runs_and_only_once(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = tmp_path / "old é runs"
    events = event_file(here / "runs" / "exp1", 77, LOSSES, at=T0, host="node")
    event_file(here / "runs" / "exp2" / "train", 78, LOSSES, at=T0 + 100, host="node")
    event_file(here / "runs" / "exp2" / "validation", 78, LOSSES, at=T0 + 100, host="node", tag="acc")
    os.utime(events, (T0 + 500,) * 2)
    for write in (write_wandb, write_csv, write_state, write_lines, write_mlflow):
        write(here)
    (here / "data.csv").write_text("image,label\na.png,3\n")
    (here / "empty.jsonl").write_text("")
    printed = said(capsys, "import", str(here)).splitlines()
    assert sorted(line.split()[1] for line in printed[1:]) == ["imported"] * 7
    runs = stored(home)
    assert set(runs) == {
        *("runs/exp1", "runs/exp2", "wandb/offline-run-20260101_101010-ab12", "lightning_logs/version_0"),
        *("out", "output", "mlruns/0/0a1b"),
    }
    first = runs["runs/exp1"]
    assert (first.state, first.created_at, first.ended_at, first.step) == ("finished", T0, T0 + 500, 49)
    assert [(rank.pid, rank.hostname, rank.exit_code) for rank in first.ranks] == [(None, None, None)]
    assert dict(first.ranks[0].facts) == {"source": "TensorBoard", "tags": ["imported"]}
    assert first.config == {"imported_from": str(here / "runs" / "exp1")}
    assert set(runs["runs/exp2"].ranks[0].metrics) == {"train/loss", "validation/acc"}
    values = [json.loads(line) for line in said(capsys, "export", first.run_id, "--json").splitlines()]
    assert [(value["step"], value["time"]) for value in values] == [(step, T0 + step) for step in LOSSES]
    shown = said(capsys, "show", first.run_id)
    assert "curve: read from TensorBoard" in shown
    assert "rank 0 (pid N/A, finished, step 49)" in shown
    assert json.loads(said(capsys, "show", first.run_id, "--json"))["ranks"][0]["pid"] is None
    assert len(said(capsys, "plot", "output", "--width", "60").splitlines()) > 5
    assert said(capsys, "rename", first.run_id, "baseline")

    with events.open("ab") as file:
        file.write(event(T0 + 50, 50, simple("loss", 0.001)))
    again = [
        line.split()[1] for line in said(capsys, "import", str(here), str(here / "runs")).splitlines() if "import-" in line
    ]
    assert sorted(again) == ["unchanged"] * 8 + ["updated"]
    runs = stored(home)
    assert len(runs) == 7
    assert (runs["baseline"].run_id, runs["baseline"].step) == (first.run_id, 50)
    assert sorted(path.name for path in state_dir().iterdir()) == ["runs"]


def test_a_single_file_is_imported_and_other_paths_are_refused(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "imported" in said(capsys, "import", str(write_csv(tmp_path)))
    assert set(stored(home)) == {"version_0"}
    data = tmp_path / "data.csv"
    data.write_text("image,label\na.png,3\n")
    assert said(capsys, "import", str(data)) == f"{data}: no values yet.\n"
    for nothing in (tmp_path / "missing", tmp_path / "out"):
        said(capsys, "import", str(nothing), code=2)
    (tmp_path / "model.pt").write_bytes(b"")
    assert "holds no curve" in said(capsys, "import", str(tmp_path / "model.pt"), code=2)


@pytest.mark.parametrize("name", ["nohup.out", "slurm-7.out", "run.txt", "training.log"])
def test_a_file_of_output_is_imported_if_it_is_named(
    name: str, home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    lines = [f"step {step} loss {value:.6f}\n" for step, value in LOSSES.items()]
    path.write_text("".join(["loading data\n", *lines[:-1]]) + lines[-1].rstrip())
    assert "its output" in said(capsys, "import", str(path))
    (run,) = stored(home).values()
    assert (run.name, run.step, run.ranks[0].metrics["loss"]) == (name, 49, round(LOSSES[49], 6))
    (series,) = [item for item in RunReader(home.runs).poll().points if item.metric == "loss"]
    assert dict(zip(series.steps, series.values, strict=True)) == {step: round(value, 6) for step, value in LOSSES.items()}
    assert "unchanged" in said(capsys, "import", str(path))
    with path.open("a") as file:
        file.write("\nstep 50 loss 0.125\n")
    assert "updated" in said(capsys, "import", str(path))


def test_of_a_file_with_several_starts_the_newest_is_imported(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.log"
    starts = [[f"step {step} loss {first - step}.0\n" for step in range(1, 6)] for first in (19, 9)]
    path.write_text("".join("loading the data set\n" + "".join(lines) for lines in starts))
    said(capsys, "import", str(path))
    (series,) = [item for item in RunReader(home.runs).poll().points if item.metric == "loss"]
    assert tuple(series.values) == (8.0, 7.0, 6.0, 5.0, 4.0)


def test_text_without_a_loss_is_refused(home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("buy milk\n")
    assert "notes.txt holds no curve that gputop reads" in said(capsys, "import", str(path), code=2)
    assert stored(home) == {}


def test_a_folder_that_others_can_replace_is_refused_with_the_reason(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("GPUTOP_DIR", str(shared / "gputop"))
    told = said(capsys, "import", str(write_csv(tmp_path)), code=1)
    assert f"chmod o-w {shared}" in told
    assert "None" not in told


def test_a_disk_that_is_full_leaves_no_half_of_a_run(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_csv(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Python would leave it truncated
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))  # the header fits, and some of the values
    try:
        assert "cannot be written" in said(capsys, "import", str(path), code=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert stored(home) == {}
    assert "imported" in said(capsys, "import", str(path))
    assert stored(home)["version_0"].step == 49


def test_times_that_the_files_lack_are_unknown(home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_csv(tmp_path)  # without a column of times
    os.utime(path, (T0, T0))
    said(capsys, "import", str(path))
    run = stored(home)["version_0"]
    assert (run.created_at, run.ended_at) == (None, T0), "it was last written then; nothing says when it began"
    assert run.ranks[0].last_log_at is None
    assert "started: N/A, took N/A" in said(capsys, "show", "version_0")
    assert json.loads(said(capsys, "show", "version_0", "--json"))["created_at"] is None
    values = [json.loads(line) for line in said(capsys, "export", "version_0", "--json").splitlines()]
    assert [(value["step"], value["time"]) for value in values] == [(step, None) for step in LOSSES]
    assert said(capsys, "export", "version_0", "--csv").splitlines()[1] == f"train_loss,0,0,,{LOSSES[0]!r}"
    assert len(said(capsys, "plot", "version_0", "--width", "60").splitlines()) > 5
    assert "1970" not in said(capsys), "in the list, neither"
    assert "unchanged" in said(capsys, "import", str(path))
