"""Headings that state the step of the lines below them, or that these belong to an evaluation. Pure.

OLMo and Composer print "[step=10/1000,epoch=0]" and a metric in each indented line below, Coqui "-- STEP: 10/100 --
GLOBAL_STEP: 110", and PyTorch's quickstart prints "Test Error:" above the loss of the test. rsl_rl prints "Learning iteration
10/100" above a block that ends with a rule.
"""

from __future__ import annotations

import re
from dataclasses import replace

from gputop.tracking.printed.names import EVALUATION, Printed, of_evaluation

_STEP_AT_END = re.compile(r"\[step=(\d{1,15})(?:/(\d{1,15}))?(?:,epoch=(\d{1,15})(?:/\d{1,15})?)?\]:?$")
_BATCH_AT_END = re.compile(r"\[epoch=(\d{1,15})(?:/\d{1,15})?\]\[batch=(\d{1,15})/(\d{1,15})\]:$")
_GLOBAL_STEP = re.compile(r"-- GLOBAL_STEP: (\d{1,15})$")
_OUTPUT_AT_END = re.compile(r"(?:^|\s)(train|eval) \| step:\s{1,20}(\d{1,15}) \|.{0,80}\boutput:$")
"""TensorFlow's model garden prints a dictionary of several lines below it."""
_EVALUATION = re.compile(
    r"\W{0,20}(?:[A-Za-z]{1,20} ){0,3}[A-Za-z]{1,20}:\s{0,9}|"
    r"\W{0,20}(?:val|valid|validation|eval|evaluation|test|testing)\W{0,20}",
    re.IGNORECASE,
)
_RESULTS = re.compile(
    r"(?:^|\s)(val|valid|validation|eval|evaluation|test|dev)\s(?:results?|metrics|scores?)\s?:\s{0,9}$", re.IGNORECASE
)
"""The results are in the next line, as RecBole prints them."""
_ITERATION = re.compile(r"\W{0,200}Learning iteration (\d{1,15})/(\d{1,15})\W{0,200}")
_TIMES = re.compile(r"(?:^|\s)Epoch \[(\d{1,9})/(\d{1,9})\]\[(\d{1,12})/(\d{1,12})\]\s{1,4}lr: (?!.{0,400}\bloss:)")
"""Det3D prints a line for each head below it, with their losses."""
_HEADS_MAX = 20
"""At most this many heads have lines below such a line (our choice)."""
_PROGRESS = re.compile(r"progress {1,3}epoch (\d{1,9}) {1,3}step (\d{1,12}) {1,3}image/sec ")
"""pix2pix prints a loss in each of the lines below it."""
_LOSSES_MAX = 8
"""pix2pix has at most this many losses (our choice)."""
_RULE = re.compile(r"\s{0,20}[-=#*─━═]{8,400}\s{0,20}")
_BLOCK_MAX = 200
"""At most this many lines are below such a heading (our choice)."""
_TAIL = 120
"""Characters at the end of a line in which a step is looked for."""


class Headings:
    """Follows the headings of one output stream."""

    def __init__(self) -> None:
        self._step: Printed | None = None
        self._block: Printed | None = None
        self._left = 0
        """How many more lines may belong to the block."""
        self._kind: str | None = None
        self._here: str | None = None
        self._next: str | None = None
        """The evaluation whose results this line holds, or the next one."""

    def read(self, line: str) -> None:
        """Take in a line that may be a heading; forget the last heading at a line that is not indented."""
        if not line.strip():
            return
        results = _RESULTS.search(line)
        self._here, self._next = self._next, results[1][0].lower() if results is not None else None
        if self._block is not None:
            self._left -= 1
            if self._left < 0 or _RULE.fullmatch(line):
                self._block = None
        if "Learning" in line and (iteration := _ITERATION.fullmatch(line)) is not None:
            self._block, self._left = Printed(step=int(iteration[1]), steps=int(iteration[2])), _BLOCK_MAX
        if "Epoch [" in line and (times := _TIMES.search(line)) is not None:
            epoch, epochs, batch, batches = map(int, times.groups())
            self._block, self._left = Printed({}, batch, batches, float(epoch), epochs, batch=True), _HEADS_MAX
        if "progress" in line and (progress := _PROGRESS.match(line)) is not None:
            at = Printed(epoch=float(progress[1]), step=int(progress[2]), batch=True)
            self._block, self._left = at, _LOSSES_MAX
        step = _step_of(line)
        evaluation = EVALUATION.match(line) if step is None and _EVALUATION.fullmatch(line) else None
        output = _OUTPUT_AT_END.search(line.rstrip()[-_TAIL:]) if "output:" in line else None
        if output is not None:
            step, evaluation = (Printed(step=int(output[2])), None) if output[1] == "train" else (None, output)
        if step is not None or evaluation is not None or not line[0].isspace():
            self._step, self._kind = step, evaluation[1][0].lower() if evaluation is not None else None

    def below(self, line: str, printed: Printed) -> Printed:
        """Return the contents of a line, completed by the heading above it."""
        if self._here is not None:
            named = {of_evaluation(name, self._here): value for name, value in printed.metrics.items()}
            return replace(printed, metrics=named, step=None, steps=None)
        if self._block is not None and printed.step is None and printed.epoch is None and printed.metrics:
            return replace(self._block, metrics=printed.metrics)
        if not line[:1].isspace():
            return printed
        if self._kind is not None:
            named = {of_evaluation(name, self._kind): value for name, value in printed.metrics.items()}
            return replace(printed, metrics=named, step=None, steps=None)
        if self._step is None or printed.step is not None or not printed.metrics:
            return printed
        return replace(self._step, metrics=printed.metrics)


def _step_of(line: str) -> Printed | None:
    tail = line.rstrip()[-_TAIL:]
    if not tail.endswith(("]", "]:")) and "GLOBAL_STEP" not in tail:
        return None
    if (found := _STEP_AT_END.search(tail)) is not None:
        epoch = float(found[3]) if found[3] is not None else None
        return Printed(step=int(found[1]), steps=int(found[2]) if found[2] is not None else None, epoch=epoch)
    if (found := _BATCH_AT_END.search(tail)) is not None:
        return Printed(step=int(found[2]), steps=int(found[3]), epoch=float(found[1]), batch=True)
    found = _GLOBAL_STEP.search(tail)
    return Printed(step=int(found[1])) if found is not None else None
