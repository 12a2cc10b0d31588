"""One table of nvidia-smi or gpustat, as a log shows it: its GPUs, and the processes that compute on them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

Processes = Mapping[int, Mapping[str, tuple[str, int]]]
"""The name and the MiB of each process, by its PID (or its user, if that is all there is), by the GPU."""
_PYTHON = re.compile(r"(?:^|/)python\d{0,2}(?:\.\d{1,2})?$")
_SERVES = re.compile(r"(?i)ollama|dcgm|vllm|sglang|triton|xorg|gnome|serve|tgi|llama")


@dataclass
class SmiTable:
    """The utilization in percent and the share of memory in use of each GPU, and its computing processes."""

    gpus: dict[int, tuple[int, float]] = field(default_factory=dict)
    pids: dict[int, dict[str, tuple[str, int]]] = field(default_factory=dict)


def is_python(name: str) -> bool:
    """Return whether a process, as nvidia-smi names it, is an interpreter: "python3.11", "...envs/pt/bin/python"."""
    return _PYTHON.search(name) is not None


def serves(name: str) -> bool:
    """Return whether a process, by its name, answers requests or watches the machine."""
    return _SERVES.search(name) is not None
