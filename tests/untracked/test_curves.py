"""The curves of untracked runs from the files that training libraries write: real processes, real files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputop.process import Ancestor, ProcessRank, ProcessRun
from gputop.snapshot import Run
from gputop.untracked import curves as curves_module
from gputop.untracked import followed
from gputop.untracked.curves import Curves, UntrackedCurves
from tests.real_processes import eventually
from tests.untracked.files.writers import MlflowDatabase, WandbFile, event, event_file, simple

WAITS = """
import os, sys, time
parent = os.getppid()
held = [open(path, "ab") for path in sys.argv[1:] if path.startswith(os.sep)]
print("ready", flush=True)
while os.getppid() == parent:
    time.sleep(0.05)
"""
LOSSES = {step: 1 / (step + 1) for step in range(50)}
HOST = os.uname().nodename


class Trainings:
    """Starts processes that wait in a folder, like trainings of which only the files are visible."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, folder: Path, *words: str) -> int:
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-c", WAITS, *words]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self._started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process.pid

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture
def trainings() -> Iterator[Trainings]:
    started = Trainings()
    yield started
    started.end()


def run_of(*pids: int, launcher: int | None = None, command: tuple[str, ...] = ("train.py",)) -> ProcessRun:
    ranks = tuple(ProcessRank(pid, place if len(pids) > 1 else None) for place, pid in enumerate(pids))
    above = Ancestor(launcher, "torchrun") if launcher is not None else None
    return ProcessRun(f"pid:{pids[0]}", "train.py", ranks, above, started_at=time.time() - 20, command=command)


def write_wandb(folder: Path) -> Path:
    file = WandbFile()
    for step, value in LOSSES.items():
        file.history(step, {"train/loss": value, "_timestamp": time.time()})
    path = folder / "wandb" / "offline-run-20260101_101010-ab12" / "run-ab12.wandb"
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(file.data))
    (folder / "wandb" / "latest-run").symlink_to(path.parent)
    return path


def write_csv(folder: Path) -> Path:
    path = folder / "lightning_logs" / "version_0" / "metrics.csv"
    path.parent.mkdir(parents=True)
    path.write_text("epoch,step,train_loss\n" + "".join(f"0,{step},{value}\n" for step, value in LOSSES.items()))
    return path


def write_state(folder: Path) -> Path:
    for end in (20, 50):
        path = folder / "out" / f"checkpoint-{end}" / "trainer_state.json"
        path.parent.mkdir(parents=True)
        history = [{"step": step, "epoch": 0.1, "loss": LOSSES[step]} for step in range(end)]
        path.write_text(json.dumps({"global_step": end, "log_history": history}))
    return path


def write_lines(folder: Path) -> Path:
    path = folder / "output" / "metrics.json"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps({"iteration": step, "total_loss": value}) + "\n" for step, value in LOSSES.items()))
    return path


def write_mlflow(folder: Path) -> Path:
    path = folder / "mlruns" / "0" / "0a1b" / "metrics" / "train" / "loss"
    path.parent.mkdir(parents=True)
    path.parents[2].joinpath("meta.yaml").write_text("run_id: 0a1b\n")
    path.write_text("".join(f"{int(time.time() * 1000)} {value} {step}\n" for step, value in LOSSES.items()))
    return path


def write_mlflow_database(folder: Path) -> Path:
    path = folder / "mlflow.db"
    database = MlflowDatabase(path)
    database.run("5e1f", "yesterday", time.time() - 86400)
    database.log("5e1f", "train/loss", {0: 7.0}, time.time())
    database.run("0a1b", "today", time.time(), lr="0.1")
    database.log("0a1b", "train/loss", LOSSES, time.time())
    database.opened.close()
    return path


def write_events(folder: Path, pid: int, scale: float = 1.0, inner: str = "runs/exp1") -> Path:
    return event_file(folder / inner, pid, {step: scale * value for step, value in LOSSES.items()}, at=time.time(), host=HOST)


def until_known(reader: UntrackedCurves, runs: list[ProcessRun], ready: Callable[[Curves], bool]) -> Curves:
    return eventually(lambda: reader.poll(runs), ready)


def loss_of(run: Run) -> tuple[str, int | None, float]:
    (rank,) = run.ranks
    ((name, value),) = [(name, value) for name, value in rank.metrics.items() if name != "epoch"]
    return name, run.step, value


