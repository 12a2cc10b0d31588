"""What torch's allocator held when a rank ran out of GPU memory, reduced in the process itself to a few lines.

Which line of the script asked for a block is known where the script records the allocator's history
(``torch.cuda.memory._record_memory_history("state", stacks="python")``); sizes are always known. Read once, as the process
ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gputop.facts.standing import MemoryLine, OutOfMemory

LINES_MAX = 8
"""How many lines of the script are named: those that allocated the most."""
_ERRORS = ("OutOfMemoryError",)
_TEXT = "CUDA out of memory"
_ACTIVE = ("active_allocated", "active_pending_free", "active_awaiting_free")


def fact(error: BaseException, is_library: Callable[[str], bool]) -> dict[str, Any] | None:
    """Return the fact ``out_of_memory``; None for another error, or if torch reports nothing."""
    if type(error).__name__ not in _ERRORS and _TEXT not in str(error):
        return None
    torch: Any = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return None
    try:
        # Without the history of all blocks, which can take minutes; an older torch, which has no such keyword, is not asked.
        segments: Sequence[Any] = cuda.memory.memory_snapshot(include_traces=False)
    except Exception:  # noqa: BLE001 - torch's own interface, which changes with its version
        segments = []
    index = int(cuda.current_device())
    own = [segment for segment in segments if isinstance(segment, Mapping) and segment.get("device", index) == index]
    if own:
        return of_segments(own, is_library)
    allocated, reserved = int(cuda.memory_allocated()), int(cuda.memory_reserved())
    return OutOfMemory.filled(
        allocated_bytes=allocated, cached_bytes=max(0, reserved - allocated), largest_free_bytes=None, lines=[]
    )


def of_segments(segments: Sequence[Mapping[str, Any]], is_library: Callable[[str], bool]) -> dict[str, Any]:
    """Return the fact of the segments of one device, in the form of ``torch.cuda.memory_snapshot()``."""
    allocated = free = largest = 0
    lines: dict[str, list[int]] = {}
    for segment in segments:
        for block in segment.get("blocks", ()):
            size = _size(block.get("size"))
            if block.get("state") not in _ACTIVE:
                free += size
                largest = max(largest, size)
                continue
            allocated += size
            line = _line(_frames(block), is_library)
            if line is not None:
                held = lines.setdefault(line, [0, 0])
                held[0] += size
                held[1] += 1
    most = sorted(lines.items(), key=lambda item: -item[1][0])[:LINES_MAX]
    return OutOfMemory.filled(
        allocated_bytes=allocated,
        cached_bytes=free,
        largest_free_bytes=largest,
        lines=[MemoryLine.filled(line=line, bytes=held, blocks=count) for line, (held, count) in most],
    )


def _frames(block: Mapping[str, Any]) -> Sequence[Any]:
    """Return the frames of a block's last allocation, innermost first; torch before 2.1 keeps them in a history."""
    frames = block.get("frames")
    history = block.get("history")
    if not frames and isinstance(history, Sequence) and history and isinstance(history[0], Mapping):
        frames = history[0].get("frames")
    return frames if isinstance(frames, Sequence) else ()


def _line(frames: Sequence[Any], is_library: Callable[[str], bool]) -> str | None:
    for frame in frames:
        path = frame.get("filename") if isinstance(frame, Mapping) else None
        if isinstance(path, str) and path.endswith(".py") and not is_library(path):
            return f"{os.path.basename(path)}:{frame.get('line')} {frame.get('name')}"
    return None


def _size(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0
