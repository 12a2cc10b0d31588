"""Steps that change no weight, as the optimizers of an untracked training show it (J03)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.snapshot import Snapshot
from gputop.whereabouts.records import Doing, HeldModels, HeldOptimizers, Holdings
from tests.doctor.scenes.base import only_shown, play
from tests.doctor.scenes.near import learning as scenes

WORKS = HeldOptimizers(("AdamW",), 12, rate=1e-3, is_fresh=False, is_elsewhere=False)
FRESH = replace(WORKS, is_fresh=True)
OLD = replace(WORKS, is_elsewhere=True, twin="Net")
PLAIN = replace(WORKS, names=("SGD",), is_fresh=None)
NO_RATE = replace(WORKS, rate=0.0)
Loss = Callable[[int, int], float]


def stays(rank: int, step: int) -> float:
    """A loss with the noise of batches of different difficulty, and without a trend."""
    return 2.3 * (1 + 0.08 * math.sin(step * 12.9898))


def said_of(held: HeldOptimizers | None, loss: Loss | None, *, epochs: bool = False, seconds: int = 70) -> Finding | None:
    """Return the finding on a training that holds these optimizers and prints this loss, a new epoch every 10 s."""
    scene = only_shown(scenes.run_with(loss or stays), {"source": "log"})

    def with_variables(second: int) -> Snapshot:
        shot = scene(second)
        holdings = Holdings(HeldModels(("Net",)), None, second // 10 if epochs else None, optimizers=held)
        doing = Doing(("forward", "backward", "optimizer")[second % 3])
        processes = tuple(replace(process, held=holdings, doing=doing) for process in shot.processes)
        if loss is not None:
            return replace(shot, processes=processes)
        runs = tuple(replace(run, ranks=tuple(replace(rank, metrics={}) for rank in run.ranks)) for run in shot.runs)
        return replace(shot, processes=processes, runs=runs, points=())

    return next((item for item in play(with_variables, seconds)[-1] if item.id == "J03"), None)


@pytest.mark.parametrize(
    ("held", "loss", "epochs", "confidence", "title"),
    [
        (FRESH, stays, True, "likely", "No step has changed a weight: the optimizer has never updated one"),
        (FRESH, None, True, "likely", "No step has changed a weight: the optimizer has never updated one"),
        (FRESH, stays, False, "possible", "No step has changed a weight: the optimizer has never updated one"),
        (
            replace(OLD, is_fresh=True),
            stays,
            False,
            "likely",
            "No step has changed a weight: the optimizer has never updated one",
        ),
        (
            replace(PLAIN, is_elsewhere=True, twin="Net"),
            stays,
            False,
            "likely",
            "The optimizer may hold the parameters of another model",
        ),
        (OLD, stays, False, "possible", "The optimizer may hold the parameters of another model"),
        (NO_RATE, stays, False, "likely", "The learning rate is 0"),
        (replace(NO_RATE, rate=3e-17), None, False, "likely", "The learning rate is as good as 0 (3.00e-17)"),
        (replace(PLAIN, rate=0.0), None, False, "possible", "The learning rate is 0"),
    ],
)
def test_optimizers_that_change_nothing_are_named(
    held: HeldOptimizers, loss: Loss | None, epochs: bool, confidence: str, title: str
) -> None:
    finding = said_of(held, loss, epochs=epochs)
    assert finding is not None
    assert (finding.confidence, finding.title) == (confidence, title)
    assert finding.evidence[0].source == "/proc/4000/mem"


@pytest.mark.parametrize(
    ("held", "epochs"),
    [
        (None, True),
        (WORKS, True),
        (PLAIN, True),
        (replace(WORKS, is_elsewhere=True), True),
        (replace(PLAIN, is_elsewhere=True), True),
        (replace(WORKS, rate=1e-8), True),
    ],
    ids=["unknown", "it works", "it keeps nothing", "a picture", "a picture, without momentum", "a low rate"],
)
def test_others_are_left_alone(held: HeldOptimizers | None, epochs: bool) -> None:
    assert said_of(held, stays, epochs=epochs) is None


@pytest.mark.parametrize("held", [FRESH, OLD, NO_RATE], ids=["nothing is kept", "of another model", "a rate of 0"])
def test_a_loss_that_moves_refutes_it(held: HeldOptimizers) -> None:
    assert said_of(held, scenes.falls, epochs=True) is None


def test_the_first_step_may_be_far_away() -> None:
    assert said_of(FRESH, None) is None


@pytest.mark.parametrize("held", [FRESH, OLD, NO_RATE])
def test_two_looks_are_not_enough(held: HeldOptimizers) -> None:
    assert said_of(held, stays, epochs=True, seconds=35) is None
