"""The options that several commands share: how to read a machine, and how to name and reach other machines."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gputop.settings.table import SETTINGS
from gputop.settings.values import THEMES


def add_reading(parser: argparse.ArgumentParser, default: bool = False, *, asks: bool = False) -> None:
    """Add the options that the dashboard and the commands that read this machine share; a command's own value wins.

    ``default``: for the line without a command, which also has the options that turn a setting off. ``asks`` adds the option
    that asks NCCL now.
    """
    unset: Any = None if default else argparse.SUPPRESS
    parser.add_argument("-i", "--interval", default=unset, metavar="TIME", help=SETTINGS["interval_s"].what)
    parser.add_argument("-g", "--gpus", default=unset, metavar="LIST", help=SETTINGS["gpus"].what)
    virtual = parser.add_mutually_exclusive_group()
    virtual.add_argument("--virtual", default=unset, nargs="?", const=0, type=int, metavar="N", help=SETTINGS["virtual"].what)
    if default:
        virtual.add_argument("--no-virtual", action="store_true", help="real GPUs, whatever the settings file says")
    nccl = parser.add_mutually_exclusive_group()
    nccl.add_argument(
        "--no-nccl-ras",
        action="store_const",
        const="never",
        dest="ask_nccl",
        default=unset,
        help="never ask NCCL's RAS service",
    )
    nccl.add_argument(
        "--nccl-ras",
        action="store_const",
        const="stood still",
        dest="ask_nccl",
        default=unset,
        help=SETTINGS["nccl_ras"].what,
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


def add_hosts(parser: argparse.ArgumentParser, default: bool = False, *, reads: bool = False) -> None:
    """Add the options that name and reach other machines. ``reads``: the command only reads, so Prometheus may be asked."""
    unset: Any = None if default else argparse.SUPPRESS
    hosts = parser.add_argument_group("other machines")

    def add(name: str, metavar: str, *short: str, **more: Any) -> None:
        option = f"--{name.replace('_', '-')}"
        hosts.add_argument(*short, option, default=unset, metavar=metavar, help=SETTINGS[name].what, **more)

    add("host", "LIST", "-H")
    add("hosts", "FILE", type=Path)
    add("slurm", "JOB")
    add("pods", "LABELS")
    add("via", "CMD")
    add("remote", "CMD")
    if reads:
        add("prometheus", "URL")
        add("prometheus_auth", "FILE", type=Path)
    if default:
        hosts.add_argument("--no-host", action="store_true", help="this machine, whatever the settings file says")


def add_look(parser: argparse.ArgumentParser) -> None:
    """Add the options for how the dashboard looks and what it may do."""
    look = parser.add_argument_group("look")
    look.add_argument("--theme", choices=THEMES, help=SETTINGS["theme"].what)
    for name in ("ascii", "color", "mouse", "readonly"):
        # argparse.BooleanOptionalAction begins with Python 3.9, and hosts may have an older one.
        either = look.add_mutually_exclusive_group()
        either.add_argument(f"--{name}", dest=name, action="store_true", default=None, help=SETTINGS[name].what)
        either.add_argument(f"--no-{name}", dest=name, action="store_false", default=None, help=f"not --{name}")
    look.add_argument("--config", type=Path, metavar="FILE", help="settings file")
