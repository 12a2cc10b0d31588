"""Names of a checkpoint that are not those of the model: whether they differ by the prefix "module." alone. Pure.

load_state_dict tells two lists of names, each in a line. Where a wrapper makes the difference, one list has the prefix and
the other has not. Where both have it, or there is only one list, a layer has another name, or is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gputop.doctor.logs.observation import Observation

PREFIX = "module_prefix"
OTHER = "state_dict_names"


def less_telling(said: Iterable[tuple[str, str]]) -> str | None:
    """Return which of both texts to leave out of what one exception said, as (text's id, line); None where it has neither."""
    lines: dict[str, set[str]] = {PREFIX: set(), OTHER: set()}
    for name, line in said:
        if name in lines:
            lines[name].add(line)
    if not lines[PREFIX]:
        return None
    return OTHER if lines[OTHER] - lines[PREFIX] else PREFIX


def settle(observations: Sequence[Observation]) -> list[Observation]:
    """Return the observations of one log without those of names that their traceback refutes.

    Outside of a traceback only the prefix says something: what stood beside such a line is not known.
    """
    blocks: dict[int, list[tuple[str, str]]] = {}
    for item in observations:
        if item.pattern is not None and item.pattern.id in (PREFIX, OTHER):
            blocks.setdefault(item.block, []).append((item.pattern.id, item.line))
    if not blocks:
        return list(observations)
    found = []
    for item in observations:
        name = item.pattern.id if item.pattern is not None else None
        if name in (PREFIX, OTHER):
            refuted = less_telling(blocks[item.block]) if item.block else OTHER
            if name == refuted:
                continue
        found.append(item)
    return found
