"""What the steps of a run are spent on, by the parts that it prints in a line or in lines below each other. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gputop import units
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Confidence, Fact, Finding
from gputop.doctor.logs.after import position_of
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.parts import LINES_MIN, PartKind, kind_of, means_in, spent
from gputop.doctor.logs.numbers.texts import CHECKPOINTS, COMMUNICATES, EVALUATION, WAITS_FOR_DATA, Text
from gputop.tracking.printed.rates import is_of_first_batch

SHARES: dict[PartKind, tuple[float, float]] = {
    "data": (0.3, 0.5),
    "communication": (0.4, 0.6),
    "saving": (0.15, 0.3),
    "logging": (0.2, 0.4),
    "evaluation": (0.5, 0.7),
}
"""The least share of a step for a possible and for a likely finding (our choice)."""
TRAINED_MIN, BLOCK_MAX = 3, 64
"""At least this many lines print a loss or a score (our choice), and at most this many lines form one report."""
MEASURED = re.compile(
    r"(?i)loss|(?<![a-z])(?:ppl|perplexity|nll|kld?|ce|ctc|mse|mae|\w{1,10}_l[12]|psnr|acc|accuracy|reward|return|sdr|dice)(?![a-z])\W{1,4}-?\d"
    r"|(?<![a-z])err\W{1,4}\d{1,4}\.\d"
)
MEANS_MIN = 2
"""This many reports are enough if each is the mean of many steps, and in each that begins nothing, the share is large (our
choice)."""
_OF_MEANS = ("time across ranks", "time (ms) | forward-compute: ", "reader_cost", "batch_cost")
"""In lines whose times are means of the steps since the line before: Megatron's and Paddle's."""
_OF_MMCV = re.compile(r"\bdata_time: [\d.]{1,12},? {1,4}memory: ")
"""In MMCV's and MMEngine's."""
BEGINS_WITHIN = 2
"""The first report of a run comes after at most this many times the steps from one to the next (our choice)."""
PLACE = re.compile(r"\[\s{0,9}(\d{1,9})\s?/\s?\d{1,9}(?=\]|\s?\()")
KEPT = 10_000
"""At most this many reports are read: more would say the same."""


class StepParts:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first report."""
        self._of_several = False
        """Whether a line says whose it is: then ranks wait for each other."""
        self._trained = 0
        """How many lines print a loss or a score, up to ``TRAINED_MIN``: programs that do not train have parts, too."""
        self._are_means = False
        """Whether the times are means of many steps."""
        self._block: dict[str, float] = {}
        self._sums: dict[PartKind, float] = {}
        self._begun: dict[PartKind, float] = {}
        """The sums over the first report, and over those that begin an epoch: workers start, and files are read for the first
        time."""
        self._reports = 0
        self._with_means = 0
        """How many of them also print running means, which say more about the wait for data: ``running_means`` reads them."""
        self._beginnings = 0
        self._usual: list[Mapping[PartKind, float]] = []
        """The first reports that begin nothing: fewer than ``LINES_MIN``."""
        self._first: list[Mapping[PartKind, float]] = []
        """The first reports after the very first, whatever they begin: as few."""
        self._epoch: int | None = None
        self._step: int | None = None
        """The newest report's."""

    def read(self, line: Line) -> None:
        """Take the next line."""
        self._are_means = (
            self._are_means
            or any(words in line.lower for words in _OF_MEANS)
            or ("data_time: " in line.lower and _OF_MMCV.search(line.lower) is not None)
        )
        if line.is_of_evaluation or (line.parts and is_of_first_batch(line.text)):
            return
        measured = MEASURED.search(line.text) is not None or any("loss" in column for column in line.row)
        self._trained += measured and self._trained < TRAINED_MIN
        parts = line.parts
        # Only a training runs backward.
        self._trained += self._trained < TRAINED_MIN and any("backward" in name or name == "bwd" for name in parts)
        self._of_several = self._of_several or line.speaker is not None
        if len(parts) == 1 and not parts.keys() & self._block.keys() and len(self._block) < BLOCK_MAX:
            self._block.update(parts)
            return
        self._end_block()
        if len(parts) > 1:
            self._take(parts, line)
        else:
            self._block = dict(parts)

    def findings(self) -> tuple[Finding, ...]:
        """Return what takes much of the steps."""
        self._end_block()
        whole = sum(self._sums.values())
        waiting = self._sums.pop("waiting", 0.0)
        kind_of_wait: PartKind = "communication" if self._of_several or "data" in self._sums else "data"
        self._sums[kind_of_wait] = self._sums.get(kind_of_wait, 0.0) + waiting
        if self._reports < (MEANS_MIN if self._are_means else LINES_MIN) or whole <= 0 or self._trained < TRAINED_MIN:
            return ()
        kind = max(SHARES, key=lambda item: self._sums.get(item, 0.0))
        share = min(self._sums.get(kind, 0.0) / whole, self._share_later(kind, kind_of_wait))
        least = share if self._reports >= LINES_MIN else min(share, self._share_of_each(kind, kind_of_wait))
        possible, likely = SHARES[kind]
        if least < possible or (kind == "data" and 2 * self._with_means > self._reports):
            return ()
        sure = least >= likely and not (kind == kind_of_wait == "data" and waiting)
        return (takes_much(kind, share, "likely" if sure else "possible", self._reports),)

    def _share_later(self, kind: PartKind, kind_of_wait: PartKind) -> float:
        """Return the share of a kind without the reports that begin something; 1 if each report does."""
        begun = dict(self._begun)
        waiting = begun.pop("waiting", 0.0)
        begun[kind_of_wait] = begun.get(kind_of_wait, 0.0) + waiting
        whole = sum(self._sums.values()) - sum(begun.values())
        if self._beginnings >= self._reports or whole <= 0:
            return 1.0
        return (self._sums.get(kind, 0.0) - begun.get(kind, 0.0)) / whole

    def _share_of_each(self, kind: PartKind, kind_of_wait: PartKind) -> float:
        """Return the least share of a kind in the reports that begin nothing; 0 if these are too few."""
        kinds = {kind, "waiting"} if kind == kind_of_wait else {kind}
        # Means of whole epochs begin one each.
        reports = self._first if self._beginnings >= self._reports else self._usual
        shares = [sum(found.get(each, 0.0) for each in kinds) / sum(found.values()) for found in reports]
        return min(shares) if len(shares) >= MEANS_MIN else 0.0

    def _end_block(self) -> None:
        block, self._block = self._block, {}
        if len(block) > 1 and any(kind_of(name) in (None, "compute", "whole") for name in block):
            self._take(block)  # else the lines are about different things, such as a batch and an evaluation

    def _take(self, parts: Mapping[str, float], line: Line | None = None) -> None:
        found = spent(parts)
        if len(found) < 2 or self._reports >= KEPT or not sum(found.values()):
            return
        epoch, step = (line is not None and position_of(line.text)) or (None, None)
        places = PLACE.findall(line.text) if line is not None else []
        step = int(places[-1]) if places and step is None else step
        if self._reports == 1 and is_within(self._step, step) and epoch == self._epoch:
            self._usual, self._begun, self._beginnings = [self._begun], {}, 0  # what is posted begins in the middle of a run
        begins = not self._reports or epoch != self._epoch
        if self._reports and len(self._first) < LINES_MIN:
            self._first.append(found)
        self._epoch, self._step = epoch, step
        self._reports += 1
        self._with_means += bool(places) and line is not None and means_in(line.text) is not None
        self._beginnings += begins
        if not begins and len(self._usual) < LINES_MIN:
            self._usual.append(found)
        for kind, seconds in found.items():
            self._sums[kind] = self._sums.get(kind, 0.0) + seconds
            if begins:
                self._begun[kind] = self._begun.get(kind, 0.0) + seconds


