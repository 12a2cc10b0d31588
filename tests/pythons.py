"""Other Pythons on this machine, for tests that depend on the interpreter."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SUPPORTED = ("3.10", "3.11", "3.12", "3.13", "3.14")
_OWN = f"{sys.version_info[0]}.{sys.version_info[1]}{'t' * ('t' in sys.abiflags)}"
_ASK = """
import ctypes, os, sys, zlib
print("%d.%d%s" % (*sys.version_info[:2], "t" * ("t" in sys.abiflags)), os.path.realpath(sys.executable))
"""
_DATA = Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share"))
_FOLDERS = (
    Path(sys.executable).resolve().parents[2],
    Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions",
    Path(os.environ.get("UV_PYTHON_INSTALL_DIR", _DATA / "uv" / "python")),
    Path(__file__).parents[1] / ".venv" / "pythons" / "fetched",
)
"""Where several Pythons lie beside each other. Read before a test sets a HOME of its own."""


@functools.cache
def python_of(version: str) -> Path:
    """Return a Python of this version, such as "3.14", or "3.14t" without the GIL; skip the test if there is none."""
    for path in _candidates(version):
        ask = [path, "-c", _ASK]
        done = subprocess.run(ask, capture_output=True, text=True, check=False)
        found, _, python = done.stdout.strip().partition(" ")
        if done.returncode == 0 and found == version:
            return Path(python)
    pytest.skip(f"there is no Python {version} on PATH, from pyenv or uv, or unpacked by .ci/fetch-python")


def _candidates(version: str) -> Iterator[Path]:
    name = f"python{version}"
    if version == _OWN:
        yield Path(sys.executable)
    for folder in _FOLDERS:
        yield from folder.glob(f"*{version.rstrip('t')}*/bin/{name}")
    found = shutil.which(name)
    if found is not None:
        yield Path(found)
