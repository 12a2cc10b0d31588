"""What each rank prints of itself in one log: its batches, its samples, and the parts of its steps. Pure.

Only lines that begin with the number of a rank or a GPU count: "[rank 2] step 100 data 1.0s fwd 0.1s bwd 0.2s".
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.units import count, metric

LINES_MIN = 5
"""So many lines with times, or with a count of batches, show what is usual of a rank (our choice)."""
DATA_SHARE, DATA_TIMES = 0.3, 3.0
"""A rank waits for its data if that takes this share of its step, and so many times as long as on the others (our choice)."""
WAIT_SHARE = 0.5
"""The others wait for it if a part of their steps takes longer than its own, by this share of the difference (our choice)."""
LOSSES_MIN, RANKS_MIN, GROWS, FALLS = 8, 3, 1.1, 0.9
"""From so many losses of at least so many ranks: the last quarter is so many times the first where a loss grows, and where it
falls (our choice)."""
BACK_MIN = LINES_MIN - 1
"""A number alone in brackets is a rank's if a lower one follows a higher one so often: an epoch's only grows (our choice)."""
KEPT = 4096
"""So many values of each kind are kept of a rank, whatever the length of the log."""
_CHARACTERS = 600
_RANK = re.compile(
    r"^(?:\[[^\]\s]{1,60}/[^\]\s]{1,60}\]\s)?(?:[\d:.,TZ /-]{4,30}\s)?"
    r"(?:\W{0,2}(?:rank|gpu)[ _:#=-]?(?P<rank>\d{1,4})(?:/\d{1,4})?(?:\s?[\])>:|,]|(?=\s))|\[(?P<number>\d{1,3})\]\s)",
    re.IGNORECASE,
)
_BATCH = re.compile(r"\b(?:batch(?:es)?|iter(?:ation)?|step)\W{1,3}(?P<at>\d{1,9})\s?/\s?(?P<of>\d{1,9})\b", re.IGNORECASE)
_SAMPLES = re.compile(r"\b(\d{3,12}) (?:samples|images|rows|examples|sequences)\b(?! ?(?:/|per|seen))", re.IGNORECASE)
_STATED = re.compile(r"\b\d{2,12} \w{3,20}, (\d{1,9}) batches\b", re.IGNORECASE)
"""The batches of a rank's own samples: "shard 2: 11259 utterances, 217 batches"."""
_BATCHES = re.compile(r"\b(?:(\d{1,9}) batches\b|len\(\w{0,20}loader\)\s?=\s?(\d{1,9}))", re.IGNORECASE)
_SIZE = re.compile(r"\b(?:batch[ _-]?size|batches of)[ :=]{1,3}(\d{1,6})\b", re.IGNORECASE)
_PART = re.compile(r"(?<![\w.])([A-Za-z][\w+/-]{0,30}(?: wait)?)[ :=]{1,5}(\d{1,6}\.\d{1,6})(?: ?(m?s)\b|(?=\s|$))")
_OF_A_STEP = re.compile(r"fwd|bwd|forward|backward|compute|sync|comm|all_?reduce|step|opt", re.IGNORECASE)
_LOSS = re.compile(r"(?<![A-Za-z])(?:\w{1,20}_)?loss[ :=]{1,4}(\d{1,9}\.\d{1,9})\b", re.IGNORECASE)
_DATA = re.compile(r"^(?:data|fetch|load)", re.IGNORECASE)
_WHOLE = re.compile(r"^(?:step|total|time|iter)", re.IGNORECASE)


@dataclass
class _Rank:
    """What one rank has printed."""

    totals: Counter[int] = field(default_factory=Counter)
    """How many batches its epochs have, by how often it said so."""
    data_set: tuple[int, int, int] | None = None
    """How many samples, how many batches, and how many samples in a batch."""
    stated: int | None = None
    """How many batches it says its samples make."""
    parts: dict[str, list[float]] = field(default_factory=dict)
    """The seconds of each part of its steps, or in another unit that it does not print."""
    unit: str = ""
    losses: list[float] = field(default_factory=list)

    def take(self, text: str) -> None:
        """Take what follows the number in one of its lines."""
        batch = _BATCH.search(text)
        if batch is not None:
            self.totals[int(batch["of"])] += 1
        samples, batches, size = _SAMPLES.search(text), _BATCHES.search(text), _SIZE.search(text)
        if samples is not None and batches is not None and size is not None:
            self.data_set = int(samples[1]), int(batches[1] or batches[2]), int(size[1])
        stated = _STATED.search(text)
        self.stated = int(stated[1]) if stated is not None else self.stated
        loss = _LOSS.search(text)
        if loss is not None:
            _keep(self.losses, float(loss[1]))
        parts = [part for part in _PART.findall(text) if part[2] or _DATA.match(part[0]) or _OF_A_STEP.search(part[0])]
        if len(parts) > 2 and any(_DATA.match(name) for name, _, _ in parts):
            self.unit = " s" if parts[0][2] else ""
            for name, value, unit in parts:
                _keep(self.parts.setdefault(name.lower(), []), float(value) * (1e-3 if unit == "ms" else 1.0))