def test_files_of_every_kind_become_the_curve_of_the_run_in_whose_folder_they_lie(trainings: Trainings, tmp_path: Path) -> None:
    kinds: dict[str, tuple[str, Callable[[Path], Path]]] = {
        "W&B": ("train/loss", write_wandb),
        "CSV": ("train_loss", write_csv),
        "Trainer state": ("loss", write_state),
        "JSON lines": ("total_loss", write_lines),
        "MLflow": ("train/loss", write_mlflow),
        "MLflow's database": ("train/loss", write_mlflow_database),
    }
    runs, files = {}, {}
    for label, (_, write) in kinds.items():
        folder = tmp_path / f"é {label}"
        runs[label] = run_of(trainings.start(folder))
        files[label] = write(folder)
    pid = trainings.start(tmp_path / "here")
    runs["TensorBoard"] = run_of(pid, command=("train.py", f"--log_dir={tmp_path / 'else where'}"))
    files["TensorBoard"] = write_events(tmp_path / "else where", pid)
    reader, points = UntrackedCurves(), {}

    def poll() -> Curves:
        found = reader.poll(list(runs.values()))
        points.update({(item.run_id, item.metric): item for item in found.points})
        return found

    found = eventually(poll, lambda found: len(found.runs) == len(runs))
    by_id = {run.run_id: run for run in found.runs}
    for (label, expected), shown in zip(runs.items(), found.process_runs, strict=True):
        (curve,) = shown.curves
        source = label.partition("'")[0]
        assert (curve.source, curve.files, curve.shared) == (source, (str(files[label]),), False)
        assert (shown.run_id, shown.outputs) == (curve.run_id, curve.files)
        run = by_id[curve.run_id]
        name, step, value = loss_of(run)
        assert (name, step, value) == (kinds.get(label, ("loss",))[0], 49, pytest.approx(1 / 50, abs=1e-6))
        assert (run.ranks[0].pid, run.ranks[0].facts["source"]) == (expected.ranks[0].pid, source)
        series = points[curve.run_id, name]
        assert (len(series.steps), series.steps[-1]) == (50, 49)
        assert all(abs(at - time.time()) < 600 for at in series.times)
    assert [run.run_id for run in until_known(UntrackedCurves(), [runs["CSV"]], lambda found: bool(found.runs)).runs] == [
        found.process_runs[1].run_id
    ]


def test_a_curve_is_followed_and_found_late(trainings: Trainings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed, "SEARCH_S", 0.0)
    monkeypatch.setattr(followed, "FIRST_SEARCH_S", 0.0)
    monkeypatch.setattr(followed, "SEARCH_SHARE", 0)
    pid = trainings.start(tmp_path)
    reader, run = UntrackedCurves(), run_of(pid)
    assert reader.poll([run]).runs == ()
    path = write_events(tmp_path, pid)
    first = until_known(reader, [run], lambda found: bool(found.runs)).runs[0]
    with path.open("ab") as file:
        file.write(event(time.time(), 50, simple("loss", 0.001)))
    last = until_known(reader, [run], lambda found: found.runs[0].step == 50).runs[0]
    assert last.run_id == first.run_id
    write_csv(tmp_path)
    both = until_known(reader, [run], lambda found: len(found.runs) == 2)
    assert [curve.source for curve in both.process_runs[0].curves] == ["TensorBoard", "CSV"]
    assert both.process_runs[0].run_id == first.run_id
    path.unlink()
    left = until_known(reader, [run], lambda found: len(found.runs) == 1)
    assert [curve.source for curve in left.process_runs[0].curves] == ["CSV"]


def test_files_of_other_runs_give_no_curve(trainings: Trainings, tmp_path: Path) -> None:
    here, other = tmp_path / "here", tmp_path / "other"
    for previous in (write_state(here), write_lines(here)):  # a sweep: the run before it has ended a moment ago
        os.utime(previous, (time.time() - 0.2,) * 2)
    os.utime(here / "out" / "checkpoint-20" / "trainer_state.json", (time.time() - 9,) * 2)
    pid, their = trainings.start(here), trainings.start(other)
    old = write_csv(here)
    os.utime(old, (time.time() - 3600,) * 2)
    write_events(here, their)
    event_file(here / "runs", pid, LOSSES, at=time.time(), host="another-machine")
    write_csv(other)
    (here / "link").symlink_to(other)
    (here / "logs.csv").symlink_to(other / "lightning_logs" / "version_0" / "metrics.csv")
    (here / "data.csv").write_text("image,label\na.png,3\n")
    reader, run = UntrackedCurves(), run_of(pid)
    first = reader.poll([run]).process_runs[0]
    assert first.run_id is None
    for _ in range(3):
        found = reader.poll([run])
        assert found.runs == ()
        assert found.process_runs[0] is first, "another record would be compared and sent"


