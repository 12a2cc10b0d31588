"""Errors that a run survives again and again, and which of them may have ended it. Pure: a function of the observations."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import replace

from gputop.doctor.logs.after import quoted
from gputop.doctor.logs.observation import Observation

SURVIVED_MIN, SURVIVED_PROGRESS = 2, 2
"""A text that has occurred this often, each time with this many lines of progress after it, does not end a run (our choice)."""
ANNOUNCED_MIN = 3
"""This many tracebacks with the same announcement are a script's reports of what it leaves out (our choice)."""
BUFFERED_BYTES = 256 * 1024
"""A script that fails writes less than this afterwards: Python holds back 8 KiB, from 3.14 on 128 KiB (io.DEFAULT_BUFFER_SIZE),
and 8 KiB of text before that."""
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d[\d.]*")


def without_habits(seen: list[Observation], progress: Mapping[str, int]) -> list[Observation]:
    """Mark what a run survives again and again: samples that it skips, or texts that a language model writes.

    The last of them may have ended the run, unless progress follows it, too (``progress``: lines of it in each whole file), or
    the script's own words announced it: a script that writes about an error has caught it.
    """
    came: dict[tuple[str, int | None, str], list[Observation]] = {}
    for item in seen:
        if item.pattern is None or not item.pattern.cascade:
            came.setdefault(shape_of(item), []).append(item)
    habits = {}
    for shape, items in came.items():
        times = sum(after.progress - item.progress >= SURVIVED_PROGRESS for item, after in itertools.pairwise(items))
        if times >= SURVIVED_MIN:
            habits[shape] = times
    words_of = [items[-1] for shape, items in came.items() if shape in habits and _is_in_words(items[-1])]
    marked = []
    for item in seen:
        shape = shape_of(item)
        if shape not in habits:
            marked.append(item)
            continue
        *_, before, last = came[shape]
        follows = progress[item.file] - last.progress >= SURVIVED_PROGRESS
        announced = any(own is last or _lies_between(own, before, last) for own in words_of)
        went_on = item.went_on or item is not last or follows or announced
        marked.append(replace(item, survived=habits[shape] + follows, went_on=went_on))
    return marked


def without_outlived(seen: list[Observation], sizes: Mapping[str, int]) -> list[Observation]:
    """Mark tracebacks that more output follows than a failing script can have held back (``sizes``: bytes of each log)."""
    return [
        replace(item, went_on=True, followed=False)
        if item.followed and sizes[item.file] - item.offset_bytes > BUFFERED_BYTES
        else item
        for item in seen
    ]


def with_announced(seen: list[Observation], progress: Mapping[str, int]) -> list[Observation]:
    """Mark the tracebacks that a script announces again and again in the same way, if progress follows the last of them.

    Python itself announces none, and what is held back of a failing script's output would come after its only one.
    """
    came: dict[tuple[str, int | None, str], list[Observation]] = {}
    for item in seen:
        if item.quoted_by and item.block:
            came.setdefault((item.file, item.rank, item.quoted_by), []).append(item)
    survived = {
        item.at
        for items in came.values()
        if len(items) >= ANNOUNCED_MIN and progress[items[-1].file] - items[-1].progress >= SURVIVED_PROGRESS
        for item in items
    }
    return [replace(item, went_on=True, followed=False) if item.block and item.at in survived else item for item in seen]


def with_those_before(seen: list[Observation]) -> list[Observation]:
    """Mark the tracebacks that a script reported in the same way as a later one that it surely survived."""
    last = {(item.file, item.rank, item.quoted_by): item.at for item in seen if item.quoted_by and item.went_on}
    if not last:
        return seen
    return [
        replace(item, went_on=True, followed=False)
        if item.quoted_by and item.at < last.get((item.file, item.rank, item.quoted_by), 0)
        else item
        for item in seen
    ]


def _is_in_words(item: Observation) -> bool:
    """Return whether the script's own words surround an exception, also after a speaker as in "A: the log says ..."."""
    return not item.block and (quoted(item.line) or quoted(item.line.partition(": ")[2]))


def _lies_between(item: Observation, before: Observation, after: Observation) -> bool:
    same = (item.file, item.rank) == (after.file, after.rank)
    return same and before.at < item.at < after.at


def shape_of(item: Observation) -> tuple[str, int | None, str]:
    """Return a line without its numbers, with the file and the rank that it is from."""
    return item.file, item.rank, _NUMBERS.sub("0", item.line)
