"""``gputop demo``, ``launch``, ``jobs``, ``logs`` and ``stop``: start and manage jobs from the command line."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import select
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from gputop import units
from gputop.cli import hosts
from gputop.cli.arguments.help import Parser
from gputop.cli.launching import here, slurm
from gputop.cli.launching.devices import devices_of
from gputop.errors import EXIT_OK, EXIT_PROBLEM, UsageError
from gputop.jobs import attached, stopping
from gputop.jobs import store as job_store
from gputop.jobs.output.logs import LogFollower, sources
from gputop.places import working_dir
from gputop.recipes import catalogue, own_commands
from gputop.recipes.nodes import NodeOrder
from gputop.recipes.recipe import YES
from gputop.snapshot import encode
from gputop.terminal_text import printable, table

FOLLOW_S = 0.2
"""How often ``logs -f`` reads new output."""


class _RecipeParser(Parser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].upper()}{message[1:]}.", "gputop demo --list shows the recipes and their options.")


def demo(options: argparse.Namespace) -> int:
    """Run a recipe in this terminal. However it ends, none of its processes remain."""
    if options.list_recipes or not options.name:
        print(recipe_list())
        return EXIT_OK
    recipe = catalogue.find(options.name)
    chosen, values = recipe_values(recipe, options.options)
    wanted = options.devices or chosen
    devices = devices_of(wanted, options.virtual, recipe)
    launch = catalogue.prepare(recipe, devices, values)
    names = ", ".join(f"{'virtual ' if device.kind == 'virtual' else ''}GPU {device.index}" for device in devices)
    print(printable(f"{recipe.id} on {names}: {' '.join(launch.argv)}"), flush=True)
    return attached.run(launch.argv, {**os.environ, **launch.env}, launch.cwd)


def launch(options: argparse.Namespace) -> int:
    """Start a recipe or a command as a job, on this machine or on several hosts, and print how to follow or stop it.

    Raises:
        UsageError: options exclude each other.
        GputopError: the job cannot be started.
    """
    if options.as_node:
        return here.be_node()
    order = order_of(options)
    if options.sbatch is not None:
        if hosts.asked(options):
            raise UsageError("--sbatch leaves the choice of the hosts to Slurm.", "Leave out -H, --hosts, --slurm and --pods.")
        return slurm.submit(order, options.sbatch, options.rendezvous)
    if options.slurm is not None:
        raise UsageError(
            "Slurm ends a job that was started in a step when the step ends.",
            "Submit a job of its own: --sbatch='-N2 …' -- CMD.",
        )
    if hosts.asked(options):
        from gputop.cli.across.launch import launch as launch_there

        with hosts.reached(options) as transport:
            return launch_there(hosts.hosts_of(options), transport, order, options.rendezvous, hosts.reach(options))
    job = job_store.start(here.prepared(order))
    print(printable(f"{job.id}: {' '.join(job.argv)}"))
    print(f"The job outlives this terminal. Read it: gputop logs -f {job.id}; stop it: gputop stop {job.id}")
    return EXIT_OK


def order_of(options: argparse.Namespace) -> NodeOrder:
    """Return what the command line asks for, as an order for a single node.

    Raises:
        UsageError: it names neither a recipe nor a command, or both.
    """
    if bool(options.words) == bool(options.recipe):
        raise UsageError("Name a recipe or a command.", "Write gputop launch ddp, or gputop launch -- python train.py.")
    devices, values = options.devices, {}
    if options.recipe:
        chosen, found = recipe_values(catalogue.find(options.recipe), options.options, "launch")
        devices, values = devices or chosen, {name: str(value) for name, value in found.items()}
    variables, command = own_commands.apart(options.words)
    if options.words and not command:
        raise UsageError("There is no command.", "Write it after its variables: gputop launch -- A=1 python train.py")
    return NodeOrder(
        id=job_store.new_id(),
        node=0,
        nodes=1,
        recipe=options.recipe,
        values=values,
        command=tuple(command),
        environment=variables,
        devices=devices,
        cwd=options.cwd or working_dir(),
        name=options.name,
        project=options.project,
        virtual=options.virtual,
    )


def recipe_values(
    recipe: catalogue.Recipe, arguments: list[str], command: str = "demo"
) -> tuple[str | None, Mapping[str, object]]:
    """Return ``--devices`` and the recipe's options as given to ``gputop demo`` or ``gputop launch``."""
    given = vars(recipe_parser(recipe, command).parse_args(arguments))
    wanted = given.pop("devices")
    return wanted, {name: value for name, value in given.items() if value is not None}