def is_within(first: int | None, second: int | None) -> bool:
    """Return whether the steps of the first two reports show that others came before them."""
    return first is not None and second is not None and first > BEGINS_WITHIN * (second - first) > 0


def takes_much(kind: PartKind, share: float, confidence: Confidence, reports: int) -> Finding:
    """Return the finding on a kind of work that takes this share of each step, by this number of reports."""
    id_, (title, cause, fix), refuted_by = _TEXTS[kind]
    return Finding(
        id=id_,
        severity="warning",
        confidence=confidence,
        title=f"{title}: {share:.0%} of each step, by its own numbers",
        evidence=(
            Fact(
                f"{units.count(reports)} {words.agree(reports, 'report', 'reports')} of the parts of a step",
                round(share, 3),
                "log",
            ),
        ),
        cause=cause,
        fix=fix,
        refuted_by=refuted_by,
    )


_TEXTS: dict[PartKind, tuple[str, Text, str]] = {
    "data": (
        "D01",
        WAITS_FOR_DATA,
        "This part overlaps with the GPU's work: it is no wait.",
    ),
    "communication": (
        "E06",
        COMMUNICATES,
        "One rank is late, and the others wait for it in this part.",
    ),
    "saving": (
        "E07",
        CHECKPOINTS,
        "It is saved in parallel with the training.",
    ),
    "logging": (
        "E07",
        Text(
            "The loop waits for its own logging",
            "Metrics, plots or logs are computed or written in each step, and the GPU waits meanwhile.",
            "if step % 100 == 0: ...  # log less often, and numbers instead of images",
        ),
        "It runs in parallel with the training.",
    ),
    "evaluation": (
        "E07",
        EVALUATION,
        "Such a thorough evaluation is intentional.",
    ),
}
