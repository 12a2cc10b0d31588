"""A first collective operation that never ends: NCCL is ready, no step follows, and much later all GPUs are busy. Pure.

A kernel of NCCL that waits for another GPU keeps its own at 100%.
"""

from __future__ import annotations

import re

from gputop import units
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.after import is_progress
from gputop.doctor.logs.numbers.line import Line

SPINS_PERCENT = 95
"""A GPU is at this utilization or more while a kernel of NCCL waits (our choice)."""
WAITED_S = 300.0
"""The ranks have waited at least this long: a first step may compile, or read data, for minutes (our choice)."""
_READY = re.compile(
    r"NCCL INFO .{0,80}\bnranks (\d{1,5})\b.{0,200}Init COMPLETE|"
    r"\bAll distributed processes registered\. Starting with (\d{1,5}) processes"
)
"""What NCCL prints once its ranks are connected, and what Lightning prints."""
_ELAPSED = re.compile(r"(?:(\d{1,3})-)?(?:(\d{1,2}):)?(\d{2}):(\d{2})")
"""For how long a process runs, as ps prints it: its column ends where its heading does."""
_ROW = re.compile(r"^\d{1,3}, .{0,80}?(?<!\d)(\d{1,3}) %")
"""A row of ``nvidia-smi --query-gpu=... --format=csv``."""
_CALLS = re.compile(
    r"^\s{2,8}(?:_verify_param(?:s|_shape)_across_processes|_sync_module_states|barrier|all_reduce|broadcast)"
    r" \(torch/distributed"
)
"""Where py-spy finds a rank that waits for the others."""
_USE = re.compile(r"MiB\s{0,3}\|\s{0,9}(\d{1,3})%")


class FirstCollective:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before NCCL is ready."""
        self._ranks = 0
        """How many ranks NCCL has connected; 0 before, and once the training has gone on."""
        self._ready = ""
        """The line that says so."""
        self._at: float | None = None
        """When the last line before the table was written."""
        self._waited_s = 0.0
        """How much later the table was printed."""
        self._age_s = 0.0
        """How long the oldest process has run, by ps."""
        self._column = 0
        """Where the heading of ps ends that says for how long processes run."""
        self._calls = False
        """Whether a dump of a rank's calls shows that it waits in a collective."""
        self._in_table = False
        self._busy: list[bool] = []

    def read(self, line: Line) -> None:
        """Take the next line."""
        text = line.text
        ready = _READY.search(text) if "Init COMPLETE" in text or "registered" in text else None
        if ready is not None:
            self._ranks, self._ready = int(ready[1] or ready[2]), line.printed.strip()
        elif text.startswith(("|", "+")):
            self._read_table(text)
        elif self._ranks and is_progress(line.rest):
            self._ranks = 0
        elif (row := _ROW.match(text)) is not None:
            self._busy = [*self._busy[: int(text.partition(",")[0])], int(row[1]) >= SPINS_PERCENT]
        self._calls = self._ranks > 0 and (self._calls or _CALLS.match(text) is not None)
        if "ELAPSED" in text:
            self._column = text.index("ELAPSED") + len("ELAPSED")
        elapsed = _ELAPSED.fullmatch(text[: self._column].rpartition(" ")[2]) if self._column else None
        if elapsed is not None:
            days, hours, minutes, seconds = (int(part or 0) for part in elapsed.groups())
            self._age_s = max(self._age_s, ((24.0 * days + hours) * 60.0 + minutes) * 60.0 + seconds)
        elif line.at is not None and not self._in_table:
            self._waited_s = line.at - self._at if self._ranks and self._at is not None else 0.0
            self._at = line.at

    def _read_table(self, text: str) -> None:
        if "NVIDIA-SMI" in text:
            self._in_table, self._busy = True, []
        elif self._in_table and (use := _USE.search(text)) is not None:
            self._busy.append(int(use[1]) >= SPINS_PERCENT)

    def findings(self) -> tuple[Finding, ...]:
        """Return that the first collective does not end, if the GPUs of all ranks are still busy after ``WAITED_S``."""
        if self._ranks < 2 or sum(self._busy) != self._ranks:
            return ()
        if self._waited_s >= WAITED_S:
            when, seconds = f"{units.duration(self._waited_s)} later", self._waited_s
        elif self._age_s >= WAITED_S:
            when, seconds = f"after the processes have run for {units.duration(self._age_s)}", self._age_s
        elif self._calls:
            when, seconds = "while a rank waits in a collective operation", None
        else:
            return ()
        return (
            Finding(
                id="G02",
                severity="error",
                confidence="likely",
                title=f"The first collective operation of {words.count(self._ranks, 'rank')} does not end",
                evidence=(
                    Fact(f"no step follows this line: {self._ready[:200]}", self._ranks, "log"),
                    Fact(
                        f"{self._ranks} GPUs are at {SPINS_PERCENT}% or more, {when}",
                        seconds,
                        "nvidia-smi, in the log",
                    ),
                ),
                cause="The data does not get from one GPU to the other, often because the IOMMU or a virtual machine blocks "
                "transfers between them (P2P); or a rank did not enter the same operation.",
                fix="NCCL_P2P_DISABLE=1 torchrun ...  # if it works then, it is P2P: turn off the IOMMU (ACS) in the BIOS\n"
                "gputop where  # where each rank is now",
                refuted_by="The first step compiles for that long.",
            ),
        )
