"""The options that several commands share: how to read a machine, and how to name and reach other machines."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_reading(parser: argparse.ArgumentParser, default: bool = False, *, asks: bool = False) -> None:
    """Add the options that the dashboard and the commands that read this machine share; a command's own value wins.

    ``asks`` adds the option that asks NCCL now.
    """
    unset: Any = None if default else argparse.SUPPRESS
    parser.add_argument(
        "-i", "--interval", default=unset, metavar="TIME", help="time between readings: 1, 500ms, 2s (default 1s)"
    )
    parser.add_argument("-g", "--gpus", default=unset, metavar="LIST", help="only these GPUs: comma-separated indices or UUIDs")
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
        help="never ask NCCL's RAS service (default: only about runs that seem to hang)",
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
    hosts.add_argument(
        "-H", "--host", default=unset, metavar="LIST", help="hosts to use instead of this machine, over ssh: a,me@b,n[1-8]"
    )
    hosts.add_argument("--hosts", type=Path, default=unset, metavar="FILE", help="a file of hosts: one name or list per line")
    hosts.add_argument("--slurm", default=unset, metavar="JOB", help="the nodes of a Slurm job, through srun")
    hosts.add_argument(
        "--pods", default=unset, metavar="LABELS", help="the pods with these labels, e.g. app=train, through kubectl"
    )
    hosts.add_argument(
        "--via", default=unset, metavar="CMD", help="how to reach a host, e.g. 'kubectl exec -i {host} --' (default ssh)"
    )
    hosts.add_argument("--remote", default=unset, metavar="CMD", help="the gputop command on the hosts, if it is not on PATH")
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
