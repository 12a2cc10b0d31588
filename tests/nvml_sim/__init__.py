"""A simulated NVIDIA driver: a real ``libnvidia-ml.so.1`` in C that plays a scenario file.

``build()`` compiles it, ``Scenario`` writes what it plays, ``environment()`` is what a process needs to be started with
so that pynvml (or nvitop) loads it. The library reads the file again when it changes, so ``Scenario.write`` to the same
path changes a running machine.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from pathlib import Path

from tests.nvml_sim.scenario import (
    GIB,
    Scenario,
    Wave,
    a100_box,
    all_na,
    const,
    driver_mismatch,
    driver_not_loaded,
    h100_box,
    h100_in_a_vm,
    living_box,
    lost_gpu,
    mig_box,
    no_permission,
    noise,
    one_hangs,
    sawtooth,
    sine,
    slow_driver,
    square,
    unified_memory,
)

HERE = Path(__file__).parent
SOURCES = ("nvml_sim.c", "scenario.c", "scenario.h")
FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-std=gnu11", "-fPIC", "-shared", "-pthread", "-Wl,-soname,libnvidia-ml.so.1")

__all__ = [
    "GIB",
    "Scenario",
    "Wave",
    "a100_box",
    "all_na",
    "build",
    "const",
    "driver_mismatch",
    "driver_not_loaded",
    "environment",
    "h100_box",
    "h100_in_a_vm",
    "living_box",
    "lost_gpu",
    "mig_box",
    "no_permission",
    "noise",
    "one_hangs",
    "sawtooth",
    "sine",
    "slow_driver",
    "square",
    "unified_memory",
]


def build(legacy: bool = False) -> Path:
    """Compile the library if its sources changed, and return the directory that holds ``libnvidia-ml.so.1``.

    ``legacy`` leaves out the functions that drivers before R510 lack. Safe when several test processes build at once.
    """
    digest = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in SOURCES) + " ".join(FLAGS).encode())
    directory = HERE / "build" / (digest.hexdigest()[:16] + ("-legacy" if legacy else ""))
    library = directory / "libnvidia-ml.so.1"
    if library.exists():
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            unfinished = directory / "unfinished.so"
            sources = [str(HERE / name) for name in SOURCES if name.endswith(".c")]
            command = ["gcc", *FLAGS, *(["-DLEGACY"] if legacy else []), *sources, "-lm", "-o", str(unfinished)]
            subprocess.run(command, check=True)
            unfinished.rename(library)
    return directory


def environment(scenario_path: Path, log: Path | None = None, legacy: bool = False) -> dict[str, str]:
    """Return ``os.environ`` with what makes a new process see the simulated GPUs; ``log`` gets a line per NVML call."""
    added = {
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, [str(build(legacy)), os.environ.get("LD_LIBRARY_PATH")])),
        "GPUTOP_NVML_SIM_SCENARIO": str(scenario_path),
    }
    if log is not None:
        added["GPUTOP_NVML_SIM_LOG"] = str(log)
    return dict(os.environ) | added
