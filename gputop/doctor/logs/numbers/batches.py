"""What lines print of the batches themselves: labels that are all of one class, and samples in the same order. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.texts import SAME_ORDER

LABELS_MIN, SAME_SHARE = 8, 0.9
"""At least this many batches print their labels, and at least this share of them holds one class alone (our choice)."""
CHANGES_MIN = 4
"""The class has changed this many times: a task, or a group of samples, may hold only one (our choice)."""
TURNS_SHARE = 0.25
"""Two classes do not take turns more often than in this share of the batches (our choice)."""
EPOCHS_MIN, IDS_MIN = 3, 4
"""At least this many epochs begin with the same samples, of which a line names at least this many (our choice)."""
RANKS_MAX, EPOCHS_MAX = 1024, 4096
"""At most this many ranks are followed, each in at most this many epochs."""
_LABELS = re.compile(
    r"(?i)(?<![a-z])(?:y|labels?|targets?|classes|cls)(?:_?batch)?(?:\[[\d:]{1,9}\])?\s?[=:]?\s?(?:tensor\()?"
    r"\[(\d{1,6}(?:,? {1,3}\d{1,6}|,\d{1,6}){3,200})[\],]"
)
_SET = re.compile(
    r"(?i)(?<![a-z])(?:labels?|classes|targets?|class(?:es)? ids?)(?: in (?:this |the )?batch)?\s?[=:]?\s?"
    r"(?:set\(\[?|torch\.Size|unique\W{1,3})?[{\[]\s?(['\"]?[\w -]{1,40}['\"]?)(?:: ?\d{1,6})?\s?(?P<more>,[^{}]{1,300})?[}\]]"
)
"""The classes in a batch, each once, or with how many samples it has: "labels in batch {3}", "{'biology': 16}"."""
_ONLY_SET = re.compile(r"\{\s?(['\"][\w -]{1,40}['\"]|\d{1,6}): ?\d{1,6}\s?(?P<more>,[^{}]{1,300})?\}\s*$")
"""The same at the end of a row, below the heading "labels in batch"."""
_HEADED = re.compile(r"(?i)(?<![a-z])(?:labels?|classes|targets?)(?: in (?:this |the )?batch)?\s*$")
_EPOCH = re.compile(r"(?i)(?<![a-z])(?:epoche?|[ée]poque|[ée]poca)\W{0,4}(\d{1,6})\b")
_EPOCHS = ("poch", "poque", "poca")
_IDS = re.compile(
    r"(?i)(?<![a-z])(?:ids?|idx|indices|index|indizes|[íi]ndices|samples?)(?![a-z])[\s:=\[(]{1,4}"
    rf"((?:[A-Za-z_./-]{{0,40}}\d[\w./-]{{0,40}}[ ,]{{1,3}}){{{IDS_MIN - 1},100}}[A-Za-z_./-]{{0,40}}\d[\w./-]{{0,40}})"
)
"""Samples one after the other. Files are no samples: those of a rank may stay."""


_OTHER_IDS = ("token", "layer", "device", "gpu id", "probe", "preview", "visuali", "valid", "eval", "expert", "class id")
"""Ids of something else, or of samples that are meant to stay."""


class Batches:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first batch."""
        self._labeled = self._alike = 0
        self._classes: set[str] = set()
        self._changes, self._class = 0, ""
        """How often the class has changed, and the last one."""
        self._last = ""
        self._orders: dict[int, set[str]] = {}
        """What each rank prints of the first samples of its epochs."""
        self._epochs: dict[int, set[int]] = {}
        self._line: str = ""
        self._is_headed = False
        """Whether the last column of a table is that of the labels in a batch."""

    def read(self, line: Line) -> None:
        """Take the next line."""
        if line.is_of_evaluation:
            return
        if "{" in line.text or ("[" in line.text and "lass" in line.lower):
            self._take_set(line.text)
        self._is_headed = self._is_headed or _HEADED.search(line.text) is not None
        if "[" not in line.text and line.speaker is None:
            return
        labels = _LABELS.search(line.text) if "[" in line.text else None
        if labels is not None:
            self._take_labels(line.text, re.split(r"[, ]+", labels[1].strip()))
        elif line.speaker is not None and line.speaker.rank is not None:
            self._take_order(line, line.speaker.rank)

    def findings(self) -> tuple[Finding, ...]:
        """Return what the batches show."""
        found = (self._one_class(), self._same_order())
        return tuple(item for item in found if item is not None)

    def _take_set(self, text: str) -> None:
        """Take the classes in a batch, each named once."""
        found = _SET.search(text) or (_ONLY_SET.search(text) if self._is_headed else None)
        if found is not None:
            self._take_labels(text, [found[1]] if found["more"] is None else [found[1], found["more"]])

    def _take_labels(self, text: str, labels: list[str]) -> None:
        self._labeled += 1
        if len(set(labels)) == 1:
            self._alike += 1
            self._last = text.strip()
            self._changes += labels[0] != self._class
            self._class = labels[0]
            if len(self._classes) < LABELS_MIN:
                self._classes.add(labels[0])

    def _take_order(self, line: Line, rank: int) -> None:
        """Take a line that names samples, by the epoch before them."""
        epoch = _EPOCH.search(line.text) if any(word in line.lower for word in _EPOCHS) else None
        word = _IDS.search(line.rest) if epoch is not None and not any(other in line.lower for other in _OTHER_IDS) else None
        if word is None or epoch is None or not (rank in self._orders or len(self._orders) < RANKS_MAX):
            return
        named = re.split(r"[ ,]+", word[1])
        if len(set(named)) < IDS_MIN or _is_in_order(named):
            return
        orders = self._orders.setdefault(rank, set())
        epochs = self._epochs.setdefault(rank, set())
        if len(orders) < 2 and len(epochs) < EPOCHS_MAX:
            orders.add(" ".join(named))
            epochs.add(int(epoch[1]))
            self._line = line.printed.strip()

    def _one_class(self) -> Finding | None:
        """J04: a batch holds one class, the next ones another."""
        if (
            self._changes < CHANGES_MIN
            or self._labeled < LABELS_MIN
            or self._alike < SAME_SHARE * self._labeled
            or len(self._classes) < 2
        ):
            return None
        if len(self._classes) == 2 and self._changes > TURNS_SHARE * self._labeled:
            return None  # real and generated samples in turn
        return Finding(
            id="J04",
            severity="warning",
            confidence="likely",
            title="Each batch holds the samples of one class alone: the data is not shuffled",
            evidence=(
                Fact(f"so in {self._alike} of {self._labeled} batches that print their labels", self._alike, "log"),
                Fact(self._last[:200], None, "log"),
            ),
            cause="The samples are read in the order of their classes. The model learns each class in turn and forgets the "
            "others: the loss falls within a class and jumps at the next.",
            fix="DataLoader(..., shuffle=True)  # with several ranks: DistributedSampler, and set_epoch in each epoch",
            refuted_by="The batches are meant to hold one class, and the loss compares batches.",
        )

    def _same_order(self) -> Finding | None:
        """C06: each rank begins each of its epochs with the same samples."""
        epochs = min((len(item) for item in self._epochs.values()), default=0)
        if len(self._orders) < 2 or epochs < EPOCHS_MIN or any(len(orders) > 1 for orders in self._orders.values()):
            return None
        return Finding(
            id="C06",
            severity="warning",
            confidence="likely",
            title=f"{SAME_ORDER.title}: its first samples are the same on each rank",
            evidence=(
                Fact(f"so in {words.count(epochs, 'epoch')}, on {words.count(len(self._orders), 'rank')}", epochs, "log"),
                Fact(self._line[:200], None, "log"),
            ),
            cause=SAME_ORDER.cause,
            fix=SAME_ORDER.fix,
            refuted_by="The order is meant to stay, or these are the samples of an evaluation.",
        )


def _is_in_order(named: Sequence[str]) -> bool:
    """Return whether samples have rising numbers: then nobody means to shuffle them."""
    numbers = [int(name) for name in named if name.isdecimal()]
    return len(numbers) == len(named) and numbers == sorted(numbers)
