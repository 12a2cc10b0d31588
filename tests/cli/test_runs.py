"""``gputop runs show``, ``export``, ``rename`` and ``tag``: what a run has recorded, and what is said of it afterwards."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gputop.cli.main import main
from gputop.cli.output.once import run_row
from gputop.cli.runs import list_text
from gputop.cli.stored import show
from gputop.cli.stored.shelf import points_of
from gputop.process import ProcessRank, ProcessRun
from gputop.snapshot import Points, Rank, Run
from gputop.tracking.reader import labels
from gputop.tracking.reader.runs import RunReader
from gputop.tracking.reader.update import RunUpdate
from tests.terminal import Terminal
from tests.tracking.kit import Home, clean_environment, home

assert home

SCRIPT = """
import gputop
config = {f"setting_{number:03}": number for number in range(110)}
run = gputop.init(project="vision", name="lenet", config=config, tags=["baseline", "amp"], notes="first try", group="g")
run.define_metric("psnr_like", goal="maximize")
for step in range(40):
    run.log(step=step, loss=2 + abs(step - 30) * 0.05, accuracy=step / 40, lr=0.1, psnr_like=step % 7)
run.summary["top"] = 0.975
run.text("checkpoint written")
run.alert("Loss is high", "look at the data")
"""
PRINTED = "for step in range(30): print('step', step, 'loss:', 3 - step / 10)"
RESUMED = """
import gputop
for part in range(3):
    with gputop.init(name="long", id="long", resume="allow") as run:
        for step in range(4):
            run.log(loss=part)
