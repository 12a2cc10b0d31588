"""What each rank prints of itself in one log: its batches, its samples, and the parts of its steps. Pure.

Only lines that begin with the number of a rank or a GPU count: "[rank 2] step 100 data 1.0s fwd 0.1s bwd 0.2s".
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.parts import LINES_MIN, kind_of
from gputop.doctor.logs.numbers.ranks.one_is_late import one_is_late
from gputop.doctor.logs.numbers.ranks.rank_losses import one_grows
from gputop.doctor.logs.numbers.ranks.uneven_work import uneven_work
from gputop.doctor.logs.numbers.setting import Setting
from gputop.doctor.logs.numbers.speakers import Turns
from gputop.units import count

RANKS_MAX = 1024
"""At most this many ranks are followed."""
HOSTS_MAX = 4096
"""At most this many hosts are followed."""
PARTS_MAX, TOTALS_MAX = 64, 16
"""At most this many parts, and this many totals, are kept for a rank: if there are more, none is typical."""
KEPT = 4096
"""At most this many values of each kind are kept for a rank, however long the log is."""
_BATCH = re.compile(
    r"\b(?:batch(?:es)?|iter(?:ation)?|step)\W{1,3}\d{1,9}\s?/\s?(?P<of>\d{1,9})\b"
    r"|\bepoch\W{0,3}\d{1,6}\W{1,4}\d{1,9}\s?/\s?(?P<whole>\d{1,9})\b",
    re.IGNORECASE,
)
_N = r"\d{1,3}(?:[ ,_]\d{3}){1,4}(?!\d)|\d{3,12}"
_SAMPLES = re.compile(
    rf"\b({_N}) (?:samples|images|rows|examples|sequences)\b(?! ?(?:/|per|seen))|"
    rf"\b(?:data[ _]?set|train(?:ing)?(?:[ _]?set)?)(?:_len|_size)?\W{{1,4}}({_N})\b",
    re.IGNORECASE,
)
_WHOLE_SET = re.compile(rf"\b({_N}) of ({_N}) (?!batch|step|iter|epoch|rank|file|shard|worker|node)[a-z]", re.IGNORECASE)
"""A rank has gone through all samples: "saw 50000 of 50000 images"."""
_LENGTH = re.compile(r"(?i)\bdata_?set_(?:len|length|size)\W{1,4}(\d{3,12})\b")
_SEEN = re.compile(r"(?i)\b(?:samples|images|examples|rows)_seen\W{1,4}(\d{3,12})\b")
_STATED = re.compile(r"\b\d{2,12} [\w/-]{3,20}(?: \w{3,20})?, (\d{1,9}) batches\b", re.IGNORECASE)
"""The batches of a rank's own samples: "shard 2: 11259 utterances, 217 batches"."""
_BATCHES = re.compile(
    r"\b(?:(\d{1,9}) (?:batches|(?:steps|iterations|iters) (?:per|an|in an) epoch)\b|len\(\w{0,20}loader\)\s?=?\s?(\d{1,9}))",
    re.IGNORECASE,
)
_SIZE = re.compile(
    r"\b(?:batch(?:[ _-]?size)?|per[- ](?:rank|gpu|device) batch|batches of|bs)[ :=]{1,3}(\d{1,6})\b", re.IGNORECASE
)
_AMOUNT = re.compile(
    r"\b(tokens?|frames|nodes|edges|atoms|residues|points|pixels|samples|boxes|seqs)(?:\s?/\s?|_per_)?(?:step|batch)?"
    r"[ :=]{1,9}(\d{1,9})\b",
    re.IGNORECASE,
)
AMOUNT_TIMES = 1.3
"""A rank has more work if it gets this many times as much of something as is usual (our choice)."""
AMOUNT_WITHIN = 0.35
"""It computes longer by at least this share of the excess: not all of the work grows with it (our choice)."""
_OF_ALL = re.compile(
    r"\b(\d{3,12})\b[^\d\n]{1,60}(?:\b(?:per|por|par|pro|на)[ -]?|/)(?:gpu|rank|device|process|carte|karte)\b"
    r"\D{0,12}(\d{1,6})\b",
    re.IGNORECASE,
)
"""The samples of all ranks and the batch of each, in a line that belongs to no rank: "training images: 48210, batch per GPU:
32"."""
_SECONDS = re.compile(r"\d ?m?s\b|\((?:m?s|sec)\)")
_LOSS = re.compile(r"(?<![A-Za-z])(?:\w{1,20}_)?loss[ :=]{1,4}(\d{1,9}\.\d{1,9})\b", re.IGNORECASE)


