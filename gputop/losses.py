"""Which of a run's metrics is its training loss, which is automatic, and which states a stage, judging by the names.

In a run that the script opened itself, the names belong to the script: it may log ``loss``, ``lr`` or ``epoch`` at any time,
for instance by epoch, and at steps of its own. So the automatic ones have the prefix ``auto/`` there, and are numbered by
optimizer steps. Imports only the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable

AUTOMATIC_PREFIX = "auto/"
"""The prefix of automatic values whose names a script may log as well, in a run that the script opened."""
LOSS_METRICS = ("loss", "auto/loss", "train/loss", "train_loss", "training_loss")
"""Names of a run's training loss, in order of preference: the first that the run logs wins."""
_SHARED = ("loss", "lr", "epoch", "training")
"""Names that scripts log as well, also as the first part of a name, as in ``loss/generator``."""
_AUTOMATIC_PREFIXES = (AUTOMATIC_PREFIX, "phase/", "cuda/")
_AUTOMATIC = frozenset(
    (
        *("step_s", "pace_s", "samples_per_s", "tokens_per_s", "first_batch_s", "checkpoint_s", "gc_s"),
        *("memory_peak_bytes", "memory_allocated_bytes"),
    )
)
_EVALUATION = frozenset({"val", "valid", "validation", "eval", "evaluation", "test", "dev"})
_NOT_TRAINING = _EVALUATION | {"scale", "scaler", "best", "lowest"}
"""The best loss so far is no loss of now."""
_RETURN = frozenset(("return", "returns", "reward", "rewards", "ret", "rets", "rew", "rews", "epret", "eprew"))
_SCORE, _OF_EPISODES = frozenset(("score", "scores")), frozenset(("episode", "episodes", "episodic", "ep", "eps"))
"""A score is a return only where it is that of an episode."""
_BESIDE_A_RETURN = frozenset(
    (
        *("loss", "std", "var", "min", "max", "norm", "scale", "weight", "coef", "coeff", "margin", "margins", "model"),
        *("chosen", "rejected", "accuracy", "accuracies", "shaping", "intrinsic", "cost", "penalty", "target", "code"),
    )
)
"""What is logged next to an agent's return and is not one; rewards of preferences may move in any direction."""
_OF_EPOCH = "_epoch"
_SUMS = frozenset(("total", "tot", "overall", "joint"))
_BONUS = re.compile(r"(?<!cross)(?<!cross[_ -])entropy")
"""The entropy of a policy, which reinforcement learning adds to its loss: it says least of how the training goes."""
_IN_A_GROUP = frozenset(("acc", "accuracy", "psnr", "ssim", "score", "scores", "reward", "lr", "norm", "weight"))
"""What a group called after a loss may hold beside losses: ``GAN_loss/accuracy_fake``."""
_SHORT = re.compile(r"(?:^|[^a-z])(?:nll|b?ce|(?:nt_?)?xent|cross_?entropy|ctc|rnn-?t|transducer|supcon)(?:$|[^a-z])")
"""What scripts call a loss of classification or of a language model; it counts where no metric has "loss" in its name."""
_ERROR = re.compile(
    r"(?:^|[^a-z])(?:[nrw]?mse|mae|huber|objective|recon(?:struction)?|info_?nce|contrastive|triplet"
    r"|(?:smooth_?)?l1|charbonnier|chamfer|photometric|[sw]?mape|msle|rmsle|log_?cosh|pinball)(?:$|[^a-z])"
)
"""What scripts call a loss of regression, reconstruction or contrast; it counts where there is none of the above."""
_BESIDE_A_LOSS = frozenset(
    (
        *("acc", "accuracy", "psnr", "ssim", "score", "scores", "reward", "rlhf", "kl"),
        *("lr", "weight", "coef", "coeff", "lambda", "beta", "delta", "temp", "temperature", "norm", "std", "var"),
    )
)
"""What is logged about a loss or its model and is not a loss: ``recon_psnr``, ``huber_delta``, ``mae/lr`` of a masked
autoencoder."""
STAGES = (
    r"level|stage|phase|lesson|difficulty|curriculum|task|rollout(?:[_ ](?:length|len|steps))?|horizon|unroll|"
    r"seq(?:uence)?[_ ]?len(?:gth)?|(?:context|ctx)[_ ]?len(?:gth)?|resolution|(?:image|img|crop)[_ ]?size"
)
"""What the stage of a curriculum, or the length of its samples, is called: where that rises, steps do more, and losses jump."""
_STAGE = re.compile(rf"(?i)(?:^|[_/.-])(?:{STAGES})(?:_?(?:id|index|number))?$")
_WORD = re.compile(r"[^\W_]+")
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])")
"""Between the words of ``AverageEpRet``."""


