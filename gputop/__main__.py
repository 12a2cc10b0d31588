"""The entry point of ``gputop`` and ``python -m gputop``: runs what cannot wait for the imports of the command line."""

from __future__ import annotations

import os
import sys

from gputop.agent.first_look import OPTION, write_first_look
from gputop.agent.one_heap import share_one_heap
from gputop.startup.light_imports import import_processes, leave_out_archives


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        return _main(sys.argv[1:])
    except (EOFError, ValueError) as error:
        from gputop.startup.bytecode import advice

        if (what := advice(error)) is None:
            raise
        sys.stderr.write(f"gputop: {what}\n")
        return 1


def _main(words: list[str]) -> int:
    if words[:1] == ["agent"]:
        leave_out_archives()
        share_one_heap()
        if OPTION in words:
            write_first_look()
        return _run_sampler()
    from gputop.agent.process import asks_for_dashboard, end_early, start_early

    if asks_for_dashboard(words):
        import_processes()
        start_early(words)
    try:
        code = _run()
    finally:
        end_early()
    _end_at_once(code)
    return code


def _end_at_once(code: int) -> None:
    """End the process at once if it was a screen or read this machine: everything is saved and released by now.

    Freeing a screen's modules and objects takes Python as long as the rest of quitting, 0.1 s, and a thread that hangs in the
    driver would keep the interpreter from ending.
    """
    if "textual" not in sys.modules and "gputop.agent.sampler" not in sys.modules:
        return
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return  # Python itself reports a broken stream
    os._exit(code)


def _run_sampler() -> int:
    from gputop.startup.gc_freeze import long_lived
    from gputop.startup.light_imports import import_ctypes, import_library

    with long_lived():
        import_library()
        import_ctypes()
        from gputop.cli.sampling import main as run
    code = run()
    return _run() if code is None else code


def _run() -> int:
    from gputop.startup.gc_freeze import long_lived
    from gputop.startup.light_imports import import_argparse, import_library

    with long_lived():
        import_library()
        import_argparse()
        from gputop.cli.main import main as run
    return run()


if __name__ == "__main__":
    sys.exit(main())