class EachRank:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start without any rank."""
        self._named: dict[int, _Rank] = {}
        """By the number of a rank or a GPU."""
        self._numbered: dict[int, _Rank] = {}
        """By a number alone in brackets, of a rank or of something else."""
        self._last = 0
        self._back = 0
        """The last such number, and how often a lower one followed a higher one."""

    def read(self, lines: Iterable[str]) -> None:
        """Take lines."""
        for line in lines:
            head = _RANK.match(line[:_CHARACTERS])
            if head is not None:
                number = int(head["rank"] or head["number"])
                ranks = self._named if head["rank"] else self._numbered
                ranks.setdefault(number, _Rank()).take(line[head.end() : _CHARACTERS])
                if head["number"]:
                    self._back += number < self._last
                    self._last = number

    def findings(self) -> tuple[Finding, ...]:
        """Return what the ranks' own numbers say together."""
        ranks = self._named or (self._numbered if self._back >= BACK_MIN else {})
        if len(ranks) < 2:
            return ()
        judged = _one_waits_for_data(ranks), _unequal(ranks), _same_data(ranks), _one_grows(ranks)
        return tuple(found for found in judged if found is not None)


def _one_waits_for_data(ranks: Mapping[int, _Rank]) -> Finding | None:
    """F01: the data of one rank takes long, and the others wait for it in another part of their steps."""
    means = {number: _means(rank) for number, rank in ranks.items() if rank.parts}
    if len(means) < 2 or any(not found for found in means.values()):
        return None
    waits = {number: sum(each for name, each in parts.items() if _DATA.match(name)) for number, parts in means.items()}
    steps = {number: sum(each for name, each in parts.items() if not _WHOLE.match(name)) for number, parts in means.items()}
    late = max(waits, key=waits.__getitem__)
    usual = statistics.median(wait for number, wait in waits.items() if number != late)
    if waits[late] < DATA_SHARE * steps[late] or waits[late] < DATA_TIMES * usual:
        return None
    others = [parts for number, parts in means.items() if number != late]
    unit = ranks[late].unit
    longer = max((min(parts[name] for parts in others) - means[late][name] for name in _others(means)), default=0.0)
    if longer < WAIT_SHARE * (waits[late] - usual):
        return None
    return Finding(
        id="F01",
        severity="warning",
        confidence="likely",
        title=f"Rank {late} waits for its data, and the others for rank {late}",
        evidence=(
            Fact(
                f"data takes {metric(waits[late])}{unit} of a step of {metric(steps[late])}{unit} on rank {late}",
                waits[late],
                "log",
            ),
            Fact(f"it takes {metric(usual)}{unit} on the others, whose steps are as long", usual, "log"),
        ),
        cause="Each step is as slow as its slowest rank: the ranks average their gradients. This one reads from a slower "
        "disk, has fewer workers or cores, or larger samples.",
        fix="# put its part of the data on the disk of the others, or give each rank a share of all of it\n"
        "DistributedSampler(dataset, shuffle=True)  # over data that is equally fast for all ranks",
        refuted_by=f"Another rank than {late} has such times in the rest of the run.",
    )


