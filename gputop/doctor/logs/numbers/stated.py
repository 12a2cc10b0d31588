"""What lines of a training state of its model's mode and its sampler's epoch. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.texts import SAME_ORDER

LINES_MIN = 3
"""At least this many lines state it (our choice)."""
EVAL_TIMES = 10
"""There are this many times as many modules in evaluation mode as in training mode: little but the metrics trains (our
choice)."""
_SUMMARY = re.compile(
    r"^\s{0,20}(\d{1,9}(?:\.\d{1,9})?(?: [KMBT])?)\s{1,20}(Modules in (?:train|eval) mode|Non-trainable params)\s*$"
)
_FLAG = re.compile(r"(?i)(?<![A-Za-z] )(?<![\w.])(?:(?:model|net|network|self|module)\.)?training ?[=:] ?(True|False)\b")
_TRAINS, _EVALUATES = re.compile(r"(?i)\btrain(?:ing)?\b"), re.compile(r"(?i)\b(?:val|valid|validation|eval|evaluation|test)\b")
_STEPS = re.compile(r"(?i)(?<![a-z])loss[ :=].{0,200}(?<![a-z])lr[ :=]")
"""Only a step has a loss and a rate."""
_EPOCH_BEGINS = re.compile(r"(?i)^\W{0,8}epoch\W{0,4}\d{1,6}")
"""A line that begins with the number of an epoch, and is not about an evaluation."""
_EPOCH = re.compile(r"(?i)\bepoch\W{0,3}(\d{1,6})\b.{0,200}\bsampler\.epoch ?[=:] ?0\b")


class Stated:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._mode: list[str] = []
        self._summary: dict[str, str] = {}
        """The rows below Lightning's summary of the model."""
        self._epochs: dict[int, str] = {}
        """The lines with a sampler's epoch of 0, by the epoch of the training."""

    def read(self, line: Line) -> None:
        """Take the next line."""
        if "training" in line.lower and len(self._mode) < LINES_MIN and _trains_in_evaluation(line.text):
            self._mode.append(line.printed.strip())
        if " mode" in line.lower or "params" in line.lower:
            row = _SUMMARY.match(line.text)
            if row is not None:
                self._summary[row[2]] = row[1]
        if "sampler.epoch" in line.lower and len(self._epochs) <= LINES_MIN and not line.is_of_evaluation:
            epoch = _EPOCH.search(line.text)
            if epoch is not None:
                self._epochs.setdefault(int(epoch[1]), line.printed.strip())

    def findings(self) -> tuple[Finding, ...]:
        """Return what the lines state again and again."""
        found = [mode for mode in (_mode_of(self._summary),) if mode is not None]
        if len(self._mode) >= LINES_MIN:
            found.append(
                Finding(
                    id="J07",
                    severity="warning",
                    confidence="likely",
                    title="The model is trained in evaluation mode: its training flag is False",
                    evidence=(Fact(self._mode[-1][:200], False, "log"),),
                    cause="In evaluation mode, dropout drops nothing, and BatchNorm normalizes with old statistics, which no "
                    "longer follow the weights. The script calls eval() for the validation, and train() only once.",
                    fix="model.train()  # at the beginning of each epoch",
                    refuted_by="It is meant to be trained so: BatchNorm that is frozen on purpose.",
                )
            )
        if len(self._epochs) >= LINES_MIN:
            found.append(
                Finding(
                    id="C06",
                    severity="warning",
                    confidence="likely",
                    title=f"{SAME_ORDER.title}: the sampler's epoch stays 0",
                    evidence=(
                        Fact(f"so in {words.count(len(self._epochs), 'epoch')} or more", len(self._epochs), "log"),
                        Fact(next(reversed(self._epochs.values()))[:200], 0, "log"),
                    ),
                    cause=SAME_ORDER.cause,
                    fix=SAME_ORDER.fix,
                    refuted_by="The order is changed elsewhere.",
                )
            )
        return tuple(found)


def _mode_of(summary: Mapping[str, str]) -> Finding | None:
    """J07: nearly all modules are in evaluation mode, and all of them are to be trained."""
    shown = [summary.get(f"Modules in {mode} mode", "0") for mode in ("train", "eval")]
    if not all(number.isdecimal() for number in shown):
        return None
    trains, evaluates = map(int, shown)
    if not 0 < EVAL_TIMES * trains <= evaluates or summary.get("Non-trainable params") != "0":
        return None
    return Finding(
        id="J07",
        severity="warning",
        confidence="likely",
        title=f"{words.count(evaluates, 'module')} of {trains + evaluates} are in evaluation mode when the training starts",
        evidence=(
            Fact(f"{evaluates} modules in eval mode, {trains} in train mode", evaluates, "log"),
            Fact("no parameter is frozen", 0, "log"),
        ),
        cause="Since 2.2, Lightning leaves each module in the mode that it finds: dropout drops nothing, and BatchNorm keeps "
        "old statistics. from_pretrained returns a model in evaluation mode, or a script has called eval().",
        fix="model.train()  # before fit, or in on_train_start; what is frozen on purpose may stay in eval()",
        refuted_by="on_train_start or a callback calls train().",
    )


def _trains_in_evaluation(text: str) -> bool:
    """Return whether the first flag of a line is that of a training, and False."""
    flag = _FLAG.search(text)
    if flag is not None and text.lower().count("training=true") + text.lower().count("training: true"):
        return False
    if flag is None or flag[1].lower() != "false" or _EVALUATES.search(text, 0, flag.start()) is not None:
        return False
    begins = _EPOCH_BEGINS.match(text) is not None
    return begins or _TRAINS.search(text, 0, flag.start()) is not None or _STEPS.search(text) is not None
