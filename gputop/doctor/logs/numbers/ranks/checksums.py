"""Checksums or norms of the weights that each rank prints: they differ if nothing averages the gradients. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.setting import Setting

TURNS_MIN = 2
"""In at least this many epochs or steps, all ranks print it and no two agree (our choice)."""
SAME_WITHIN = 5e-5
"""Sums and norms that differ by this share of them or less are the same (our choice)."""
TURNS_MAX, RANKS_MAX = 4096, 1024
_CHECKSUM = re.compile(
    r"(?i)(?:\|w\||重み\w{0,4}(?:総和|合計|ノルム)|权重(?:之?和|范数)|"
    r"\b(?:w|weights?)[ _]norm\b|\bnorm(?: of)?(?: the)? weights\b|\bparam(?:eter)?s?[ _-]?sum\b|"
    r"\b(?:param(?:eter)?s?|weights?|model)[ _-]?(?:check ?sum|norm|l2|hash|md5|digest|fingerprint)\b)[ :=]{1,3}"
    r"([0-9a-f]{6,64}\b|-?\d{1,12}\.\d{1,12})"
)
_TURN = re.compile(r"(?i)(?<![a-z])(?:epoch|step|iter(?:ation)?|it|ep)\W{0,4}(\d{1,9})\b")
_WORDS = ("param", "weight", "model", "|w|", "w norm", "w_norm", "重み", "权重")
_SHARDED = ("fsdp", "sharded", "sharding", "zero3", "zero-3", "zero stage", "fully_shard", "expert", "moe")


class Checksums:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._is_sharded = False
        self._setting: Setting | None = None
        self._turns: dict[tuple[int, ...], dict[int, str]] = {}
        """What each rank printed, by the epoch and the step."""
        self._ranks: set[int] = set()

    def read(self, line: Line) -> None:
        """Take the next line."""
        self._setting = line.setting
        self._is_sharded = self._is_sharded or any(word in line.lower for word in _SHARDED)
        speaker = line.speaker
        if speaker is None or speaker.rank is None or not speaker.is_named or not any(word in line.lower for word in _WORDS):
            return
        printed = _CHECKSUM.search(speaker.rest)
        turn = tuple(map(int, _TURN.findall(speaker.rest)[:2])) if printed is not None else ()
        if printed is None or not turn or not (speaker.rank in self._ranks or len(self._ranks) < RANKS_MAX):
            return
        self._ranks.add(speaker.rank)
        if turn in self._turns or len(self._turns) < TURNS_MAX:
            self._turns.setdefault(turn, {})[speaker.rank] = printed[1]

    def findings(self) -> tuple[Finding, ...]:
        """Return that the weights of the ranks are not the same, if so."""
        whole = [each for each in self._turns.values() if len(each) == len(self._ranks)]
        begun = next((at for at, each in enumerate(whole) if len(set(each.values())) > 1), len(whole))
        apart = [each for each in whole if len(set(each.values())) == len(each) and _differ(each.values())]
        # They may be equal at first: DDP and a seed make them so, and only the steps move them apart.
        setting = self._setting
        if setting is None or setting.is_one_model or setting.are_apart:
            return ()
        if self._is_sharded or len(self._ranks) < 2 or len(apart) < max(TURNS_MIN, len(whole) - begun):
            return ()
        newest = apart[-1]
        return (
            Finding(
                id="C03",
                severity="error",
                confidence="likely",
                title=f"The weights of {words.count(len(newest), 'rank')} differ: nothing averages their gradients",
                evidence=(
                    *(Fact(f"rank {rank}: {newest[rank]}", newest[rank], "log") for rank in sorted(newest)[:4]),
                    Fact(
                        f"so in {words.count(len(apart), 'report')}, all {'later ones' if begun else 'there are'}",
                        len(apart),
                        "log",
                    ),
                ),
                cause="Each rank trains a model of its own on its part of the data. The one that is saved has seen no more "
                "than one GPU would have in this time.",
                fix="model = DistributedDataParallel(model, device_ids=[local_rank])  # and call it, not model.module",
                refuted_by="The ranks hold different parts of one model, or are averaged only from time to time.",
            ),
        )


def _differ(values: Iterable[str]) -> bool:
    """Return whether they differ by more than the order in which numbers are added up."""
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return True  # digests
    return max(numbers) - min(numbers) > SAME_WITHIN * max(map(abs, numbers))
