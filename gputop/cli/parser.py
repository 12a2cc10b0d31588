"""The command line: parses it, and hands each command to the package that does it, imported only then."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputop.cli import completion as completion_command
from gputop.cli import doctor as doctor_command
from gputop.cli import selftest as selftest_command
from gputop.cli.help import Parser, add_command
from gputop.cli.terminal import OutputError, discard_output, reserve_descriptors, safe_output, told
from gputop.errors import EXIT_NO_GPU, EXIT_OK, EXIT_USAGE, GputopError, NoGpuError, UsageError
from gputop.terminal_text import printable

if TYPE_CHECKING:
    from gputop.agent.nccl_turns import WhenToAsk
    from gputop.agent.sampler import Sampler
    from gputop.tui.state.settings import Settings

_JOB = "20261122-141300-3f2a"
"""Stands for a job's id in examples."""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = Parser(
        prog="gputop",
        description="GPUs, loss and load balance of your training, on one screen.",
        allow_abbrev=False,
        examples=(
            ("gputop", "the dashboard"),
            ("gputop --once --json", "one reading as JSON"),
            ("gputop --stream -i 500ms -n 10", "ten readings, one JSON object per line"),
            ("gputop --virtual 2", "two virtual GPUs: work on the CPU, measured"),
        ),
    )
    parser.add_argument("-V", "--version", action="store_true", help="print the version and exit")
    parser.add_argument("-1", "--once", action="store_true", help="print one reading as text and exit")
    parser.add_argument("--json", action="store_true", help="with --once: one JSON object")
    parser.add_argument("--stream", action="store_true", help="print a JSON object per interval until interrupted")
    parser.add_argument("-n", "--count", type=int, metavar="N", help="with --stream: stop after N objects")
    _shared(parser, default=True)
    look = parser.add_argument_group("look")
    look.add_argument("--theme", choices=("auto", "dark", "light", "ansi"), help="colours (auto follows COLORFGBG and TERM)")
    look.add_argument("--ascii", action="store_true", help="draw with ASCII characters only")
    look.add_argument("--no-color", action="store_true", help="no colours (also NO_COLOR=1)")
    look.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal, for selecting text")
    look.add_argument("--readonly", action="store_true", help="never start or stop anything")
    look.add_argument("--config", type=Path, metavar="FILE", help="settings file")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    _run(commands)
    _demo(commands)
    _jobs(commands)
    _runs(commands)
    _shared(doctor_command.add_parser(commands), asks=True)
    _where(commands)
    _pick(commands)
    _shared(selftest_command.add_parser(commands))
    _recordings(commands)
    completion_command.add_parser(commands)
    agent = add_command(
        commands,
        "agent",
        "write the stream to standard output: the process that the dashboard starts",
        ("gputop agent -i 1s", "one JSON object per second, until Ctrl-C"),
    )
    _shared(agent)
    return parser


def _shared(parser: argparse.ArgumentParser, default: bool = False, *, asks: bool = False) -> None:
    """Add what the dashboard and the commands that read this machine have in common; a command's own value wins.

    ``asks`` adds the option to ask NCCL on request.
    """
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
    nccl = parser.add_mutually_exclusive_group()
    nccl.add_argument(
        "--no-nccl-ras",
        action="store_const",
        const="never",
        dest="ask_nccl",
        default=unset,
        help="never ask NCCL's RAS service (else about runs that stand still)",
    )
    if asks:
        nccl.add_argument(
            "--ask-nccl",
            action="store_const",
            const="requested",
            dest="ask_nccl",
            default=unset,
            help="ask NCCL's RAS service now; some NCCL versions can crash when asked",
        )


def _run(commands: Any) -> None:
    run = add_command(
        commands,
        "run",
        "run a training command, tracked without a change to it",
        ("gputop run -- python train.py", "track one process"),
        ("gputop run --name resnet18 -- torchrun --nproc-per-node=4 train.py", "track four ranks as one run"),
        usage="gputop run [--name N] [--project P] -- CMD …",
        allow_abbrev=False,
    )
    run.add_argument("--name", metavar="N", help="what the run is called (else the script's name)")
    run.add_argument("--project", metavar="P", help="a name over several runs")


def _demo(commands: Any) -> None:
    demo = add_command(
        commands,
        "demo",
        "run a bundled recipe in this terminal",
        ("gputop demo --list", "list the recipes and their options"),
        ("gputop demo ddp --devices 0,1", "train on GPU 0 and GPU 1"),
        ("gputop demo faults/ranks-on-one-gpu", "start a run with one mistake; gputop doctor names it"),
    )
    demo.add_argument("name", nargs="?", help="a recipe; see --list")
    demo.add_argument("--list", action="store_true", dest="list_recipes", help="list the recipes and their options")
    demo.add_argument("--devices", metavar="LIST", help="GPUs to use, e.g. 0,1 (default: what suits the recipe)")
    demo.add_argument("options", nargs=argparse.REMAINDER, help="options of the recipe, e.g. --epochs 2")


