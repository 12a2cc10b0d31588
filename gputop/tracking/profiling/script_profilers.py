"""Notices what the training does with torch's profiler while gputop records: its own profilers, and ``record_function``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def watch_script_profilers(
    other_begins: Callable[[Any], None], scope_begins: Callable[[Any], None], scope_ends: Callable[[Any], None]
) -> Iterator[None]:
    """Within the block, report what is about to happen.

    Args:
        other_begins: Receives each profiler of torch that is about to start, including gputop's. torch raises in the second of
        two, so gputop's must end first.
        scope_begins: Receives each ``record_function`` that begins. One that began in a recorded step and ends in a later one
            would have torch write to what it freed between them.
        scope_ends: Receives each ``record_function`` that ends.
    """
    own: Any = sys.modules["torch.autograd.profiler"]
    replaced: list[tuple[Any, str, Any, Any]] = []

    def before(kind: Any, name: str, first: Callable[[Any], None]) -> None:
        original = vars(kind).get(name)
        if original is None:
            return

        def wrapped(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            first(self)
            return original(self, *args, **kwargs)

        replaced.append((kind, name, original, wrapped))
        setattr(kind, name, wrapped)

    for kind in (own.profile, getattr(own, "emit_nvtx", None), getattr(own, "emit_itt", None)):
        for name in ("_prepare_trace", "_start_trace", "__enter__") if kind is not None else ():
            before(kind, name, other_begins)
    before(own.record_function, "__enter__", scope_begins)
    before(own.record_function, "__exit__", scope_ends)
    try:
        yield
    finally:
        for kind, name, original, replacement in replaced:
            if vars(kind).get(name) is replacement:
                setattr(kind, name, original)
