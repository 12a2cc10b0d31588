"""The command line: parses, and hands each command to the room that does it; imports a room only when its command runs."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gputop.cli import doctor as doctor_command
from gputop.errors import EXIT_NO_GPU, EXIT_OK, EXIT_USAGE, GputopError, NoGpuError, UsageError

if TYPE_CHECKING:
    from gputop.agent.sampler import Sampler
    from gputop.tui.state.settings import Settings


class _Parser(argparse.ArgumentParser):
    """argparse with our exit code and one line of words instead of the usage block."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].upper()}{message[1:]}.", f"See {self.prog} --help.")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = _Parser(
        prog="gputop", description="GPUs, loss and load balance of your training, on one screen.", allow_abbrev=False
    )
    parser.add_argument("-V", "--version", action="store_true", help="print the version and exit")
    parser.add_argument("-1", "--once", action="store_true", help="print one reading as text and exit")
    parser.add_argument("--json", action="store_true", help="with --once: one JSON object")
    parser.add_argument("--stream", action="store_true", help="print a JSON object per interval until interrupted")
    parser.add_argument("-n", "--count", type=int, metavar="N", help="with --stream: stop after N objects")
    _shared(parser, default=True)
    look = parser.add_argument_group("look")
    look.add_argument("--theme", choices=("auto", "dark", "light", "ansi"), help="colours (auto follows COLORFGBG and TERM)")
    look.add_argument("--ascii", action="store_true", help="draw with ASCII characters alone")
    look.add_argument("--no-color", action="store_true", help="no colours (also NO_COLOR=1)")
    look.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal, for selecting text")
    look.add_argument("--readonly", action="store_true", help="never start or stop anything")
    look.add_argument("--config", type=Path, metavar="FILE", help="settings file")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    commands.add_parser("run", help="run a training command, tracked: run -- CMD")
    _demo(commands)
    commands.add_parser("jobs", help="list launched jobs").add_argument("--json", action="store_true", dest="as_json")
    _with(commands, "logs", "print a job's log", ("job",)).add_argument("-f", "--follow", action="store_true")
    _with(commands, "stop", "stop a job", ("job",))
    runs = commands.add_parser("runs", help="list tracked runs").add_subparsers(dest="runs_command", parser_class=_Parser)
    _with(runs, "show", "one run's ranks and latest values", ("run",))
    plot = _with(runs, "plot", "a run's metrics as plots, in the terminal or as text", ("run",))
    plot.add_argument("metrics", nargs="*", metavar="METRIC", help="what to plot (default: the loss)")
    plot.add_argument("--width", type=int, metavar="COLUMNS", help="columns of a plot (default: the terminal's)")
    plot.add_argument("--height", type=int, metavar="ROWS", help="rows of a plot (default: what fits the terminal)")
    export = _with(runs, "export", "a run's metrics", ("run",))
    form = export.add_mutually_exclusive_group(required=True)
    form.add_argument("--csv", action="store_true")
    form.add_argument("--json", action="store_true", dest="as_json")
    prune = runs.add_parser("prune", help="delete old runs; asks first, and never deletes one that is alive")
    prune.add_argument("--older-than", metavar="TIME", help="those that ended so long ago, e.g. 30d")
    prune.add_argument("--keep", type=int, metavar="N", help="all but the N newest")
    prune.add_argument("--yes", action="store_true", help="do not ask")
    doctor = doctor_command.add_parser(commands)
    _shared(doctor)
    pick = commands.add_parser("pick", help="print the freest GPUs for CUDA_VISIBLE_DEVICES")
    pick.add_argument("-n", type=int, default=1, dest="number", metavar="N")
    pick.add_argument("--free", type=float, default=0.0, metavar="GIB", help="at least so much free memory")
    pick.add_argument("--index", action="store_true", help="indices instead of UUIDs")
    record = commands.add_parser("record", help="write the stream to a file")
    record.add_argument("file", type=Path)
    record.add_argument("--for", dest="seconds", metavar="TIME", help="stop after so long (else Ctrl-C)")
    _shared(record)
    replay = commands.add_parser("replay", help="show a recording")
    replay.add_argument("file", type=Path)
    replay.add_argument("--speed", type=float, default=1.0, metavar="X")
    _shared(commands.add_parser("agent", help="the sampler: the stream on standard output"))
    return parser


