"""What a rank's GPU memory contained when it ran out, as text. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputop.facts.table import Facts
from gputop.units import bytes_text

UNKNOWN_LINES = (
    'which lines hold it is not known: torch.cuda.memory._record_memory_history("state", stacks="python") at the script\'s '
    "start records it"
)


def memory_lines(facts: Mapping[str, Any], most: int = 8) -> list[str]:
    """Return what a rank's allocator held, largest first, at most ``most`` of its lines; nothing if memory did not run out.

    ``facts`` are the facts of the rank.
    """
    found = Facts(facts).out_of_memory
    if found is None:
        return []
    head = f"torch held {bytes_text(found.allocated_bytes)}, and {bytes_text(found.cached_bytes)} cached but free"
    if found.largest_free_bytes is not None:
        head += f", {bytes_text(found.largest_free_bytes)} of it in one piece"
    lines = [
        f"{bytes_text(line.bytes)} in {line.blocks} block{'' if line.blocks == 1 else 's'} from {line.line}"
        for line in found.lines[:most]
    ]
    return [head, *(lines or [UNKNOWN_LINES])]
