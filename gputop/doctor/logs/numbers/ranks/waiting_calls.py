"""Where the ranks of a run that hangs wait, by dumps of py-spy in its log: in different collective operations, or all but some
in the same one. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.frameworks import FRAMEWORKS

PROCESSES_MAX = 1024
_PROCESS = re.compile(r"^\W{0,4}Process (\d{1,9}): ")
_THREAD = re.compile(r"^\W{0,4}Thread (?:0x)?[0-9a-fA-F]{1,16} \([\w+]{1,20}\)(: \"MainThread\")?")
_FRAME = re.compile(r"^\s{2,12}(\S{1,100}) \((\S{1,200}):(\d{1,7})\)$")
_COLLECTIVE = re.compile(r"(?:all_|reduce|broadcast|barrier|gather|scatter|recv|send|monitored)\w{0,40}")
_IN_TORCH = "distributed_c10d.py"
_OF_NO_RANK = re.compile(
    r"^_worker_loop \(|^join \(\S{0,200}torch/multiprocessing/spawn\.py:"
    r"|(?:torch/distributed/run|accelerate/commands/launch|deepspeed/launcher/(?:launch|runner))\.py:"
)
"""A call in a worker of a loader, in a launcher, or in a script that waits for the ranks that it has spawned."""
_FRAMEWORKS = "|".join(module for known in FRAMEWORKS.values() for module in known.modules if "." not in module)
_LIBRARIES = re.compile(rf"(?:^|/)(?:torch|site-packages|dist-packages|lib/python3[.\d]{{0,3}}|{_FRAMEWORKS})/")
_STANDARD = re.compile(r"^(?:threading|queue|selectors|socket|subprocess|multiprocessing/\w{1,30}|concurrent/.{1,40})\.py$")
_CAUSE = (
    "Each collective operation needs all ranks. What only one of them runs (behind `if rank == 0`, or for its own data) must "
    "not contain one: an evaluation or a save of a model in DDP or FSDP does."
)
_FIX = (
    "state = model.state_dict()  # FSDP, DeepSpeed: all ranks call it, and one of them writes\n"
    "if rank == 0: torch.save(state, path)\n"
    "net = model.module  # in DDP: evaluate without the wrapper where only one rank evaluates"
)


@dataclass
class _Process:
    call: str = ""
    """The collective operation in which its main thread waits; "" if it is in none."""
    place: str = ""
    """The innermost line of its main thread that is not of a library."""
    is_rank: bool = False
    """Whether the dump shows its main thread, and this is not that of a launcher or of a worker of a loader."""


class WaitingCalls:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first dump."""
        self._processes: dict[str, _Process] = {}
        self._now: _Process | None = None
        self._in_main = False

    def read(self, line: Line) -> None:
        """Take the next line."""
        text = line.printed
        if "Process " in text and (process := _PROCESS.match(text)) is not None:
            if process[1] in self._processes or len(self._processes) < PROCESSES_MAX:
                self._now = self._processes[process[1]] = _Process()
            self._in_main = False
        elif self._now is None:
            return
        elif "Thread " in text and (thread := _THREAD.match(text)) is not None:
            self._in_main = thread[1] is not None
            self._now.is_rank = self._now.is_rank or self._in_main
        elif self._in_main and (frame := _FRAME.match(text)) is not None:
            self._take(self._now, frame[1], frame[2], f"{frame[1]} ({frame[2]}:{frame[3]})")
        elif text.strip():
            self._in_main = False

    def _take(self, process: _Process, function: str, file: str, whole: str) -> None:
        if _OF_NO_RANK.search(whole) is not None:
            process.is_rank = False
        if not process.place and not process.call and file.endswith(_IN_TORCH) and _COLLECTIVE.fullmatch(function):
            process.call = function
        if not process.place and not _LIBRARIES.search(file) and not _STANDARD.match(file) and not file.startswith("<"):
            process.place = whole

    def findings(self) -> tuple[Finding, ...]:
        """Return in which operations the ranks wait, if these are different ones, or if some ranks are in none."""
        calls: dict[str, list[_Process]] = {}
        for process in self._processes.values():
            if process.is_rank and (process.call or process.place):
                calls.setdefault(process.call, []).append(process)
        named = sorted((name for name in calls if name), key=lambda name: len(calls[name]))
        facts = tuple(
            Fact(
                f"py-spy: {_count(calls[name])} in {name or 'no collective operation'}, at {calls[name][0].place or 'N/A'}",
                len(calls[name]),
                "log",
            )
            for name in sorted(calls)
        )
        base = Finding("C08", "error", "likely", "", facts, _CAUSE, _FIX, "Later dumps show other operations: the run goes on.")
        if len(named) > 1:
            return (replace(base, title=f"Ranks wait in different collective operations: {' and '.join(named)}"),)
        if len(named) == 1 and "" in calls and len(calls[named[0]]) >= len(calls[""]):
            waits = "waits" if len(calls[named[0]]) == 1 else "wait"
            title = f"{_count(calls[named[0]])} {waits} in {named[0]}, and {_count(calls[''])} elsewhere"
            return (replace(base, id="G01", confidence="possible", title=title),)
        return ()


def _count(processes: Sequence[_Process]) -> str:
    return words.count(len(processes), "rank")
