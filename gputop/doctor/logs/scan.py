"""Scan a log piece by piece for what is known: error texts, exceptions with their place, torchrun's summary.

Bytes in, observations out; memory stays bounded for logs of any length. Python tracebacks are followed per rank by the line
prefix ("[rank0]:"), through chained exceptions. A line without known text costs only a search for literals. Pure: the
caller opens the file and passes its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache

from gputop.doctor.logs import last_words
from gputop.doctor.logs.after import Afterwards, Tail, is_progress, says_handled, says_went_on
from gputop.doctor.logs.heads import Head, is_head, joined
from gputop.doctor.logs.json_lines import BEGINS_WITHIN, unfolded
from gputop.doctor.logs.kept import KEPT_FIRST, KEPT_LAST, Kept
from gputop.doctor.logs.last_words import LastWords, Word
from gputop.doctor.logs.launcher import ROOT, Root, Summary, number
from gputop.doctor.logs.leads import Leads
from gputop.doctor.logs.lines import clean, is_warning, quote_of, rank_and_text, time_of, unboxed
from gputop.doctor.logs.observation import Observation
from gputop.doctor.logs.patterns.table import TRIGGERS, matches
from gputop.doctor.logs.tracebacks import BEGIN, Traceback, is_frame

LINE_BYTES = 65_536
"""Data without a line end is cut into lines of this length."""
TEXT_CHARS = 4_000
"""Characters examined of one line, around the text found in it."""
INNER_MAX = KEPT_FIRST + KEPT_LAST
OPEN_MAX = 64
"""Ranks whose tracebacks, or first lines of errors, are followed at a time."""
TOP_LINES = 40
"""A traceback whose beginning is missing has its first frame within this many lines."""
_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_WEAK = ("Exception ignored in", "--- Logging error ---")
_TEXT_TRIGGERS = (*TRIGGERS, *last_words.TRIGGERS, _TRACEBACK[:21], ROOT)
_TRIGGERS = tuple(dict.fromkeys(trigger.encode() for trigger in _TEXT_TRIGGERS))
_SHARED = (b"rror", b"not ", b"ailed", b"evice", b"emory", b"imed ou", b"ignal", b"xceeded")
"""Parts of many triggers: where a piece lacks one, none of these triggers is searched for."""
_GROUPS = {
    part: tuple(trigger for trigger in _TRIGGERS if part == next((other for other in _SHARED if other in trigger), b""))
    for part in (*_SHARED, b"")
}
_NARROWER = {trigger.encode(): expression.encode() for trigger, expression in last_words.NARROWER.items()}
_ABORT = re.compile(r"core dumped|^(?:Aborted|Segmentation fault|Fatal Python error)|^srun: error: |Exited with exit code")
"""Not "Killed": a process that is killed had not ended of an exception before, and writes no buffered output afterwards."""
_BREAKS = re.compile(rb"[\r\n]")
_PLAIN = re.compile(rb"[\t\n\r -~]*")
Key = int | str | None
"""Whose traceback it is: a rank's, or that of whoever begins each line with certain words (``leads``)."""