def _unequal(ranks: Mapping[int, _Rank]) -> Finding | None:
    """C07: the epochs of the ranks have different numbers of batches."""
    totals = {
        number: next(iter(rank.totals))
        for number, rank in sorted(ranks.items())
        if len(rank.totals) == 1 and rank.totals.total() >= LINES_MIN
    }
    if len(totals) < 2 or len(totals) < len([rank for rank in ranks.values() if rank.totals]):
        totals = {number: rank.stated for number, rank in sorted(ranks.items()) if rank.stated is not None}
        if len(totals) < 2 or len(totals) < len(ranks):
            return None
    if len(set(totals.values())) == 1:
        return None
    few, many = min(totals, key=totals.__getitem__), max(totals, key=totals.__getitem__)
    return Finding(
        id="C07",
        severity="warning",
        confidence="likely",
        title=f"Rank {few} has {count(totals[few])} batches in an epoch, rank {many} has {count(totals[many])}",
        evidence=tuple(Fact(f"rank {number}: {count(total)} batches", total, "log") for number, total in totals.items()),
        cause="A rank with fewer batches goes on to what comes after the epoch, while the others wait for its gradients: "
        "they hang in the first step that it does not take, or from then on average gradients with something else.",
        fix="DistributedSampler(dataset, drop_last=True)  # the same number for each rank\n"
        "with Join([model]): ...  # torch.distributed.algorithms.join, if the numbers must differ",
        refuted_by="The loop ends with the shortest rank, or runs in Join.",
    )


def _same_data(ranks: Mapping[int, _Rank]) -> Finding | None:
    """C05: each rank has as many batches as the whole data set."""
    sets = {rank.data_set for rank in ranks.values()}
    one = next(iter(sets)) if len(sets) == 1 else None
    if one is None:
        return None
    samples, batches, size = one
    if not samples // size <= batches <= -(-samples // size) or batches < 2:
        return None
    return Finding(
        id="C05",
        severity="warning",
        confidence="possible",
        title=f"Each of {words.count(len(ranks), 'rank')} goes through all {count(samples)} samples in an epoch",
        evidence=(Fact(f"{count(batches)} batches of {size} on each rank are all {count(samples)} samples", batches, "log"),),
        cause="Without a DistributedSampler, each rank trains on the whole data set: an epoch takes as long as on one GPU, "
        "and works through everything once for each rank.",
        fix="sampler = DistributedSampler(dataset, shuffle=True)\n"
        "DataLoader(dataset, batch_size=..., sampler=sampler)  # and sampler.set_epoch(epoch) in each epoch",
        refuted_by=f"The {count(samples)} samples are the rank's own share of the data.",
    )


def _one_grows(ranks: Mapping[int, _Rank]) -> Finding | None:
    """C11: the loss of one rank grows, while those of all others fall."""
    courses = {number: rank.losses for number, rank in sorted(ranks.items()) if len(rank.losses) >= LOSSES_MIN}
    if len(courses) < RANKS_MIN:
        return None
    changes = {number: _change(losses) for number, losses in courses.items()}
    grown = [number for number, change in changes.items() if change >= GROWS]
    if len(grown) != 1 or any(change > FALLS for number, change in changes.items() if number not in grown):
        return None
    losses = courses[grown[0]]
    return Finding(
        id="C11",
        severity="warning",
        confidence="likely",
        title=f"The loss of rank {grown[0]} grows, and those of the others fall",
        evidence=tuple(
            Fact(f"rank {number}: from {metric(each[0])} to {metric(each[-1])}", each[-1], "log")
            for number, each in ((grown[0], losses), *((n, c) for n, c in courses.items() if n != grown[0]))
        )[:4],
        cause="The ranks share one model, so the data of this one is another: labels that are numbered or shifted in "
        "another way, a damaged file, other preparation.",
        fix=f"# rank {grown[0]}: look at some of its samples and their labels\n"
        "dist.all_reduce(loss, op=dist.ReduceOp.AVG)  # and log the mean of all ranks: rank 0 hides this",
        refuted_by="Its data is meant to be of another kind.",
    )


def _keep(values: list[float], value: float) -> None:
    """Add a value, and drop every second one before it if there are too many."""
    values.append(value)
    if len(values) > KEPT:
        del values[1:-1:2]


def _change(losses: Sequence[float]) -> float:
    """Return how many times the mean of the last quarter is that of the first."""
    quarter = max(1, len(losses) // 4)
    first = statistics.fmean(losses[:quarter])
    return statistics.fmean(losses[-quarter:]) / first if first > 0 else 1.0


def _means(rank: _Rank) -> dict[str, float]:
    """Return the mean seconds of each part of a rank's steps; empty if it has printed too few."""
    return {name: statistics.fmean(values) for name, values in rank.parts.items() if len(values) >= LINES_MIN}


def _others(means: dict[int, dict[str, float]]) -> set[str]:
    """Return the parts that all ranks print, apart from the data and the whole step."""
    common = set.intersection(*(set(parts) for parts in means.values()))
    return {name for name in common if not _DATA.match(name) and not _WHOLE.match(name)}
