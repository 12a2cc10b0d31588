"""The program: runs the command that the command line names, and turns what goes wrong into a sentence and an exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from gputop.cli import completion, doctor, hosts, machine, selftest
from gputop.cli.parser import build_parser, parse_run
from gputop.cli.terminal import OutputError, discard_output, reserve_descriptors, safe_output
from gputop.errors import EXIT_OK, GputopError, UsageError
from gputop.terminal_text import printable


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0 fine, 1 a problem was found, 2 wrong usage, 3 no GPU."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] != ["run"]:  # the user's command gets the streams as they are
        reserve_descriptors()
    with safe_output():
        return _main(words)


def _main(words: Sequence[str]) -> int:
    try:
        if words[:1] == ["run"]:
            from gputop.recipes import run_command

            options, command = parse_run(words[1:])
            _say_untracked(run_command.untracked_flag(command))
            run_command.run(command, options.name, options.project)
        try:
            code = _dispatch(build_parser().parse_args(words))
        except SystemExit as end:  # argparse, after --help
            code = end.code if isinstance(end.code, int) else EXIT_OK
        sys.stdout.flush()
        return code
    except OutputError as error:
        print(f"gputop: {error}", file=sys.stderr)
        discard_output()
        return error.exit_code
    except GputopError as error:
        print(f"gputop: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of a pipe left (gputop --stream | head): nothing is wrong, and nothing more can be said.
        discard_output()
        return EXIT_OK


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
        "jobs": _job_command("jobs"),
        "logs": _job_command("logs"),
        "stop": _job_command("stop"),
        "runs": _runs,
        "doctor": lambda given: doctor.doctor(given, machine.sampler_of, machine.leave),
        "selftest": lambda given: selftest.selftest(given, machine.sampler_of, machine.leave),
        "completion": lambda given: completion.completion(given, build_parser()),
        "where": _where,
        "pick": machine.pick,
        "record": machine.record,
        "replay": machine.replay,
        "agent": machine.agent,
    }
    if options.command == "run":
        raise UsageError("gputop run takes no options before the word run.", "Write gputop run [--name N] -- CMD.")
    if options.command not in (None, "record") and hosts.asked(options):
        raise UsageError(f"gputop {options.command} looks at this machine only.", "Leave out -H and --hosts, or run it there.")
    if options.command:
        return commands[options.command](options)
    if options.stream:
        return machine.stream(options)
    if options.json and not options.once and sys.stdout.isatty():
        raise UsageError("--json prints one reading.", "Write gputop --once --json, or --stream for one per interval.")
    if options.once or options.json or not sys.stdout.isatty():
        _say_settings(options)
        return machine.once(options)
    return machine.screen(options)


def _say_settings(options: argparse.Namespace) -> None:
    """Say what is wrong with the settings file; the dashboard says it itself."""
    from gputop.tui.state.settings_file import read_settings

    for problem in read_settings(options.config).problems:
        print(printable(f"gputop: {problem.message} {problem.hint}"), file=sys.stderr)


def _job_command(name: str) -> Callable[[argparse.Namespace], int]:
    def command(options: argparse.Namespace) -> int:
        from gputop.cli import jobs as commands

        found: Callable[[argparse.Namespace], int] = getattr(commands, name)
        return found(options)

    return command


def _runs(options: argparse.Namespace) -> int:
    from gputop.cli import runs as commands

    return commands.runs(options, machine.sampler_of, machine.leave)


def _where(options: argparse.Namespace) -> int:
    from gputop.cli.where import where

    return where(options, machine.sampler_of, machine.leave)
