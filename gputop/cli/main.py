"""The program: runs the command that the command line names, and turns errors into a sentence and an exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from gputop.cli import hosts, machine, sampling
from gputop.cli.output.terminal import exit_code_of, reserve_descriptors, safe_output
from gputop.cli.parser import build_parser, parse, parse_run
from gputop.errors import EXIT_OK, UsageError
from gputop.terminal_text import printable

_OVER_HOSTS = (None, "record", "launch", "jobs", "logs", "stop", "runs")
"""The commands that read ``-H`` themselves; None stands for no command."""
_OF_SETTINGS = ("record", "export", "doctor", "where", "selftest", "pick")
"""The commands that read the settings file, besides the line without a command."""
_OF_PROMETHEUS = (None, "record", "doctor")
"""The commands that can ask a Prometheus server."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0 fine, 1 a problem was found, 2 wrong usage, 3 no GPU."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] != ["run"]:  # the user's command gets the streams as they are
        reserve_descriptors()
    with safe_output():
        return exit_code_of(lambda: _main(words))


def _main(words: Sequence[str]) -> int:
    if words[:1] == ["run"]:
        from gputop.recipes import run_command

        options, command = parse_run(words[1:])
        if hosts.asked(options):
            return _dispatch(_parsed(["launch", *run_command.split(words[1:])[0], "--", *command]))
        _say_untracked(run_command.untracked_flag(command))
        run_command.run(command, options.name, options.project)
    try:
        code = _dispatch(_parsed(words))
    except SystemExit as end:  # argparse, after --help
        code = end.code if isinstance(end.code, int) else EXIT_OK
    sys.stdout.flush()
    return code


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    """Return the command line; the words after the first "--" of ``gputop launch`` are the user's command."""
    place = words.index("--") if "--" in words else len(words)
    if "launch" not in words[:place]:
        return parse(words)
    options = parse(words[:place])
    options.words = tuple(words[place + 1 :])
    return options


def _say_untracked(flag: str | None) -> None:
    import os

    if flag is not None and os.environ.get("GPUTOP_SILENT", "0") in ("", "0") and os.environ.get("GPUTOP") != "0":
        what = f"gputop: with {flag}, Python does not start gputop: nothing is tracked unless the script imports gputop."
        print(printable(f"{what} Leave {flag} out to track it."), file=sys.stderr, flush=True)


def _dispatch(options: argparse.Namespace) -> int:
    if options.version:
        from gputop import __version__

        print(f"gputop {__version__}")
        return EXIT_OK
    commands: dict[str, Callable[[argparse.Namespace], int]] = {
        "demo": _job_command("demo"),
        "launch": _job_command("launch"),
        "jobs": _job_command("jobs"),
        "logs": _job_command("logs"),
        "stop": _job_command("stop"),
        "runs": _runs,
        "doctor": _doctor,
        "selftest": _selftest,
        "completion": _completion,
        "where": _where,
        "profile": _profile,
        "pick": machine.pick,
        "export": machine.export,
        "record": machine.record,
        "replay": machine.replay,
        "agent": sampling.agent,
    }
    if options.command in _OF_SETTINGS:
        _say_settings(options)
    if options.command == "run":
        raise UsageError("gputop run takes no options before the word run.", "Write gputop run [--name N] -- CMD.")
    if options.command not in _OF_PROMETHEUS and options.prometheus is not None:
        raise UsageError(f"gputop {options.command} cannot ask Prometheus.", "Prometheus knows only GPUs: name hosts with -H.")
    if options.command == "doctor" and hosts.asked(options):
        return machine.doctor_of_hosts(options)
    if options.command == "where" and hosts.asked(options):
        return machine.where_of_hosts(options)
    if options.command not in _OVER_HOSTS and hosts.asked(options):
        instead = "Write gputop launch -H." if options.command == "demo" else "Leave out -H and --hosts, or run it there."
        raise UsageError(f"gputop {options.command} works only on this machine.", instead)
    if options.command:
        return commands[options.command](options)
    if options.stream:
        _say_settings(options)
        return machine.stream(options)
    if options.json and not options.once and sys.stdout.isatty():
        raise UsageError("--json prints one reading.", "Write gputop --once --json, or --stream for one per interval.")
    if options.once or options.json or not sys.stdout.isatty():
        _say_settings(options)
        return machine.once(options)
    return machine.screen(options)


def _say_settings(options: argparse.Namespace) -> None:
    """Report what is wrong with the settings file; the dashboard does so itself."""
    from gputop.settings.file import read_settings

    for problem in read_settings(options.config).problems:
        print(printable(f"gputop: {problem.message} {problem.hint}"), file=sys.stderr)


def _job_command(name: str) -> Callable[[argparse.Namespace], int]:
    def command(options: argparse.Namespace) -> int:
        from gputop.cli import jobs as commands

        found: Callable[[argparse.Namespace], int] = getattr(commands, name)
        return found(options)

    return command


def _doctor(options: argparse.Namespace) -> int:
    from gputop.cli.doctor.command import doctor

    return doctor(options, machine.sampler_of, machine.leave)


def _selftest(options: argparse.Namespace) -> int:
    from gputop.cli import selftest

    return selftest.selftest(options, machine.sampler_of, machine.leave)


def _completion(options: argparse.Namespace) -> int:
    from gputop.cli import completion

    return completion.completion(options, build_parser())


def _runs(options: argparse.Namespace) -> int:
    from gputop.cli import runs as commands

    return commands.runs(options, machine.sampler_of, machine.leave)


def _profile(options: argparse.Namespace) -> int:
    from gputop.cli.live.profile import profile
    from gputop.cli.stored.shelf import Shelf

    return profile(options, Shelf(backlog_points=None).live)


def _where(options: argparse.Namespace) -> int:
    from gputop.cli.where import where

    return where(options, machine.sampler_of, machine.leave)
