"""The contents of a printed line, and which of its names are measured quantities. Shared by the parsers of lines and tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

NUMBER = r"[-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|nan\b|inf(?:inity)?\b)"
PERCENT = "_percent"
"""Ends the name of a metric that is printed with "%": "accuracy 95%" is ``accuracy_percent`` with the printed number, 95."""
NAME_CHARACTERS = 100
"""A longer name is not a metric's. All of this also runs in a training whenever it prints, so each search is linear."""
_PART = r"(?!scale|weight|fn|func|factor|type)[a-z]\w{0,99}"
_JOINED = (
    r"(?:m?log|[bc]?ce|m[sa]e|l1|l2|kld?|ctc|dice|focal|nll|huber|hinge|total|tot|sum|mean|avg|running|epoch|batch|step|"
    r"cls|reg|rec|recon|lm|mlm|task|main)loss|(?:train|trn?|val(?:id(?:ation)?)?|test|eval|dev)(?:loss|acc|accuracy)"
)
"""Names without a separator: "logloss", "trainloss"."""
MEASURED = re.compile(
    rf"(?:^|[_/.-])(?:{_JOINED}|loss[_/]{_PART}(?:/{_PART}){{0,2}}|(?:loss|accu?|accuracy|(?:acc|prec)@\d|top@?\d|top_?k_acc(?:uracy)?_|ppl|perplexity|f1|"
    r"auc|auroc|dice|bleu|rouge\w?|iou|miou|map|mae|[nrw]?mse|reward|(?:episodic|episode|mean|avg|average|discounted)_?return|"
    rf"(?:score|rewards?)/mean|ep(?:isode|isodic)?_?(?:score|re[wt]|return|reward)s?(?:_?mean)?|(?:average|mean)epret|"
    rf"(?:reward|return|rew)s?_(?:mean|avg)|rew|psnr|ssim|wer|cer|nll|b?ce|xent|ctc|rnn-?t|transducer|supcon|nt_?xent|(?:language_?)?cross_?entropy(?:_?loss)?|elbo|bpb|bpc|fid|"
    rf"(?:train|val(?:id(?:ation)?)?|eval|test|dev)_err(?:or)?(?:_rate)?|objective|huber|recon(?:struction)?|info_?nce|contrastive|triplet|(?:smooth_?)?l1|"
    rf"(?:recall|precision|ndcg|mrr|hit|hr)@\d{{1,4}}|charbonnier|chamfer|photometric|"
    rf"[sw]?mape|msle|rmsle|log_?cosh|pinball)\d*(?:_epoch|_step)?(?:{PERCENT})?)$",
    re.IGNORECASE,
)
ANY_MEASURED = re.compile(
    r"loss|acc|top|dice|ppl|perplexity|f1|au[cr]|bleu|rouge|iou|map|ms[es]|mae|mse|rew|return|ep_?ret|episode|\bep[\W_]{0,3}\d|psnr|ssim|[wc]er|nll|ce|xent|entropy|elbo|bp[bc]|ctc|rnn-?t|transducer|supcon|"
    r"fid|ndcg|mrr|prec@|recall@|hit@|hr@|objective|"
    r"huber|recon|contrastive|triplet|\bl1|_l1|charbonnier|chamfer|photometric|cosh|pinball|msle|iters: ",
    re.IGNORECASE,
)
_LISTED = re.compile(
    r"(?:^|[_/.-])(?:(?:binary_|multi_|cross_?)?(?:m?logloss|entropy|m?error|error_rate)|l1|l2|rmsle|mape|smape|aucpr|ndcg|map|"
    r"precision|recall|kappa|r2|r2_score|map50-95|huber|poisson\w{0,40}|gamma\w{0,40}|quantile|tweedie\w{0,40})(?:@[\d.]{1,20}-?)?$",
    re.IGNORECASE,
)
ALSO = re.compile(
    r"(?:^|[_/.-])(?:lr|learning_rate|grad_?norm|throughput|(?:samples|tokens|images|it)_per_(?:s|sec|second)|"
    r"returns?|beta|(?:kld?|reg|aux|adv|gp|rec)_?(?:weight|coeff?))$",
    re.IGNORECASE,
)
"""What a line may also report: rates, norms, throughput, an agent's return, and the weight of a term, by which a loss grows."""
_OF_TIMES = ("_time", "/time")
"""Ends the name of how long something took: "loss_parse_time"."""
EVALUATION = re.compile(
    r"^\W*(val|valid|validation|validating|eval|evaluation|evaluating|test|testing|dev)\b(?!\w*[_/]|\.py\b)", re.IGNORECASE
)

_KINDS = {"v": "val", "e": "eval", "t": "test", "d": "dev"}


@dataclass(frozen=True, slots=True)
class Printed:
    """The contents of one line. ``step`` counts within an epoch or over the whole run: often the line does not show which."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    step: int | None = None
    steps: int | None = None
    """The total that ``step`` counts toward."""
    epoch: float | None = None
    epochs: int | None = None
    bar: bool = False
    """Whether ``step`` is a progress bar's count, which may cover one epoch or the whole training."""
    batch: bool = field(default=False, compare=False)
    """Whether ``step`` is known to count within an epoch."""
    evaluation: bool = field(default=False, compare=False)
    """Whether the values are those of an evaluation, whatever their names."""


def is_measured(name: str) -> bool:
    """Return whether a name in running text is that of a measured quantity."""
    return len(name) <= NAME_CHARACTERS and MEASURED.search(name) is not None and not name.lower().endswith(_OF_TIMES)


def is_listed(name: str) -> bool:
    """Return whether a name in a table, or in a list of metrics, is measured; there, "error" or "l2" is clear enough."""
    return is_measured(name) or (len(name) <= NAME_CHARACTERS and _LISTED.search(name) is not None)


def is_evaluation(name: str) -> bool:
    """Return whether a metric belongs to an evaluation, judging by its name."""
    return EVALUATION.match(name.replace("_", " ")) is not None


def of_evaluation(name: str, kind: str) -> str:
    """Return a metric's name with the word for its evaluation, unless it says so itself; ``kind``: the word's first letter."""
    return name if is_evaluation(name) else f"{_KINDS[kind]}_{name}"


def lower(name: str) -> str:
    """Return "Loss" and "LR" in lower case, and other names as they are."""
    return name.lower() if name.istitle() or name.isupper() else name