def recipe_parser(recipe: catalogue.Recipe, command: str = "demo") -> Parser:
    """Return the parser of ``gputop demo RECIPE`` or ``gputop launch RECIPE``."""
    devices = ",".join(map(str, range(recipe.default_devices)))
    parser = _RecipeParser(
        prog=f"gputop {command} {recipe.id}",
        description=recipe.description,
        allow_abbrev=False,
        examples=((f"gputop {command} {recipe.id} --devices {devices}", f"run it on GPU {devices}"),),
    )
    parser.add_argument("--devices", metavar="LIST", help="GPUs to use, e.g. 0,1")
    for option in recipe.options:
        choices = f" ({', '.join(option.choices)})" if option.choices else ""
        text = f"{option.help}{choices}; default {option.default}"
        # A switch may appear without a value, as in the script: --amp is --amp yes.
        bare: dict[str, Any] = {"nargs": "?", "const": YES} if option.switch else {}
        parser.add_argument(option.flag, dest=option.name, help=text.replace("%", "%%"), **bare)
    return parser


def recipe_list() -> str:
    """Return the recipes with their options, one paragraph each."""
    parts = []
    for recipe in catalogue.RECIPES:
        flags = " ".join(f"{option.flag}" for option in recipe.options)
        parts.append(f"{recipe.id}\n    {recipe.description}\n    {recipe.teaches}\n    {flags}")
    return "\n".join(parts)


def jobs(options: argparse.Namespace) -> int:
    """List the jobs of this user, newest first; name those that cannot be read on standard error."""
    if hosts.asked(options):
        return _jobs_over(options)
    slurm.refresh(job_store.list_jobs())
    listing = job_store.read_jobs()
    found = listing.jobs
    for problem in listing.problems:
        print(f"gputop: {problem.message} {problem.hint}", file=sys.stderr)
    if options.as_json:
        print(json.dumps([job_record(job) for job in found]))
        return EXIT_OK
    if not found and not listing.problems:
        print("No jobs yet. Start one with l in gputop.")
        return EXIT_OK
    if found:
        head, rows = ("JOB", "STATE", "RECIPE", "GPUS", "TIME", "EXIT", "SLURM"), [_job_row(job) for job in found]
        columns = len(head) if any(job.slurm for job in found) else len(head) - 1
        print("\n".join(table(head[:columns], [row[:columns] for row in rows])))
    for job in found:
        if job.slurm is not None and job.problem:
            print(f"Job {job.id} is {job.state}: {job.problem}.")
        if job.left:
            print(f"Job {job.id} is lost: {job.problem}. gputop stop {job.id} ends them.")
    return EXIT_OK


def job_record(job: job_store.Job) -> dict[str, Any]:
    """Return a job as JSON data."""
    data = {item.name: getattr(job, item.name) for item in dataclasses.fields(job)}
    data |= {"directory": str(job.directory), "listed_at": time.time()}
    encoded: dict[str, Any] = encode(data)
    return encoded


def _job_row(job: job_store.Job) -> tuple[str, ...]:
    end = job.ended_at or (time.time() if job.active else None)
    took = end - job.started_at if end is not None and job.started_at is not None else None
    code = job.signal or ("" if job.exit_code is None else str(job.exit_code))
    gpus, there = (str(len(job.device_uuids) or units.UNKNOWN), "") if job.slurm is None else ("", job.slurm.sentence)
    return (job.id, job.state, job.recipe_id or job.name, gpus, units.duration(took), code, there)


