"""``gputop demo``, ``jobs``, ``logs`` and ``stop``: start and manage jobs from the command line."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from gputop import units
from gputop.cli.help import Parser
from gputop.cli.table import table
from gputop.errors import EXIT_OK, EXIT_PROBLEM, UsageError
from gputop.jobs import attached
from gputop.jobs import store as job_store
from gputop.jobs.output.logs import LogFollower
from gputop.recipes import catalogue
from gputop.recipes.recipe import YES
from gputop.snapshot import Device, encode
from gputop.terminal_text import printable

FOLLOW_S = 0.2


class _RecipeParser(Parser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].upper()}{message[1:]}.", "gputop demo --list shows the recipes and their options.")


def demo(options: argparse.Namespace) -> int:
    """Run a recipe in this terminal; however it ends, leave none of its processes behind."""
    if options.list_recipes or not options.name:
        print(recipe_list())
        return EXIT_OK
    recipe = catalogue.find(options.name)
    chosen, values = recipe_values(recipe, options.options)
    wanted = options.devices or chosen
    devices = _devices(recipe, wanted, options)
    launch = catalogue.prepare(recipe, devices, values)
    names = ", ".join(f"{'virtual ' if device.kind == 'virtual' else ''}GPU {device.index}" for device in devices)
    print(printable(f"{recipe.id} on {names}: {' '.join(launch.argv)}"), flush=True)
    return attached.run(launch.argv, {**os.environ, **launch.env}, launch.cwd)


def recipe_values(recipe: catalogue.Recipe, arguments: list[str]) -> tuple[str | None, Mapping[str, object]]:
    """Return ``--devices`` and the recipe's options as given on the command line."""
    given = vars(recipe_parser(recipe).parse_args(arguments))
    wanted = given.pop("devices")
    return wanted, {name: value for name, value in given.items() if value is not None}


def recipe_parser(recipe: catalogue.Recipe) -> Parser:
    """Return the parser of ``gputop demo RECIPE``."""
    devices = ",".join(map(str, range(recipe.default_devices)))
    parser = _RecipeParser(
        prog=f"gputop demo {recipe.id}",
        description=recipe.description,
        allow_abbrev=False,
        examples=((f"gputop demo {recipe.id} --devices {devices}", f"run it on GPU {devices}"),),
    )
    parser.add_argument("--devices", metavar="LIST", help="GPUs to use, e.g. 0,1")
    for option in recipe.options:
        choices = f" ({', '.join(option.choices)})" if option.choices else ""
        text = f"{option.help}{choices}; default {option.default}"
        # A switch may appear without a value, as in the script: --amp is --amp yes.
        bare: dict[str, Any] = {"nargs": "?", "const": YES} if option.switch else {}
        parser.add_argument(option.flag, dest=option.name, help=text.replace("%", "%%"), **bare)
    return parser


def _devices(recipe: catalogue.Recipe, wanted: str | None, options: argparse.Namespace) -> tuple[Device, ...]:
    from gputop.agent.sampler import choose_source, select_devices

    source, problem = choose_source(1.0, options.virtual)
    found = source.read().devices
    source.close()
    if problem:
        print(f"{problem.message} The recipe runs on virtual GPUs: CPU work, measured.", file=sys.stderr)
    if wanted:
        return select_devices(found, [part for part in wanted.split(",") if part])
    usable = tuple(device for device in found if device.state == "ok" and not device.mig_enabled)
    return usable[: max(recipe.min_devices, recipe.default_devices)]


def recipe_list() -> str:
    """Return the recipes with their options, one paragraph each."""
    parts = []
    for recipe in catalogue.RECIPES:
        flags = " ".join(f"{option.flag}" for option in recipe.options)
        parts.append(f"{recipe.id}\n    {recipe.description}\n    {recipe.teaches}\n    {flags}")
    return "\n".join(parts)


def jobs(options: argparse.Namespace) -> int:
    """List the jobs of this user, newest first; name those that cannot be read on standard error."""
    listing = job_store.read_jobs()
    found = listing.jobs
    for problem in listing.problems:
        print(f"{problem.message} {problem.hint}", file=sys.stderr)
    if options.as_json:
        print(json.dumps([job_record(job) for job in found]))
        return EXIT_OK
    if not found and not listing.problems:
        print("No jobs yet. Start one with l in gputop.")
        return EXIT_OK
    if found:
        print("\n".join(table(("JOB", "STATE", "RECIPE", "GPUS", "TIME", "EXIT"), [_job_row(job) for job in found])))
    for job in found:
        if job.left:
            print(f"Job {job.id} is lost: {job.problem}. gputop stop {job.id} ends them.")
    return EXIT_OK


def job_record(job: job_store.Job) -> dict[str, Any]:
    """Return a job as JSON data."""
    data = {item.name: getattr(job, item.name) for item in dataclasses.fields(job)} | {"directory": str(job.directory)}
    encoded: dict[str, Any] = encode(data)
    return encoded


def _job_row(job: job_store.Job) -> tuple[str, ...]:
    end = job.ended_at or (time.time() if job.active else None)
    took = end - job.started_at if end is not None and job.started_at is not None else None
    code = job.signal or ("" if job.exit_code is None else str(job.exit_code))
    return (job.id, job.state, job.recipe_id or job.name, str(len(job.device_uuids)), units.duration(took), code)


def logs(options: argparse.Namespace) -> int:
    """Print the end of a job's log; with ``--follow``, also what follows."""
    job = job_store.find(options.job)
    follower = LogFollower(job.id)
    while True:
        ended = not job_store.find(job.id).active
        for line in follower.poll():
            print(line, flush=True)
        if ended or not options.follow:
            pending = follower.pending
            if pending:
                print(pending)
            _explain(job.id)
            return EXIT_OK
        time.sleep(FOLLOW_S)


def _explain(job_id: str) -> None:
    """Explain on standard error why a job failed: standard output carries only the log."""
    from gputop.jobs.output.explained import explanation_of, paragraph

    finding = explanation_of(job_id)
    if finding is not None:
        sys.stdout.flush()
        print(f"\n{paragraph(finding)}", file=sys.stderr)


def stop(options: argparse.Namespace) -> int:
    """Stop a job and wait until all of its processes have ended."""
    try:
        job = job_store.find(options.job)
    except UsageError:
        # Its directory was deleted or damaged, but its processes can be found all the same.
        left = job_store.processes(options.job)
        if not left:
            raise
        print(f"Job {options.job} has no readable record, but {_processes(left)}. They are stopped now.", flush=True)
        job_store.stop_processes(options.job)
        print(f"{options.job}: stopped")
        return EXIT_OK
    if job.left:
        print(f"Job {job.id} is lost, but {_processes(job.left)}. They are stopped now.", flush=True)
    job = job_store.stop(options.job)
    print(f"{job.id}: {job.state}")
    return EXIT_OK if not job.survivors else EXIT_PROBLEM


def _processes(pids: Sequence[int]) -> str:
    return f"processes of it still run: {', '.join(map(str, pids))}"
