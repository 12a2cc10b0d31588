"""Arguments of the commands that read this machine: pick, record, replay, agent and export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gputop.agent.first_look import OPTION as FIRST_LOOK
from gputop.agent.process import CHANGES
from gputop.cli.arguments.help import add_command
from gputop.cli.arguments.shared import add_hosts, add_reading

EXPORT_PORT = 9879
"""No other GPU exporter uses this port: DCGM's is 9400, nvidia_gpu_exporter's 9835, all-smi's 9090, nvitop's 8000."""


def add_pick(commands: Any) -> None:
    """Add ``pick``."""
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


def add_recordings(commands: Any) -> None:
    """Add ``record`` and ``replay``."""
    record = add_command(
        commands,
        "record",
        "record what gputop reads, for gputop replay",
        ("gputop record recording.ndjson --for 10m", "record for ten minutes"),
    )
    record.add_argument("file", type=Path, metavar="FILE", help="the recording to write")
    record.add_argument("--for", dest="seconds", metavar="TIME", help="stop after this time (default: at Ctrl-C)")
    add_reading(record)
    add_hosts(record, reads=True)
    replay = add_command(
        commands,
        "replay",
        "play a recording on the dashboard",
        ("gputop replay recording.ndjson --speed 4", "play it four times as fast"),
    )
    replay.add_argument("file", type=Path, metavar="FILE", help="a recording")
    replay.add_argument("--speed", type=float, default=1.0, metavar="X", help="2 is twice as fast (default 1)")


def add_agent(commands: Any) -> None:
    """Add ``agent``."""
    agent = add_command(
        commands,
        "agent",
        "write the stream to standard output: the process that the dashboard starts",
        ("gputop agent -i 1s", "one JSON object per second, until Ctrl-C"),
    )
    agent.add_argument(
        FIRST_LOOK, action="store_true", help="internal: write a first look at the GPUs, in its own form, before the stream"
    )
    agent.add_argument(CHANGES, action="store_true", help="internal: omit from each line what has not changed")
    agent.add_argument("--no-stand-in", action="store_true", help="do not show virtual GPUs where there is no GPU")
    add_reading(agent)


def add_export(commands: Any) -> None:
    """Add ``export``."""
    export = add_command(
        commands,
        "export",
        "serve GPUs, runs and findings as Prometheus metrics",
        ("gputop export", f"at http://127.0.0.1:{EXPORT_PORT}/metrics, for this machine only"),
        ("gputop export --port 9100 --address 0.0.0.0", "for everyone who can reach this machine"),
        more="Needs the package prometheus-client. There is no password: everyone who can reach the port can read the metrics.",
    )
    export.add_argument(
        "--port", type=int, default=EXPORT_PORT, metavar="N", help=f"the port (default {EXPORT_PORT}; 0: any that is free)"
    )
    export.add_argument("--address", default="127.0.0.1", metavar="A", help="where to listen (default 127.0.0.1)")
    add_reading(export)
