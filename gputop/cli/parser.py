"""The command line: the dashboard's options, and every command. Imports nothing that a command needs in order to run."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from typing import Any, Literal

from gputop.cli.arguments.help import Parser
from gputop.cli.arguments.shared import add_hosts, add_look, add_reading
from gputop.errors import UsageError


def build_parser(only: Literal["", "agent"] | None = None) -> argparse.ArgumentParser:
    """Return the parser of the whole command line, or ``only`` that of one command (or of a line without a command)."""
    parser = Parser(
        prog="gputop",
        description="GPUs, loss and load balance of your training, on one screen.",
        allow_abbrev=False,
        examples=(
            ("gputop", "the dashboard"),
            ("gputop --once --json", "one reading as JSON"),
            ("gputop --stream -i 500ms -n 10", "ten readings, one JSON object per line"),
            ("gputop --virtual 2", "two virtual GPUs: work on the CPU, measured"),
            ("gputop -H gpu1", "the dashboard of another machine, over ssh"),
            ("gputop -H 'gpu[1-8]'", "several machines on one screen"),
            ("gputop --once -H 'gpu[1-4],me@lab'", "one reading of each of five machines"),
            ("gputop --prometheus http://prom:9090", "the GPUs of all machines that Prometheus knows"),
        ),
    )
    parser.add_argument("-V", "--version", action="store_true", help="print the version and exit")
    parser.add_argument("-1", "--once", action="store_true", help="print one reading as text and exit")
    parser.add_argument("--json", action="store_true", help="with --once: one JSON object")
    parser.add_argument("--stream", action="store_true", help="print a JSON object per interval until interrupted")
    parser.add_argument("-n", "--count", type=int, metavar="N", help="with --stream: stop after N objects")
    add_reading(parser, default=True)
    add_hosts(parser, default=True, reads=True)
    add_look(parser)
    if only == "":
        parser.set_defaults(command=None)
        return parser
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    if only == "agent":
        from gputop.cli.arguments import machine

        machine.add_agent(commands)
    else:
        _add_all(commands)
    return parser


def _add_all(commands: Any) -> None:
    """Add every command, in the order of ``--help``."""
    from gputop.cli.arguments import doctor, itself, jobs, live, machine, runs

    for add in (jobs.add_run, jobs.add_demo, jobs.add_launch, jobs.add_jobs, runs.add_runs):
        add(commands)
    for add in (doctor.add_doctor, live.add_where, live.add_profile, machine.add_pick):
        add(commands)
    for add in (itself.add_selftest, machine.add_recordings, machine.add_export, itself.add_completion, machine.add_agent):
        add(commands)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line.

    Raises:
        UsageError: it is wrong.
    """
    # Creating the parsers of all commands takes longer than the rest, and the dashboard, one reading and the sampler need none
    # of them. Whatever a smaller parser does not understand, the whole one judges.
    if not any(map(_may_ask_for_help, words)):
        with contextlib.suppress(UsageError):
            return build_parser("agent" if words[:1] == ["agent"] else "").parse_args(words)
    return build_parser().parse_args(words)


def _may_ask_for_help(word: str) -> bool:
    """Return whether a word may be ``--help``, cut short or not, or hold ``-h`` among other letters."""
    return "--help".startswith(word) if word.startswith("--") else word.startswith("-") and "h" in word


def parse_run(words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Parse the arguments of ``gputop run``; return its options and the command to run.

    Raises:
        UsageError: an option is wrong.
    """
    from gputop.recipes.run_command import split

    own, command = split(words)
    return build_parser().parse_args(["run", *own]), command
