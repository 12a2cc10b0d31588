"""Data that is not shuffled, as the variables of an untracked training show it, with and without what it prints."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs
from gputop.doctor.findings.finding import Finding
from gputop.snapshot import Snapshot
from gputop.whereabouts.records import HeldLoader, HeldModels, Holdings
from tests.doctor.scenes.base import only_shown, play
from tests.doctor.scenes.near import learning as scenes

IN_ORDER = HeldLoader("train_loader", "Meters", "SequentialSampler", is_plain=True, batch_size=64, shuffles=False)
Loss = Callable[[int, int], float]


def said_of(
    loader: HeldLoader | None, loss: Loss, *, epochs: bool = True, prints: Loss | None = None, seconds: int = 60
) -> Finding | None:
    """Return the finding on a training that holds this loader and prints this loss, a new epoch every 10 s.

    ``epochs``: whether a variable counts them; ``prints``: the epoch that is printed at a step.
    """
    shown = scenes.run_with(loss) if prints is None else scenes.run_with(loss, epoch=prints)
    scene = only_shown(shown, {"source": "log"})

    def with_variables(second: int) -> Snapshot:
        shot = scene(second)
        held = Holdings(HeldModels(("Net",)), loader, second // 10 if epochs else None)
        return replace(shot, processes=tuple(replace(process, held=held) for process in shot.processes))

    return next((item for item in play(with_variables, seconds)[-1] if item.id == "J04"), None)


def test_a_loader_that_keeps_the_order_in_each_epoch_is_worth_knowing() -> None:
    finding = said_of(IN_ORDER, scenes.falls)
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert finding.evidence[0].source == "/proc/4000/mem"
    assert "SequentialSampler" in finding.evidence[0].text


def test_a_loss_that_jumps_back_makes_it_likely() -> None:
    finding = said_of(IN_ORDER, scenes.by_class, epochs=False, seconds=100)
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("warning", "likely")
    assert finding.evidence[0].text.startswith("the loss falls to about ")


@pytest.mark.parametrize(
    "loader",
    [
        None,
        replace(IN_ORDER, sampler="RandomSampler", shuffles=True),
        replace(IN_ORDER, sampler="ByLength", is_plain=False, shuffles=None),
        replace(IN_ORDER, is_plain=False),
        replace(IN_ORDER, dataset="TimeSeriesDataset"),
        replace(IN_ORDER, dataset="TokenBlocks"),
    ],
    ids=["none is seen", "shuffled", "a sampler of its own", "batches of its own", "a time series", "text"],
)
def test_other_loaders_say_nothing(loader: HeldLoader | None) -> None:
    assert said_of(loader, scenes.falls) is None


def test_one_pass_over_the_data_needs_no_shuffling() -> None:
    assert said_of(IN_ORDER, scenes.falls, epochs=False) is None
    assert said_of(IN_ORDER, scenes.falls, seconds=12) is None


@pytest.mark.parametrize(("steps", "found"), [(30, True), (90, False)])
def test_epochs_that_are_only_printed_count_too(steps: int, found: bool) -> None:
    """Their variable may have any name."""
    prints: Loss = lambda rank, step: (step - 98) // steps  # noqa: E731 - 3 steps each second
    assert (said_of(IN_ORDER, scenes.falls, epochs=False, prints=prints) is not None) is found


def test_one_look_at_variables_is_not_enough() -> None:
    assert said_of(IN_ORDER, scenes.falls, seconds=35) is None


def printed(place: Callable[[int], float], every: int, tmp_path: Path) -> Finding | None:
    """What a log says that shows the loss of every fourth batch; a new class begins at ``place`` of each number."""
    begins = {round(place(number)) for number in range(40)}
    lines, since = [], 0
    for step in range(240):
        since = 0 if step in begins else since + 1
        if step % every == 0:
            lines.append(f"[{step // 104:02d}][{step % 104:3d}/104] loss: {2.1 if not step else 9.0 * 0.2**since:.4f}")
    log = tmp_path / "train.log"
    log.write_text("\n".join(lines) + "\n")
    return next((item for item in explain_logs([str(log)])[0] if item.id == "J04"), None)


_RANDOM = random.Random(1)
_PLACES = list(itertools.accumulate(_RANDOM.randint(6, 22) for _ in range(40)))


def unevenly(number: int) -> float:
    return _PLACES[number]


@pytest.mark.parametrize("every", [1, 2, 4])
def test_a_jump_may_show_late_where_few_losses_are_printed(every: int, tmp_path: Path) -> None:
    finding = printed(lambda number: 13 * number + every // 2, every, tmp_path)
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("warning", "possible")


@pytest.mark.parametrize("every", [1, 2, 4])
def test_jumps_at_any_time_are_those_of_an_unstable_training(every: int, tmp_path: Path) -> None:
    assert printed(unevenly, every, tmp_path) is None
