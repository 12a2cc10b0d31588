"""Makes a thread of Textual release its last worker, which it otherwise keeps, and with it a closed screen."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from textual.worker import active_worker


def releasing_worker(method: Callable[..., None]) -> Callable[..., None]:
    """Decorate a method that runs in a thread, below ``@work(thread=True)``."""

    @wraps(method)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            method(*args, **kwargs)
        finally:
            active_worker.set(cast(Any, None))

    return run
