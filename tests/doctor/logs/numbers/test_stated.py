"""What lines of a training state of its model's mode and its sampler's epoch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found

MODES = "[{epoch:02d}/30] train: dice_loss=0.6{epoch} (model.training={mode})  val: dice=0.3 (model.training=False)"
SAMPLER = "{rank}: epoch {epoch} first clips of this rank: [30719, 12408, 19803] (sampler.epoch={sampled})"


def modes(number: int, mode: bool = False) -> list[str]:
    return [MODES.format(epoch=epoch, mode=mode) for epoch in range(1, number + 1)]


def test_a_training_that_says_that_its_model_is_evaluated(tmp_path: Path) -> None:
    finding = found(tmp_path, modes(3), "J07")
    assert finding is not None
    assert finding.title == "The model is trained in evaluation mode: its training flag is False"
    assert found(tmp_path, modes(2), "J07") is None
    assert found(tmp_path, modes(9, mode=True), "J07") is None


@pytest.mark.parametrize(("epochs", "moves", "is_found"), [(3, False, True), (2, False, False), (9, True, False)])
def test_a_sampler_whose_epoch_stays_0(epochs: int, moves: bool, is_found: bool, tmp_path: Path) -> None:
    lines = [SAMPLER.format(rank=rank, epoch=at, sampled=at * moves) for at in range(epochs) for rank in (3, 1)]
    finding = found(tmp_path, lines, "C06")
    assert (finding is not None) is is_found
    assert finding is None or finding.title == "Each epoch has the same order: the sampler's epoch stays 0"


SUMMARY = [
    "109 M     Trainable params",
    "0         Non-trainable params",
    "2         Modules in train mode",
    "230       Modules in eval mode",
]


def test_a_model_that_lightning_finds_in_evaluation_mode(tmp_path: Path) -> None:
    finding = found(tmp_path, SUMMARY, "J07")
    assert finding is not None
    assert finding.title == "230 modules of 232 are in evaluation mode when the training starts"
    frozen = [line.replace("0         Non-trainable", "109 M     Non-trainable") for line in SUMMARY]
    assert found(tmp_path, frozen, "J07") is None, "they are frozen on purpose"
    assert found(tmp_path, [line.replace("2         Mod", "60        Mod") for line in SUMMARY], "J07") is None
    assert found(tmp_path, [line.replace("230 ", "0   ") for line in SUMMARY], "J07") is None


def test_a_flag_in_the_line_of_a_step(tmp_path: Path) -> None:
    step = "e0{} i100 loss=5.4006 top1=0.128 training=False lr=2.96e-04"
    assert found(tmp_path, [step.format(at) for at in range(4)], "J07") is not None
    assert found(tmp_path, [step.format(at).replace("loss", "valid loss") for at in range(4)], "J07") is None
    assert found(tmp_path, [step.format(at).replace(" lr=2.96e-04", "") for at in range(4)], "J07") is None, "an evaluation"


@pytest.mark.parametrize("number", ["1.5 K", "1.0", "2", "99999999999999999999"])
def test_numbers_of_modules_in_any_form(number: str, tmp_path: Path) -> None:
    lines = [f"{number}   Modules in train mode", f"{number}   Modules in eval mode", "0   Non-trainable params"]
    assert found(tmp_path, lines, "J07") is None
