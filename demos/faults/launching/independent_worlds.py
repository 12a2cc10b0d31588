"""The DDP demo with one mistake: each process believes that it is alone. (Doctor: A18)

python demos/faults/launching/independent_worlds.py

A loop starts the script once per GPU, but the processes do not know about each other: each trains its own model, on the same
data, and takes local rank 0.

The fix: torchrun --nproc-per-node=2 demos/ddp.py: it sets RANK, WORLD_SIZE and LOCAL_RANK.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

import ddp
import devices


class Training(ddp.Training):
    """A rank of a world of one."""

    name = "independent-worlds"

    def connect(self) -> None:
        """Join the others."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", str(port))):
            os.environ.setdefault(name, value)  # nothing is set, so this is rank 0 of 1
        super().connect()


def start_all() -> int:
    """Start one process per GPU, as a shell loop would. The mistake: this is torchrun's job."""
    own = {**os.environ, "STARTED_BY_LOOP": "1"}
    started = [subprocess.Popen([sys.executable, *sys.argv], env=own) for _ in range(devices.count())]

    def end_all(*_: object) -> None:
        for process in started:
            process.terminate()

    signal.signal(signal.SIGTERM, end_all)
    return max(process.wait() for process in started)


if __name__ == "__main__":
    if "STARTED_BY_LOOP" in os.environ:
        ddp.main(Training)
    else:
        sys.exit(start_all())
