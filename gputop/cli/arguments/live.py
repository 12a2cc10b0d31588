"""Arguments of the commands that ask a live run: where its ranks are, and where the time of its steps goes."""

from __future__ import annotations

from typing import Any

from gputop.cli.arguments.help import add_command
from gputop.cli.arguments.shared import add_hosts


def add_where(commands: Any) -> None:
    """Add ``where``."""
    where = add_command(
        commands,
        "where",
        "show where every rank of a run is now, and which one the others wait for",
        ("gputop where", "your newest live run"),
        ("gputop where resnet18 --json", "the newest run of this name, as one JSON object"),
        ("gputop where 4242 --py-spy", "the stack of an untracked process, from py-spy"),
        ("gputop where -H gpu1,gpu2", "the newest live run over these hosts"),
        more="Takes two seconds; stops and traces no process.",
    )
    where.add_argument(
        "run",
        nargs="?",
        metavar="RUN|PID",
        help="a run's id or name, or a process (default: your newest live run, a tracked one first)",
    )
    where.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    where.add_argument(
        "--py-spy", action="store_true", help="ask py-spy about processes that do not answer; py-spy uses ptrace"
    )
    add_hosts(where)


def add_profile(commands: Any) -> None:
    """Add ``profile``."""
    profile = add_command(
        commands,
        "profile",
        "record a few steps of a live run with torch's profiler: where their time goes",
        ("gputop profile", "three steps of the newest live run"),
        ("gputop profile resnet18 --steps 1 --rank 3", "one step of rank 3 of the newest run of this name"),
        ("gputop profile --cost", "print the expected cost and exit"),
        more=(
            "Slows the training for a few steps; gputop prints the expected cost first. torch writes a few lines to the "
            "training's stderr."
        ),
    )
    profile.add_argument("run", nargs="?", metavar="RUN", help="a run's id or name (default: the newest live run)")
    profile.add_argument("--steps", type=int, default=3, metavar="N", help="how many steps, 1 to 10 (default 3)")
    profile.add_argument("--rank", type=int, metavar="N", help="which rank (default: the lowest on this machine)")
    profile.add_argument("--cost", action="store_true", help="print the expected cost and exit")
    profile.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
