"""How many GPUs of its host a run asks for, by the words of its log. Pure."""

from __future__ import annotations

import re

from gputop.doctor.logs.numbers.line import Line

_RANKS = re.compile(
    r"(?i)\b(?:world[_ ]?size\W{1,4}|nproc[_-]per[_-]node[= ]|num[_-]processes[= ]|nprocs=|num_devices=|MEMBER: \d{1,4}/|"
    r"Starting with )(\d{1,5})\b"
)
_RANK_WORDS = ("siz", "proc", "member", "devices=")
_MPI = re.compile(r"\b(?:mpirun|mpiexec|horovodrun)\b.{0,200}?\s-np? (\d{1,5})\b")
_GPUS = re.compile(r"(?i)(?:--(?:n|num)?[-_]?gpus[= ]|\bn_gpus?\W{1,3})(\d{1,2}(?:, ?\d{1,2}){0,15})(?![\d.])")
_WRAPPED = re.compile(r"(?<![A-Za-z])(?:nn\.)?DataParallel\(")
_DEVICE = re.compile(r"(?<![\w.])cuda:(\d{1,2})\b")
_HOSTS = re.compile(r"(?i)\bnnodes\W{1,2}[2-9]|\bnode[-_]rank\b|\bnum[-_](?:nodes|machines)\W{1,3}[2-9]|\s-H \S|\bhostfile\b")
DEVICES_MAX = 64


class Wanted:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first line."""
        self.ranks = 0
        """The most ranks that a line speaks of."""
        self._mpi = self._gpus = 0
        self._index: int | None = None
        """The number behind an option for GPUs, which may be that of the only one."""
        self._wraps = self._over_hosts = False
        self._devices: set[str] = set()

    def read(self, line: Line) -> None:
        """Take the next line."""
        text, lower = line.text, line.lower
        if any(word in lower for word in _RANK_WORDS) and (ranks := _RANKS.search(text)) is not None:
            self.ranks = max(self.ranks, int(ranks[1]))
        if " -n" in text and (mpi := _MPI.search(text)) is not None:
            self._mpi = max(self._mpi, int(mpi[1]))
        if "gpu" in lower and (gpus := _GPUS.search(text)) is not None:
            several = gpus[1].count(",")
            self._index = None if several else int(gpus[1])
            self._gpus = several + 1 if several else int(gpus[1])
        self._wraps = self._wraps or ("DataParallel(" in text and _WRAPPED.search(text) is not None)
        if "cuda:" in text and len(self._devices) < DEVICES_MAX:
            self._devices.update(_DEVICE.findall(text))
        self._over_hosts = self._over_hosts or _HOSTS.search(text) is not None

    def several(self, gpu: int, gpus: int) -> str:
        """Return what the run asks for, if that is more than the one GPU that works, of ``gpus``; "" if it is not."""
        ranks = max(self.ranks, self._mpi)
        if self._over_hosts or ranks > gpus:
            return ""
        if ranks > 1:
            return f"{ranks} ranks"
        if self._wraps:
            return "nn.DataParallel"
        if 1 < self._gpus <= gpus and self._index != gpu:
            return f"{self._gpus} GPUs"
        return f"{len(self._devices)} devices" if 1 < len(self._devices) <= gpus else ""