@dataclass
class PrintedRank:
    """What one rank has printed."""

    totals: Counter[int] = field(default_factory=Counter)
    """How often it printed each number of batches in an epoch."""
    data_set: tuple[int, int, int] | None = None
    """How many samples, how many batches, and how many samples in a batch."""
    wholes: Counter[int] = field(default_factory=Counter)
    """How often it said that it went through all samples, by how many these were."""
    stated: int | None = None
    """How many batches it says its samples make."""
    parts: dict[str, list[float]] = field(default_factory=dict)
    """The seconds of each part of its steps, or in another unit that it does not print."""
    unit: str = ""
    loader: int | None = None
    """How many batches it says its loader has."""
    length: int = 0
    """How many samples it says there are."""
    losses: list[float] = field(default_factory=list)
    amounts: dict[str, list[float]] = field(default_factory=dict)
    """How much there was of something in each step: tokens, frames."""

    def take(self, text: str, parts: Mapping[str, float]) -> None:
        """Take what follows the number in one of its lines, and the parts of a step in it."""
        batch = _BATCH.search(text)
        if batch is not None:
            _count(self.totals, int(batch["of"] or batch["whole"]))
        samples, batches, size = _SAMPLES.search(text), _BATCHES.search(text), _SIZE.search(text)
        if samples is not None and batches is not None and size is not None and int(size[1]):
            self.data_set = _number(samples[1] or samples[2]), int(batches[1] or batches[2]), int(size[1])
        self.loader = int(batches[1] or batches[2]) if batches is not None else self.loader
        self._take_whole(text)
        whole = _WHOLE_SET.search(text)
        if whole is not None and (number := _number(whole[1])) == _number(whole[2]):
            _count(self.wholes, number)
        stated = _STATED.search(text)
        self.stated = int(stated[1]) if stated is not None else self.stated
        loss = _LOSS.search(text)
        if loss is not None:
            _keep(self.losses, float(loss[1]))
        amount = _AMOUNT.search(text) if parts else None
        if amount is not None and (amount[1].lower() in self.amounts or len(self.amounts) < TOTALS_MAX):
            _keep(self.amounts.setdefault(amount[1].lower(), []), float(amount[2]))
        if len(parts) > 1:
            self.take_parts(text, parts)

    def _take_whole(self, text: str) -> None:
        """Take the length of the data set, and how much of it the rank has seen."""
        length = _LENGTH.search(text) if "set_" in text else None
        seen = _SEEN.search(text) if "_seen" in text else None
        self.length = int(length[1]) if length is not None else self.length
        if seen is not None and int(seen[1]) == self.length:
            _count(self.wholes, self.length)

    def take_parts(self, text: str, parts: Mapping[str, float]) -> None:
        """Take the parts of a step."""
        self.unit = " s" if _SECONDS.search(text) else self.unit
        for name, seconds in parts.items():
            if name in self.parts or len(self.parts) < PARTS_MAX:
                _keep(self.parts.setdefault(name, []), seconds)