def _jobs_over(options: argparse.Namespace) -> int:
    from gputop.cli.across.jobs import HEAD, broken, report_failures, rows
    from gputop.over_hosts.jobs import jobs_of

    names = hosts.hosts_of(options)
    with hosts.reached(options) as transport:
        found, ends = jobs_of(names, transport)
    listed = rows(found, time.time())
    if options.as_json:
        print(json.dumps({host: encode(found[host]) if host in found else None for host in names}))
    else:
        print("\n".join(table(HEAD, listed)) if listed else "No jobs on these hosts yet. Start one with gputop launch -H.")
        for sentence in broken(found, transport):
            print(printable(sentence))
    return report_failures({host: end for host, end in ends.items() if host not in found})


def logs(options: argparse.Namespace) -> int:
    """Print the end of a job's log; with ``--follow``, also new lines."""
    if hosts.asked(options):
        from gputop.cli.across.jobs import logs as logs_there

        with hosts.reached(options, live=options.follow) as transport:
            return logs_there(hosts.hosts_of(options), transport, options.job, follow=options.follow)
    found = job_store.launched(options.job)
    slurm.refresh(found)
    followers = [LogFollower(job.id) for job in found]
    if not any(sources(job.id) for job in found):
        print(f"Slurm does not say where job {options.job} prints.", file=sys.stderr)
    refreshed_at = time.monotonic()
    while True:
        if time.monotonic() - refreshed_at > slurm.AGAIN_S:
            slurm.refresh(job_store.find(follower.job_id) for follower in followers)
            refreshed_at = time.monotonic()
        ended = not any(job_store.find(follower.job_id).active for follower in followers)
        for follower in followers:
            for line in follower.poll():
                print(line, flush=True)
        if ended or not options.follow:
            for follower in followers:
                if follower.pending:
                    print(follower.pending)
                _explain(follower.job_id)
            return EXIT_OK
        if options.until_closed and _input_closed(FOLLOW_S):
            return EXIT_OK
        if not options.until_closed:
            time.sleep(FOLLOW_S)


def _input_closed(within_s: float) -> bool:
    """Return whether standard input ends within this many seconds: the reader at the other end is then gone."""
    return bool(select.select([0], [], [], within_s)[0]) and not os.read(0, 4096)


def _explain(job_id: str) -> None:
    """Explain on standard error why a job failed: standard output carries only the log."""
    from gputop.jobs.output.explained import explanation_of, paragraph

    finding = explanation_of(job_id)
    if finding is not None:
        sys.stdout.flush()
        print(f"\n{paragraph(finding)}", file=sys.stderr)


def stop(options: argparse.Namespace) -> int:
    """Stop a job and wait until all of its processes have ended."""
    if hosts.asked(options):
        from gputop.cli.across.jobs import stop as stop_there

        with hosts.reached(options) as transport:
            return stop_there(hosts.hosts_of(options), transport, options.job)
    try:
        found = job_store.launched(options.job)
    except UsageError:
        # Even if its directory was deleted or damaged, its processes can be found.
        left = job_store.processes(options.job)
        if not left:
            raise
        print(f"Job {options.job} has no readable record, but {_processes(left)}. gputop stops them now.", flush=True)
        stopping.stop_processes(options.job)
        print(f"{options.job}: stopped")
        return EXIT_OK
    return max(_stop(job) for job in found)


def _stop(job: job_store.Job) -> int:
    if job.left:
        print(f"Job {job.id} is lost, but {_processes(job.left)}. gputop stops them now.", flush=True)
    job = stopping.stop(job.id)
    print(f"{job.id}: {job.state}")
    return EXIT_OK if not job.survivors else EXIT_PROBLEM


def _processes(pids: Sequence[int]) -> str:
    return f"processes of it still run: {', '.join(map(str, pids))}"
