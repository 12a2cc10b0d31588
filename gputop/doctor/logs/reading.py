"""What the lines of a log say: known texts, exceptions with their place, torchrun's summary, and whether the log continues.

Follows Python tracebacks per rank by the line prefix ("[rank0]:"), through chained exceptions. Takes lines as text; ``scan``
decides which. Pure.
"""

from __future__ import annotations

import re
from dataclasses import replace

from gputop.doctor.logs.after import (
    Afterwards,
    Position,
    Tail,
    is_progress,
    last_position,
    position_of,
    says_replaced,
    says_went_on,
)
from gputop.doctor.logs.blocks import OPEN_MAX, Blocks, Key
from gputop.doctor.logs.error_lines import kind_of
from gputop.doctor.logs.heads import Head, extended, head_of, joined
from gputop.doctor.logs.kept import Kept
from gputop.doctor.logs.last_words import LastWords
from gputop.doctor.logs.launcher import ROOT, Summary, number
from gputop.doctor.logs.lines import is_warning, level_of, quote_of, rank_and_text, time_of, unboxed
from gputop.doctor.logs.observation import Observation
from gputop.doctor.logs.patterns.table import matches
from gputop.doctor.logs.pieces import Pieces
from gputop.doctor.logs.quoted.passed_tests import PassedTests
from gputop.doctor.logs.starts import Start
from gputop.doctor.logs.tracebacks import BEGIN, OF_A_RANK, TRACEBACK, Traceback, is_frame, is_source
from gputop.doctor.logs.trouble import trouble_in

TOP_LINES = 40
"""A traceback whose beginning is missing has its first frame within this many lines."""
_OF_A_CHECKPOINT = "RuntimeError: Error(s) in loading state_dict for "
_ABORT = re.compile(
    r"core dumped|^(?:Aborted|Segmentation fault)\W{0,3}$|^Fatal Python error|^srun: error: |Exited with exit code"
)
"""Not "Killed": a killed process has not failed with an exception before, and writes no buffered output afterwards."""


