"""Ids of samples that each rank prints: the same on all of them if nothing divides the data. Pure."""

from __future__ import annotations

import re

from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.setting import Setting
from gputop.doctor.logs.numbers.speakers import Turns

TURNS_MIN = 5
"""At this many steps or more, all ranks print the same id, a different one each time; one list of ids is enough (our
choice)."""
LISTED_MIN = 4
"""Samplers with different seeds would not agree on this many unsorted ids in one line (our choice)."""
TURNS_MAX, RANKS_MAX = 4096, 1024
_ID = re.compile(
    r"(?i)(?<![a-z])(?<!batch )(?<!batch_)(?:(?:doc(?:ument)?|sample|clip|example|image|img|utt(?:erance)?|item|row|record|"
    r"file|first|seen)[ _]?)"
    r"(?:(?:doc(?:ument)?|sample|clip|example|image|img|utt(?:erance)?|item|row|record|file|batch)s?[ _]?)?"
    r"(?:ids?|idx|indices|index|uids?)\b[\"']?[ :=#]{0,3}"
    r"(?P<ids>\[[\w, .'\"-]{1,200}\]?|\d{1,12}\b)"
    r"|\bover (?P<frames>\d{4,9}\.\d\d) frames\b"
    r"|(?<![a-z])first (?:batch|samples?|items?|files?|clips?|images?|documents?)[ :=]{1,3}(?P<named>\[[\w, ./'\"-]{1,200}\]?)"
)
_TURN = re.compile(r"(?i)(?<![a-z])(?:step|iter(?:ation)?|batch|it)\W{0,4}(\d{1,9})\b")
_WORDS = ("id", "indices", "index", "first", "frames")
_OF_ITS_OWN = ("preview", "visuali", "probe", "local", "shard of", "prompt", "vote")
"""Samples that are meant to be the same, and numbers that count within a rank's own share."""


class SameSamples:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._setting: Setting | None = None
        self._turns: dict[int, dict[int, str]] = {}
        """The id that each rank printed, by the step; under -1 the list that it printed before its first."""
        self._named: set[int] = set()
        self._numbered: set[int] = set()
        self._numbers = Turns()

    def read(self, line: Line) -> None:
        """Take the next line."""
        self._setting = line.setting
        speaker = line.speaker
        if speaker is None or speaker.rank is None:
            return
        if not speaker.is_named:
            self._numbers.take(str(speaker.rank))
        found = _ID.search(speaker.rest) if any(word in line.lower for word in _WORDS) and not line.is_of_evaluation else None
        ranks = self._named if speaker.is_named else self._numbered
        if any(word in line.lower for word in _OF_ITS_OWN):
            found = None
        if found is None or not (speaker.rank in ranks or len(ranks) < RANKS_MAX):
            return
        ids = re.findall(r"[\w./-]+", found["ids"] or found["named"] or found["frames"])
        turn = _TURN.search(speaker.rest)
        if turn is None and (len(set(ids)) < LISTED_MIN or ids == sorted(ids, key=lambda each: (len(each), each))):
            return
        ranks.add(speaker.rank)
        step = -1 if turn is None else int(turn[1])
        if step in self._turns or len(self._turns) < TURNS_MAX:
            self._turns.setdefault(step, {})[speaker.rank] = " ".join(ids)

    def findings(self) -> tuple[Finding, ...]:
        """Return that all ranks see the same samples, if so."""
        ranks = self._named or (self._numbered if self._numbers.are_taken else set())
        setting = self._setting
        if setting is None or setting.is_one_model or setting.are_apart or not setting.trains:
            return ()
        if len(ranks) < 2 or ranks != set(range(len(ranks))):
            return ()
        whole = {step: each for step, each in sorted(self._turns.items()) if each.keys() >= ranks}
        if not whole or any(len(set(each.values())) > 1 for each in whole.values()):
            return ()
        ids = [next(iter(each.values())) for step, each in whole.items() if step >= 0]
        is_listed = -1 in whole
        if not is_listed and (len(set(ids)) < TURNS_MIN or ids == sorted(ids, key=lambda each: (len(each), each))):
            return ()
        example = whole[-1][0] if is_listed else ids[-1]
        return (
            Finding(
                id="C05",
                severity="warning",
                confidence="likely" if self._named else "possible",
                title=f"All {words.count(len(ranks), 'rank')} train on the same samples",
                evidence=(
                    Fact(f"each rank: {example[:160]}", example[:160], "log"),
                    *(() if is_listed else (Fact(f"so at {words.count(len(ids), 'step')}, all there are", len(ids), "log"),)),
                ),
                cause="Nothing divides the data among the ranks, and each draws with the same seed: all of them compute "
                "the same gradients, and the run learns no faster than on one GPU.",
                fix="sampler = DistributedSampler(dataset, shuffle=True)  # and sampler.set_epoch(epoch) in each epoch\n"
                "dataset = split_dataset_by_node(dataset, rank=rank, world_size=world_size)  # a stream",
                refuted_by="The ranks are parts of one model (tensor or pipeline parallelism) and have to see the same.",
            ),
        )
