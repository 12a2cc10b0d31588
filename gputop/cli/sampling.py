"""``gputop agent``, the sampler. A sampler started by a screen does not load the command line's parser, which takes 1 MiB."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from gputop.agent.first_look import OPTION as FIRST_LOOK
from gputop.agent.process import CHANGES
from gputop.cli.output.terminal import exit_code_of, output_errors, reserve_descriptors, safe_output
from gputop.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from gputop.agent.nccl_turns import WhenToAsk

_FLAGS: dict[str, tuple[str, Any]] = {
    FIRST_LOOK: ("first_look", True),
    CHANGES: ("changes", True),
    "--no-stand-in": ("no_stand_in", True),
    "--no-nccl-ras": ("ask_nccl", "never"),
    "--nccl-ras": ("ask_nccl", "stood still"),
}
_VALUES = {"-i": "interval", "--interval": "interval", "-g": "gpus", "--gpus": "gpus"}


def main() -> int | None:
    """Run the sampler of a screen, and return the exit code; None if the parser must judge the words after ``agent``."""
    options = screen_options(sys.argv[2:])
    if options is None:
        return None
    reserve_descriptors()
    with safe_output():
        return exit_code_of(lambda: agent(options))


def screen_options(words: Sequence[str]) -> Any:
    """Return the options that a screen starts its sampler with; None if there are others: the parser judges those."""
    options = SimpleNamespace(changes=False, config=None, first_look=False, gpus=None, no_stand_in=False)
    options.ask_nccl = options.interval = options.virtual = None
    left = iter(words)
    for word in left:
        if word in _FLAGS:
            setattr(options, *_FLAGS[word])
            continue
        value = next(left, "-")
        if word not in _VALUES or value.startswith("-"):
            return None
        setattr(options, _VALUES[word], value)
    return options


def agent(options: argparse.Namespace) -> int:
    """Write the stream for a screen until the screen ends."""
    from gputop.agent.serving import main as agent_main
    from gputop.settings.file import load_settings

    interval_s, gpus = interval_of(options), gpus_of(options)
    if options.first_look:  # started by the dashboard before it has read the settings
        saved = load_settings(names=("interval_s", "gpus"))
        interval_s, gpus = interval_of(options, saved.interval_s), gpus or saved.gpus
    with output_errors():
        return agent_main(
            interval_s,
            options.virtual,
            gpus,
            when_to_ask(options),
            fall_back=not options.no_stand_in,
            changes=options.changes,
        )


def interval_of(options: argparse.Namespace, fallback: float = 1.0) -> float:
    """Return ``--interval`` in seconds.

    Raises:
        UsageError: not a length of time, or not between 0.1 s and one hour.
    """
    from gputop.units import INTERVAL_MAX_S, INTERVAL_MIN_S, parse_duration

    if options.interval is None:
        return fallback
    seconds = parse_duration(options.interval)
    if not INTERVAL_MIN_S <= seconds <= INTERVAL_MAX_S:
        raise UsageError(f"The interval {options.interval} is out of range.", "Choose between 100ms and 1h.")
    return seconds


def gpus_of(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the GPUs that ``--gpus`` names; empty for all."""
    named = tuple(part for part in (options.gpus or "").split(",") if part)
    return () if named == ("all",) else named


def when_to_ask(options: argparse.Namespace) -> WhenToAsk:
    """Return when NCCL's RAS service may be asked; the command line wins over the settings file."""
    from gputop.settings.file import load_settings

    chosen: WhenToAsk | None = options.ask_nccl
    return chosen or ("stood still" if load_settings(options.config, ("nccl_ras",)).nccl_ras else "never")
