"""What the dashboard takes from the settings file: everything that the command line leaves open.

Only the dashboard does. A command in a script must not read other machines because of somebody's settings, and on a host that
is watched, the settings there must not lead to further hosts.
"""

from __future__ import annotations

import argparse
import dataclasses
import os

from gputop.cli.sampling import gpus_of, interval_of
from gputop.errors import UsageError
from gputop.settings.file import load_settings
from gputop.settings.values import Settings

MACHINES = ("host", "hosts", "slurm", "pods", "prometheus")
"""The settings that name what to watch. To name one on the command line replaces them all."""


def settings_of(options: argparse.Namespace) -> Settings:
    """Return the saved settings, overridden by the command line."""
    if options.config:
        # The settings screen saves to where places.config_path() points.
        os.environ["GPUTOP_CONFIG"] = str(options.config)
    saved = load_settings()
    given = {name: getattr(options, name) for name in ("theme", "ascii", "mouse", "readonly")}
    return dataclasses.replace(
        saved,
        interval_s=interval_of(options, saved.interval_s),
        gpus=saved.gpus if options.gpus is None else gpus_of(options),
        virtual=None if options.no_virtual else saved.virtual if options.virtual is None else options.virtual,
        nccl_ras=saved.nccl_ras if options.ask_nccl is None else options.ask_nccl != "never",
        color=saved.color and not os.environ.get("NO_COLOR") if options.color is None else options.color,
        **{name: value for name, value in given.items() if value is not None},
    )


def take_machines(options: argparse.Namespace, saved: Settings) -> str | None:
    """Add to the options how the settings reach hosts and, unless the command line names machines, which ones they name.

    Return the first setting that names machines, if those are now in the options.

    Raises:
        UsageError: the command line asks both for this machine and for others.
    """
    found = None
    if any(getattr(options, name) is not None for name in MACHINES):
        if options.no_host:
            raise UsageError("--no-host shows this machine.", "Leave it out to show others.")
    elif not options.no_host:
        # These also say how to reach the hosts.
        left_out = ("slurm", "pods") if options.via is not None else ()
        named = [name for name in MACHINES if getattr(saved, name) is not None and name not in left_out]
        found = next(iter(named), None)
        for name in named:
            setattr(options, name, getattr(saved, name))
        if "prometheus" in named and options.prometheus_auth is None:  # a password is for no other server
            options.prometheus_auth = saved.prometheus_auth
    has_hosts = options.host is not None or options.hosts is not None
    if has_hosts and options.via is None:
        options.via = saved.via
    if (has_hosts or options.slurm is not None or options.pods is not None) and options.remote is None:
        options.remote = saved.remote
    return found