"""


@pytest.fixture
def lenet(home: Home) -> Home:
    assert home.run(SCRIPT, GPUTOP_RUN_ID="first")[0] == 0
    return home


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["runs", *words]) == code
    out, err = capsys.readouterr()
    return err if code else out


def test_show_has_all_that_was_recorded_and_configuration_last(lenet: Home, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "show", "lenet")
    lines = out.splitlines()
    assert lines[0] == "lenet  first  finished  step 39"
    for words in (
        "project: vision   group: g   tags: baseline, amp",
        "notes: first try",
        "curve: what the script logged",
        "summary: top = 0.975",
        "checkpoint written",
        "warning: Loss is high: look at the data",
        "  setting_109 = 109",
    ):
        assert words in out, out
    rows = {line.split()[0]: line.split() for line in lines if line.startswith(("loss ", "accuracy ", "lr ", "psnr_like "))}
    assert rows["loss"][1:4] == ["2.45", "2", "30"]
    assert rows["accuracy"][1:4] == ["0.975", "0.975", "39"]
    assert rows["psnr_like"][1:4] == ["4", "6", "6"]
    assert rows["lr"][1:4] == ["0.1", "-", "-"]
    assert set(rows["loss"][4]) <= set("▁▂▃▄▅▆▇█")
    assert out.index("accuracy") < out.index("setting_000")


def test_best_is_what_the_metric_aims_at(lenet: Home, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(said(capsys, "show", "lenet", "--json"))
    assert (data["run_id"], data["name"], data["project"], data["state"], data["step"]) == (
        *("first", "lenet", "vision", "finished", 39),
    )
    assert (data["tags"], data["notes"], data["group"], data["source"]) == (["baseline", "amp"], "first try", "g", None)
    assert data["config"]["setting_109"] == 109
    assert data["summary"] == {"top": 0.975}
    loss = data["metrics"]["loss"]
    assert (loss["last"], loss["last_step"], loss["best"], loss["best_step"], loss["goal"]) == (2.45, 39, 2.0, 30, "min")
    assert data["metrics"]["lr"]["best"] is None
    assert [(text["level"], text["message"]) for text in data["text"]] == [
        ("info", "checkpoint written"),
        ("warning", "Loss is high: look at the data"),
    ]


@pytest.mark.parametrize("name", ["confidence", "power_w", "answers_correct", "lower_bound", "answer_length", "lr"])
def test_a_metric_whose_name_says_no_aim_has_no_best(name: str) -> None:
    assert show._goal(name, None) is None


@pytest.mark.parametrize(
    ("name", "goal"),
    [
        *(("val/loss", "min"), ("train_loss", "min"), ("wer", "min"), ("test_cer", "min"), ("FID", "min"), ("val_rmse", "min")),
        *(("valError", "min"), ("valAcc", "max"), ("acc", "max"), ("acc1", "max"), ("mAP", "max"), ("map@50", "max")),
        *(("mIoU", "max"), ("macro_f1", "max"), ("val_auc", "max"), ("top5", "max"), ("episode_reward", "max")),
    ],
)
def test_a_name_says_what_a_metric_aims_at(name: str, goal: str) -> None:
    assert show._goal(name, None) == goal


def test_on_a_terminal_the_configuration_is_cut_and_says_how_to_see_it(lenet: Home) -> None:
    command = (sys.executable, "-m", "gputop", "runs", "show", "lenet")
    for more, shown in (((), False), (("--all",), True)):
        with Terminal((*command, *more), clean_environment(lenet.state), columns=80, rows=180) as terminal:
            assert terminal.wait_exit() == 0
            text = terminal.text()
        assert ("setting_100" in text) is shown
        assert ("… 95 more: gputop runs show first --all" in text) is not shown


def test_a_curve_from_printed_lines_is_called_that(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert home.run(PRINTED, command=(sys.executable, "-m", "gputop", "run", "--name", "p", "--", sys.executable))[0] == 0
    assert "curve: read from what the script printed" in said(capsys, "show", "p")
    assert json.loads(said(capsys, "show", "p", "--json"))["source"] == "log"


def test_show_says_what_ended_a_run(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    script = "import gputop\ngputop.init(name='bad').log(loss=1.0)\nraise RuntimeError('the weights do not fit')"
    assert home.run(script)[0] == 1
    out = said(capsys, "show", "bad")
    assert ", failed, exit code 1, step 0)\n  RuntimeError: the weights do not fit (script0.py:3)" in out


def test_export_of_a_resumed_run_begins_with_its_beginning(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert home.run(RESUMED)[0] == 0
    rows = [line.split(",") for line in said(capsys, "export", "long", "--csv").splitlines()[1:]]
    assert [(int(row[2]), float(row[4])) for row in rows if row[0] == "loss"] == [(step, step // 4) for step in range(12)]


def test_a_run_is_renamed_and_tagged_while_it_lives_and_after(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    script = "import gputop, sys\nrun = gputop.init(name='live', tags=['a', 'b'])\nrun.log(loss=1.0)\nprint('up', flush=True)\n"
    process = home.start(script + "sys.stdin.readline(); run.tags = ['a', 'b', 'late']", GPUTOP_RUN_ID="x")
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    reader = RunReader(home.runs)
    assert reader.poll().runs[0].name == "live"
    assert said(capsys, "rename", "live", "my name") == "x: my name\n"
    assert reader.poll().runs[0].name == "my name", "a reader that follows it sees it too"
    assert said(capsys, "tag", "my name", "new", "b") == "x: a, b, new\n"
    assert said(capsys, "tag", "x", "a", "--remove") == "x: b, new\n"
    process.communicate("\n", timeout=180)
    assert "tags: b, late, new" in said(capsys, "show", "x")
    assert reader.poll().runs[0].name == "my name"
    assert said(capsys, "tag", "x", "a") == "x: a, b, late, new\n"
    assert said(capsys, "rename", "x", "other") == "x: other\n"
    assert reader.poll().runs[0].name == "other", "also once it has ended"
    reader.close()
    assert "There is no run 'live'" in said(capsys, "rename", "live", "z", code=2)
    assert main(["runs", "prune", "--keep", "0", "--yes"]) == 0
    assert list(home.runs.iterdir()) == []


class Busy:
    """A shelf with a run that logs so fast that each poll finds more."""

    polls = 0

    def poll(self) -> RunUpdate:
        self.polls += 1
        assert self.polls < 100, "this never ends"
        return RunUpdate(points=(Points("x", 0, "loss", (self.polls,), (time.time() + self.polls,), (1.0,)),))


def test_points_end_at_the_time_of_the_question_however_fast_a_run_logs() -> None:
    shelf: Any = Busy()
    older = Points("x", 0, "loss", (0,), (1.0,), (1.0,))
    assert list(points_of(shelf, (older,), "x")) == [older]


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"name": 3}', '{"added": "x"}', '{"removed": [4]}', "9" * 100_000, '{"name": ""}']
)
def test_a_damaged_file_of_labels_cannot_be_read(home: Home, content: str) -> None:
    (home.runs / "x").mkdir(parents=True, mode=0o700)
    assert labels.read(home.runs / "x") == labels.NONE
    (home.runs / "x" / labels.FILE).write_text(content)
    with pytest.raises(labels.UnreadableError, match=str(home.runs / "x" / labels.FILE)):
        labels.read(home.runs / "x")


def test_labels_are_bounded(tmp_path: Path, lenet: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is too long" in said(capsys, "rename", "lenet", "n" * 1000, code=2)
    assert "is empty" in said(capsys, "rename", "lenet", " ", code=2)
    assert "too many tags" in said(capsys, "tag", "lenet", *map(str, range(200)), code=2)
    (lenet.runs / "first" / labels.FILE).symlink_to(tmp_path / "elsewhere")
    assert "labels.json: it is a link." in said(capsys, "rename", "lenet", "mine", code=1)
    assert not (tmp_path / "elsewhere").exists(), "a link is not followed"
    (lenet.runs / "first" / labels.FILE).unlink()


def test_runs_are_listed_with_tags_and_by_a_filter(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    script = (
        "import gputop\n"
        "for name, lr, tags in (('slow', 1e-4, ['paper']), ('fast', 0.1, ['paper', 'ablation']), ('plain', 0.1, [])):\n"
        "    with gputop.init(name=name, id=name, config={'lr': lr}, tags=tags) as run:\n"
        "        run.log(loss=lr * 10)\n"
    )
    assert home.run(script)[0] == 0
    rows = {line.split()[1]: line for line in said(capsys).splitlines()[1:]}
    assert rows["fast"].endswith("  paper, ablation")
    assert rows["plain"].endswith("  -")
    assert said(capsys, "tag", "plain", "late").endswith("late\n")

    def names(text: str) -> set[str]:
        return {line.split()[1] for line in said(capsys, "--filter", text).splitlines()[1:]}

    assert names("tag:paper") == {"slow", "fast"}
    assert names("lr>1e-3") == {"fast", "plain"}
    assert names("tag:late") == {"plain"}
    assert names("loss<0.5 state:finished duration<1h !/^pl/") == {"slow"}
    assert said(capsys, "--filter", "no-such-run").endswith(" runs matches this filter.\n")
    assert "lr> needs a value after it." in said(capsys, "--filter", "lr>", code=2)


def test_a_live_run_that_is_not_tracked_is_listed_with_its_curve() -> None:
    found = ProcessRun("pid:41", "train.py", (ProcessRank(41), ProcessRank(42)), started_at=time.time(), run_id="pid-41-7")
    rank = Rank(0, state="running", step=12, metrics={"loss": 0.25}, facts={"source": "log"})
    curve = Run("pid-41-7", "train.py", state="running", ranks=(rank,))
    row = list_text((), [found], [curve]).splitlines()[1].split()
    assert row[:7] == ["PID", "41", "train.py", "not", "tracked", "2", "12"]
    assert "0.25" in row
    assert list_text((), [found]).splitlines()[1].split()[6] == "N/A"


def test_steps_that_are_counted_lines_are_called_lines() -> None:
    facts = {"source": "log", "progress": {"total_steps": None, "counts_lines": True}}
    run = Run("pid-41-7", "train.py", state="running", ranks=(Rank(0, state="running", step=12, facts=facts),))
    found = ProcessRun("pid:41", "train.py", (ProcessRank(41),), run_id="pid-41-7")
    assert " line 12 " in list_text((), [found], [run])
    assert "line 12" in run_row(run, None)