def _jobs(commands: Any) -> None:
    jobs = add_command(commands, "jobs", "list launched jobs", ("gputop jobs", "list jobs, newest first"))
    jobs.add_argument("--json", action="store_true", dest="as_json", help="print the jobs as JSON")
    logs = add_command(
        commands, "logs", "print a job's log", (f"gputop logs {_JOB} --follow", "print what comes, until the job ends")
    )
    logs.add_argument("job", help="a job's id; gputop jobs lists them")
    logs.add_argument("-f", "--follow", action="store_true", help="print what is added, until the job ends")
    stop = add_command(commands, "stop", "stop a job", (f"gputop stop {_JOB}", "stop a job and wait for its end"))
    stop.add_argument("job", help="a job's id; gputop jobs lists them")


def _runs(commands: Any) -> None:
    own = add_command(
        commands,
        "runs",
        "list tracked runs, and live ones that are not tracked",
        ("gputop runs", "list runs, newest first"),
        ("gputop runs --filter 'tag:ablation lr>1e-3 loss<0.5'", "of all runs, those that match every term"),
        ("gputop runs --filter 'state:failed duration>2h'", "failed runs that took longer than two hours"),
    )
    own.add_argument(
        "--filter",
        metavar="TEXT",
        help="words, /regex/, name: tag: state: recipe: project: id:, and comparisons on configuration, metrics, step, ranks, "
        "duration, age; ! before a term excludes",
    )
    runs = own.add_subparsers(dest="runs_command", metavar="COMMAND", parser_class=Parser)
    show = add_command(
        runs,
        "show",
        "print all about one run: metrics, tags, text, ranks, configuration",
        ("gputop runs show resnet18", "the newest run of this name"),
        ("gputop runs show resnet18 --json", "one JSON object"),
    )
    rename = add_command(
        runs, "rename", "give a run another name", ("gputop runs rename resnet18 baseline", "call the newest resnet18 baseline")
    )
    tag = add_command(
        runs,
        "tag",
        "add tags to a run, or remove them",
        ("gputop runs tag resnet18 paper fp16", "add two tags"),
        ("gputop runs tag resnet18 fp16 --remove", "remove one"),
    )
    plot = add_command(
        runs,
        "plot",
        "plot a run's metrics, in the terminal or as text",
        ("gputop runs plot resnet18", "plot the loss"),
        ("gputop runs plot resnet18 loss lr --width 80", "plot two metrics, 80 columns wide"),
    )
    export = add_command(
        runs,
        "export",
        "print a run's metrics as CSV or JSON",
        ("gputop runs export resnet18 --csv", "one line per value"),
    )
    imports = add_command(
        runs,
        "import",
        "make runs of the files of ended trainings: TensorBoard, W&B, MLflow, CSV, JSON lines, Trainer state",
        ("gputop runs import runs/ wandb/", "all that lies below these folders"),
    )
    imports.add_argument("paths", nargs="+", metavar="PATH", help="a file or a folder")
    for parser in (show, plot, export, rename, tag):
        parser.add_argument("run", help="a run's id, or a name: the newest run of that name")
    show.add_argument("--all", action="store_true", help="the whole configuration, also on a terminal")
    show.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    rename.add_argument("name", help="the new name")
    tag.add_argument("tags", nargs="+", metavar="TAG", help="a tag")
    tag.add_argument("--remove", action="store_true", help="remove these tags")
    plot.add_argument("metrics", nargs="*", metavar="METRIC", help="what to plot (default: the loss)")
    plot.add_argument("--width", type=int, metavar="COLUMNS", help="columns of a plot (default: the terminal's)")
    plot.add_argument("--height", type=int, metavar="ROWS", help="rows of a plot (default: what fits the terminal)")
    form = export.add_mutually_exclusive_group(required=True)
    form.add_argument("--csv", action="store_true", help="print CSV")
    form.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object per value")
    prune = add_command(
        runs,
        "prune",
        "delete old runs; asks first, and never deletes one that is alive",
        ("gputop runs prune --older-than 30d --keep 20", "delete runs older than 30 days, except the 20 newest"),
    )
    prune.add_argument("--older-than", metavar="TIME", help="runs that ended longer ago than this, e.g. 30d")
    prune.add_argument("--keep", type=int, metavar="N", help="all but the N newest")
    prune.add_argument("--yes", action="store_true", help="do not ask")


def _where(commands: Any) -> None:
    where = add_command(
        commands,
        "where",
        "say where every rank of a run is now, and which one the others wait for",
        ("gputop where", "the newest live run"),
        ("gputop where resnet18 --json", "the newest run of this name, as one JSON object"),
        ("gputop where 4242 --py-spy", "a process without gputop: its stack, by py-spy"),
        more="It takes two seconds, and neither stops nor traces a process.",
    )
    where.add_argument(
        "run", nargs="?", metavar="RUN|PID", help="a run's id or name, or a process (default: the newest live run)"
    )
    where.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    where.add_argument(
        "--py-spy", action="store_true", help="ask py-spy about processes that cannot be asked; it reads them with ptrace"
    )


