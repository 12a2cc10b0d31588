"""One table of nvidia-smi or gpustat, as a log shows it: its GPUs, and the processes that compute on them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

Processes = Mapping[int, Mapping[str, tuple[str, int]]]
"""The name and the MiB of each process, by its PID (or its user, if that is all there is), by the GPU."""
_PYTHON = re.compile(r"(?:^|/)python\d{0,2}(?:\.\d{1,2})?$")
_SERVES = re.compile(r"(?i)ollama|dcgm|vllm|sglang|triton|xorg|gnome|serve|tgi|llama")


class Gpu(NamedTuple):
    """A row: the utilization in percent, the share and the MiB of memory in use, and the power and its limit in watts."""

    percent: int
    share: float
    mebibytes: int
    power_w: int | None = None
    limit_w: int | None = None


@dataclass
class SmiTable:
    """The GPUs by their number, and the processes that compute on them."""

    gpus: dict[int, Gpu] = field(default_factory=dict)
    pids: dict[int, dict[str, tuple[str, int]]] = field(default_factory=dict)


def is_python(name: str) -> bool:
    """Return whether a process, as nvidia-smi names it, is an interpreter: "python3.11", "...envs/pt/bin/python"."""
    return _PYTHON.search(name) is not None


def serves(name: str) -> bool:
    """Return whether a process, by its name, answers requests or watches the machine."""
    return _SERVES.search(name) is not None
