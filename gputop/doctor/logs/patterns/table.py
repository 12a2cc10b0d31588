"""All known error texts, the most specific first where a line has several, and the lines that are advice. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gputop.doctor.logs.patterns import (
    autograd,
    batch,
    checkpoints,
    cuda,
    cudnn,
    data,
    deepspeed,
    files,
    hugging_face,
    launch,
    nccl,
    packages,
    parallel,
    process_end,
    store,
    tensors,
    usage,
    vllm,
)
from gputop.doctor.logs.patterns.pattern import Pattern

_RAISED = (*autograd.PATTERNS, *deepspeed.PATTERNS, *hugging_face.PATTERNS, *vllm.PATTERNS)
"""Texts that are always an exception's: a scan that stops at exceptions needs no key of theirs."""
PATTERNS: tuple[Pattern, ...] = (
    *cuda.PATTERNS,
    *tensors.PATTERNS,
    *data.PATTERNS,
    *parallel.PATTERNS,
    *nccl.PATTERNS,
    *launch.PATTERNS,
    *store.PATTERNS,
    *checkpoints.PATTERNS,
    *files.PATTERNS,
    *cudnn.PATTERNS,
    *packages.PATTERNS,
    *_RAISED,
    *batch.PATTERNS,
    *process_end.PATTERNS,
    *usage.PATTERNS,
)
_KEYS = dict.fromkeys(("Error: ", "Exception: ", *(pattern.key for pattern in PATTERNS if pattern not in _RAISED)))
TRIGGERS = tuple(key for key in _KEYS if not any(other in key for other in _KEYS if other != key))
"""Literals of which a line with a known text holds one, except for the lines of a traceback after its first."""
IDS: tuple[str, ...] = tuple(dict.fromkeys(pattern.id for pattern in PATTERNS))

_ADVICE = re.compile(
    r"[Cc]onsider passing CUDA_LAUNCH_BLOCKING|[Ii]t is possible that|might be incorrect|"
    r"For debugging consider|Compile with `?TORCH_USE_CUDA_DSA"
)
"""Such a line gives advice; a text that comes before the advice in the same line still counts."""


def matches(line: str) -> tuple[tuple[Pattern, Mapping[str, str]], ...]:
    """Return the patterns found in the line, one per id, the most specific first, each with its values."""
    advice = _ADVICE.search(line)
    text = line[: advice.start()] if advice else line
    found: dict[str, tuple[Pattern, Mapping[str, str]]] = {}
    for pattern in PATTERNS:
        if pattern.id in found:
            continue
        groups = pattern.match(text)
        if groups is not None:
            found[pattern.id] = (pattern, groups)
    return tuple(found.values())


def pattern_of(name: str, line: str) -> tuple[Pattern, Mapping[str, str]] | None:
    """Return the row with this id that matches the line; the first such row, without values, if the line was cut short."""
    rows = [pattern for pattern in PATTERNS if pattern.id == name]
    for pattern in rows:
        groups = pattern.match(line)
        if groups is not None:
            return pattern, groups
    return None
