"""Runs that a script opens itself: its values keep their names and steps, and the automatic ones have theirs."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from gputop.losses import AUTOMATIC_PREFIX as PREFIX
from gputop.losses import beside
from gputop.snapshot import AUTOMATIC_PREFIX, own_or_automatic
from gputop.tracking.auto.steps import ANEW
from gputop.tracking.journal import format as form
from gputop.tracking.reader.runs import RunReader
from tests.packages import needs
from tests.tracking.auto.test_auto import SCRIPTS
from tests.tracking.kit import Home, home, read_all

pytestmark = [needs("torch"), pytest.mark.warm]
assert home

RUN = (sys.executable, "-m", "gputop", "run", "--")


def test_readers_know_the_names_of_automatic_values() -> None:
    assert (beside("loss"), beside("loss/d"), beside("step_s")) == ("auto/loss", "auto/loss/d", "step_s")
    assert PREFIX == AUTOMATIC_PREFIX
    assert own_or_automatic("lr", {"auto/lr", "loss"}) == "auto/lr"
    assert own_or_automatic("lr", {"auto/lr", "lr"}) == own_or_automatic("lr", ()) == "lr"


def by_name(home: Home) -> dict[str, Any]:
    """Everything recorded in each run, by the run's name."""
    found = {}
    for archive in home.archives():
        said = read_all(archive)
        card = [value["value"] for _, _, value in said.events if isinstance(value, dict) and value.get("type") == "card"]
        found[card[-1]["name"]] = said
    return found


@pytest.mark.parametrize("command", [(), RUN], ids=["import", "run"])
def test_the_script_and_automatic_tracking_keep_apart(home: Home, command: tuple[str, ...]) -> None:
    done = home.finish((*command, sys.executable, "own_runs.py"), SCRIPTS)
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout.splitlines()[-1])
    journals = by_name(home)
    assert set(journals) == set(said)
    for case, told in said.items():
        found = journals[case].series
        first = told.get("from", 0)
        steps = list(range(first, first + len(told["losses"])))
        # The script's own values, at its own steps, and nothing else under their names.
        for name in {name for values in told["own"] for name in values}:
            own = [(at, values[name]) for at, values in zip(told["at"], told["own"], strict=True)]
            assert found[name] == own, (case, name)
        # The automatic ones: each optimizer step once, from 0 on or from where it was resumed, whatever the script's steps are.
        assert [step for step, _ in found["auto/loss"]] == steps, case
        assert [value for _, value in found["auto/loss"]] == pytest.approx(told["losses"], rel=1e-5), case
        for name in ("auto/lr", "step_s", "phase/backward", "phase/optimizer", "samples_per_s"):
            numbers = [step for step, _ in found[name]]
            assert len(set(numbers)) == len(numbers), (case, name)
            assert set(numbers) <= set(steps), (case, name)
            assert len(numbers) >= min(len(steps), 20) * 3 // 4, (case, name)
        facts = {value["name"] for _, _, value in journals[case].events if isinstance(value, dict) and value["type"] == "fact"}
        assert {"model", "optimizer", "gradients", "settings"} <= facts, case
    lr = [value for _, value in journals["evaluated_now_and_then"].series["auto/lr"]]
    assert lr == pytest.approx([0.01 / (1 + number) for number in range(25)])


NUMBERS = {
    "in turn": [*range(10)],
    "by phases": [*range(12)],
    "in each iteration": [0, 0, 1, 1, 2, 2, 3, 3],
    # Only its next appearance shows that the second one now belongs to each iteration.
    "after a warm-up": [0, 1, 2, 3, 4, 5, 5, 6, 6, 7, 7],
}


