"""A run of one process on a machine with several GPUs, several such processes in one log, and ranks that share a GPU. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.texts import ONE_DEVICE, ONE_PROCESS

STEPS_MIN, STEPS_MAX = 3, 4096
"""If processes that say they are the only one print each of this many steps several times, there are several (our choice)."""
BUSY_PERCENT, IDLE_PERCENT, IDLE_SHARE = 30, 3, 0.03
"""A GPU works from the first utilization on, and is idle up to the second, with no more than this share of its memory in use
(our choice)."""
WORDS_OF_ONE = (
    "proce",
    "prozess",
    "rank 0",
    "rang 0",
    "sıra 0",
    "rank: 0",
    "rank=0",
    "distributed",
    "world",
    "parallel",
    "device_map",
    "n_gpu",
    "nproc",
)
ALONE = re.compile(
    r"(?i)\bsingle process on 1 (?:GPU|device)|\bRunning with a single process\b|\bnot using distributed mode\b|"
    r"\bdistributed environment: (?:NO|DistributedType\.NO)\b|"
    r"\b(?:process|processo|proceso|processus|prozess|rank|rang|rango|s[ıi]ra|proces)\W{1,3}0 ?(?:/|of|de|von|sur|z|din) ?1\b|"
    r"\bworld[_ ]size\W{1,4}1\b|\bnum(?:ber)?(?: of)? processes\W{1,3}1\b|\bdistributed(?: training)?(?: ?= ?|: )False\b"
)
_SAID_ONCE = re.compile(
    r"(?i)\bRunning with a single process\b|\bnot using distributed mode\b|\brank\W{1,3}0\b.{1,12}\bworld[_ ]?size\W{1,3}1\b"
)
"""What a process says once, when it starts."""
_NUMBER = re.compile(r"\d{1,9}")
LEAST_MIB = 8192
"""If nothing says how much memory a GPU has, it has no less (our choice)."""
_LISTED = re.compile(r"^GPU (?P<number>\d{1,3}): \S.{0,80}\(UUID: ")
_ROW = re.compile(
    r"^\|?\s{0,6}\[?(?P<number>\d{1,2})\]?\s.{0,60}?(?P<percent>\d{1,3}) ?%"
    r".{0,30}?(?P<used>\d{1,6}) ?(?:MiB|MB)? ?/ ?(?P<total>\d{3,6}) ?(?:MiB|MB)"
)
_STEP = re.compile(r"(?i)(?:\bepoch\W{0,4}\d{1,6}\W{1,4})?\b(?:step|iter(?:ation)?|batch)\W{0,4}\d{1,12}\b")
_DEVICE = re.compile(r"(?i)\b(?:model|device|on|using|to)\b[^,;|]{0,20}\bcuda:(\d{1,2})\b")
_SEEN = re.compile(r"(?i)\bdevice_count(?:\(\))?\W{1,3}(\d{1,2})\b|\b(\d{1,2}) (?:GPUs? )?visible\b")
_VARIES = re.compile(r"(?i)(?<![a-z])(?:seed[ =:_]{1,3}[1-9]|sweep|trial|array|fold)")
_SEVERAL = re.compile(
    r"(?i)DataParallel|device_map|n_gpu\W{1,3}[2-9]|world[_ ]size\W{1,4}[2-9]|nproc[_-]per[_-]node|num_processes\W{1,3}[2-9]"
)


class OneProcess:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._alone: dict[int | None, str] = {}
        """The line in which each task says that it runs without others; under None if the line names no task."""
        self._listed: set[int] = set()
        self._columns: list[str] = []
        """Those of the rows that are read."""
        self._rows: dict[int, tuple[int, float]] = {}
        """The utilization of each GPU in percent, and the share of its memory in use."""
        self._steps: Counter[str] = Counter()
        """How many lines with such words name each step."""
        self._starts = 0
        """How many processes have said that they are alone before the first of them printed a loss."""
        self._trains = False
        self._several = self._is_masked = False
        """Whether the log speaks of several processes, and whether someone chose the GPUs of a process."""
        self._varies = False
        """Whether the log speaks of seeds, trials or the like, of which each may be a run of its own."""
        self._devices: dict[int, int] = {}
        """The CUDA index that each rank says it uses."""
        self._seen_gpus = 0
        """How many GPUs a rank says it sees."""

    def read(self, line: Line) -> None:
        """Take the next line."""
        text, lower = line.text, line.lower
        self._is_masked = self._is_masked or "cuda_visible_devices" in lower
        self._varies = self._varies or _VARIES.search(text) is not None
        self._trains = self._trains or "loss" in lower
        if any(word in lower for word in WORDS_OF_ONE):
            self._several = self._several or _SEVERAL.search(text) is not None
            if ALONE.search(text) is not None:
                self._starts += not self._trains and _SAID_ONCE.search(text) is not None
                self._read_step(text)
                self._alone.setdefault(None if line.speaker is None else line.speaker.rank, line.printed.strip())
        if "cuda:" in lower and line.speaker is not None and line.speaker.rank is not None:
            self._read_device(line.speaker.rank, text)
        if "uuid" in lower and (listed := _LISTED.match(text)) is not None:
            self._listed.add(int(listed["number"]))
        elif "utilization.gpu" in lower and "memory.used" in lower and "," in text:
            self._columns = [cell.strip().lower().partition(" ")[0] for cell in text.split(",")]
        elif self._columns and text.count(",") == len(self._columns) - 1:
            self._read_row(dict(zip(self._columns, map(str.strip, text.split(",")), strict=True)))
        elif "%" in text and (row := _ROW.match(text)) is not None:
            self._rows[int(row["number"])] = int(row["percent"]), int(row["used"]) / max(1, int(row["total"]))

    def _read_row(self, row: Mapping[str, str]) -> None:
        """Read a row of ``nvidia-smi --query-gpu=... --format=csv``."""
        numbers = {
            name: _NUMBER.match(row.get(name, "")) for name in ("index", "utilization.gpu", "memory.used", "memory.total")
        }
        index, percent, used, total = numbers.values()
        if index is not None and percent is not None and used is not None:
            share = int(used[0]) / max(1, int(total[0]) if total is not None else LEAST_MIB)
            self._rows[int(index[0])] = int(percent[0]), share

    def _read_step(self, text: str) -> None:
        """Count how often processes that say they are the only one print the same step: that is how many there are."""
        step = _STEP.search(text)
        if step is not None and (step[0] in self._steps or len(self._steps) < STEPS_MAX):
            self._steps[step[0]] += 1

    def _read_device(self, rank: int, text: str) -> None:
        device, seen = _DEVICE.search(text), _SEEN.search(text)
        if device is not None:
            self._devices.setdefault(rank, int(device[1]))
        if seen is not None:
            self._seen_gpus = max(self._seen_gpus, int(seen[1] or seen[2]))

    def findings(self) -> tuple[Finding, ...]:
        """Return that one process leaves GPUs idle, that tasks train without each other, or that ranks share one GPU."""
        if not self._is_masked and self._seen_gpus > 1 and len(self._devices) > 1 and len(set(self._devices.values())) == 1:
            return (_of_one_device(self._devices, self._seen_gpus),)
        tasks = [rank for rank in self._alone if rank is not None]
        if len(tasks) > 1 and set(tasks) == set(range(len(tasks))):
            return (_of_tasks(len(tasks), next(iter(self._alone.values())), self._varies),)
        if self._starts > 1:
            return (_of_tasks(self._starts, next(iter(self._alone.values())), self._varies),)
        again = min((number for _, number in self._steps.most_common(STEPS_MIN)), default=0)
        if len(self._steps) >= STEPS_MIN and again > 1:
            return (_of_tasks(again, next(iter(self._alone.values())), self._varies),)
        if self._is_masked or self._several or not (self._alone or self._rows):
            return ()
        idle = [number for number, (percent, share) in self._rows.items() if percent <= IDLE_PERCENT and share <= IDLE_SHARE]
        busy = [number for number, (percent, _) in self._rows.items() if percent >= BUSY_PERCENT]
        seen = len(busy) == 1 and len(idle) == len(self._rows) - 1 > 0
        if not seen and (not self._alone or len(self._listed) < 2):
            return ()
        gpus = len(self._rows) if seen else len(self._listed)
        facts = [Fact(line, line, "log") for line in list(self._alone.values())[:1]]
        if seen:
            facts.append(
                Fact(
                    f"GPU {busy[0]} works, and {words.agree(len(idle), 'the other is', 'all others are')} idle", busy[0], "log"
                )
            )
        else:
            facts.append(Fact(f"the host has {words.count(gpus, 'GPU')}", gpus, "log"))
        return (
            Finding(
                id="A01",
                severity="warning",
                confidence="likely" if self._alone else "possible",
                title=f"{ONE_PROCESS.title} on 1 of {words.count(gpus, 'GPU')}",
                evidence=tuple(facts),
                cause=ONE_PROCESS.cause,
                fix=ONE_PROCESS.fix,
                refuted_by="The other GPUs belong to other users, or are left out on purpose.",
            ),
        )


def _of_one_device(devices: Mapping[int, int], seen: int) -> Finding:
    index = next(iter(devices.values()))
    return Finding(
        id="A07",
        severity="warning",
        confidence="likely",
        title=f"{words.count(len(devices), 'rank')} {ONE_DEVICE.title}, cuda:{index}, of {seen} that each sees",
        evidence=(Fact(f"each of {words.count(len(devices), 'rank')} says that it uses cuda:{index}", index, "log"),),
        cause=ONE_DEVICE.cause,
        fix=ONE_DEVICE.fix,
        refuted_by="Each rank sees another GPU as this one, through a CUDA_VISIBLE_DEVICES of its own.",
    )


def _of_tasks(number: int, line: str, varies: bool) -> Finding:
    return Finding(
        id="A18",
        severity="warning",
        confidence="possible" if varies else "likely",
        title=f"{number} processes train {number} models: each says that it is alone",
        evidence=(Fact(line, line, "log"), Fact(f"so do {number} tasks of this log", number, "log")),
        cause="What started them gave none of them a rank and a world size that the script reads, so each trains by itself, on "
        "all of the data, and writes over the files of the others.",
        fix="srun --ntasks-per-node=1 torchrun --nnodes=$SLURM_NNODES --nproc-per-node=gpu --rdzv-backend=c10d \\\n"
        "  --rdzv-endpoint=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -1):29500 train.py ...",
        refuted_by="They are independent runs on purpose, with settings of their own.",
    )
