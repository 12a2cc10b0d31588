"""Records a training that fails or ends before a step was seen, and so has no run: the one that users most want to see.

Active only in a process that ``gputop run`` or a job started and that is not a child of multiprocessing: a loader's worker
imports torch, too. An exit is a failure if the script, and not a library's program such as torchrun, asks for it with a text or
a code other than 0: a usage error, a missing file. An error that only reports how another process ended does not count.
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

from gputop.tracking import ending, last_exit
from gputop.tracking.journal.identity import is_fork_server
from gputop.tracking.stand_in import cut

_ABOUT_OTHERS = ("subprocess.", "multiprocessing.", "concurrent.", "torch.multiprocessing.", "torch.distributed.elastic.")
"""Modules whose errors report how another process ended."""
_SIGNALED_FROM = 128
"""From this exit code on, a signal ended the process: it was stopped."""
UNSEEN = "gputop saw no training step: backward ran, but no optimizer of torch stepped."


def record(is_tracked: Callable[[], bool]) -> None:
    """Open a run when an error ends this process, unless ``is_tracked()`` or the script has had one."""
    multiprocessing: Any = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None and (multiprocessing.parent_process() is not None or is_fork_server()):
        return
    original = sys.excepthook

    @wraps(original)
    def failed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        with suppress(Exception):  # Python reports the error, whatever goes wrong here
            if isinstance(error, Exception) and ending.ends_the_process():
                _open_and_fail(is_tracked, error)
            cut(error)
        original(kind, error, trace)

    ending.put_hook(failed)
    exits: list[SystemExit] = []
    pid = os.getpid()

    def at_exit() -> None:
        with suppress(Exception):  # the process ends, whatever goes wrong here
            if exits and os.getpid() == pid:
                _open_and_fail(is_tracked, exits[-1])

    atexit.register(at_exit)
    last_exit.watch_calls()
    last_exit.watch(exits.append)  # a run that opens later takes over


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


def _open_and_fail(is_tracked: Callable[[], bool], error: BaseException) -> None:
    from gputop.tracking import session

    if is_tracked() or session.initialized():
        return
    code, behind = ending.exit_code_of(error), error
    if isinstance(error, SystemExit):
        behind = ending.handled(error)
        if not 0 < (code or 0) < _SIGNALED_FROM or isinstance(behind, KeyboardInterrupt) or _in_a_library_s_program(error):
            return
    if f"{type(behind).__module__}.".startswith(_ABOUT_OTHERS):
        return
    from gputop.tracking.journal.identity import launched_id

    run = session.init(resume=launched_id())
    if not run.disabled:
        words = _words(behind) if isinstance(behind, SystemExit) else None
        run.fact("error", ending.error_fact(behind, ending.is_library, words))
    run.end(code)


def _in_a_library_s_program(error: SystemExit) -> bool:
    """Return whether this process runs an installed program, such as a launcher: its exit code may be that of another."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if path is None and error.__traceback__ is not None:  # from Python 3.14 on, a script's file is forgotten before it exits
        path = error.__traceback__.tb_frame.f_code.co_filename
    return path is not None and (ending.is_library(path) or (os.path.dirname(path).endswith("bin") and "." not in path[-4:]))


def _words(error: SystemExit) -> str:
    """Return what a script says as it exits: its text, or that of a usage error, which argparse keeps to itself."""
    if error.code is not None and not isinstance(error.code, int):
        return str(error.code)
    trace = error.__traceback__
    while trace is not None:
        code, names = trace.tb_frame.f_code, trace.tb_frame.f_locals
        if code.co_name == "error" and code.co_filename.endswith("argparse.py") and isinstance(names.get("message"), str):
            return f"{getattr(names.get('self'), 'prog', '')}: error: {names['message']}"
        trace = trace.tb_next
    if type(error.__context__).__module__ == "argparse":  # Python 3.10 keeps no traceback of an exit that nothing could catch
        return f"error: {error.__context__}"
    return f"exit code {error.code}"