def _shared(parser: argparse.ArgumentParser, default: bool = False) -> None:
    """Add what the dashboard and the commands that read this machine have in common; a command's own value wins."""
    unset: Any = None if default else argparse.SUPPRESS
    parser.add_argument("-i", "--interval", default=unset, metavar="TIME", help="1, 500ms, 2s (default 1s)")
    parser.add_argument("-g", "--gpus", default=unset, metavar="LIST", help="only these: indices or UUIDs, with commas")
    parser.add_argument(
        "--virtual",
        default=unset,
        nargs="?",
        const=0,
        type=int,
        metavar="N",
        help="virtual GPUs (CPU work) instead of real ones",
    )


def _with(commands: Any, name: str, words: str, arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=words)
    for argument in arguments:
        parser.add_argument(argument)
    return parser


def _demo(commands: Any) -> None:
    demo = commands.add_parser("demo", help="run a bundled recipe in this terminal")
    demo.add_argument("name", nargs="?", help="a recipe; see --list")
    demo.add_argument("--list", action="store_true", dest="list_recipes")
    demo.add_argument("--devices", metavar="LIST", help="GPUs to use, e.g. 0,1 (default: what suits the recipe)")
    demo.add_argument("options", nargs=argparse.REMAINDER, help="options of the recipe, e.g. --epochs 2")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0 fine, 1 a problem was found, 2 wrong usage, 3 no GPU."""
    try:
        words = sys.argv[1:] if arguments is None else list(arguments)
        if words[:1] == ["run"]:
            from gputop.recipes.run_command import main as become

            become(words[1:])
        return _dispatch(build_parser().parse_args(words))
    except GputopError as error:
        print(f"gputop: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of a pipe left (gputop --stream | head): nothing is wrong, and nothing more can be said.
        sys.stderr.close()
        return EXIT_OK


def _dispatch(options: argparse.Namespace) -> int:
    if options.version:
        from gputop import __version__

        print(f"gputop {__version__}")
        return EXIT_OK
    commands: dict[str, Callable[[argparse.Namespace], int]] = {
        "demo": _command_jobs("demo"),
        "jobs": _command_jobs("jobs"),
        "logs": _command_jobs("logs"),
        "stop": _command_jobs("stop"),
        "runs": _command_runs,
        "doctor": _command_doctor,
        "pick": _command_pick,
        "record": _command_record,
        "replay": _command_replay,
        "agent": _command_agent,
    }
    if options.command:
        return commands[options.command](options)
    if options.stream:
        return _stream(options)
    if options.json and not options.once and sys.stdout.isatty():
        raise UsageError("--json prints one reading.", "Write gputop --once --json, or --stream for one per interval.")
    if options.once or options.json or not sys.stdout.isatty():
        return _once(options)
    return _screen(options)


def interval_of(options: argparse.Namespace, fallback: float = 1.0) -> float:
    """Return ``--interval`` in seconds.

    Raises:
        UsageError: no length of time, or outside 0.1 s to one hour.
    """
    from gputop.units import INTERVAL_MAX_S, INTERVAL_MIN_S, parse_duration

    if options.interval is None:
        return fallback
    seconds = parse_duration(options.interval)
    if not INTERVAL_MIN_S <= seconds <= INTERVAL_MAX_S:
        raise UsageError(f"An interval of {options.interval} is out of range.", "Choose between 100ms and 1h.")
    return seconds


def _gpus(options: argparse.Namespace) -> tuple[str, ...]:
    return tuple(part for part in (options.gpus or "").split(",") if part)


def _sampler(options: argparse.Namespace, *, fall_back: bool) -> Sampler:
    from gputop.agent.sampler import Sampler, choose_source

    interval = interval_of(options)
    source, problem = choose_source(interval, options.virtual, fall_back=fall_back)
    return Sampler(source, interval, problem=problem, gpus=_gpus(options))


def _once(options: argparse.Namespace) -> int:
    from gputop.agent.sampler import take_once

    sampler = _sampler(options, fall_back=False)
    snapshot = take_once(sampler)
    if options.json:
        print(snapshot.to_json())
    else:
        from gputop.cli.once import once_text

        print(once_text(snapshot))
    return _leave(sampler, EXIT_NO_GPU if snapshot.host.source == "none" else EXIT_OK)


def _leave(sampler: Sampler, code: int) -> int:
    """Close the source and leave without waiting for a thread that hangs in the driver."""
    import os

    sampler.source.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _stream(options: argparse.Namespace) -> int:
    from gputop.agent.sampler import serve, write_line

    sampler = _sampler(options, fall_back=False)
    written = 0

    def write(line: str) -> None:
        nonlocal written
        write_line(line)
        written += 1
        if options.count is not None and written >= options.count:
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        serve(sampler, write)
    return _leave(sampler, EXIT_NO_GPU if sampler.source.name == "none" else EXIT_OK)


def _settings(options: argparse.Namespace) -> Settings:
    """Return the saved settings with what the command line says on top."""
    import dataclasses
    import os

    from gputop.tui.state.settings_file import load_settings

    if options.config:
        # The settings screen saves to where places.config_path() points.
        os.environ["GPUTOP_CONFIG"] = str(options.config)
    saved = load_settings()
    return dataclasses.replace(
        saved,
        interval_s=interval_of(options, saved.interval_s),
        theme=options.theme or saved.theme,
        ascii=options.ascii or saved.ascii,
        color=saved.color and not options.no_color and not os.environ.get("NO_COLOR"),
        mouse=saved.mouse and not options.no_mouse,
        readonly=options.readonly or saved.readonly,
        gpus=_gpus(options) or saved.gpus,
    )


def _screen(options: argparse.Namespace) -> int:
    from gputop.agent.feed import LiveFeed

    settings = _settings(options)
    arguments = ["-i", f"{settings.interval_s}s"]
    if options.virtual is not None:
        arguments += ["--virtual", str(options.virtual)]
    if settings.gpus:
        arguments += ["-g", ",".join(settings.gpus)]
    # The driver starts in the agent while Textual is still being imported here.
    feed = LiveFeed(arguments)
    from gputop.tui.start import run_app

    return run_app(feed, settings)


def _command_replay(options: argparse.Namespace) -> int:
    from gputop.agent.feed import ReplayFeed
    from gputop.sources.recording import read_recording

    if options.speed <= 0:
        raise UsageError("A replay's speed is a factor above 0.", "Write --speed 2 for twice as fast.")
    next(read_recording(options.file), None)  # a file that is no recording is told here, not on a screen
    if not sys.stdout.isatty():
        for snapshot in read_recording(options.file):
            print(snapshot.to_json())
        return EXIT_OK
    from gputop.tui.start import run_app

    return run_app(ReplayFeed(options.file, options.speed), _settings(options))


def _command_agent(options: argparse.Namespace) -> int:
    from gputop.agent.sampler import main as agent_main

    return agent_main(interval_of(options), options.virtual, _gpus(options))


def _command_record(options: argparse.Namespace) -> int:
    import time

    from gputop.agent.sampler import serve
    from gputop.sources.recording import Recorder
    from gputop.units import parse_duration

    end = time.monotonic() + parse_duration(options.seconds) if options.seconds else None
    sampler = _sampler(options, fall_back=False)
    if sampler.source.name == "none":
        problem = sampler.take().host.problem
        raise NoGpuError(problem.message if problem else "There is no GPU.", "Add --virtual to record virtual GPUs.")
    with Recorder(options.file) as recorder:
        print(f"recording to {options.file}; Ctrl-C ends it", file=sys.stderr)

        def write(line: str) -> None:
            recorder.write(line)
            if end is not None and time.monotonic() >= end:
                raise KeyboardInterrupt

        with contextlib.suppress(KeyboardInterrupt):
            serve(sampler, write)
    return _leave(sampler, EXIT_OK)


def _command_doctor(options: argparse.Namespace) -> int:
    from gputop.cli.doctor import doctor

    return doctor(options, lambda given: _sampler(given, fall_back=False), _leave)


def _command_pick(options: argparse.Namespace) -> int:
    from gputop.agent.sampler import take_once
    from gputop.recipes.pick import freest

    sampler = _sampler(options, fall_back=False)
    snapshot = take_once(sampler)
    if snapshot.host.source == "none":
        problem = snapshot.host.problem
        raise NoGpuError(problem.message if problem else "There is no GPU.", problem.hint if problem else "")
    chosen = freest(snapshot, options.number, options.free * 2**30)
    print(",".join(str(device.index) if options.index else device.uuid for device in chosen))
    return _leave(sampler, EXIT_OK)


def _command_jobs(name: str) -> Callable[[argparse.Namespace], int]:
    def command(options: argparse.Namespace) -> int:
        from gputop.cli import jobs as commands

        found: Callable[[argparse.Namespace], int] = getattr(commands, name)
        return found(options)

    return command


def _command_runs(options: argparse.Namespace) -> int:
    from gputop.cli import runs as commands

    return commands.runs(options)


__all__ = ["EXIT_USAGE", "build_parser", "interval_of", "main"]
