"""Where a rank is, and how it ended: the records about stalls, places and errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputop.facts.record import (
    Key,
    Record,
    any_text,
    flag,
    number,
    parts,
    read_number,
    read_text,
    read_whole,
    text,
    texts,
    whole,
)
from gputop.facts.rows import is_rows_of, read_rows


def _groups(value: Any) -> Mapping[int, tuple[int, int]]:
    found = {}
    for checksum, row in read_rows(value, 3):
        ranks, begun = read_whole(row[1]), read_whole(row[2])
        if ranks and begun is not None:
            found[checksum] = ranks, begun
    return found


class Stalled(Record):
    """Written when there was no step for a while; null again once steps continue."""

    since = number("When the last step ended, in seconds since the epoch.")
    step = whole("The last step.")
    phase = text('"data", "forward", "backward", "optimizer", "evaluation", "checkpoint" or "other".')
    stack = texts('The stack of the thread that trains, as "file.py:12 function", innermost first.')
    at = number("When this was written, in seconds since the epoch.")
    early = flag("True in a first report, after a third of the time that makes a stall; else missing.", optional=True)


class Standing(Record):
    """Where a rank is. Readers take it from the ring of a rank that has been still or silent for 4 s; no journal keeps it."""

    at = number("When this was written, in seconds since the epoch.")
    since = number("When it arrived there, in seconds since the epoch; checked every 2 s.")
    line = text('The innermost line outside libraries, as "train.py:88". Null: there is none on the stack.', null=True)
    function = text("The function around that line.", null=True)
    phase = text('"data", "forward", "backward", "optimizer", "evaluation", "checkpoint" or "other".')
    operation = text("The collective of torch.distributed that Python has called and that has not returned yet.", null=True)
    begun = whole("Collectives that the group of all ranks has begun in this rank. Null: unknown.", null=True)
    completed = whole("How many of them torch knows to be complete.", null=True)
    step = whole("The last step. Null before the first one.", null=True)
    stepped = number("When that step ended, in seconds since the epoch.", null=True)
    stack = texts('The innermost calls of the thread that trains, as "file.py:12 function", innermost first.')
    groups = Key(
        "list of [checksum, ranks, begun]",
        _groups,
        is_rows_of(3),
        "Of each smaller process group: a checksum of its ranks, their number, and the collectives begun.",
        optional=True,
    )


def _lines(value: Any) -> tuple[tuple[int, str, str], ...]:
    rows = ((count, read_text(row[1]), read_text(row[2])) for count, row in read_rows(value, 3))
    return tuple((count, line, function or "") for count, line, function in rows if line and count > 0)


class OwnLines(Record):
    """Where a rank was, outside all phases, while its steps advanced. Readers count it from the ring; no journal keeps it."""

    samples = whole("The newest looks at the stack, one every 2 s; at most 30.")
    lines = Key(
        "list of [samples, line, function]",
        _lines,
        is_rows_of(3),
        "Lines outside libraries at which the script was seen in no phase and no collective, the most frequent first.",
    )


def _means(value: Any) -> tuple[tuple[int, float], ...]:
    rows = ((step, read_number(row[1])) for step, row in read_rows(value, 2))
    return tuple((step, mean) for step, mean in rows if mean is not None)


class PrintedCourse(Record):
    """An evaluation or a return that a rank prints to a file. Readers parse it from there; no journal keeps it."""

    name = any_text("Name of the metric.")
    values = whole("Number of finite values so far.")
    lowest = number("The smallest one.")
    highest = number("The largest one.")
    means = Key(
        "list of [step, mean]",
        _means,
        is_rows_of(2),
        "Means of neighboring values since the run began, at most 64, and the first step of each as printed.",
    )


class Error(Record):
    """The exception that ended the script."""

    type = any_text("Class.")
    message = any_text("Message, shortened.")
    where = any_text("Innermost line outside libraries.", null=True)


class MemoryLine(Record):
    """What one line of the script holds in torch's allocator."""

    line = any_text("Innermost line outside libraries, and its function.")
    bytes = whole("Size of its blocks.")
    blocks = whole("Number of its blocks.")


class OutOfMemory(Record):
    """What torch's allocator held on the rank's device when an out-of-memory error ended the script."""

    allocated_bytes = whole("Bytes in use.")
    cached_bytes = whole("Bytes that torch keeps although nothing uses them.")
    largest_free_bytes = whole("The largest free piece; null if torch does not report it.", null=True)
    lines = parts(MemoryLine)
