"""Where the ``gputop`` command begins, also as ``python -m gputop``: what must not wait for the command line's imports."""

from __future__ import annotations

import sys

from gputop.agent.first_look import OPTION, write_first_look


def main() -> int:
    """Run the command line and return its exit code."""
    words = sys.argv[1:]
    if words[:1] == ["agent"]:
        if OPTION in words:
            write_first_look()
        return _run()
    from gputop.agent.process import end_early, start_early

    start_early(words)
    try:
        return _run()
    finally:
        end_early()


def _run() -> int:
    from gputop.tui.gc_freeze import long_lived

    with long_lived():
        from gputop.cli.main import main as run
    return run()


if __name__ == "__main__":
    sys.exit(main())