def test_a_file_that_two_runs_may_write_is_shown_as_one_of_either(trainings: Trainings, tmp_path: Path) -> None:
    held = write_wandb(tmp_path), write_lines(tmp_path)
    first, second = trainings.start(tmp_path), trainings.start(tmp_path, *map(str, held))
    path = write_csv(tmp_path)
    write_state(tmp_path)
    event_file(tmp_path / "runs", second, {0: 1.0}, at=time.time(), host=HOST)
    runs = [run_of(first), run_of(second)]
    found = until_known(UntrackedCurves(), runs, lambda found: len(found.runs) == 5)
    one, two = found.process_runs
    expected = [("TensorBoard", False), ("W&B", False), ("JSON lines", False), ("CSV", True), ("Trainer state", True)]
    assert [(curve.source, curve.shared) for curve in two.curves] == expected
    assert [(curve.source, curve.files, curve.shared) for curve in one.curves if curve.source == "CSV"] == [
        ("CSV", (str(path),), True)
    ]
    assert one.run_id is None
    shared = next(run for run in found.runs if run.run_id == two.curves[3].run_id)
    assert [rank.pid for rank in shared.ranks] == [None]
    assert sum(points.run_id == shared.run_id for points in found.points) <= 1


def test_json_lines_without_a_step_are_counted_and_marked_as_counted(trainings: Trainings, tmp_path: Path) -> None:
    """DETR's and MAE's log.txt has an epoch in each line; LLaMA-Factory's trainer_log.jsonl knows how many steps come."""
    facts = {}
    for name, lines in (
        ("log.txt", '{"epoch": 7, "train_loss": 0.5}\n{"epoch": 8, "train_loss": 0.25}\n'),
        ("trainer_log.jsonl", '{"current_steps": 10, "total_steps": 90, "loss": 0.5}\n'),
    ):
        run = run_of(trainings.start(tmp_path / name))
        (tmp_path / name / name).write_text(lines)
        (found,) = until_known(UntrackedCurves(), [run], lambda found: bool(found.runs)).runs
        facts[name] = found.step, found.ranks[0].facts
    progress = {"total_steps": None, "counts_lines": True}
    assert facts["log.txt"] == (2, {"source": "JSON lines", "progress": progress})
    assert facts["trainer_log.jsonl"] == (10, {"source": "JSON lines", "progress": {"total_steps": 90}})


def log_lines(scale: float = 1.0) -> str:
    begin = "2026-05-14 10:21:33,123 INFO train.py:20 configuration of the training\n"
    return begin + "".join(f"2026-05-14 10:21:33,123 INFO step {step} loss {scale * LOSSES[step]:.6f}\n" for step in LOSSES)


def test_a_text_log_that_a_process_holds_open_is_its_curve(trainings: Trainings, tmp_path: Path) -> None:
    """What a script prints goes to a terminal, and what it logs to a file (logging, loguru, hydra)."""
    log, other = tmp_path / "logs" / "train.log", tmp_path / "older.log"
    log.parent.mkdir()
    log.write_text(log_lines(7.0) + log_lines())  # it is appended to: the first half is another run's
    other.write_text(log_lines(9.0))
    run = run_of(trainings.start(tmp_path, str(log), str(tmp_path / "answers.txt")))
    reader = UntrackedCurves()
    found = until_known(reader, [run], lambda found: bool(found.runs))
    (shown,) = found.process_runs
    (curve,) = shown.curves
    assert (curve.source, curve.files, curve.shared) == ("its log file", (str(log),), False)
    assert loss_of(found.runs[0]) == ("loss", 49, pytest.approx(1 / 50, abs=1e-6))
    assert max(max(item.values) for item in found.points if item.metric == "loss") == 1.0
    write_lines(tmp_path)
    both = until_known(UntrackedCurves(), [run], lambda found: len(found.runs) == 2)
    assert [curve.source for curve in both.process_runs[0].curves] == ["JSON lines", "its log file"]


def logs_of(reader: UntrackedCurves) -> list[list[Path]]:
    (followed_run,) = reader._followed.values()
    logs = followed_run.curves.logs
    return [[*rank.files] for rank in logs.ranks.values()] if logs is not None else []


