"""Arguments of ``gputop doctor``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gputop.cli.arguments.help import add_command
from gputop.cli.arguments.shared import add_hosts, add_reading

ALL_RULES = ""
"""The value of ``--rules`` without an id."""


def add_doctor(commands: Any) -> None:
    """Add ``doctor``."""
    doctor = add_command(
        commands,
        "doctor",
        "diagnose the training on this machine: what is wrong, why, and the fix",
        ("gputop doctor", "watch until nothing is undecided, then report"),
        ("gputop doctor --log train.log", "explain the error in a log"),
        ("gputop doctor --before", "check the machine before a run"),
        ("gputop doctor --rules A07", "explain one rule"),
        ("gputop doctor -H 'gpu[1-4]'", "diagnose these hosts and the runs over them"),
        more="Exit code: 0 nothing likely or certain, 1 a problem or undecided, 3 no GPU.",
    )
    doctor.add_argument(
        "--for", dest="seconds", metavar="TIME", help="watch at most this long (default 120s); ends once nothing is undecided"
    )
    doctor.add_argument("--json", action="store_true", dest="as_json", help="print the findings as JSON")
    doctor.add_argument("--run", metavar="RUN", help="only findings of this run (id or name)")
    what = doctor.add_mutually_exclusive_group()
    what.add_argument("--replay", type=Path, metavar="FILE", help="diagnose a recording instead of this machine")
    what.add_argument("--log", nargs="+", metavar="FILE", help="explain the error in the logs of one run: files, a job, or -")
    what.add_argument("--before", action="store_true", help="check this machine before a run: driver, torch, ports, limits ...")
    what.add_argument(
        "--rules",
        nargs="?",
        const=ALL_RULES,
        metavar="ID",
        help="list the causes that the doctor knows, explain one (A07, oom), or list those that mention a word (worker)",
    )
    doctor.add_argument("--watch", metavar="TIME", help="check at this interval and print changes, until Ctrl-C")
    add_reading(doctor, asks=True)
    add_hosts(doctor, reads=True)
