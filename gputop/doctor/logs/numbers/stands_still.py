"""A run that says itself, to the end of its log, that nothing moves: heartbeats, monitors, ranks that still wait. Pure."""

from __future__ import annotations

import re
from collections import deque

from gputop import units
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.after import is_progress
from gputop.doctor.logs.numbers.line import Line

SAID_MIN, SPAN_S = 3, 120.0
"""At least this many lines say so, over at least this many seconds, and no line after them reports progress (our choice)."""
KEPT = 64
NEAR = 8
"""At most this many lines follow the last of them (our choice)."""
_WORDS = (
    "no ",
    "still ",
    "last ",
    "stuck ",
    "hung ",
    "hanging ",
    "waiting ",
    "unchanged ",
    "newest line",
    "alive",
    "heartbeat",
    "joined",
    "connected",
)
_STANDS = re.compile(
    r"(?i)\bno (?:\w{1,12} )?(?:progress|steps?|iterations?) (?:for|since|in)\b|\bunchanged (?:for|since) \d|"
    r"\bstill (?:blocked|hanging)\b|"
    r"\bstill waiting (?:for|at|in|on) .{0,40}?\b(?:ranks?|peers?|others|barrier|all_?reduce|collective|"
    r"rendezvous|store|nodes?|processes)\b|"
    r"\bstill in (?:the )?(?:backward|forward|all_?reduce|barrier|collective|init_process_group|\w{1,30}Parallel)\b|"
    r"\b(?:newest|last) line\b.{0,60}\bold\b|"
    r"\blast (?!checkpoint|ckpt|sav)(?:\w{1,12} )?(?:step|iteration)\b.{0,40}\bago\b|\blast step\b.{0,200}\bidle \d|"
    r"\b(?:stuck|hung|hanging) (?:in|at|for|since)\b|"
    r"\bwaiting (?:for|at|in|on) (?:\w{1,20} ){0,3}(?:ranks?|peers?|barrier|all_?reduce)\b"
)
_JOINED = re.compile(
    r"(?i)\bjoined (\d{1,5}) (?:of|/) (\d{1,5})|"
    r"\b(\d{1,5}) ?(?:of|/) ?(\d{1,5}) (?:ranks?|processes|peers) (?:joined|connected)"
)
_BEFORE_ALL = re.compile(r"(?i)\bstill in init_process_group\b|\bjoined \d|\b(?:ranks?|processes|peers) (?:joined|connected)\b")
_PASSED = re.compile(r"(?i)\bexit(?:ed)?(?: code)?[ =]0\b|\bbarrier passed\b|\bpassed the barrier\b|\b(?:leaving|starting)\b")
_WENT_ON = re.compile(rf"{_PASSED.pattern}|\b(?:done|finished|completed?|saved|succeeded|ready|all joined)\b")
_OF_RANKS = re.compile(
    r"(?i)\b(?:rank|ddp|fsdp|nccl|gloo|torchrun|world.size|rendezvous|all_?reduce|backward|init_process_group)|Parallel\b"
)
_SAID_S = re.compile(r"(?i)\b(\d{1,6}(?:\.\d{1,3})?) ?(s|sec|seconds|min|minutes?|h|hours?)\b")
_ALIVE = re.compile(r"(?i)\b(?:alive|heartbeat)\b.{0,60}\b(?:step|iter(?:ation)?)\W{1,3}(\d{1,12})\b")
"""A heartbeat with the step at which its rank is."""
_OTHER_WAITS = re.compile(
    r"(?i)\b(?:val|valid|metrics?|patience|best|evals?|early.?stopping|upload\w*|queued?|requests?|compil\w*|evaluat\w*|"
    r"resources|placement|replay|buffer|loss|epochs)\b"
)
"""What is said of a metric, or of something that waits alongside the training."""
AGO_MIN_S = 60.0
"""A last step is long ago from here on (our choice)."""
_STEP = re.compile(r"(?i)\bstep\W{1,3}(?:r\d{1,4}=)?(\d{1,12})\b")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class StandsStill:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._said: deque[tuple[str, float | None, float]] = deque(maxlen=KEPT)
        """The lines since the last progress, when they were written, and the seconds that they state."""
        self._first: tuple[float | None, float] = None, 0.0
        self._of_training = False
        """Whether the log reports progress or speaks of ranks: a server or a queue also waits."""
        self._alive_at = -1
        """The step of the last heartbeat."""
        self._number = self._after = 0
        """How many such lines there were, and how many other lines came after the last of them."""

    def read(self, line: Line) -> None:
        """Take the next line."""
        text = line.text
        self._after += bool(text.strip())
        self._of_training = self._of_training or is_progress(line.rest) or _OF_RANKS.search(text) is not None
        if any(word in line.lower for word in _WORDS) and self._says_so(line):
            self._after = 0
            stated = max(_seconds(text), default=0.0)
            self._first = self._first if self._number else (line.at, stated)
            self._number += 1
            self._said.append((line.printed.strip(), line.at, stated))
        elif self._number and (is_progress(line.rest) or _WENT_ON.search(text) is not None):
            self._said.clear()
            self._number = 0

    def _says_so(self, line: Line) -> bool:
        """Return whether a line says that the training stands still."""
        text = line.text
        if _PASSED.search(text) is not None or _OTHER_WAITS.search(text) is not None:
            return False
        if not _stands(text):
            return self._is_at_the_same_step(text)
        step = _STEP.search(text)
        if step is not None:
            before, self._alive_at = self._alive_at, int(step[1])
            if self._alive_at != before:  # it went on since
                self._said.clear()
                self._number = 0
        return True

    def _is_at_the_same_step(self, text: str) -> bool:
        """Return whether a heartbeat says the step that the one before has said."""
        alive = _ALIVE.search(text)
        if alive is None:
            return False
        before, self._alive_at = self._alive_at, int(alive[1])
        if self._alive_at != before:
            self._said.clear()
            self._number = 0
        return self._alive_at == before

    def findings(self) -> tuple[Finding, ...]:
        """Return that the run stands still, if it says so to the end."""
        if self._number < SAID_MIN or self._after > NEAR or not self._of_training:
            return ()
        text, at, stated = self._said[-1]
        begun_at, stated_at_first = self._first
        span = at - begun_at if at is not None and begun_at is not None else stated - stated_at_first
        lasted = max(span, stated)
        if span < SPAN_S:
            return ()
        before_all = any(_BEFORE_ALL.search(line) is not None for line, _, _ in self._said)
        evidence = (
            Fact(text[:200], lasted, "log"),
            Fact(f"{units.count(self._number)} lines to the end of the log say that nothing moves", self._number, "log"),
        )
        if before_all:
            return (
                Finding(
                    id="G03",
                    severity="error",
                    confidence="likely",
                    title=f"Ranks have waited for the others to join for {units.duration(lasted)}",
                    evidence=evidence,
                    cause="The others were not started, have ended, or meet at another address or port.",
                    fix="# are all nodes started, each with its own number, the same address, port and number of nodes?\n"
                    "torchrun --nnodes=2 --node-rank=0 --nproc-per-node=gpu --master-addr=HOST --master-port=29500 train.py",
                    refuted_by="The others joined later.",
                ),
            )
        return (
            Finding(
                id="G01",
                severity="error",
                confidence="likely",
                title=f"The training hangs: nothing has moved for {units.duration(lasted)}",
                evidence=evidence,
                cause="The ranks wait in a collective operation that one of them did not enter, or whose data does not get "
                "through; or one waits for a worker, a file or a lock.",
                fix="gputop where  # on the host: where each rank is now\n"
                "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 torchrun ...  # the next time: in which one",
                refuted_by="It goes on after the end of this log.",
            ),
        )


def _stands(text: str) -> bool:
    """Return whether a line says that nothing moves, or that others have not joined yet."""
    joined = _JOINED.search(text)
    if joined is not None:
        number, whole = (int(group) for group in joined.groups() if group is not None)
        return number < whole
    stands = _STANDS.search(text)
    if stands is None:
        return False
    stated = _seconds(text)
    return max(stated, default=0.0) >= AGO_MIN_S if stands[0].lower().endswith("ago") else any(stated or (1.0,))


def _seconds(text: str) -> list[float]:
    """Return the times that a line states."""
    return [float(number) * _UNITS[unit[0].lower()] for number, unit in _SAID_S.findall(text)]
