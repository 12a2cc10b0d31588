"""Arguments of the commands about gputop itself: selftest and completion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gputop.cli.arguments.help import add_command
from gputop.cli.arguments.shared import add_reading

SELFTEST_TIME = "10s"
SHELLS = ("bash", "zsh", "fish")
KINDS = ("runs", "jobs", "recipes")
"""The kinds of names that only this machine knows."""


def add_selftest(commands: Any) -> None:
    """Add ``selftest``."""
    parser = add_command(
        commands,
        "selftest",
        "check gputop itself on this machine: driver, tracking, doctor",
        ("gputop selftest", "ask the driver everything, train 10 s on each GPU and on two"),
        ("gputop selftest --no-training", "ask the driver only; starts nothing"),
        more="Trains a small network for some seconds. Exit code: 0 every check passed, 1 a check failed, 3 no GPU.",
    )
    parser.add_argument(
        "--for",
        dest="seconds",
        metavar="TIME",
        default=SELFTEST_TIME,
        help=f"length of each training (default {SELFTEST_TIME})",
    )
    parser.add_argument("--no-training", action="store_true", help="ask the driver only")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="the file to write (default gputop-selftest-DATE.json here)"
    )
    add_reading(parser)


def add_completion(commands: Any) -> None:
    """Add ``completion``."""
    parser = add_command(
        commands,
        "completion",
        "print a shell script that completes gputop's commands and options",
        ("gputop completion bash", 'in ~/.bashrc: eval "$(gputop completion bash)"'),
        ("gputop completion zsh", 'in ~/.zshrc, after compinit: eval "$(gputop completion zsh)"'),
        ("gputop completion fish", "save it as ~/.config/fish/completions/gputop.fish"),
    )
    parser.add_argument("shell", nargs="?", choices=SHELLS, default="bash", help="bash, zsh or fish (default bash)")
    parser.add_argument("--names", choices=KINDS, help="print the names of runs, jobs or recipes instead, one per line")
