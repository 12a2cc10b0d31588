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

from tests.nvml_sim.drivers import lacking
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
COMPILE = ("gcc", "-c", "-O2", "-Wall", "-Wextra", "-Werror", "-std=gnu11", "-fPIC", "-pthread")
LINK = ("gcc", "-shared", "-pthread", "-Wl,-soname,libnvidia-ml.so.1")

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


def build(driver: str | None = None) -> Path:
    """Build the library if its sources changed, and return the directory that holds ``libnvidia-ml.so.1``.

    ``driver`` is the version of an older driver: its library lacks what came later. Safe when several test processes build at
    once. The sources are compiled once, and linked for each library.
    """
    hidden = sorted(lacking(driver)) if driver is not None else []
    digest = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in SOURCES) + " ".join(COMPILE + LINK).encode())
    compiled = HERE / "build" / digest.hexdigest()[:16]
    directory = compiled / hashlib.sha256(" ".join(hidden).encode()).hexdigest()[:16]
    library = directory / "libnvidia-ml.so.1"
    if library.exists():
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    with (compiled / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            unfinished, exports = directory / "unfinished.so", directory / "exports"
            exports.write_text(f"{{ local: {'; '.join(hidden)}; }};\n")
            script = [f"-Wl,--version-script={exports}"] if hidden else []
            objects = [str(_compiled(HERE / name, compiled)) for name in SOURCES if name.endswith(".c")]
            subprocess.run([*LINK, *objects, "-lm", *script, "-o", str(unfinished)], check=True)
            unfinished.rename(library)
    return directory


def _compiled(source: Path, directory: Path) -> Path:
    """Return the object file of a source; the caller holds the lock."""
    finished = directory / f"{source.stem}.o"
    if not finished.exists():
        unfinished = directory / f"{source.stem}.unfinished.o"
        subprocess.run([*COMPILE, str(source), "-o", str(unfinished)], check=True)
        unfinished.rename(finished)
    return finished


def environment(scenario_path: Path, log: Path | None = None, driver: str | None = None) -> dict[str, str]:
    """Return ``os.environ`` with what makes a new process see the simulated GPUs.

    ``log`` gets a line per NVML call. ``driver`` is the version of an older driver, whose library lacks what came later.
    """
    added = {
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, [str(build(driver)), os.environ.get("LD_LIBRARY_PATH")])),
        "GPUTOP_NVML_SIM_SCENARIO": str(scenario_path),
    }
    if log is not None:
        added["GPUTOP_NVML_SIM_LOG"] = str(log)
    return dict(os.environ) | added
