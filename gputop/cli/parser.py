"""The arguments of every command. Imports nothing that a command needs in order to run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gputop.cli import completion, doctor, selftest
from gputop.cli.help import Parser, add_command
from gputop.tui.state.settings import THEMES

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
            ("gputop -H gpu1", "the dashboard of another machine, over ssh"),
            ("gputop --once -H 'gpu[1-4],me@lab'", "one reading of each of five machines"),
        ),
    )
    parser.add_argument("-V", "--version", action="store_true", help="print the version and exit")
    parser.add_argument("-1", "--once", action="store_true", help="print one reading as text and exit")
    parser.add_argument("--json", action="store_true", help="with --once: one JSON object")
    parser.add_argument("--stream", action="store_true", help="print a JSON object per interval until interrupted")
    parser.add_argument("-n", "--count", type=int, metavar="N", help="with --stream: stop after N objects")
    _shared(parser, default=True)
    _hosts(parser, default=True)
    look = parser.add_argument_group("look")
    look.add_argument("--theme", choices=THEMES, help="colours (auto follows COLORFGBG and TERM; colorblind: blue and orange)")
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
    _shared(doctor.add_parser(commands), asks=True)
    _where(commands)
    _pick(commands)
    _shared(selftest.add_parser(commands))
    _recordings(commands)
    completion.add_parser(commands)
    agent = add_command(
        commands,
        "agent",
        "write the stream to standard output: the process that the dashboard starts",
        ("gputop agent -i 1s", "one JSON object per second, until Ctrl-C"),
    )
    agent.add_argument("--no-stand-in", action="store_true", help="without a GPU, no virtual ones in its place")
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


def _hosts(parser: argparse.ArgumentParser, default: bool = False) -> None:
    """Add how other machines are named and reached."""
    unset: Any = None if default else argparse.SUPPRESS
    hosts = parser.add_argument_group("other machines")
    hosts.add_argument("-H", "--host", default=unset, metavar="LIST", help="instead of this one: a,me@b,n[1-8], over ssh")
    hosts.add_argument("--hosts", type=Path, default=unset, metavar="FILE", help="the same, one a line, # for comments")
    hosts.add_argument(
        "--via", default=unset, metavar="CMD", help="reach them with this, e.g. 'kubectl exec -i {host} --' (default ssh)"
    )
    hosts.add_argument("--remote", default=unset, metavar="CMD", help="the gputop there, where it is not on the path")


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
        "run",
        nargs="?",
        metavar="RUN|PID",
        help="a run's id or name, or a process (default: the newest live run, a tracked one first)",
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
    _hosts(record)
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
