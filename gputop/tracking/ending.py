"""Finds out how this process ends, with which exit code or exception, and ends the active run accordingly.

Python does not expose its exit code. An uncaught exception reaches ``sys.excepthook``; a SystemExit reaches no hook, and
``last_exit`` sees it. ``sys.exit`` is wrapped as well, as other trackers do, for the processes of multiprocessing, which handle
it themselves. If the script catches that exception and trains on, the exit code is discarded at its next step. ``os._exit``
skips atexit, so it is wrapped too: the run's end is noted in memory, and the first reader of the run copies it to disk.
``os.execv`` and ``os.execve``, which the whole exec family calls, are wrapped as well: they replace the training with another
program.

The exit code does not replace the state of a run that the script has finished: the code may be about something later.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from types import ModuleType, TracebackType
from typing import Any, NoReturn

from gputop.facts.standing import Error
from gputop.tracking import last_exit, out_of_memory
from gputop.tracking.journal.format import SIGINT_EXIT_CODE
from gputop.tracking.recorder import Recorder
from gputop.tracking.stand_in import cut, passed_over

_CHILD_RUNNER = "_bootstrap"
"""multiprocessing's function around the whole of a child."""
_SCRIPTS = ("<module>", "_run_module_as_main")
"""The outermost functions of a Python that runs a script, a line, or a module."""
_MESSAGE_CHARACTERS = 500
"""How long the message of an exception may be."""
_LINE_CHARACTERS = 120
"""The least that is kept of each line of a longer message."""

_hooked_pid = 0
_known_libraries: Callable[[str], bool] | None = None


def use_libraries(is_library: Callable[[str], bool]) -> None:
    """Use ``is_library`` to distinguish libraries from the script: automatic tracking knows which packages are frameworks."""
    global _known_libraries
    _known_libraries = is_library


def exit_code_of(error: BaseException | None) -> int | None:
    """Return the exit code that an exception ends a process with; None for no exception."""
    if error is None:
        return None
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return SIGINT_EXIT_CODE if isinstance(error, KeyboardInterrupt) else 1


def hook(current: Callable[[], Recorder]) -> None:
    """End the active run with the process: at exit, on an uncaught exception, or when a multiprocessing child ends."""
    global _hooked_pid, _exit_call
    if _hooked_pid == os.getpid():
        return
    _hooked_pid = os.getpid()
    exit_call = _exit_call = _ExitCall()
    atexit.register(lambda: exit_call.end_process(None, current()))
    original_exit, original_leave, original_hook = sys.exit, os._exit, sys.excepthook

    def exit(status: Any = None, /) -> NoReturn:  # noqa: A001 - it replaces the function of this name
        with suppress(Exception):  # the script exits, whatever goes wrong here
            exit_call.note(status, current())
        original_exit(status)

    sys.exit = _as(original_exit, exit, sys)
    last_exit.watch(lambda error: exit_call.end(error, current()))

    def leave(status: int) -> NoReturn:
        with suppress(Exception):  # the script leaves, whatever goes wrong here
            current().note_end(status & 0xFF)  # its parent sees only this part
        original_leave(status)

    os._exit = _as(original_leave, leave, os)
    os.execv, os.execve = _noting(os.execv, current), _noting(os.execve, current)

    def failed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        with suppress(Exception):  # Python reports the error, whatever goes wrong here
            if ends_the_process():
                record_error(current(), error)
                current().end(exit_code_of(error))
            cut(error)
        original_hook(kind, error, trace)

    put_hook(_as(original_hook, failed, sys))
    multiprocessing: Any = sys.modules.get("multiprocessing.util")
    if multiprocessing is not None:
        # Such a child ends with os._exit, which skips atexit. Its finalizers run while the exception, if any, is being
        # handled; from Python 3.13 on only after that.
        multiprocessing.Finalize(None, lambda: exit_call.end_process(sys.exc_info()[1], current()), exitpriority=0)
        if sys.modules["multiprocessing.process"].parent_process() is not None:
            _follow_child(current)


def put_hook(ours: Callable[..., None]) -> None:
    """Replace ``sys.excepthook``, and the original if that is the hook, with a function of gputop that calls it.

    Consoles compare the two to see whether a script shows its errors itself, and hooks of scripts call the original.
    """
    if sys.excepthook is sys.__excepthook__:
        vars(sys)["__excepthook__"] = ours
    sys.excepthook = ours


def ends_the_process() -> bool:
    """Return whether the error that ``sys.excepthook`` is given ends the process.

    Python continues after an error in a statement at a prompt, in a script that is followed by a prompt, or one that a script
    itself passes to the hook.
    """
    inspects = sys.flags.inspect or os.environ.get("PYTHONINSPECT")
    prompt = hasattr(sys, "ps1") or (inspects and (sys.flags.interactive or os.isatty(0)))
    if prompt or threading.current_thread() is not threading.main_thread():
        return False
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_name not in _SCRIPTS


def _noting(original: Any, current: Callable[[], Recorder]) -> Any:
    """Return ``os.execv`` or ``os.execve``, noting that the run ends; how the new program ends is unknown."""

    @passed_over
    def replace(*args: Any, **kwargs: Any) -> None:
        with suppress(Exception):  # the script continues, whatever goes wrong here
            current().note_end(None)
        try:
            original(*args, **kwargs)
        finally:  # it did not work
            with suppress(Exception):
                current().take_back_end()

    found = _as(original, replace, os)
    if original in os.supports_fd:  # scripts look up the function to see whether it takes a descriptor
        os.supports_fd.add(found)
    return found


def _as(original: Any, ours: Any, home: ModuleType) -> Any:
    """Return a function of gputop that replaces another one in a module, where pickle looks it up."""
    found = wraps(original)(ours)
    found.__module__ = home.__name__
    return found


