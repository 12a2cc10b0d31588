"""Findings on a training loop that never zeroes its gradients, while the loss falls, grows or stays flat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gputop.snapshot import Snapshot
from tests.doctor.scenes.base import play
from tests.doctor.scenes.near import learning as scenes

Scene = Callable[[int], Snapshot]


def keeping(scene: Scene, steps: int | None) -> Scene:
    """Return a scene whose ranks report after how many steps nothing zeroed their gradients."""

    def changed(second: int) -> Snapshot:
        shot = scene(second)
        more = {} if steps is None else {"kept_gradients": steps}
        facts = {"parameters": {"recent": [], "dtype": "float32", **more}}
        runs = tuple(replace(run, ranks=tuple(replace(r, facts={**r.facts, **facts}) for r in run.ranks)) for run in shot.runs)
        return replace(shot, runs=runs)

    return changed


def _at_once(scene: Scene) -> Scene:
    def changed(second: int) -> Snapshot:
        shot = scene(second)
        return replace(shot, points=tuple(replace(p, steps=tuple(step - 98 for step in p.steps)) for p in shot.points))

    return changed


@pytest.mark.parametrize(
    ("scene", "rule", "confidence"),
    [
        (scenes.learned_then_lost, "J02", "likely"),
        (_at_once(scenes.run_with(lambda rank, step: 6.5 + scenes.noise(rank, step))), "J03", "possible"),
        (scenes.run_with(scenes.falls), "J03", "possible"),
    ],
    ids=["grows", "is flat", "falls"],
)
def test_gradients_that_are_never_zeroed_are_named(scene: Scene, rule: str, confidence: str) -> None:
    finding = play(keeping(scene, 8), 200 if rule == "J03" else 70)[-1][0]
    assert (finding.id, finding.confidence) == (rule, confidence)
    assert "the sum of all gradients" in finding.cause
    assert "zero_grad()" in finding.fix
    assert any("8 steps" in fact.text for fact in finding.evidence)


@pytest.mark.parametrize("steps", [None, 7, "many"])
@pytest.mark.parametrize("scene", [scenes.learned_then_lost, scenes.always_the_same, scenes.run_with(scenes.falls)])
def test_gradients_that_are_zeroed_explain_nothing(scene: Scene, steps: int | None) -> None:
    said = [item for item in play(keeping(scene, steps), 70)[-1] if item.id.startswith("J")]
    assert not any("the sum of all gradients" in item.cause for item in said)


def test_a_rate_of_zero_is_its_own_cause() -> None:
    (finding,) = [item for item in play(keeping(scenes.no_rate, 8), 60)[-1] if item.id == "J03"]
    assert finding.confidence == "certain"
    assert "learning rate" in finding.cause