class LogScan:
    """Scan one log: call ``feed`` in order, then ``end``."""

    def __init__(self, name: str, rank: int | None = None, written_at: float | None = None) -> None:
        """Start a scan. ``rank``: owner of a single-rank log; ``written_at`` (wall clock) dates timestamps without a year."""
        self.name = name
        self.rank = rank
        self.written_at = written_at
        self.ranks: set[int] = set() if rank is None else {rank}
        """Ranks with at least one known text, or the rank that owns this log."""
        self.lines = 0
        self.inner: dict[int, str] = {}
        """The last exception of each traceback, by its block."""
        self._kept = Kept()
        self._open: dict[Key, Traceback] = {}
        self._leads = Leads()
        self._blocks = 0
        self._summary = Summary()
        self._weak_next = False
        self._previous = ""
        """The line before the one that is looked at."""
        self._quote = ""
        """The margin or the spaces before the line that is looked at."""
        self._speakers: dict[Key, Key] = {}
        """Who goes on after a traceback that a logger wrote, by the words before its lines."""
        self._chain: dict[Key, bool] = {}
        self._heads: dict[Key, Head] = {}
        self._top = True
        """Whether all so far may be the rest of a traceback whose beginning was cut off."""
        self._top_lines = 0
        self._rest = b""
        self._end = b""
        self._may_be_known: tuple[str, ...] = TRIGGERS
        """Literals of which a line outside of tracebacks holds one if it may hold a known text."""
        self._numbered = True
        self.progress = 0
        """Lines of progress after texts; the others are not looked at."""
        self._after = Afterwards()
        self._last_words = LastWords()
        self.tail = Tail()

    @property
    def root(self) -> Root | None:
        """The first failure that torchrun observed."""
        return self._summary.root

    @property
    def last_words(self) -> list[Word]:
        """The error lines at the end, of which nothing else is known."""
        return self._last_words.words

    @property
    def observations(self) -> list[Observation]:
        """All observations so far, in the order of the log. An exception is noted late: once its traceback has ended."""
        return self._kept.in_order()

    def feed(self, data: bytes) -> list[Observation]:
        """Process the next bytes and return the new observations in their complete lines."""
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        if len(data) - end > LINE_BYTES:
            end = len(data)
        self._rest = data[end:]
        self._scan_piece(data[:end])
        return self._kept.take_new()

    def skip(self) -> None:
        """Mark a part of the log as skipped: open tracebacks end, and later lines have no numbers."""
        self._rest = b""
        self._read_heads()
        self._close_all()
        self._end = b""
        self._summary.open = self._numbered = False
        self._top, self._top_lines = True, 0

    def continue_lines(self, before: LogScan) -> None:
        """Count the lines from where another scan of the same log got to."""
        self.lines, self._numbered = before.lines, before._numbered

    def outlive(self, places: Collection[int]) -> None:
        """Mark the texts at these places (``Observation.at``) as survived: whoever wrote them is known to have gone on."""
        self._kept.outlive(places)

    def end(self) -> list[Observation]:
        """Process the unterminated last line and close everything that is open."""
        self._scan_piece(self._rest + b"\n" if self._rest else b"")
        self._rest = b""
        self._read_heads()
        self._read_end()
        for block in self._open.values():
            if block.ends_within:
                line, at = (block.begin or _TRACEBACK).strip(), self.lines
                seen = Observation(line, self.name, self._number(at), block.rank, where=block.place, at=at)
                self._last_words.add("cut", seen)
        self._close_all()
        return self._kept.take_new()

    def _read_end(self) -> None:
        """Keep the trouble that the log ends with, if nothing else is known of its end."""
        if self._open or self._kept.first or self._last_words.words:
            return
        lines = [line for line in map(clean, _BREAKS.split(self._end)) if line.strip()]
        told = last_words.trouble_in([rank_and_text(line)[1] for line in lines])
        if told is not None:
            rank, text = rank_and_text(lines[told])
            rank = self.rank if rank is None else rank
            at = max(1, self.lines - (len(lines) - 1 - told))
            time = time_of(lines[told], self.written_at)
            self._last_words.add("trouble", Observation(text.strip(), self.name, 0, rank, time, at=at))

    def _scan_piece(self, data: bytes) -> None:
        if not data:
            return
        self._end = (self._end + data[-last_words.TAIL_BYTES :])[-last_words.TAIL_BYTES :]
        # Which triggers a piece holds is found fast; an expression with all of them takes far longer.
        held = tuple(trigger for part, group in _GROUPS.items() if part in data for trigger in group if trigger in data)
        if not self._following and not held:
            self.lines += data.count(b"\n")
            self.tail.piece(data)
            return
        trigger = _expression_of(held)
        # Between escape sequences and the like, which lines are cleaned of, words may hide that the bytes do not show.
        self._may_be_known = _literals_of(held) if _PLAIN.fullmatch(data) is not None else TRIGGERS
        position = counted = 0
        while position < len(data):
            if not self._following:
                hit = trigger.search(data, position)
                if hit is None:
                    self.tail.piece(data[position:])
                    break
                # The words that announce a chained or an ignored exception come just before it.
                begin = max(position, data.rfind(b"\n", 0, hit.start()) + 1, data.rfind(b"\r", 0, hit.start()) + 1)
                self.tail.piece(data[position:begin])
                self._announce(data[max(0, begin - 200) : begin])
                at = hit.start()
            else:
                begin = at = position
            stop = _BREAKS.search(data, at)
            finish = stop.start() if stop else len(data)
            self.lines += data.count(b"\n", counted, begin)
            counted = begin
            left = max(begin, at - TEXT_CHARS // 4)
            for part in self._unfolded(data, begin, finish) or [clean(data[left : min(finish, left + TEXT_CHARS)])]:
                self._line(part[:TEXT_CHARS], self.lines + 1)
                self._previous = part
            position = finish + 1
        self.lines += data.count(b"\n", counted)

    def _unfolded(self, data: bytes, begin: int, finish: int) -> list[str]:
        """Return the lines in a JSON object; none if the line is no such object."""
        if data.find(b"{", begin, min(finish, begin + BEGINS_WITHIN)) < 0 or data[finish - 1 : finish] not in (b"}", b"\r"):
            return []
        line = clean(data[begin:finish])
        parts = unfolded(line, lambda text: any(trigger in text for trigger in _TEXT_TRIGGERS), bool(self._open))
        if parts == [line]:
            return []
        self._may_be_known = TRIGGERS  # JSON escapes words, too
        return parts

    @property
    def _following(self) -> bool:
        """Whether every line counts now: at the top, in a traceback or summary, and after a text that may be the end."""
        if self._summary.open or self._top or self._open or self._heads:
            return True
        return self._after.waiting or self._last_words.waiting

    def _announce(self, before: bytes) -> None:
        lines = [line for line in before.decode("utf-8", "replace").splitlines() if line.strip()][-2:]
        self._weak_next = any(marker in line for line in lines[-1:] for marker in _WEAK)
        self._previous = lines[-1] if lines else ""
        for line in lines:
            if any(marker in line for marker in _CHAINED):
                self._chain_on(rank_and_text(line)[0])

    def _number(self, at: int) -> int:
        return at if self._numbered else 0

    def _line(self, raw: str, at: int) -> None:
        prefixed, text = rank_and_text(raw)
        self._quote = quote_of(text.rstrip())
        text = unboxed(text)
        key, text = self._whose(prefixed, text)
        # Expressions that end with optional spaces take a time that grows with the square of their number.
        text = text.rstrip()
        rank = prefixed if prefixed is not None else self.rank
        head = self._heads.pop(key, None)
        if head is not None:
            whole = joined(head, text)
            self._may_be_known = TRIGGERS  # the first line may be of another piece
            if whole is not None:
                self._read(whole, head.raw, key, rank, head.at)
                return
            self._read(head.text, head.raw, key, rank, head.at)
        if is_head(text):
            self._heads[key] = Head(text, raw, at)
            if len(self._heads) > OPEN_MAX:
                self._read_head(next(iter(self._heads)))
            return
        self._read(text, raw, key, rank, at)

    def _read_top(self, text: str, key: Key) -> None:
        """Begin a traceback at its first frame where a log, or what is read of it, begins within one."""
        if is_frame(text):
            self._begin(key, False)
            self._open[key].headless = True
        self._top_lines += 1
        # The first line may be a part of one.
        whole = self._top_lines > 1 and text.strip() and text[:1] not in (" ", "\t")
        self._top = not self._open and not whole and self._top_lines < TOP_LINES

    def _read_heads(self) -> None:
        """Read the lines alone whose reason did not come."""
        for key in list(self._heads):
            self._read_head(key)

    def _read_head(self, key: Key) -> None:
        head = self._heads.pop(key)
        self._may_be_known = TRIGGERS
        self._read(head.text, head.raw, key, key if isinstance(key, int) else self.rank, head.at)

    def _read(self, text: str, raw: str, key: Key, rank: int | None, at: int) -> None:
        for lead, speaker in self._speakers.items():
            if speaker == key and lead in self._open and self._open[lead].in_message:
                self._close(lead)  # the logger's words no longer stand before the lines
        if self._summary.open:
            self._summary.line(text)
        if ROOT in text:
            self._after.failed()
            self.tail.error()
            self._summary.begin()
            return
        if BEGIN.search(text) is not None and not self._summary.open:
            self._top = False
            self._after.failed()
            self._begin(key, "Original Traceback" in text)
            self._open[key].cut = is_progress(text)
            self._open[key].begin = text
            self._open[key].logged_at = time_of(raw, self.written_at)
            if len(self._quote) > 1 and "+-" not in self._previous and text.lstrip().startswith("Traceback"):
                self._open[key].quote, self._open[key].own_words = self._quote, True
            self._open[key].notebook = not text.rstrip().endswith(":")
            return
        if self._top:
            self._read_top(text, key)
        block = self._open.get(key)
        if block is not None and block.rank is not None:
            rank = block.rank
        if block is not None and block.quote and text.strip() and not self._quote.startswith(block.quote):
            if block.exception is None:
                block.quote, block.own_words = "", False
            else:
                self._close(key)
        block = self._open.get(key)
        if block is not None:
            text = text.removeprefix(block.quote) if block.quote.isspace() else text
            self._extend_traceback(key, block, text, at)
            block = self._open.get(key)
        if block is not None and not block.in_message and text[:1] in (" ", "\t"):
            return  # a line of source code that a traceback quotes
        may_be_known = (
            block is not None or self._summary.open or self._after.waiting or any(known in text for known in self._may_be_known)
        )
        found = matches(text) if may_be_known else ()
        if block is not None:
            found = tuple(item for item in found if item[0].raised)
        if self._after.waiting and block is None and (not found or _ABORT.search(text) is not None):
            self._note_progress(text, key, time_of(raw, self.written_at))
        warned = bool(found) and is_warning(text)
        if block is None and not self._summary.open:
            self._weigh(text, raw, rank, at, bool(found))
        for pattern, groups in found:
            told = rank if rank is not None else number(groups.get("rank"))
            if told is None and self._summary.open and self.root is not None:
                told = self.root.rank
            in_exception = block is not None and block.in_message
            if block is not None and in_exception:
                block.known = True
            self._note(
                Observation(
                    text.strip(),
                    self.name,
                    self._number(at),
                    told,
                    time_of(raw, self.written_at),
                    pattern,
                    groups,
                    block.place if block is not None and in_exception else None,
                    block=block.number if block is not None and in_exception else 0,
                    warned=warned,
                    went_on=warned and says_went_on(text),
                    quoted_by=self._quoted_by(key, block) if block is not None and in_exception else "",
                    in_library=block is not None and in_exception and block.where is None,
                    at=at,
                )
            )

    def _quoted_by(self, key: Key, block: Traceback) -> str:
        return str(key) if key in self._speakers else block.quote

    def _weigh(self, text: str, raw: str, rank: int | None, at: int, known: bool) -> None:
        """Keep a line that may be the log's last word, or take those before it as survived."""
        kind = None if known or is_warning(text) else last_words.kind_of(text)
        if kind is None:
            self._last_words.line(text)
            if not known:
                self.tail.line(text)
        elif not says_went_on(text):
            self.tail.error()
            if self._last_words.full:
                self._last_words.renew()
                return
            time = time_of(raw, self.written_at)
            seen = Observation(text.strip(), self.name, self._number(at), rank, time, at=at, plain=self.tail.plain)
            self._last_words.add(kind, seen)

    def _whose(self, prefixed: int | None, text: str) -> tuple[Key, str]:
        """Return who writes a line, by its rank or by the words that stand before each of its lines, and the rest of it."""
        block = self._open.get(prefixed)
        told = self._leads.strip(text)
        if told is None and block is not None and block.begin:
            told = self._leads.learn(block.begin, text)
        if told is None:
            return prefixed, text
        lead, rest = told
        key = lead if prefixed is None else f"{prefixed} {lead}"
        if self._leads.is_logged(lead):
            self._speakers[key] = prefixed
        if block is not None and key not in self._open and self._leads.strip(block.begin) is not None:
            # Its first line came before these words were known.
            rank = self._leads.rank_of(lead)
            block.rank = prefixed if rank is None else rank
            self._open[key] = self._open.pop(prefixed)
        return key, rest

    def _note_progress(self, text: str, key: Key, time: float | None) -> None:
        """Record for the texts so far that the log goes on after them."""
        if _ABORT.search(text) is not None:
            for number in self._after.failed():
                self._kept.mark(number, False, False)
        self.progress += is_progress(text)
        for number, surely in self._after.line(text, key, time):
            self._kept.mark(number, surely, not surely)

    def _chain_on(self, key: Key) -> None:
        """Remember that another traceback of the same chain is announced."""
        self._chain[key] = True
        if len(self._chain) > OPEN_MAX:
            self._chain.pop(next(iter(self._chain)))

    def _begin(self, key: Key, inner: bool) -> None:
        before = self._open.get(key)
        if before is not None and (inner or self._chain.pop(key, False)):
            before.chain(inner)
            return
        if before is not None:
            self._close(key)
        self._chain.pop(key, None)
        self.tail.error()
        self._blocks += 1
        if len(self._open) >= OPEN_MAX:
            # A rank that is gone writes no line that ends its traceback.
            whole = (other for other, block in self._open.items() if block.exception is not None)
            self._close(next(whole, next(iter(self._open))))
        self._open[key] = Traceback(self._blocks, weak=self._weak_next, own_words=says_handled(self._previous))
        self._weak_next = False

    def _extend_traceback(self, key: Key, block: Traceback, text: str, at: int) -> None:
        """Add one line of a rank to its traceback, or end the traceback."""
        block.lines += 1
        if any(marker in text for marker in _CHAINED):
            self._chain_on(key)
            return
        if any(marker in text for marker in _WEAK):
            self._weak_next = True
        if not block.extend(text, at, bool(self._chain.get(key))):
            self._close(key)
        elif block.exception is not None:
            self.inner[block.number] = block.exception
            if len(self.inner) > INNER_MAX:
                self.inner.pop(next(iter(self.inner)))

    def _close(self, key: Key) -> None:
        block = self._open.pop(key, None)
        if block is not None and block.known and block.where is not None:
            self._kept.set_place(block.number, block.where)
        if block is not None and block.exception is not None and not block.weak and not block.cut:
            speaker = self._speakers.get(key, key)
            logged_at = block.logged_at if key in self._speakers else None
            self._after.follow(-block.number, block.exception, speaker, not block.notebook, block.own_words, logged_at)
        if block is None or block.known or block.weak or block.exception is None:
            return
        own = key if isinstance(key, int) else block.rank
        rank = own if own is not None else self.rank
        self._note(
            Observation(
                block.exception,
                self.name,
                self._number(block.exception_at),
                rank,
                None,
                where=block.place,
                message=" ".join(block.message),
                raised_from=block.first,
                block=block.number,
                at=block.exception_at,
                quoted_by=self._quoted_by(key, block),
            )
        )

    def _close_all(self) -> None:
        for key in list(self._open):
            self._close(key)

    def _note(self, observation: Observation) -> None:
        observation = replace(observation, progress=self.progress, plain=self.tail.plain)
        if observation.rank is not None:
            self.ranks.add(observation.rank)
        self._kept.add(observation)
        if observation.failure:
            self.tail.error()
        if observation.failure and not observation.block:
            self._after.follow(observation.at, observation.line)


@lru_cache(64)
def _expression_of(held: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """Return the expression that finds these triggers, and nothing without any."""
    return re.compile(b"|".join(_NARROWER.get(trigger, re.escape(trigger)) for trigger in held) or rb"(?!)")


@lru_cache(64)
def _literals_of(held: tuple[bytes, ...]) -> tuple[str, ...]:
    """Return those of these triggers that known texts have."""
    return tuple(trigger for trigger in TRIGGERS if trigger.encode() in held)