def _follow_child(current: Callable[[], Recorder]) -> None:
    """Record the exception that ends a multiprocessing child. No hook sees it: multiprocessing prints it and continues."""
    import traceback  # only needed here

    original = traceback.print_exc

    @wraps(original)
    def print_exc(*args: Any, **kwargs: Any) -> None:
        with suppress(Exception):  # Python reports the error, whatever goes wrong here
            error = sys.exc_info()[1]
            if error is not None and sys._getframe(1).f_code.co_name == _CHILD_RUNNER:
                record_error(current(), error)
                current().end(exit_code_of(error))
                cut(error)
        original(*args, **kwargs)

    traceback.print_exc = print_exc


class _ExitCall:
    """The last ``sys.exit`` of the main thread, and the run's step at that time."""

    def __init__(self) -> None:
        self.asked: int | None = None
        self._step: int | None = None
        self._facts: dict[str, Any] = {}
        """In a child of multiprocessing, what to record of the exception that was being handled then. Not the exception itself:
        it would keep the files of the function that failed open, and the child would end without writing their last lines."""

    def note(self, status: Any, run: Recorder) -> None:
        if threading.current_thread() is threading.main_thread():
            self.asked = exit_code_of(SystemExit(status))
            self._step = run.step
            process = sys.modules.get("multiprocessing.process")
            in_child = process is not None and process.parent_process() is not None
            self._facts = _facts_of(sys.exc_info()[1]) if in_child and self.asked else {}

    def end(self, error: SystemExit, run: Recorder) -> None:
        """Take the SystemExit that ends the script."""
        self.note(error.code, run)
        if self.asked:
            record_error(run, handled(error))

    def end_process(self, error: BaseException | None, run: Recorder) -> None:
        """End the run with the process; ``error`` ends it, where that is known.

        torch's spawn catches what its function raises, and exits. From Python 3.13 on, only the call shows what it caught.
        """
        with suppress(Exception):  # the process ends, whatever goes wrong here
            if isinstance(error, SystemExit):
                self.end(error, run)
            elif error is None and self.code(run) and _lacks_error(run):
                _record(run, self._facts)
        run.end(exit_code_of(error) or self.code(run))

    def code(self, run: Recorder) -> int | None:
        return self.asked if run.step == self._step else None


_exit_call = _ExitCall()


def asked_to_exit() -> int | None:
    """Return the code of the last ``sys.exit``, for a run that opens only while the process ends; None if there was none."""
    return _exit_call.asked


def handled(error: SystemExit) -> BaseException:
    """Return the exception that the script was handling when it exited with a number (hydra does this); else the exit
    itself, also where argparse exits: which of its usage errors are exceptions depends on the version of Python."""
    behind = error.__context__
    if behind is None or not isinstance(error.code, int) or type(behind).__module__ == "argparse":
        return error
    return behind


def record_error(run: Recorder, error: BaseException | None) -> None:
    """Record the fact ``error``: the exception that ends the script, unless it is an exit or the user's Ctrl-C."""
    if _lacks_error(run):
        _record(run, _facts_of(error))


def _lacks_error(run: Recorder) -> bool:
    return not run.disabled and "error" not in run.facts


def _record(run: Recorder, facts: Mapping[str, Any]) -> None:
    with suppress(Exception):  # how the script ends matters more than its record
        for name, value in facts.items():
            run.fact(name, value)


def _facts_of(error: BaseException | None) -> dict[str, Any]:
    """Return the facts on an exception that ends the script; none of an exit or the user's Ctrl-C."""
    facts: dict[str, Any] = {}
    if error is None or isinstance(error, KeyboardInterrupt | SystemExit):
        return facts
    with suppress(Exception):  # as above
        facts["error"] = error_fact(error, _is_library())
        held = out_of_memory.fact(error, _is_library())
        if held is not None:
            facts["out_of_memory"] = held
    return facts


def error_fact(error: BaseException, is_library: Callable[[str], bool], message: str | None = None) -> dict[str, Any]:
    """Return the fact ``error``: the exception, its message or the one that is given, and its last line outside libraries."""
    where = innermost = None
    trace = error.__traceback__
    while trace is not None:
        place = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
        innermost = place
        if not is_library(trace.tb_frame.f_code.co_filename):
            where = place
        trace = trace.tb_next
    try:
        message = shortened(str(error) if message is None else message)
    except Exception:  # noqa: BLE001 - __str__ is the user's code
        message = ""
    return Error.filled(type=type(error).__name__, message=message, where=where or innermost)


def shortened(message: str) -> str:
    """Shorten a message to its beginning; if it has several lines (a checkpoint's names), shorten each line.

    The last line stays: of an exception in a loader's worker, it says what was wrong, after the traceback there.
    """
    lines = message.splitlines()
    if len(message) > _MESSAGE_CHARACTERS and len(lines) > 1:
        each = max(_LINE_CHARACTERS, _MESSAGE_CHARACTERS // len(lines) - 1)
        message = "\n".join(line[:each] for line in lines)
    if len(message) > _MESSAGE_CHARACTERS and len(lines) > 1:
        last = f"\n{lines[-1][:_LINE_CHARACTERS]}"
        message = message[: _MESSAGE_CHARACTERS - len(last)] + last
    return message[:_MESSAGE_CHARACTERS]


def is_library(path: str) -> bool:
    """Return whether a file is a library's and not the script's."""
    return _is_library()(path)


def _is_library() -> Callable[[str], bool]:
    """Return a function that decides whether a file belongs to a library or to the script."""
    if _known_libraries is not None:
        return _known_libraries
    import sysconfig  # only needed here

    paths = sysconfig.get_paths()
    libraries = tuple(paths[name] + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    return lambda path: path.startswith((*libraries, "<"))
