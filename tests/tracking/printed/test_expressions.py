"""No expression over a printed line takes time with the square of its length: these run in ``print()`` of a training."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

from gputop.tracking import printed
from gputop.tracking.own_output import shows_sign
from gputop.tracking.printed import names, sides, tables
from gputop.tracking.printed.lines import parse
from gputop.tracking.printed.origins import hosts
from gputop.tracking.printed.transcript import Transcript
from tests.doctor.logs.backtracking import quadratic

NAMES = [item.name for item in pkgutil.walk_packages(printed.__path__, f"{printed.__name__}.")]
MODULES = [module for module in map(importlib.import_module, NAMES) if module is not sides]
EXPRESSIONS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": found
    for module in MODULES
    for name, found in vars(module).items()
    if isinstance(found, re.Pattern)
}
"""Without those of ``sides``, which reads no line of more than 600 characters."""
MATCHED = (tables._VALUE, hosts._PREFIX, hosts._HOST)
"""Those that are tried at the first character only."""


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_no_expression_is_quadratic_in_the_length_of_a_line(name: str) -> None:
    expression = EXPRESSIONS[name]
    text = f"(?i:{expression.pattern.removeprefix('(?i)')})"
    assert quadratic(f"^(?:{text})" if expression in MATCHED else text) is None


@pytest.mark.parametrize("expression", [r"(?:a|b|\w*-)+!", r"(?:loss(?:_[a-z]\w*){0,3}|acc)$", r"\d+\.?\d*x"])
def test_the_check_finds_those_that_do(expression: str) -> None:
    assert quadratic(expression) is not None


MANY = "|".join(f"[{first}{second}]?{first}" for first in "abcdefghij" for second in "klmnopqrst")


def test_the_check_judges_expressions_with_many_branches() -> None:
    assert quadratic(rf"(?:{MANY})(?:{MANY})?\s*:?\s*1") == "\t"
    assert quadratic(rf"(?:{MANY})(?:{MANY})?\s*:\s*1") is None


@pytest.mark.parametrize("part", ["_a", "/a", "_loss", "-loss_a", ".acc", "1", "@1"])
def test_a_name_that_is_long_is_that_of_no_metric(part: str) -> None:
    """A name that an expression needs the third power of its length for would not end within the time limit of a test."""
    for name in ("loss" + part * 40, "acc" + part * 1990):
        assert (parse(f"{name}-x: 0.5"), names.is_measured(f"{name}-x")) == (None, False)
        assert [*Transcript().feed(f"{{'{name}': 0.5}}\n".encode())] == [] or len(name) <= names.NAME_CHARACTERS


@pytest.mark.parametrize(
    ("name", "measured"),
    [
        *((name, True) for name in ("loss/a/b/c", "loss_a_scale", "train/loss_x/y_2", "loss2_epoch", "top5", "top@5", "acc@1")),
        *((name, False) for name in ("loss/a/b/c/d", "loss_scale", "loss/a/weight", "loss_", "acc@", "top", "loss/1")),
    ],
)
def test_names_of_losses_and_accuracies(name: str, measured: bool) -> None:
    assert names.is_measured(name) is measured


MEASURED = (
    *("loss", "acc", "acc@1", "top5", "ppl", "perplexity", "f1", "auc", "auroc", "bleu", "rougeL", "iou", "mIoU", "mAP"),
    *("mse", "mae", "rmse", "reward", "episodic_return", "psnr", "ssim", "wer", "cer", "nll", "ce", "bce", "xent"),
    *("cross_entropy", "elbo", "bpb", "bpc", "fid", "test_ce", "NLL", "mAP50"),
)


@pytest.mark.parametrize("name", MEASURED)
@pytest.mark.parametrize("line", ["{}: 0.5", "step 1 {}=0.5", "[1]\t{} 0.5", "|{}|"])
def test_a_training_is_recognized_whatever_its_metric_is_called(name: str, line: str) -> None:
    assert (names.is_measured(name), shows_sign(line.format(name))) == (True, True)


@pytest.mark.parametrize("line", ["devices since once", "elbow, wired, certain", "step 1 of 20", ""])
def test_prose_loads_no_parser(line: str) -> None:
    assert not shows_sign(line)
