"""Which texts of an exception to drop because another one says more. Pure.

Some texts are vague (``Pattern.vague``): NCCL prints "unhandled system error", and names the error in the next line.
load_state_dict prints two lists of names, one line each. If only a wrapper makes the difference, one list has the prefix
"module." and the other does not. If both have it, or there is only one list, a layer was renamed or is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gputop.doctor.logs.observation import Observation

PREFIX = "module_prefix"
OTHER = "state_dict_names"


def less_specific(said: Iterable[tuple[str, str]]) -> str | None:
    """Return which of an exception's two texts to drop; None if neither is present. ``said``: (text's id, line)."""
    lines: dict[str, set[str]] = {PREFIX: set(), OTHER: set()}
    for name, line in said:
        if name in lines:
            lines[name].add(line)
    if not lines[PREFIX]:
        return None
    return OTHER if lines[OTHER] - lines[PREFIX] else PREFIX


def settle(observations: Sequence[Observation]) -> list[Observation]:
    """Return the observations of one log, without those that their traceback explains better or refutes.

    Outside a traceback, only the prefix is evidence: the lines next to it are unknown.
    """
    telling = {item.block for item in observations if item.block and item.pattern is not None and not item.pattern.vague}
    if telling:
        observations = [item for item in observations if not (item.block in telling and item.pattern and item.pattern.vague)]
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
            refuted = less_specific(blocks[item.block]) if item.block else OTHER
            if name == refuted:
                continue
        found.append(item)
    return found
