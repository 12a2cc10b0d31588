"""The configuration file of ``accelerate launch``: its simple entries, such as the number of machines.

It is in the user's home, which may be on a file system that hangs, so it is read on a thread of its own.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Mapping

BYTES_MAX = 1 << 16
_ENTRY = r"^(\w+):[ \t]*(.*?)[ \t]*(?:[ \t]#.*)?$"
"""A line of YAML outside of any block: what accelerate itself writes. Compiled for the first file."""
_NOTHING = ("", "null", "~", "None")


def config_path(pid: int, options: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    """Return the file that a process reads by its options and environment, as its own root directory has it; None if none."""
    given = options.get("config-file")
    if given is None and "cpu" in options:
        return None
    if given is None:
        cache = environment.get("XDG_CACHE_HOME") or os.path.join(environment.get("HOME", ""), ".cache")
        home = environment.get("HF_HOME") or os.path.join(cache, "huggingface")
        given = os.path.join(home, "accelerate", "default_config.yaml")
    return f"/proc/{pid}/root{given}" if os.path.isabs(given) else f"/proc/{pid}/cwd/{given}"


def entries_of(data: bytes, *, is_json: bool) -> dict[str, str]:
    """Return the entries that are one word or number."""
    text = data.decode(errors="replace")
    if not is_json:
        found = {name: value.strip("'\"") for name, value in re.findall(_ENTRY, text, re.MULTILINE)}
        return {name: value for name, value in found.items() if value not in _NOTHING}
    import json

    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(values, dict):
        return {}
    return {name: str(value) for name, value in values.items() if isinstance(value, str | int) and str(value) not in _NOTHING}


class ConfigFiles:
    """Reads such files, one at a time."""

    def __init__(self) -> None:
        self._known: dict[str, Mapping[str, str]] = {}
        self._reading: threading.Thread | None = None

    def entries(self, path: str) -> Mapping[str, str] | None:
        """Return the entries of a file, none if it cannot be read; None if that is not known yet."""
        if path not in self._known and (self._reading is None or not self._reading.is_alive()):
            self._known.clear()  # whoever asked for the last one has its answer, or asks again
            self._reading = threading.Thread(target=self._read, args=(path,), daemon=True, name="accelerate-config")
            self._reading.start()
        return self._known.get(path)

    def _read(self, path: str) -> None:
        self._known[path] = _entries_in(path)


def _entries_in(path: str) -> Mapping[str, str]:
    # Another user's process may name any file: opening a terminal would make it that of the sampler, and a device may act.
    try:
        there = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return {}
    try:
        if not stat.S_ISREG(os.fstat(there).st_mode):
            return {}
        with open(f"/proc/self/fd/{there}", "rb", buffering=0) as file:
            data = file.read(BYTES_MAX)
    except OSError:
        return {}
    finally:
        os.close(there)
    return entries_of(data or b"", is_json=path.endswith(".json"))