class EachRank:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start without any rank."""
        self._named: dict[int, PrintedRank] = {}
        """Ranks whose lines name them: "rank 2", "gpu 2"."""
        self._numbered: dict[int, PrintedRank] = {}
        """Bare numbers at the beginning of a line, which may be those of ranks or of anything else."""
        self._hosts: dict[str, PrintedRank] = {}
        self._numbers, self._names = Turns(), Turns()
        self._of_all: tuple[int, int] | None = None
        """The samples of all ranks, and the batch of each."""
        self._setting: Setting | None = None

    def read(self, line: Line) -> None:
        """Take the next line."""
        speaker, parts = line.speaker, line.parts
        self._setting = line.setting
        if speaker is None and self._of_all is None and (stated := _OF_ALL.search(line.text)) is not None:
            self._of_all = int(stated[1]), int(stated[2])
        if speaker is None or line.is_of_evaluation:
            return
        if speaker.host is not None and len(parts) > 1 and (speaker.host in self._hosts or len(self._hosts) < HOSTS_MAX):
            self._hosts.setdefault(speaker.host, PrintedRank()).take_parts(speaker.rest, parts)
            self._names.take(speaker.host)
        if speaker.rank is not None:
            ranks = self._named if speaker.is_named else self._numbered
            if speaker.rank not in ranks and len(ranks) >= RANKS_MAX:
                return
            ranks.setdefault(speaker.rank, PrintedRank()).take(speaker.rest, parts)
            if not speaker.is_named:
                self._numbers.take(str(speaker.rank))

    def findings(self) -> tuple[Finding, ...]:
        """Return what the ranks' own numbers say together, or those of the hosts."""
        ranks = self._named if len(self._named) > 1 or not self._numbers.are_taken else self._numbered
        if self._numbers.are_taken and self._named.keys() == self._numbered.keys() and not any(map(_has_steps, ranks.values())):
            ranks = self._numbered  # "rank 2: shard 2" once, and then "r2 data 0.1 s" in each step
        hosts = self._hosts if self._names.are_taken else {}
        setting = self._setting
        if setting is None or setting.are_apart or setting.is_one_model:
            return ()
        of_hosts = one_is_late(_parts_by_name(hosts), "host", _unit_of(hosts.values())) if setting.names_ranks else None
        # Ranks count from 0; other numbers are those of matrices, recalls or jobs.
        if of_hosts is not None or len(ranks) < 2 or sorted(ranks) != list(range(len(ranks))):
            return () if of_hosts is None else (of_hosts,)
        named = {str(number): rank for number, rank in ranks.items()}
        judged = (
            more_work(ranks),
            one_is_late(_parts_by_name(named), "rank", _unit_of(named.values())),
            uneven_work(_parts_by_name(named)),
            None if setting.joins or not setting.trains else _unequal(ranks),
            _same_data(ranks, self._of_all),
            one_grows({number: rank.losses for number, rank in ranks.items()}),
        )
        found = [item for item in judged if item is not None]
        if ranks is self._numbered:
            # Numbers alone may be those of folds, seeds or jobs, which have counts and losses of their own, but do not wait.
            found = [replace(item, confidence="possible") if item.id in ("C07", "C11") else item for item in found]
        return tuple(found)


def _has_steps(rank: PrintedRank) -> bool:
    return bool(rank.parts or rank.losses or rank.totals)


def _parts_by_name(ranks: Mapping[str, PrintedRank]) -> dict[str, dict[str, list[float]]]:
    return {name: rank.parts for name, rank in ranks.items()}


def _unit_of(ranks: Iterable[PrintedRank]) -> str:
    return next((rank.unit for rank in ranks if rank.unit), "")


