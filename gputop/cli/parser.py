"""The arguments of every command. Imports nothing that a command needs in order to run."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from gputop.agent.first_look import OPTION as FIRST_LOOK
from gputop.cli.help import Parser, add_command
from gputop.errors import UsageError
from gputop.tui.state.settings import THEMES

_JOB = "20261122-141300-3f2a"
"""A job's id in examples."""
EXPORT_PORT = 9879
"""No other GPU exporter uses this port: DCGM's is 9400, nvidia_gpu_exporter's 9835, all-smi's 9090, nvitop's 8000."""


def build_parser(only: Literal["", "agent"] | None = None) -> argparse.ArgumentParser:
    """Return the parser of the whole command line; ``only`` for one of a line with no command, or with that one."""
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
    _shared(parser, default=True)
    _hosts(parser, default=True, reads=True)
    look = parser.add_argument_group("look")
    look.add_argument("--theme", choices=THEMES, help="colors (auto follows COLORFGBG and TERM; colorblind: blue and orange)")
    look.add_argument("--ascii", action="store_true", help="draw with ASCII characters only")
    look.add_argument("--no-color", action="store_true", help="no colors (also NO_COLOR=1)")
    look.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal, for selecting text")
    look.add_argument("--readonly", action="store_true", help="never start or stop anything")
    look.add_argument("--config", type=Path, metavar="FILE", help="settings file")
    if only == "":
        parser.set_defaults(command=None)
        return parser
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for add in _COMMANDS if only is None else (_agent,):
        add(commands)
    return parser


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line.

    Raises:
        UsageError: it is wrong.
    """
    # Making the parsers of all commands takes longer than the rest, and the dashboard, one reading and the sampler need none
    # of them. Whatever a smaller parser does not understand, the whole one judges.
    if not any(word.startswith("-") and "h" in word for word in words):
        with contextlib.suppress(UsageError):
            return build_parser("agent" if words[:1] == ["agent"] else "").parse_args(words)
    return build_parser().parse_args(words)


def _shared(parser: argparse.ArgumentParser, default: bool = False, *, asks: bool = False) -> None:
    """Add what the dashboard and the commands that read this machine have in common; a command's own value wins.

    ``asks`` adds the option to ask NCCL on request.
    """
    unset: Any = None if default else argparse.SUPPRESS
    parser.add_argument(
        "-i", "--interval", default=unset, metavar="TIME", help="time between readings: 1, 500ms, 2s (default 1s)"
    )
    parser.add_argument("-g", "--gpus", default=unset, metavar="LIST", help="only these GPUs: indices or UUIDs, with commas")
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
        help="never ask NCCL's RAS service (default: only about runs that stand still)",
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


def _hosts(parser: argparse.ArgumentParser, default: bool = False, *, reads: bool = False) -> None:
    """Add how other machines are named and reached. ``reads``: the command only reads, so that Prometheus may be asked."""
    unset: Any = None if default else argparse.SUPPRESS
    hosts = parser.add_argument_group("other machines")
    hosts.add_argument(
        "-H", "--host", default=unset, metavar="LIST", help="watch these hosts over ssh, not this one: a,me@b,n[1-8]"
    )
    hosts.add_argument("--hosts", type=Path, default=unset, metavar="FILE", help="the hosts in a file: one name or list a line")
    hosts.add_argument("--slurm", default=unset, metavar="JOB", help="the nodes of a Slurm job, through srun")
    hosts.add_argument(
        "--pods", default=unset, metavar="LABELS", help="the pods with these labels, e.g. app=train, through kubectl"
    )
    hosts.add_argument(
        "--via", default=unset, metavar="CMD", help="reach the hosts with this, e.g. 'kubectl exec -i {host} --' (default ssh)"
    )
    hosts.add_argument(
        "--remote", default=unset, metavar="CMD", help="the gputop command on the hosts, if it is not on the path"
    )
    if reads:
        hosts.add_argument(
            "--prometheus",
            default=unset,
            metavar="URL",
            help="the GPUs that this Prometheus server knows, e.g. http://prom:9090",
        )
        hosts.add_argument(
            "--prometheus-auth", type=Path, default=unset, metavar="FILE", help="a file with its user:password, or a token"
        )


def _run(commands: Any) -> None:
    run = add_command(
        commands,
        "run",
        "run a training command and track it, without changing it",
        ("gputop run -- python train.py", "track one process"),
        ("gputop run --name resnet18 -- torchrun --nproc-per-node=4 train.py", "track four ranks as one run"),
        ("gputop run -H gpu1,gpu2 -- torchrun --nproc-per-node=8 train.py", "the same as gputop launch -H"),
        usage="gputop run [--name N] [--project P] [-H LIST] -- CMD …",
        allow_abbrev=False,
    )
    run.add_argument("--name", metavar="N", help="name of the run (default: the script's name)")
    run.add_argument("--project", metavar="P", help="name of a project that groups several runs")
    _hosts(run)


def _demo(commands: Any) -> None:
    demo = add_command(
        commands,
        "demo",
        "run a bundled recipe in this terminal",
        ("gputop demo --list", "list the recipes and their options"),
        ("gputop demo ddp --devices 0,1", "train on GPU 0 and GPU 1"),
        ("gputop demo faults/ranks-on-one-gpu", "start a fault: gputop doctor names its mistake"),
    )
    demo.add_argument("name", nargs="?", help="a recipe; see --list")
    demo.add_argument("--list", action="store_true", dest="list_recipes", help="list the recipes and their options")
    demo.add_argument("--devices", metavar="LIST", help="GPUs to use, e.g. 0,1 (default: the number that suits the recipe)")
    demo.add_argument("options", nargs=argparse.REMAINDER, help="options of the recipe, e.g. --epochs 2")


def _launch(commands: Any) -> None:
    launch = add_command(
        commands,
        "launch",
        "start a recipe or a command as a job that outlives this terminal",
        ("gputop launch ddp --devices 0,1", "a recipe on this machine"),
        ("gputop launch -H gpu1,gpu2 ddp --epochs 3", "on two hosts, as one run"),
        ("gputop launch -H gpu1,gpu2 -- torchrun --nproc-per-node=8 train.py", "a command of your own"),
        ("gputop launch --sbatch=-N2 -- torchrun --nproc-per-node=8 train.py", "the same, as a Slurm job"),
        more="On several hosts, torchrun's nodes meet at the first host.",
        usage="gputop launch [options] RECIPE [its options] | -- CMD …",
        allow_abbrev=False,
    )
    launch.add_argument("recipe", nargs="?", metavar="RECIPE", help="a recipe; gputop demo --list shows them")
    launch.add_argument("options", nargs=argparse.REMAINDER, help="options of the recipe, e.g. --epochs 2")
    launch.add_argument("--name", metavar="N", help="name of the run")
    launch.add_argument("--project", metavar="P", help="name of a project that groups several runs")
    launch.add_argument("--devices", metavar="LIST", help="GPUs to use on each host, e.g. 0,1")
    launch.add_argument("--cwd", metavar="DIR", help="folder in which the command runs on each host (default: this one)")
    launch.add_argument(
        "--rendezvous", metavar="HOST[:PORT]", help="where the nodes meet (default: the first host, a free port)"
    )
    launch.add_argument("--sbatch", metavar="OPTIONS", help="submit a command to Slurm with these options: --sbatch='-N2 -p x'")
    launch.add_argument("--as-node", action="store_true", help="internal: start as one host of several; -H uses it")
    launch.set_defaults(words=())
    _hosts(launch)


def _jobs(commands: Any) -> None:
    jobs = add_command(
        commands,
        "jobs",
        "list launched jobs",
        ("gputop jobs", "list jobs, newest first"),
        ("gputop jobs -H gpu1,gpu2", "list the jobs on two hosts"),
    )
    _hosts(jobs)
    jobs.add_argument("--json", action="store_true", dest="as_json", help="print the jobs as JSON")
    logs = add_command(
        commands,
        "logs",
        "print a job's log",
        (f"gputop logs {_JOB} --follow", "print new output until the job ends"),
        (f"gputop logs {_JOB} -H gpu1,gpu2", "print the output of all ranks on two hosts"),
    )
    _hosts(logs)
    logs.add_argument("job", help="a job's id; gputop jobs lists them")
    logs.add_argument("-f", "--follow", action="store_true", help="print new output until the job ends")
    logs.add_argument(
        "--until-closed", action="store_true", help="internal, with --follow: end when standard input ends; -H uses it"
    )
    stop = add_command(
        commands,
        "stop",
        "stop a job",
        (f"gputop stop {_JOB}", "stop a job and wait for its end"),
        (f"gputop stop {_JOB} -H gpu1,gpu2", "stop a launch on two hosts"),
    )
    _hosts(stop)
    stop.add_argument("job", help="a job's id; gputop jobs lists them")


def _runs(commands: Any) -> None:
    own = add_command(
        commands,
        "runs",
        "list tracked runs, and live ones that are not tracked",
        ("gputop runs", "list runs, newest first"),
        ("gputop runs --filter 'tag:ablation lr>1e-3 loss<0.5'", "runs that match every term"),
        ("gputop runs --filter 'state:failed duration>2h'", "failed runs that took longer than two hours"),
        ("gputop runs -H gpu1,gpu2", "the runs of two hosts; one over both is one"),
    )
    own.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    _hosts(own)
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
        "print everything about one run: metrics, tags, text, ranks, configuration",
        ("gputop runs show resnet18", "the newest run of this name"),
        ("gputop runs show resnet18 --json", "one JSON object"),
        ("gputop runs show resnet18 -H gpu1,gpu2", "what each of two hosts knows of it"),
    )
    _hosts(show)
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
        ("gputop runs plot resnet18 --with baseline", "compare the losses of two runs"),
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
        "import files of ended trainings as runs: TensorBoard, W&B, MLflow, CSV, JSON lines, Trainer state",
        ("gputop runs import runs/ wandb/", "everything below these folders"),
    )
    imports.add_argument("paths", nargs="+", metavar="PATH", help="a file or a folder")
    for parser in (show, plot, export, rename, tag):
        parser.add_argument("run", help="a run's id, or a name: the newest run of that name")
    show.add_argument("--all", action="store_true", help="do not shorten the configuration on a terminal")
    show.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    rename.add_argument("name", help="the new name")
    tag.add_argument("tags", nargs="+", metavar="TAG", help="a tag")
    tag.add_argument("--remove", action="store_true", help="remove these tags")
    plot.add_argument("metrics", nargs="*", metavar="METRIC", help="what to plot (default: the loss)")
    plot.add_argument(
        "--with", action="append", default=[], dest="others", metavar="RUN", help="another run to draw in the same plots"
    )
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
    prune.add_argument("--older-than", metavar="TIME", help="delete runs that ended longer ago than this, e.g. 30d")
    prune.add_argument("--keep", type=int, metavar="N", help="keep the N newest")
    prune.add_argument("--yes", action="store_true", help="do not ask")


def _where(commands: Any) -> None:
    where = add_command(
        commands,
        "where",
        "say where every rank of a run is now, and which one the others wait for",
        ("gputop where", "the newest live run"),
        ("gputop where resnet18 --json", "the newest run of this name, as one JSON object"),
        ("gputop where 4242 --py-spy", "the stack of an untracked process, from py-spy"),
        ("gputop where -H gpu1,gpu2", "the newest live run over these hosts"),
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
        "--py-spy", action="store_true", help="ask py-spy about processes that do not answer; py-spy uses ptrace"
    )
    _hosts(where)


def _profile(commands: Any) -> None:
    profile = add_command(
        commands,
        "profile",
        "record a few steps of a live run with torch's profiler: where their time goes",
        ("gputop profile", "three steps of the newest live run"),
        ("gputop profile resnet18 --steps 1 --rank 3", "one step of rank 3 of the newest run of this name"),
        ("gputop profile --cost", "print the expected cost and exit"),
        more="It costs the training a few steps' time, which it says first; torch writes a few lines to the training's stderr.",
    )
    profile.add_argument("run", nargs="?", metavar="RUN", help="a run's id or name (default: the newest live run)")
    profile.add_argument("--steps", type=int, default=3, metavar="N", help="how many steps, 1 to 10 (default 3)")
    profile.add_argument("--rank", type=int, metavar="N", help="which rank (default: the lowest on this machine)")
    profile.add_argument("--cost", action="store_true", help="print the expected cost and exit")
    profile.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")


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
        commands,
        "record",
        "record the stream in a file",
        ("gputop record recording.ndjson --for 10m", "record for ten minutes"),
    )
    record.add_argument("file", type=Path, help="the recording to write")
    record.add_argument("--for", dest="seconds", metavar="TIME", help="stop after this time (default: at Ctrl-C)")
    _shared(record)
    _hosts(record, reads=True)
    replay = add_command(
        commands, "replay", "show a recording", ("gputop replay recording.ndjson --speed 4", "show it four times as fast")
    )
    replay.add_argument("file", type=Path, help="a recording")
    replay.add_argument("--speed", type=float, default=1.0, metavar="X", help="2 is twice as fast (default 1)")


def _doctor(commands: Any) -> None:
    from gputop.cli import doctor

    diagnosis = doctor.add_parser(commands)
    _shared(diagnosis, asks=True)
    _hosts(diagnosis, reads=True)


def _selftest(commands: Any) -> None:
    from gputop.cli import selftest

    _shared(selftest.add_parser(commands))


def _completion(commands: Any) -> None:
    from gputop.cli import completion

    completion.add_parser(commands)


def _agent(commands: Any) -> None:
    agent = add_command(
        commands,
        "agent",
        "write the stream to standard output: the process that the dashboard starts",
        ("gputop agent -i 1s", "one JSON object per second, until Ctrl-C"),
    )
    agent.add_argument(
        FIRST_LOOK, action="store_true", help="internal: write a first look at the GPUs, in its own form, before the stream"
    )
    agent.add_argument("--no-stand-in", action="store_true", help="do not show virtual GPUs where there is no GPU")
    _shared(agent)


def _export(commands: Any) -> None:
    export = add_command(
        commands,
        "export",
        "serve GPUs, runs and findings as Prometheus metrics",
        ("gputop export", f"at http://127.0.0.1:{EXPORT_PORT}/metrics, for this machine only"),
        ("gputop export --port 9100 --address 0.0.0.0", "for everyone who can reach this machine"),
        more="It needs the package prometheus-client. It asks for no password.",
    )
    export.add_argument(
        "--port", type=int, default=EXPORT_PORT, metavar="N", help=f"the port (default {EXPORT_PORT}; 0: any that is free)"
    )
    export.add_argument("--address", default="127.0.0.1", metavar="A", help="where to listen (default 127.0.0.1)")
    _shared(export)


_COMMANDS = (
    *(_run, _demo, _launch, _jobs, _runs, _doctor, _where, _profile),
    *(_pick, _selftest, _recordings, _export, _completion, _agent),
)
"""What adds each command, in the order of ``--help``."""


def parse_run(words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Parse the arguments of ``gputop run``; return its options and the command to run.

    Raises:
        UsageError: an option is wrong.
    """
    from gputop.recipes.run_command import split

    own, command = split(words)
    return build_parser().parse_args(["run", *own]), command
