"""Arguments of ``gputop runs`` and its subcommands."""

from __future__ import annotations

from typing import Any

from gputop.cli.arguments.help import Parser, add_command
from gputop.cli.arguments.shared import add_hosts


def add_runs(commands: Any) -> None:
    """Add ``runs`` and its subcommands."""
    own = add_command(
        commands,
        "runs",
        "list tracked runs, and live ones that are not tracked",
        ("gputop runs", "list runs, newest first"),
        ("gputop runs --filter 'tag:ablation lr>1e-3 loss<0.5'", "runs that match every term"),
        ("gputop runs --filter 'state:failed duration>2h'", "failed runs that took longer than two hours"),
        ("gputop runs -H gpu1,gpu2", "the runs of two hosts; a run on both is listed once"),
    )
    own.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    add_hosts(own)
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
        ("gputop runs show resnet18 -H gpu1,gpu2", "what each of two hosts knows about it"),
    )
    add_hosts(show)
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
        parser.add_argument("run", metavar="RUN", help="a run's id, or a name: the newest run of that name")
    show.add_argument("--all", action="store_true", help="do not shorten the configuration on a terminal")
    show.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    rename.add_argument("name", metavar="NAME", help="the new name")
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
        "delete old runs; asks first, and never deletes a live one",
        ("gputop runs prune --older-than 30d --keep 20", "delete runs older than 30 days, except the 20 newest"),
    )
    prune.add_argument("--older-than", metavar="TIME", help="delete runs that ended longer ago than this, e.g. 30d")
    prune.add_argument("--keep", type=int, metavar="N", help="keep the N newest")
    prune.add_argument("--yes", action="store_true", help="do not ask")
