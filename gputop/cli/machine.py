"""The commands that read this machine: dashboard, one reading, stream, recording, export, and the freest GPUs."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from typing import TYPE_CHECKING

from gputop.cli import hosts
from gputop.cli.output.terminal import output_errors
from gputop.cli.sampling import gpus_of, interval_of, when_to_ask
from gputop.errors import EXIT_NO_GPU, EXIT_OK, GputopError, NoGpuError, UsageError
from gputop.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gputop.agent.sampler import Sampler
    from gputop.hosts.prometheus.watch import Watch
    from gputop.settings.values import Settings
    from gputop.snapshot import Problem


def sampler_of(options: argparse.Namespace) -> Sampler:
    """Return a sampler for the options: of the driver, of virtual GPUs if requested, or of nothing and the reason."""
    from gputop.startup.light_imports import import_ctypes

    import_ctypes()
    from gputop.agent.source import choose_source

    interval = interval_of(options)
    source, problem = choose_source(interval, options.virtual, fall_back=False)
    # Imported while the GPUs are being read.
    from gputop.agent.sampler import Sampler

    return Sampler(source, interval, problem=problem, gpus=gpus_of(options), ask_nccl=when_to_ask(options))


def _source_words(options: argparse.Namespace) -> list[str]:
    return hosts.source_words(options, gpus_of(options), ask_nccl=when_to_ask(options) != "never")


def once(options: argparse.Namespace) -> int:
    """Print one reading."""
    if hosts.asked(options):
        return hosts.once(options, _source_words(options))
    with _garbage_left():
        sampler = sampler_of(options)
        sampler.explained = sampler.has_points = options.json  # the text shows neither error texts nor curves
        from gputop.agent.sampler import take_once

        snapshot = take_once(sampler, rates=options.json)
        if options.json:
            print(snapshot.to_json())
        else:
            from gputop.cli.output.once import once_text

            print(once_text(snapshot))
        return leave(sampler, EXIT_NO_GPU if snapshot.host.source == "none" else EXIT_OK)


@contextlib.contextmanager
def _garbage_left() -> Iterator[None]:
    """Leave garbage where it is: a single reading makes little, and searching for it takes a tenth of the time."""
    import gc

    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def leave(sampler: Sampler, code: int) -> int:
    """Close the source, and return the exit code. A thread that hangs in the driver is not waited for."""
    sampler.source.close()
    return code


def stream(options: argparse.Namespace) -> int:
    """Print a JSON object per interval."""
    if hosts.asked(options):
        return hosts.stream(options, interval_of(options), _source_words(options))
    from gputop.agent.serving import serve, write_line

    sampler = sampler_of(options)
    written = 0

    def write(line: str) -> None:
        nonlocal written
        with output_errors():
            write_line(line)
        written += 1
        if options.count is not None and written >= options.count:
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        serve(sampler, write)
    return leave(sampler, EXIT_NO_GPU if sampler.source.name == "none" else EXIT_OK)


def screen(options: argparse.Namespace) -> int:
    """Show the dashboard."""
    from gputop.startup.light_imports import import_processes

    import_processes()
    from gputop.agent.live import LiveFeed
    from gputop.agent.process import end_early, take_early
    from gputop.cli.defaults import settings_of, take_machines

    settings = settings_of(options)
    problems: list[Problem] = []
    setting = take_machines(options, settings)
    if hosts.asked(options):
        end_early()
        machines = _machines(options, settings, setting, problems)
        if machines is not None:
            return _screen_of_hosts(options, *machines)
    arguments = ["-i", f"{settings.interval_s}s"]
    if settings.virtual is not None:
        arguments += ["--virtual", str(settings.virtual)]
    if settings.gpus:
        arguments += ["-g", ",".join(settings.gpus)]
    if options.ask_nccl is not None or not settings.nccl_ras:
        arguments.append("--nccl-ras" if settings.nccl_ras else "--no-nccl-ras")
    if settings.virtual is not None:
        end_early()
    # The driver starts in the agent while Textual is still being imported here.
    first_look = settings.virtual is None and not settings.gpus
    feed = LiveFeed(arguments, first_look=first_look, process=take_early())
    from gputop.tui.start import run_app

    return run_app(feed, settings, problems=problems)


def _machines(
    options: argparse.Namespace, settings: Settings, setting: str | None, problems: list[Problem]
) -> tuple[Sequence[str], Watch | None, Settings] | None:
    """Return the named hosts, the Prometheus server and the settings for that many hosts.

    If a ``setting`` names them and they cannot be found, such as the nodes of a job that has ended, note that as a problem, and
    return None.
    """
    from dataclasses import replace

    try:
        names = hosts.named_of(options)
        if options.interval is None:
            settings = replace(settings, interval_s=hosts.screen_interval_s(settings.interval_s, len(names)))
        return names, hosts.watch_of(options, settings.interval_s), settings
    except GputopError as error:
        if setting is None:
            raise
        from gputop.settings.file import place_of
        from gputop.snapshot import Problem

        problems.append(Problem("settings", f"{place_of(setting)}: {error.message}", "This machine is shown."))
        return None


def _screen_of_hosts(options: argparse.Namespace, names: Sequence[str], watch: Watch | None, settings: Settings) -> int:
    from gputop.hosts.feed import feeds_of

    # The settings file names GPUs of this machine.
    source = hosts.source_words(options, gpus_of(options), ask_nccl=settings.nccl_ras)
    with contextlib.ExitStack() as stack:
        transport = stack.enter_context(hosts.reached(options, screen=True)) if names else None
        feeds = feeds_of(hosts.links_of(names, transport, hosts.agent_words(settings.interval_s, source), watch))
        from gputop.over_hosts.watched import HostJobs
        from gputop.tui.start import run_app, run_hosts_app

        # When a Slurm step ends, Slurm ends what it started, so nothing is launched through one. Prometheus cannot launch
        # either.
        over = HostJobs(tuple(names), transport, options.virtual) if transport is not None and options.slurm is None else None
        if transport is not None:
            transport.asking.ask(names)
        reach = hosts.transport_of(options).options
        if watch is not None:
            return run_hosts_app(
                feeds,
                settings,
                reach,
                over,
                lambda add: watch.announce(lambda links: add(feeds_of(links)), hosts.others_than(names)),
            )
        return run_app(feeds[0], settings, over) if len(feeds) == 1 else run_hosts_app(feeds, settings, reach, over)


def replay(options: argparse.Namespace) -> int:
    """Show a recording; print it if there is no terminal.

    Raises:
        UsageError: the speed is not above 0, or the recording is a pipe.
    """
    from gputop.agent.feed import ReplayFeed
    from gputop.sources.recording import read_recording

    if options.speed <= 0:
        raise UsageError("A replay's speed is a factor above 0.", "Write --speed 2 for twice as fast.")
    if options.file.is_fifo():
        message = f"{options.file} is a pipe, and a replay reads a recording more than once."
        raise UsageError(message, f"Write it to a file first: cat {shlex.quote(str(options.file))} > recording.ndjson")
    next(read_recording(options.file), None)  # report a file that is not a recording before the screen opens
    if not sys.stdout.isatty():
        for snapshot in read_recording(options.file):
            print(snapshot.to_json())
        return EXIT_OK
    from gputop.cli.defaults import settings_of
    from gputop.tui.start import run_app

    return run_app(ReplayFeed(options.file, options.speed), settings_of(options))


def record(options: argparse.Namespace) -> int:
    """Write the stream to a file, until Ctrl-C or the time that ``--for`` gives.

    Raises:
        NoGpuError: this machine has no GPU.
    """
    import time

    from gputop.agent.serving import serve
    from gputop.sources.recording import Recorder
    from gputop.units import parse_duration

    for_s = parse_duration(options.seconds) if options.seconds else None
    if hosts.asked(options):
        return hosts.record(options, interval_of(options), _source_words(options), for_s)
    end = time.monotonic() + for_s if for_s is not None else None
    sampler = sampler_of(options)
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
    return leave(sampler, EXIT_OK)


def export(options: argparse.Namespace) -> int:
    """Serve the stream as Prometheus metrics."""
    from gputop.agent.live import LiveFeed
    from gputop.export.server import serve

    feed = LiveFeed(["-i", f"{interval_of(options)}s", "--no-stand-in", *_source_words(options)])
    try:
        with contextlib.suppress(KeyboardInterrupt):
            serve(feed, options.address, options.port, _announce_export)
    finally:
        feed.close()
    return EXIT_OK


def _announce_export(address: str, port: int) -> None:
    shown = f"[{address}]" if ":" in address else address
    print(printable(f"serving http://{shown}:{port}/metrics; Ctrl-C ends it"), file=sys.stderr, flush=True)


def doctor_of_hosts(options: argparse.Namespace) -> int:
    """Print what is wrong on other machines and in the runs over them."""
    from gputop.cli.across.doctor import diagnose

    interval_s = interval_of(options)
    with hosts.fleet(options, hosts.agent_words(interval_s, _source_words(options)), interval_s, grows=True) as following:
        return diagnose(options, following, hosts.reach(options), hosts.transport_of(options).options)


def where_of_hosts(options: argparse.Namespace) -> int:
    """Print where every rank of a run over other machines is."""
    from gputop.cli.where import where_of_hosts as print_where

    with hosts.fleet(options, hosts.agent_words(interval_of(options), _source_words(options))) as following:
        return print_where(options, following)


def pick(options: argparse.Namespace) -> int:
    """Print the indices or UUIDs of the freest GPUs, separated by commas.

    Raises:
        NoGpuError: this machine has no GPU.
        UsageError: too few GPUs are as free as the options ask.
    """
    from gputop.agent.sampler import take_once
    from gputop.recipes.pick import freest

    sampler = sampler_of(options)
    snapshot = take_once(sampler)
    if snapshot.host.source == "none":
        problem = snapshot.host.problem
        raise NoGpuError(problem.message if problem else "There is no GPU.", problem.hint if problem else "")
    chosen = freest(snapshot, options.number, options.free * 2**30)
    print(",".join(str(device.index) if options.index else device.uuid for device in chosen))
    return leave(sampler, EXIT_OK)
