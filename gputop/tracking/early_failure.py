"""Records a training that fails, or ends, before a step of it was seen, and so has no run: the one that one most wants to see.

Only in a process that was started to train, by ``gputop run`` or as a job, and that is no child of multiprocessing: a loader's
worker imports torch as well. An exit that the script asks for, such as that of a usage error, is no failure; nor is an error
that only reports how another process ended, as in torchrun.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from types import TracebackType
from typing import Any

from gputop.tracking import ending

_ABOUT_OTHERS = ("subprocess.", "multiprocessing.", "concurrent.", "torch.multiprocessing.", "torch.distributed.elastic.")
"""Modules whose errors say how another process ended."""
UNSEEN = "gputop saw no training step: backward ran, but no optimizer of torch stepped."


def record(is_tracked: Callable[[], bool]) -> None:
    """Open a run when an exception ends this process, unless ``is_tracked()`` or the script has had one."""
    multiprocessing: Any = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        return
    original = sys.excepthook

    @wraps(original)
    def failed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        with suppress(Exception):  # Python reports the error, whatever goes wrong here
            if isinstance(error, Exception) and not f"{kind.__module__}.".startswith(_ABOUT_OTHERS):
                _open_and_fail(is_tracked, error)
        original(kind, error, trace)

    sys.excepthook = failed


def record_unseen(is_tracked: Callable[[], bool]) -> None:
    """Open a run at the end of this process, unless one was opened: backward has run, but no step was seen so far."""
    if not (os.environ.get("GPUTOP_LAUNCH_ID") or os.environ.get("GPUTOP_JOB_ID")):
        return
    from gputop.tracking import session
    from gputop.tracking.journal.identity import launched_id

    pid = os.getpid()

    def at_exit() -> None:
        with suppress(Exception):  # the process ends, whatever goes wrong here
            if os.getpid() == pid and not is_tracked() and not session.initialized():
                session.init(resume=launched_id()).text(UNSEEN, "warning")

    # The hook ends the run with the exit code. It is registered before what opens one, and so is called after it.
    ending.hook(session.current)
    atexit.register(at_exit)


def _open_and_fail(is_tracked: Callable[[], bool], error: Exception) -> None:
    from gputop.tracking import session

    if is_tracked() or session.initialized():
        return
    from gputop.tracking.journal.identity import launched_id

    run = session.init(resume=launched_id())
    ending.record_error(run, error)
    run.finish(ending.exit_code_of(error))
