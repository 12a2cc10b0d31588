"""The limits of this process's control group (a container, a batch job), and how often it reaches them.

Supports versions 2 and 1. A container without a cgroup namespace sees a host path that does not exist inside it; the mounted
root is then its own group. Imports only the standard library and ``procfs``; ``root`` replaces "/" in tests.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from gputop.sources.host import procfs

_USER_SLICE = re.compile(r"^user-\d+\.slice$")


class CpuLimit(NamedTuple):
    """How many cores may be used, and how often that limit was reached; the counts grow from the group's creation."""

    cores: float
    periods: int | None
    throttled: int | None


class Cgroup:
    """The control group of this process and its ancestors."""

    def __init__(self, root: str = "/") -> None:
        self._root = root
        self._paths = parse_cgroup(_read(os.path.join(root, "proc/self/cgroup")) or "")
        self._unified = os.path.exists(self._base("cgroup.controllers"))
        self._cpu = tuple(self._folders("cpu"))
        self._memory = tuple(self._folders("memory"))

    def read_cpu(self) -> CpuLimit | None:
        """Return the tightest limit of this group and its ancestors; ``None`` without a limit."""
        limits = []
        for folder in self._cpu:
            cores = _cores_v2(folder) if self._unified else _cores_v1(folder)
            if cores is not None:
                limits.append((cores, folder))
        if not limits:
            return None
        cores, folder = min(limits)
        counts = _counts(_read(os.path.join(folder, "cpu.stat")))
        return CpuLimit(cores, counts.get("nr_periods"), counts.get("nr_throttled"))

    def read_oom_kills(self) -> int | None:
        """Return how many processes the OOM killer has ended in this group and below; ``None`` if that is not counted.

        In a login session, count the user's slice, because a run may have been started in another session.
        """
        own = self._memory[0]
        chosen = next((folder for folder in self._memory if _USER_SLICE.match(os.path.basename(folder))), own)
        name = "memory.events" if self._unified else "memory.oom_control"
        return _counts(_read(os.path.join(chosen, name))).get("oom_kill")

    def _base(self, *names: str) -> str:
        return os.path.join(self._root, "sys/fs/cgroup", *names)

    def _folders(self, controller: str) -> Iterator[str]:
        """Yield the directories of this process's group and its ancestors for a controller, innermost first."""
        base, path = self._mounted(controller)
        inner = os.path.normpath(os.path.join(base, path.lstrip("/")))
        if not inner.startswith(base) or not os.path.isdir(inner):
            inner = base
        while inner != base:
            yield inner
            inner = os.path.dirname(inner)
        yield base

    def _mounted(self, controller: str) -> tuple[str, str]:
        if self._unified:
            return self._base(), self._paths.get("", "/")
        for names, path in self._paths.items():
            if controller in names.split(","):
                folders = [self._base(name) for name in (names, controller) if os.path.isdir(self._base(name))]
                if folders:
                    return folders[0], path
        return self._base(controller), "/"


def parse_cgroup(text: str) -> dict[str, str]:
    """Parse /proc/self/cgroup: controllers ("cpu,cpuacct"; "" for version 2) -> path in that hierarchy."""
    lines = (line.split(":", 2) for line in text.splitlines())
    return {parts[1]: parts[2] for parts in lines if len(parts) == 3}


def _cores_v2(folder: str) -> float | None:
    quota, _, period = (_read(os.path.join(folder, "cpu.max")) or "").strip().partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def _cores_v1(folder: str) -> float | None:
    quota = (_read(os.path.join(folder, "cpu.cfs_quota_us")) or "").strip()
    period = (_read(os.path.join(folder, "cpu.cfs_period_us")) or "").strip()
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def _counts(text: str | None) -> dict[str, int]:
    lines = (line.split() for line in (text or "").splitlines())
    return {parts[0]: int(parts[1]) for parts in lines if len(parts) == 2 and parts[1].isdigit()}


def _read(path: str) -> str | None:
    try:
        return procfs.read_bytes(path).decode(errors="replace")
    except OSError:
        return None