def _pick(commands: Any) -> None:
    pick = add_command(
        commands,
        "pick",
        "print the freest GPUs for CUDA_VISIBLE_DEVICES",
        ("gputop pick -n 2 --free 20", "the UUIDs of two GPUs with 20 GiB of free memory"),
        ("gputop pick --index", "the index of the freest GPU"),
        more="In a shell: CUDA_VISIBLE_DEVICES=$(gputop pick -n 2) python train.py",
    )
    pick.add_argument("-n", type=int, default=1, dest="number", metavar="N", help="how many GPUs (default 1)")
    pick.add_argument("--free", type=float, default=0.0, metavar="GIB", help="require this much free memory")
    pick.add_argument("--index", action="store_true", help="print indices instead of UUIDs")


def _recordings(commands: Any) -> None:
    record = add_command(
        commands, "record", "write the stream to a file", ("gputop record recording.ndjson --for 10m", "record for ten minutes")
    )
    record.add_argument("file", type=Path, help="the recording to write")
    record.add_argument("--for", dest="seconds", metavar="TIME", help="stop after this time (else at Ctrl-C)")
    _shared(record)
    replay = add_command(
        commands, "replay", "show a recording", ("gputop replay recording.ndjson --speed 4", "show it four times as fast")
    )
    replay.add_argument("file", type=Path, help="a recording")
    replay.add_argument("--speed", type=float, default=1.0, metavar="X", help="2 is twice as fast (default 1)")


def parse_run(words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Parse the arguments of ``gputop run``; return its options and the command to run.

    Raises:
        UsageError: an option is wrong.
    """
    from gputop.recipes.run_command import split

    own, command = split(words)
    return build_parser().parse_args(["run", *own]), command


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
        "demo": _command_jobs("demo"),
        "jobs": _command_jobs("jobs"),
        "logs": _command_jobs("logs"),
        "stop": _command_jobs("stop"),
        "runs": _command_runs,
        "doctor": _command_doctor,
        "selftest": _command_selftest,
        "completion": lambda given: completion_command.completion(given, build_parser()),
        "where": _command_where,
        "pick": _command_pick,
        "record": _command_record,
        "replay": _command_replay,
        "agent": _command_agent,
    }
    if options.command == "run":
        raise UsageError("gputop run takes no options before the word run.", "Write gputop run [--name N] -- CMD.")
    if options.command:
        return commands[options.command](options)
    if options.stream:
        return _stream(options)
    if options.json and not options.once and sys.stdout.isatty():
        raise UsageError("--json prints one reading.", "Write gputop --once --json, or --stream for one per interval.")
    if options.once or options.json or not sys.stdout.isatty():
        _say_settings(options)
        return _once(options)
    return _screen(options)


def _say_settings(options: argparse.Namespace) -> None:
    """Say what is wrong with the settings file; the dashboard says it itself."""
    from gputop.tui.state.settings_file import read_settings

    for problem in read_settings(options.config).problems:
        print(printable(f"gputop: {problem.message} {problem.hint}"), file=sys.stderr)


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
    return Sampler(source, interval, problem=problem, gpus=_gpus(options), ask_nccl=_ask_nccl(options))


def _ask_nccl(options: argparse.Namespace) -> WhenToAsk:
    """Return when NCCL's RAS service may be asked; the command line wins over the settings file."""
    from gputop.tui.state.settings_file import load_settings

    chosen: WhenToAsk | None = options.ask_nccl
    return chosen or ("stood still" if load_settings(options.config).nccl_ras else "never")


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
        with told():
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
        nccl_ras=saved.nccl_ras and options.ask_nccl != "never",
        gpus=_gpus(options) or saved.gpus,
    )


def _screen(options: argparse.Namespace) -> int:
    from gputop.agent.live import LiveFeed

    settings = _settings(options)
    arguments = ["-i", f"{settings.interval_s}s"]
    if options.virtual is not None:
        arguments += ["--virtual", str(options.virtual)]
    if settings.gpus:
        arguments += ["-g", ",".join(settings.gpus)]
    if not settings.nccl_ras:
        arguments.append("--no-nccl-ras")
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

    with told():
        return agent_main(interval_of(options), options.virtual, _gpus(options), _ask_nccl(options))


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
        print(printable(f"recording to {options.file}; Ctrl-C ends it"), file=sys.stderr)

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


def _command_selftest(options: argparse.Namespace) -> int:
    return selftest_command.selftest(options, lambda given: _sampler(given, fall_back=False), _leave)


def _command_where(options: argparse.Namespace) -> int:
    from gputop.cli.where import where

    return where(options)


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

    return commands.runs(options, lambda given: _sampler(given, fall_back=False), _leave)


__all__ = ["EXIT_USAGE", "build_parser", "interval_of", "main"]
