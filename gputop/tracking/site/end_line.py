"""Makes the first Python process of a command print at its end, on its standard error, what ``gputop run`` recorded.

``gputop run`` becomes the command, so no parent is left to print it. The first Python that starts takes ``GPUTOP_END_LINE`` out
of the environment: the processes that it starts, such as the ranks of a launcher, stay silent. In a shell script each Python is
the first one. A process that is interactive, or that ends by a signal or by ``os._exit``, prints nothing. If standard error is
not a terminal, only a process that has loaded torch prints anything: that no training step was seen.

Self-contained at module level: any Python under ``gputop run`` loads this file by path. What reads the runs is imported at the
very end.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

VARIABLE = "GPUTOP_END_LINE"
"""The environment variable with the PID of the command."""
_PACKAGE_PARENT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))


def arm() -> None:
    """Print at the end of this process what was recorded, unless another process does."""
    command = os.environ.pop(VARIABLE, None)
    if command is None:
        return
    import atexit
    import time

    # Registered first, so it runs after everything that the script and gputop register.
    atexit.register(_say, os.getpid(), command == str(os.getpid()), os.environ.get("GPUTOP_LAUNCH_ID", ""), time.time())


def _say(pid: int, is_command: bool, launch_id: str, started_at: float) -> None:
    if os.getpid() != pid:  # a forked child
        return
    try:
        interrupted = getattr(sys, "last_type", None) is KeyboardInterrupt
        if hasattr(sys, "ps1") or (interrupted and not _ended_by(sys.last_traceback)):
            return
        terminal = os.isatty(2)
        if not terminal and (not _has_torch() or hasattr(sys, "last_type")):
            return
        if "gputop" not in sys.modules:
            sys.path.append(_PACKAGE_PARENT)  # this interpreter may lack gputop
        from gputop.tracking.reader.end_line import NO_STEP, end_line, write

        line = end_line(launch_id, started_at, is_command, unseen_only=not terminal)
        if line and not (line == NO_STEP and _had_a_run()):
            if terminal:
                sys.stdout.flush()
                os.write(2, f"{line}\n".encode("utf-8", "replace"))
            else:
                write(f"{line}\n")  # the number of standard error may stand for a file that the script opened
        if interrupted:
            _keep_exit_code()
    except Exception:  # noqa: BLE001 - the program has ended as it would without gputop; only a line is missing
        return


def _has_torch() -> bool:
    """Return whether torch was loaded: not barred by the script, and no other module of this name."""
    return sys.modules.get("torch") is not None and sys.modules.get("torch._C") is not None


def _had_a_run() -> bool:
    """Return whether this process opened a run that could not be kept: the user was warned when the run began."""
    session = sys.modules.get("gputop.tracking.session")
    return session is not None and (session.initialized() or session.current().journal is not None)


def _ended_by(trace: TracebackType | None) -> bool:
    """Return whether the error with this traceback left the script: an interactive console catches and notes its errors too."""
    if trace is None:
        return False
    code = trace.tb_frame.f_code
    in_script = trace.tb_frame.f_globals is vars(sys.modules["__main__"]) and code.co_filename != "<console>"
    return code.co_name == "_run_module_as_main" or (code.co_name == "<module>" and in_script)


def _keep_exit_code() -> None:
    """Let Python end by SIGINT after a Ctrl-C, as it would have: every ``exec``, as in an import, makes it forget that."""
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        return
