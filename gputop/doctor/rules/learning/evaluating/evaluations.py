"""Which metrics are those of an evaluation, and whether they give the same value each time. Pure."""

from __future__ import annotations

import re

from gputop.doctor.rules.learning.evaluating.courses import Course
from gputop.losses import is_of_evaluation

TIMES_MIN = 4
"""An evaluation must have been equal this many times (our choice)."""
SCORES_MIN = 8
"""A score of few digits is equal by chance, or while a model answers the same to all, more often (our choice)."""
DIGITS_MIN = 4
"""A printed value with fewer digits may be equal by rounding (our choice)."""
_ERRORS = frozenset(
    ("loss", "logloss", "nll", "ce", "bce", "xent", "mse", "mae", "rmse", "ppl", "perplexity", "error", "wer", "cer")
)
_SCORES = frozenset(
    (
        *(
            "acc",
            "accuracy",
            "acc1",
            "top1",
            "f1",
            "iou",
            "miou",
            "dice",
            "auc",
            "auroc",
            "map",
            "psnr",
            "ssim",
            "bleu",
            "rouge",
        ),
        *("score", "precision", "recall", "ndcg", "mrr", "hit", "hr", "exact", "em"),
    )
)
_KEPT = frozenset(("best", "max", "min", "highest", "lowest", "target", "baseline", "threshold", "last", "previous"))
"""Words for values that stay on purpose until a better one comes."""
_WORD = re.compile(r"[^\W_]+")


def words_of(metric: str) -> frozenset[str]:
    """Return the words of a metric's name, in lower case."""
    return frozenset(_WORD.findall(metric.lower()))


def is_an_evaluation(name: str) -> bool:
    """Return whether a metric is a loss, an error or a score of an evaluation, and not one that is kept on purpose."""
    words = words_of(name)
    return is_of_evaluation(name) and bool(words & (_ERRORS | _SCORES)) and not words & _KEPT


def is_a_training_score(name: str) -> bool:
    """Return whether a metric is a score on the data that is trained on."""
    words = words_of(name)
    return not is_of_evaluation(name) and bool(words & _SCORES) and not words & _KEPT


def is_a_training_error(name: str) -> bool:
    """Return whether a metric is a loss or an error on the data that is trained on."""
    words = words_of(name)
    return not is_of_evaluation(name) and bool(words & _ERRORS) and not words & _KEPT


def is_same(course: Course) -> bool:
    """Return whether all values are equal, and not at a limit at which they may stay."""
    enough = course.values >= (TIMES_MIN if is_telling(course) else SCORES_MIN)
    return enough and course.lowest == course.highest and abs(course.highest) not in (0.0, 1.0, 100.0)


def is_score(course: Course) -> bool:
    """Return whether a course is that of a score, which training should raise."""
    return not _SCORES.isdisjoint(words_of(course.name))


def is_telling(course: Course) -> bool:
    """Return whether the values are losses or errors with too many digits to be equal by chance."""
    digits = repr(course.highest).partition("e")[0].replace(".", "").lstrip("-0")
    return not _ERRORS.isdisjoint(words_of(course.name)) and len(digits) >= DIGITS_MIN
