"""Arguments of the commands that start, list and stop trainings."""

from __future__ import annotations

import argparse
from typing import Any

from gputop.cli.arguments.help import add_command
from gputop.cli.arguments.shared import add_hosts

_JOB = "20261122-141300-3f2a"
"""A job's id in examples."""


def add_run(commands: Any) -> None:
    """Add ``run``."""
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
    add_hosts(run)


def add_demo(commands: Any) -> None:
    """Add ``demo``."""
    demo = add_command(
        commands,
        "demo",
        "run a bundled recipe in this terminal",
        ("gputop demo --list", "list the recipes and their options"),
        ("gputop demo ddp --devices 0,1", "train on GPU 0 and GPU 1"),
        ("gputop demo faults/ranks-on-one-gpu", "start a fault: gputop doctor names its mistake"),
    )
    demo.add_argument("name", nargs="?", metavar="RECIPE", help="a recipe; see --list")
    demo.add_argument("--list", action="store_true", dest="list_recipes", help="list the recipes and their options")
    demo.add_argument("--devices", metavar="LIST", help="GPUs to use, e.g. 0,1 (default: the number that suits the recipe)")
    demo.add_argument("options", nargs=argparse.REMAINDER, help="options of the recipe, e.g. --epochs 2")


def add_launch(commands: Any) -> None:
    """Add ``launch``."""
    launch = add_command(
        commands,
        "launch",
        "start a recipe or a command as a job that outlives this terminal",
        ("gputop launch ddp --devices 0,1", "a recipe on this machine"),
        ("gputop launch -H gpu1,gpu2 ddp --epochs 3", "on two hosts, as one run"),
        ("gputop launch -H gpu1,gpu2 -- torchrun --nproc-per-node=8 train.py", "a command of your own"),
        ("gputop launch --sbatch=-N2 -- torchrun --nproc-per-node=8 train.py", "the same, as a Slurm job"),
        ("gputop launch --sbatch=-N2 ddp", "a recipe, as a Slurm job"),
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
    launch.add_argument("--sbatch", metavar="OPTIONS", help="submit it to Slurm with these options: --sbatch='-N2 -p x'")
    launch.add_argument("--as-node", action="store_true", help="internal: start as one host of several; -H uses it")
    launch.set_defaults(words=())
    add_hosts(launch)


def add_jobs(commands: Any) -> None:
    """Add ``jobs``, ``logs`` and ``stop``."""
    jobs = add_command(
        commands,
        "jobs",
        "list launched jobs",
        ("gputop jobs", "list jobs, newest first"),
        ("gputop jobs -H gpu1,gpu2", "list the jobs on two hosts"),
    )
    add_hosts(jobs)
    jobs.add_argument("--json", action="store_true", dest="as_json", help="print the jobs as JSON")
    logs = add_command(
        commands,
        "logs",
        "print a job's log",
        (f"gputop logs {_JOB} --follow", "print new output until the job ends"),
        (f"gputop logs {_JOB} -H gpu1,gpu2", "print the output of all ranks on two hosts"),
    )
    add_hosts(logs)
    logs.add_argument("job", metavar="JOB", help="a job's id, or its name on the screen; gputop jobs lists the ids")
    logs.add_argument("-f", "--follow", action="store_true", help="print new output until the job ends")
    logs.add_argument(
        "--until-closed", action="store_true", help="internal, with --follow: end when standard input ends; -H uses it"
    )
    stop = add_command(
        commands,
        "stop",
        "stop a job",
        (f"gputop stop {_JOB}", "stop a job and wait for its end"),
        (f"gputop stop {_JOB} -H gpu1,gpu2", "stop a job on two hosts"),
    )
    add_hosts(stop)
    stop.add_argument("job", metavar="JOB", help="a job's id, or its name on the screen; gputop jobs lists the ids")