def more_work(ranks: Mapping[int, PrintedRank]) -> Finding | None:
    """Return F03 if the rank that computes for the longest gets the most of something, in the same proportion."""
    for what in set.intersection(*(set(rank.amounts) for rank in ranks.values())):
        amounts = {
            number: statistics.fmean(rank.amounts[what])
            for number, rank in ranks.items()
            if len(rank.amounts[what]) >= LINES_MIN
        }
        works = {number: _computes(rank) for number, rank in ranks.items()}
        if len(amounts) < len(ranks) or not all(works.values()) or min(amounts.values()) <= 0:
            continue
        most = max(amounts, key=amounts.__getitem__)
        times = amounts[most] / statistics.median(amounts.values())
        longer = works[most] / statistics.median(works.values())
        if most != max(works, key=works.__getitem__) or times < AMOUNT_TIMES or longer < 1 + (times - 1) * AMOUNT_WITHIN:
            continue
        least = min(amounts, key=amounts.__getitem__)
        return Finding(
            id="F03",
            severity="warning",
            confidence="likely",
            title=f"Rank {most} has more work in a step than the others, which wait for it",
            evidence=(
                Fact(
                    f"{what} in a step: {count(round(amounts[least]))} on rank {least}, "
                    f"{count(round(amounts[most]))} on rank {most}",
                    round(times, 2),
                    "log",
                ),
                Fact(f"it computes {longer:.1f} times as long as is usual for the ranks", round(longer, 2), "log"),
            ),
            cause="The samples of the ranks differ in length: data that is sorted by length and cut into one part for each "
            "rank, or batches of a fixed number of samples.",
            fix="DistributedSampler(dataset, shuffle=True)  # mixed lengths on each rank\n"
            "# or batches of about as many tokens on each rank, from one order that all ranks share",
            refuted_by="The rank's GPU is slower, and gets its work for that.",
        )
    return None


def _computes(rank: PrintedRank) -> float:
    """Return the mean seconds of the parts of a step in which a rank computes."""
    return sum(
        statistics.fmean(values)
        for name, values in rank.parts.items()
        if len(values) >= LINES_MIN and (kind_of(name) or "compute") == "compute"
    )


def _unequal(ranks: Mapping[int, PrintedRank]) -> Finding | None:
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


def _same_data(ranks: Mapping[int, PrintedRank], of_all: tuple[int, int] | None) -> Finding | None:
    """C05: each rank has as many batches as the whole data set, or says that it went through all of it.

    ``of_all``: the samples of all ranks, and the batch of each, if a line says so.
    """
    seen = {max(rank.wholes, default=0) for rank in ranks.values()}
    sets = {rank.data_set for rank in ranks.values()}
    one = next(iter(sets)) if len(sets) == 1 else None
    loaders = {rank.loader for rank in ranks.values()}
    if one is None and of_all is not None and len(loaders) == 1 and (loader := next(iter(loaders))) and of_all[1]:
        one = of_all[0], loader, of_all[1]
    if len(seen) == 1 and 0 not in seen:
        samples = next(iter(seen))
        fact = Fact(f"each of them went through {count(samples)} of {count(samples)}", samples, "log")
    elif one is not None and one[1] > 1 and one[0] // one[2] <= one[1] <= -(-one[0] // one[2]):
        samples, batches, size = one
        fact = Fact(f"{count(batches)} batches of {size} on each rank are all {count(samples)} samples", batches, "log")
    else:
        return None
    return Finding(
        id="C05",
        severity="warning",
        confidence="possible",
        title=f"Each of {words.count(len(ranks), 'rank')} goes through all {count(samples)} samples in an epoch",
        evidence=(fact,),
        cause="Without a DistributedSampler, each rank trains on the whole data set: an epoch takes as long as on one GPU, "
        "and works through everything once for each rank.",
        fix="sampler = DistributedSampler(dataset, shuffle=True)\n"
        "DataLoader(dataset, batch_size=..., sampler=sampler)  # and sampler.set_epoch(epoch) in each epoch",
        refuted_by=f"The {count(samples)} samples are the rank's own share of the data.",
    )


def _number(text: str) -> int:
    """Return a number with or without separators."""
    return int(re.sub(r"[ ,_]", "", text))


def _count(totals: Counter[int], total: int) -> None:
    if total in totals or len(totals) < TOTALS_MAX:
        totals[total] += 1


def _keep(values: list[float], value: float) -> None:
    """Add a value, and drop every second one before it if there are too many."""
    values.append(value)
    if len(values) > KEPT:
        del values[1:-1:2]