def loss_metric(names: Iterable[str]) -> str | None:
    """Return the name of a run's training loss: a standard name if there is one, else the best metric with "loss" in its name.

    The sum of several losses comes before its parts. A short name such as ``ce`` comes next, and an evaluation loss last.
    """
    known = set(names)
    own = next((name for name in LOSS_METRICS if name in known), None)
    others = set(filter(names_a_loss, known)) or short_losses(known) or set(filter(_says_loss, known))
    return own or min(
        others,
        key=lambda name: (
            not is_sum(name),
            _BONUS.search(name.lower()) is not None,
            name.endswith(_OF_EPOCH),  # next to the same metric by steps: Lightning logs both
            not name.removeprefix(AUTOMATIC_PREFIX).startswith("loss/"),
            name,
        ),
        default=None,
    )


def names_a_stage(metric: str) -> bool:
    """Return whether a metric states the stage of a curriculum, or how long its samples are."""
    return _STAGE.search(metric) is not None


def is_sum(loss: str) -> bool:
    """Return whether a loss is the sum of others, judging by its name: ``total_loss``, ``loss/train/total``."""
    return not _SUMS.isdisjoint(_parts(loss))


def beside(name: str) -> str:
    """Return an automatic value's name in a run that the script opened."""
    return AUTOMATIC_PREFIX + name if name.partition("/")[0] in _SHARED else name


def are_automatic(names: Iterable[str]) -> bool:
    """Return whether all names in a record are those of automatic values in such a run."""
    return all(name in _AUTOMATIC or name.startswith(_AUTOMATIC_PREFIXES) for name in names)


def own_or_automatic(name: str, known: Container[str]) -> str:
    """Return this metric's name in a run: the name of the automatic metric if the script does not log its own."""
    automatic = AUTOMATIC_PREFIX + name
    return automatic if name not in known and automatic in known else name


def is_training_loss(loss: str) -> bool:
    """Return whether a loss belongs to training, judging by its name: not to an evaluation or to a gradient scaler.

    Nor does the best one so far.
    """
    return _NOT_TRAINING.isdisjoint(_WORD.findall(loss.lower()))


def is_of_evaluation(metric: str) -> bool:
    """Return whether a metric is measured on data that is not trained on, judging by its name."""
    return not _EVALUATION.isdisjoint(_WORD.findall(metric.lower()))


def is_return(metric: str) -> bool:
    """Return whether a metric is what an agent gets for an episode, which training should raise, judging by its name."""
    words = _WORD.findall(_HUMPS.sub("_", metric).lower())
    scores = not _SCORE.isdisjoint(words) and not _OF_EPISODES.isdisjoint(words)
    return (scores or not _RETURN.isdisjoint(words)) and _BESIDE_A_RETURN.isdisjoint(words)


def is_short_loss(metric: str) -> bool:
    """Return whether a metric may be a training loss under a short name, such as ``ce``, ``train_nll`` or ``mse``."""
    name = metric.lower()
    named = _SHORT.search(name) is not None or _ERROR.search(name) is not None
    return named and is_training_loss(name) and _BESIDE_A_LOSS.isdisjoint(_WORD.findall(name))


def short_losses(names: Iterable[str]) -> set[str]:
    """Return the metrics that may be training losses under short names; of errors, which rise and fall together, only one."""
    known = sorted(filter(is_short_loss, names), key=lambda name: (is_sum(name), name))
    return {name for name in known if _SHORT.search(name.lower())} or set(known[-1:])


def may_rise(loss: str) -> bool:
    """Return whether training may make this value larger: an objective is minimized or maximized, which its name hides."""
    return "objective" in _WORD.findall(loss.lower())


def names_a_loss(metric: str) -> bool:
    """Return whether a metric is a training loss, judging by its name."""
    return _says_loss(metric) and is_training_loss(metric)


def _says_loss(metric: str) -> bool:
    name = metric.lower()
    last = name.rpartition("/")[2]
    return "loss" in last or ("loss" in name and _IN_A_GROUP.isdisjoint(_parts(last)))


def _parts(name: str) -> list[str]:
    return _WORD.findall(name.lower())