def test_a_log_without_values_is_not_read_for_long(
    trainings: Trainings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SEARCH_S", "FIRST_SEARCH_S", "SEARCH_SHARE"):
        monkeypatch.setattr(followed, name, 0)
    log = tmp_path / "answers.txt"
    log.write_text("a question\n")
    run = run_of(trainings.start(tmp_path, str(log)))
    reader = UntrackedCurves()
    eventually(lambda: reader.poll([run]) and logs_of(reader), bool)
    log.write_text("a long answer of a model\n" * 100_000)
    eventually(lambda: reader.poll([run]) and logs_of(reader), lambda followed: not followed[0])
    with log.open("a") as file:
        file.write(log_lines())
    for _ in range(3):
        assert reader.poll([run]).runs == ()


def test_a_command_that_takes_one_reading_waits_for_the_curves(
    trainings: Trainings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = followed.search

    def slowly(*known: object) -> object:
        time.sleep(1.0)
        return found(*known)  # type: ignore[arg-type]

    monkeypatch.setattr(followed, "search", slowly)
    run = run_of(trainings.start(tmp_path))
    write_lines(tmp_path)
    assert UntrackedCurves(explained=False).poll([run]).runs == ()
    assert len(UntrackedCurves(explained=False, first_wait_s=300.0).poll([run]).runs) == 1


def test_the_newest_of_several_trainings_in_one_process_comes_first(trainings: Trainings, tmp_path: Path) -> None:
    """A notebook's second training, or a sweep's: the first one's files are there as well, and are written no more."""
    pid = trainings.start(tmp_path)
    for place, ago_s in enumerate((3600, 30)):
        event_file(tmp_path / f"runs/exp{place}", pid, LOSSES, at=time.time() - ago_s, host=HOST)
    found = until_known(UntrackedCurves(), [run_of(pid)], lambda found: len(found.runs) == 2)
    (run,) = found.process_runs
    assert [Path(curve.files[0]).parent.name for curve in run.curves] == ["exp1", "exp0"]
    assert run.run_id == run.curves[0].run_id


def test_curves_of_one_training_keep_their_order(trainings: Trainings, tmp_path: Path) -> None:
    """Its evaluation begins later, and writes to a folder of its own."""
    pid = trainings.start(tmp_path)
    for place, ago_s in enumerate((50, 10)):
        event_file(tmp_path / f"runs/exp{place}", pid, LOSSES, at=time.time() - ago_s, host=HOST)
    found = until_known(UntrackedCurves(), [run_of(pid)], lambda found: len(found.runs) == 2)
    assert [Path(curve.files[0]).parent.name for curve in found.process_runs[0].curves] == ["exp0", "exp1"]


def test_a_tracked_run_in_the_same_folder_may_write_the_file_as_well(trainings: Trainings, tmp_path: Path) -> None:
    pid, tracked = trainings.start(tmp_path), trainings.start(tmp_path)
    write_csv(tmp_path)
    reader = UntrackedCurves()
    found = eventually(lambda: reader.poll([run_of(pid)], [tracked]), lambda found: bool(found.runs))
    assert (found.process_runs[0].run_id, found.process_runs[0].curves[0].shared) == (None, True)


def test_ranks_and_folders_of_one_run_are_one_curve(trainings: Trainings, tmp_path: Path) -> None:
    pids = [trainings.start(tmp_path) for _ in range(2)]
    for rank, pid in enumerate(pids):
        write_events(tmp_path, pid, rank + 1.0, f"tb/rank{rank}/train")
        write_events(tmp_path, pid, rank + 3.0, f"tb/rank{rank}/validation")
    run = run_of(*pids, launcher=trainings.start(tmp_path))
    reader = UntrackedCurves()
    (found,) = until_known(
        reader, [run], lambda found: [len(rank.metrics) for run in found.runs for rank in run.ranks] == [2, 2]
    ).runs
    last = pytest.approx(1 / 50, rel=1e-4)
    assert [dict(rank.metrics) for rank in found.ranks] == [
        {"train/loss": last, "validation/loss": pytest.approx(3 / 50, rel=1e-4)},
        {"train/loss": pytest.approx(2 / 50, rel=1e-4), "validation/loss": pytest.approx(4 / 50, rel=1e-4)},
    ]
    assert [rank.pid for rank in found.ranks] == pids


def test_a_rank_that_writes_no_value_is_a_rank_of_the_run(trainings: Trainings, tmp_path: Path) -> None:
    """Most trainings log on rank 0 only: the run screen and ``runs`` counted one rank of two."""
    pids = [trainings.start(tmp_path) for _ in range(2)]
    write_events(tmp_path, pids[0])
    run = run_of(*pids, launcher=trainings.start(tmp_path))
    (found,) = until_known(UntrackedCurves(), [run], lambda found: bool(found.runs)).runs
    assert [(rank.rank, rank.pid, rank.step) for rank in found.ranks] == [(0, pids[0], 49), (1, pids[1], None)]
    assert found.step == 49
    assert not found.ranks[1].metrics


def test_a_file_system_that_hangs_holds_up_nothing_else(
    trainings: Trainings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, sound = trainings.start(tmp_path / "hangs"), trainings.start(tmp_path / "sound")
    write_csv(tmp_path / "sound")
    answer, search, wait = threading.Event(), followed.search, followed.FollowedRun.wait

    def search_or_hang(run: ProcessRun, tracked: object = ()) -> object:
        if run.ranks[0].pid == hangs:
            answer.wait()
        return search(run)

    monkeypatch.setattr(followed, "search", search_or_hang)
    monkeypatch.setattr(curves_module, "RUNS_MAX", 2)
    waits: list[float] = []
    monkeypatch.setattr(followed.FollowedRun, "wait", lambda self, seconds: waits.append(seconds) or wait(self, seconds))
    reader = UntrackedCurves()
    try:
        found = until_known(reader, [run_of(hangs), run_of(sound)], lambda found: bool(found.runs))
        assert [bool(run.curves) for run in found.process_runs] == [False, True]
        assert len(waits) == 2, "only the first poll of a run waits for it"
        assert len(reader.poll([run_of(sound)]).runs) == 1, "the run on the hanging file system has ended"
        more = trainings.start(tmp_path / "more")
        write_csv(tmp_path / "more")
        for _ in range(3):
            assert len(reader.poll([run_of(sound), run_of(more)]).runs) == 1, "its thread still counts"
    finally:
        answer.set()
    until_known(reader, [run_of(sound), run_of(more)], lambda found: len(found.runs) == 2)


def test_an_unexpected_error_in_one_run_is_reported_and_spares_the_others(
    trainings: Trainings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, sound = trainings.start(tmp_path / "broken"), trainings.start(tmp_path / "sound")
    write_csv(tmp_path / "sound")
    search = followed.search

    def search_or_fail(run: ProcessRun, tracked: object = ()) -> object:
        if run.ranks[0].pid == broken:
            raise ValueError("a bug")
        return search(run)

    monkeypatch.setattr(followed, "search", search_or_fail)
    told: list[Exception] = []
    reader = UntrackedCurves()
    runs = [run_of(broken), run_of(sound)]
    eventually(lambda: reader.poll(runs, (), told.append), lambda found: len(found.runs) == 1 and bool(told))
    assert str(told[0]) == "a bug"


def test_a_run_without_a_file_is_looked_at_ever_more_rarely() -> None:
    assert [followed.next_search_s(False, seconds, 0.001) for seconds in (0, 5, 20, 45, 3600)] == [2.0, 2.0, 4.0, 9.0, 10.0]
    assert followed.next_search_s(True, 0.0, 0.001) == 10.0
    assert followed.next_search_s(False, 0.0, 1.0) == 50.0


@pytest.mark.parametrize(("output", "explained"), [("out.log", False), ("/dev/null", True)])
def test_the_explanations_are_loaded_only_for_output_that_is_judged(tmp_path: Path, output: str, explained: bool) -> None:
    write_csv(tmp_path)
    code = f"""
import os, subprocess, sys, time
from pathlib import Path
from gputop.process import ProcessRank, ProcessRun
from gputop.untracked.curves import UntrackedCurves
out = open({str(tmp_path / output)!r}, "wb")
training = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=out, stderr=out)
run = ProcessRun("a", "train.py", (ProcessRank(training.pid),))
curves = UntrackedCurves(explained={explained})
until = time.monotonic() + 60
while time.monotonic() < until:
    curves.poll([run])
    (followed,) = curves._followed.values()
    if followed._turns >= 3:
        break
    time.sleep(0.05)
training.kill()
print(followed._turns >= 3, followed.errors, *[name for name in sys.modules if name.startswith("gputop.doctor")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["True", "None"], done.stdout + done.stderr