class Reading:
    """The state of one log between its lines. ``pieces`` numbers the lines, and knows which may contain a known text."""

    def __init__(self, name: str, rank: int | None, written_at: float | None, pieces: Pieces) -> None:
        self.ranks: set[int] = set() if rank is None else {rank}
        self.progress = 0
        self.tail = Tail()
        self.blocks = Blocks(self._ended)
        self.kept = Kept()
        self.summary = Summary()
        self.last_words = LastWords()
        self.start = Start()
        self._name = name
        self._rank = rank
        self._written_at = written_at
        self._pieces = pieces
        self._after = Afterwards()
        self._tests = PassedTests()
        self._heads: dict[Key, Head] = {}
        self._previous = ""
        """The line before the current one."""
        self._quote = ""
        """The margin or the spaces before the current line."""
        self._top = True
        """Whether everything so far may be the rest of a traceback whose beginning is missing."""
        self._top_lines = 0
        self._before = b""
        """The bytes before the current lines, from which ``_position`` is read when needed."""
        self._position: Position | None = None

    def follows(self) -> bool:
        """Return whether every line counts now: at the top, in a traceback or summary, or after a text that may be the end."""
        if self.summary.open or self._top or self.blocks.open or self._heads:
            return True
        return self._after.waiting or self.last_words.waiting

    def look_back(self, before: bytes) -> None:
        """Take the bytes before the next line: they may show where the training was."""
        self._before, self._position = before, None

    def announce(self, before: bytes) -> None:
        """Take the bytes before a line that follows skipped ones: they may announce a chained or an ignored exception."""
        lines = [line for line in before.decode("utf-8", "replace").splitlines() if line.strip()][-2:]
        self._previous = lines[-1] if lines else ""
        self.blocks.announce(lines)

    def line(self, text: str, at: int) -> None:
        """Read a line; ``at`` is its number."""
        self._line(text, at)
        self._previous = text

    def begin_anew(self) -> None:
        """Close everything that is open, because a part of the log is skipped."""
        self._read_heads()
        self.blocks.close_all()
        self.summary.open = False
        self._top, self._top_lines = True, 0

    def end(self) -> None:
        """Close everything that is open, and record how the log ends."""
        self._read_heads()
        self._read_end()
        for block in self.blocks.open.values():
            if block.ends_within:
                line, at = (block.begin or TRACEBACK).strip(), self._pieces.lines
                seen = Observation(line, self._name, self._pieces.number(at), block.rank, where=block.place, at=at)
                self.last_words.add("cut", seen)
        self.blocks.close_all()

    def _read_end(self) -> None:
        """Keep the trouble that the log ends with, if nothing else is known about its end."""
        if self.blocks.open or self.kept.any or self.last_words.words:
            return
        lines = self._pieces.ending()
        place = trouble_in([rank_and_text(line)[1] for line in lines])
        if place is not None:
            rank, text = rank_and_text(lines[place])
            rank = self._rank if rank is None else rank
            at = max(1, self._pieces.lines - (len(lines) - 1 - place))
            time = time_of(lines[place], self._written_at)
            self.last_words.add("trouble", Observation(text.strip(), self._name, 0, rank, time, at=at))

    def _line(self, raw: str, at: int) -> None:
        prefixed, text = rank_and_text(raw)
        self._quote = quote_of(text.rstrip())
        text = unboxed(text)
        key, text = self.blocks.whose(prefixed, text)
        # Expressions that end with optional spaces take quadratic time in the number of spaces.
        spaced, text = text, text.rstrip()
        rank = prefixed if prefixed is not None else self._rank
        head = self._heads.pop(key, None)
        if head is not None:
            longer = extended(head, text, raw, at)
            if longer is not None:
                self._heads[key] = longer
                return
            whole = joined(head, text) if not head.rest else None
            self._pieces.widen()  # the first line may be from another piece
            if whole is not None:
                self._read(whole, head.raw, key, rank, head.at)
                return
            self._read_parts(head, key, rank)
        head = head_of(text, spaced, self._previous, at)
        if head is not None:
            self._heads[key] = replace(head, raw=raw)
            if len(self._heads) > OPEN_MAX:
                self._read_head(next(iter(self._heads)))
            return
        self._read(text, raw, key, rank, at)

    def _read_top(self, text: str, key: Key) -> None:
        """Begin a traceback at its first frame if the log, or the part that is read, begins inside one."""
        if is_frame(text):
            self._begin(key, False).headless = True
        self._top_lines += 1
        # The first line may be incomplete.
        whole = self._top_lines > 1 and text.strip() and text[:1] not in (" ", "\t")
        self._top = not self.blocks.open and not whole and self._top_lines < TOP_LINES

    def _read_heads(self) -> None:
        """Read the first lines whose reason did not arrive, by themselves."""
        for key in list(self._heads):
            self._read_head(key)

    def _read_head(self, key: Key) -> None:
        head = self._heads.pop(key)
        self._pieces.widen()
        self._read_parts(head, key, key if isinstance(key, int) else self._rank)

    def _read_parts(self, head: Head, key: Key, rank: int | None) -> None:
        """Read lines that were held as one, or each by itself if only their width suggests it and nothing is known of it."""
        if head.rest and head.doubtful and not matches(head.text):
            self._read(head.first, head.raw, key, rank, head.at)
            for text, raw, at in head.rest:
                self._read(text, raw, key, rank, at)
            return
        self._read(head.text, head.raw, key, rank, head.at)

    def _read(self, text: str, raw: str, key: Key, rank: int | None, at: int) -> None:
        self.blocks.speaks(key)
        self.start.line(text, self._pieces.number(at), at)
        begun_at = self._tests.line(text, at)
        if begun_at is not None:
            self.blocks.close_all()
            self.kept.provoked(begun_at, at)
        if self.summary.open:
            self.summary.line(text)
        if ROOT in text:
            self._after.failed()
            self.tail.error()
            self.summary.begin()
            return
        if BEGIN.search(text) is not None and not self.summary.open:
            self._read_begin(text, raw, key)
            return
        if self._top:
            self._read_top(text, key)
        block = self.blocks.open.get(key)
        if block is None and text.startswith(_OF_A_CHECKPOINT) and not self.summary.open:
            block = self._begin(key, False)  # its names follow, line by line, also without the frames above
            block.headless = True
        if block is not None and block.rank is not None:
            rank = block.rank
        block, text = self._in_traceback(text, key, at)
        if block is not None and not block.in_message and text[:1] in (" ", "\t"):
            return  # a line of source code that a traceback quotes
        may_be_known = block is not None or self.summary.open or self._after.waiting
        may_be_known = may_be_known or any(known in text for known in self._pieces.may_be_known)
        found = matches(text) if may_be_known and not is_source(text) else ()
        if block is not None:
            found = tuple(item for item in found if item[0].raised)
        if self._after.waiting and block is None and (not found or _ABORT.search(text) is not None):
            self._note_progress(text, key, time_of(raw, self._written_at))
        if block is None and not self.summary.open:
            if is_progress(text):
                self._position = position_of(text)
            self._weigh(text, raw, rank, at, bool(found))
        excepted = block if block is not None and block.in_message else None
        if excepted is not None and found:
            excepted.known = True
        warned = bool(found) and is_warning(text)
        for pattern, groups in found:
            of_rank = rank if rank is not None else number(groups.get("rank"))
            if of_rank is None and self.summary.open and self.summary.root is not None:
                of_rank = self.summary.root.rank
            self._note(
                Observation(
                    text.strip(),
                    self._name,
                    self._pieces.number(at),
                    of_rank,
                    time_of(raw, self._written_at),
                    pattern,
                    groups,
                    None if excepted is None else excepted.place,
                    block=0 if excepted is None else excepted.number,
                    warned=warned,
                    went_on=(warned and says_went_on(text))
                    or (self.blocks.is_warned(key) if excepted is not None else says_replaced(text)),
                    quoted_by="" if excepted is None else self.blocks.quoted_by(key, excepted),
                    in_library=excepted is not None and excepted.where is None,
                    at=at,
                )
            )

    def _read_begin(self, text: str, raw: str, key: Key) -> None:
        """Begin a traceback with its first line."""
        self._top = False
        self._after.failed()
        of_a_rank = OF_A_RANK.search(text) is not None
        within = of_a_rank and key in self.blocks.open and self.blocks.open[key].in_message
        block = self._begin(key, within or "Original Traceback" in text)
        block.cut = is_progress(text)
        block.begin = text
        block.announced_by = level_of(self._previous)
        block.logged_at = time_of(raw, self._written_at)
        if len(self._quote) > 1 and "+-" not in self._previous and text.lstrip().startswith("Traceback"):
            block.quote, block.own_words = self._quote, True
        block.notebook = not (of_a_rank or text.rstrip().endswith(":"))

    def _in_traceback(self, text: str, key: Key, at: int) -> tuple[Traceback | None, str]:
        """Add a line to its writer's traceback; return the traceback if it continues, and the line without its margin."""
        block = self.blocks.open.get(key)
        if block is not None and block.quote and text.strip() and not self._quote.startswith(block.quote):
            if block.exception is None:
                block.quote, block.own_words = "", False
            else:
                self.blocks.close(key)
                return None, text
        if block is None:
            return None, text
        text = text.removeprefix(block.quote) if block.quote.isspace() else text
        self.blocks.extend(key, text, at)
        return self.blocks.open.get(key), text

    def _weigh(self, text: str, raw: str, rank: int | None, at: int, known: bool) -> None:
        """Keep a line that may be the log's last word, or mark those before it as survived."""
        kind = None if known or is_warning(text) else kind_of(text)
        if kind is None:
            self.last_words.line(text)
            if not known:
                self.tail.line(text)
        elif not says_went_on(text):
            self.tail.error()
            if self.last_words.full:
                self.last_words.renew()
                return
            time = time_of(raw, self._written_at)
            seen = Observation(text.strip(), self._name, self._pieces.number(at), rank, time, at=at, plain=self.tail.plain)
            self.last_words.add(kind, seen)

    def _note_progress(self, text: str, key: Key, time: float | None) -> None:
        """Record that the log continues after the texts found so far."""
        if _ABORT.search(text) is not None:
            for number in self._after.failed():
                self.kept.mark(number, False, False)
        self.progress += is_progress(text)
        for number, surely, again in self._after.line(text, key, time):
            self.kept.mark(number, surely, not surely, again)
            if again and not self.summary.open:
                self.summary = Summary()  # the launcher's report was about the earlier start

    def _begin(self, key: Key, inner: bool) -> Traceback:
        """Begin a traceback, or continue with the next one of a chain, and return it."""
        if self.blocks.begin(key, inner, self._previous):
            self.tail.error()
            self.blocks.open[key].before = self._last_position()
        return self.blocks.open[key]

    def _last_position(self) -> Position | None:
        """Return where the training was before the current line."""
        return self._position if self._position is not None else last_position(self._before)

    def _ended(self, key: Key, block: Traceback) -> None:
        """Note the exception of a traceback that has ended, unless a known text in it has been noted."""
        if block.known and block.where is not None:
            self.kept.set_place(block.number, block.where)
        if block.exception is None or block.weak:
            return
        if not block.cut:
            logged_at = block.logged_at if self.blocks.is_logged(key) else None
            speaker, whole = self.blocks.speaker(key), not (block.notebook or block.headless)
            self._after.follow(
                -block.number,
                block.exception,
                speaker,
                whole,
                block.own_words,
                logged_at,
                block.before,
                block.resumed,
                block.is_caught,
            )
        if block.known:
            return
        own = key if isinstance(key, int) else block.rank
        rank = own if own is not None else self._rank
        self._note(
            Observation(
                block.exception,
                self._name,
                self._pieces.number(block.exception_at),
                rank,
                None,
                where=block.place,
                message=" ".join(block.message),
                raised_from=block.cause or block.first,
                began_with=block.first if block.cause not in (None, block.first) else None,
                block=block.number,
                at=block.exception_at,
                went_on=self.blocks.is_warned(key),
                quoted_by=self.blocks.quoted_by(key, block),
                in_library=block.where is None and block.fallback is not None,
            )
        )

    def _note(self, observation: Observation) -> None:
        at = self._pieces.offset_bytes
        observation = replace(observation, progress=self.progress, plain=self.tail.plain, offset_bytes=at)
        if observation.rank is not None:
            self.ranks.add(observation.rank)
        self.kept.add(observation)
        if observation.failure:
            self.tail.error()
        if (observation.failure or observation.start_in_doubt) and not observation.block:
            self._after.follow(observation.at, observation.line, before=self._last_position())