def test_modules_that_the_script_froze_are_found_by_their_calls_or_the_reason_is_recorded(home: Home) -> None:
    done = home.finish((sys.executable, "frozen.py"), SCRIPTS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    reader = RunReader(home.runs)
    facts = {run.name: run.ranks[0].facts for run in reader.poll().runs}
    reader.close()
    for name, has_forwards, kind in (
        ("called", True, "Model"),
        ("its parts", True, None),
        ("never", False, None),
        ("one after another", True, "Other"),
        ("then none", True, None),
    ):
        forwards = by_name(home)[name].series.get("phase/forward", [])
        assert (len(forwards) > 10) == has_forwards, name
        assert (facts[name].get("model") or {}).get("class") == kind, name
        told = [what for what in facts[name].get("uncollected", []) if what.startswith("model: ")]
        assert ["gc.freeze()" in what for what in told] == [True] * (kind is None), name


def test_two_optimizers_share_a_step_only_where_they_step_together(home: Home) -> None:
    done = home.finish((sys.executable, "turns.py"), SCRIPTS)
    assert (done.returncode, done.stderr) == (0, "")
    journals = by_name(home)
    for case, (sequence, losses) in json.loads(done.stdout).items():
        expected = {
            which: [
                (number, loss)
                for number, loss in zip(
                    [number for number, stepped in zip(NUMBERS[case], sequence, strict=True) if stepped == which],
                    losses[which],
                    strict=True,
                )
            ]
            for which in "ab"
        }
        found = journals[case].series
        names = {"a": "auto/loss", "b": "auto/loss/b"} if "auto/loss" in found else {"a": "auto/loss/a", "b": "auto/loss/b"}
        for which, name in names.items():
            assert found[name] == expected[which], (case, name)
        for name, points in found.items():
            assert len(dict(points)) == len(points), (case, name)


@pytest.mark.parametrize("batches", ["loader", "none"])
def test_a_line_has_several_losses_only_if_each_optimizer_has_one_of_its_own(home: Home, batches: str) -> None:
    done = home.finish((sys.executable, "one_line.py", batches), SCRIPTS)
    assert (done.returncode, done.stderr) == (0, "")
    journals = by_name(home)
    for case, said in json.loads(done.stdout).items():
        found = {name: [value for _, value in at] for name, at in journals[case].series.items() if name.startswith("auto/loss")}
        one = [loss for _, loss in said]
        slow, fast = ([loss for stepping, loss in said if stepping == which] for which in ("slow", "fast"))
        expected = {
            "in turn": {"auto/loss/0": slow, "auto/loss/1": fast},
            "in turn after a warm-up": {"auto/loss": slow, "auto/loss/1": fast},
        }
        assert found == {name: pytest.approx(losses) for name, losses in expected.get(case, {"auto/loss": one}).items()}, case


@pytest.mark.parametrize("ways", ["together", "apart", "apart by a method", "apart by a block"])
def test_folds_of_one_model_are_runs_of_their_own_once_the_script_ends_each(home: Home, ways: str) -> None:
    done = home.finish((*RUN, sys.executable, "kept_folds.py", ways), SCRIPTS)
    assert (done.returncode, done.stderr) == (0, "")
    folds = json.loads(done.stdout)["losses"]["loss"]
    found = [read_all(archive) for archive in home.archives()]
    shown = [[value for _, value in sorted(rank.series["loss"])] for rank in found]
    if ways == "together":
        folds = [[loss for fold in folds for loss in fold]]
        said = [value for kind, _, value in found[0].events if kind == form.TEXT]
        assert said == [{"level": "info", "message": f"step 30: {ANEW}"}], "once"
    assert [len(values) for values in shown] == [len(fold) for fold in folds]
    for values, fold in zip(
        sorted(shown, key=lambda values: values[-1]), sorted(folds, key=lambda fold: fold[-1]), strict=True
    ):
        assert values == pytest.approx(fold, rel=1e-6)
    states = [run.state for run in RunReader(home.runs).poll().runs]
    assert states == ["finished"] * len(folds)
    assert [[step for step, _ in rank.series["loss"]] for rank in found] == [list(range(len(fold))) for fold in folds]
