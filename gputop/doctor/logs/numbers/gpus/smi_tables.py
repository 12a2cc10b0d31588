"""Tables of nvidia-smi between the lines of a run: idle GPUs, ranks on one GPU, and a process that came to the run's. Pure.

The rows are those of drivers 450 to 580: two lines for each GPU, and a line for each process.
"""

from __future__ import annotations

import re
from dataclasses import replace

from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.after import is_progress
from gputop.doctor.logs.numbers.gpus.first_of_all import does_more
from gputop.doctor.logs.numbers.gpus.one_process import ALONE, BUSY_PERCENT, IDLE_PERCENT, IDLE_SHARE, WORDS_OF_ONE
from gputop.doctor.logs.numbers.gpus.polling import polling
from gputop.doctor.logs.numbers.gpus.second_contexts import second_contexts
from gputop.doctor.logs.numbers.gpus.smi_table import Gpu, Processes, SmiTable, is_python, serves
from gputop.doctor.logs.numbers.gpus.wanted import Wanted
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.setting import Setting
from gputop.doctor.logs.numbers.texts import ONE_DEVICE, ONE_PROCESS
from gputop.units import bytes_text

OWN_MIN_MIB = 1024
"""A run has at least this much memory: a daemon of the machine may have less (our choice)."""
GPUS_MAX, PROCESSES_MAX = 64, 1024
_NAME = re.compile(r"^\|\s{1,4}(\d{1,3})\s{1,4}\S.{10,50}\|")
_USE = re.compile(r"\|\s{0,9}(\d{1,7})MiB\s{0,3}/\s{0,9}(\d{1,7})MiB\s{0,3}\|\s{0,9}(\d{1,3})%")
_POWER = re.compile(r"(\d{1,4})W\s{0,3}/\s{0,9}(\d{1,4})W\s{0,3}\|")
_PROCESS = re.compile(
    r"^\|\s{1,6}(\d{1,3})\s{1,6}(?:\S{1,5}\s{1,6}\S{1,5}\s{1,12})?(\d{1,9})\s{1,6}C\s{1,4}(\S.{0,60}?)\s{1,60}(\d{1,7})MiB\s?\|"
)
_GPUSTAT = re.compile(r"^\[(\d{1,2})\] .{3,60}\|.{0,40}?(\d{1,3}) ?% ?\|\s{1,6}(\d{1,7}) / {1,6}(\d{1,7}) MB \|(.{0,400})")
_OF_GPUSTAT = re.compile(r"(?<!\S)([\w.-]{1,40})(?::([\w.-]{1,60}))?(?:/(\d{1,9}))?\((\d{1,7})M\)")
"""A process: its user, and what gpustat was asked for: its name, its PID."""
_OF_TRAINING = "loss", "step ", "epoch", "training", "train "
_OF_SERVERS = "vllm", "sglang", "serving", "inference", "uvicorn", "ollama", "triton"
_MASK = re.compile(r"\bCUDA_VISIBLE_DEVICES\W{1,4}(\d{1,2}(?:, ?\d{1,2}){0,62})(?![\d-])")


class SmiTables:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first table."""
        self._first: SmiTable | None = None
        self._table = SmiTable()
        self._gpu = -1
        self._wanted = Wanted()
        self._masked = 0
        """How many GPUs a mask shows each rank."""
        self._setting: Setting | None = None
        self._is_alone = self._is_split = False
        self._trained = self._has_ranks = self._moved = self._serves = self._moved_before = False

    def read(self, line: Line) -> None:
        """Take the next line."""
        text = line.text
        self._setting = line.setting
        self._has_ranks = self._has_ranks or (line.speaker is not None and line.speaker.is_named)
        self._trained = self._trained or any(word in line.lower for word in _OF_TRAINING)
        if text.startswith("[") and (row := _GPUSTAT.match(text)) is not None:
            self._read_gpustat(row)
        elif not text.startswith("|"):
            self._read_words(line)
        elif "NVIDIA-SMI" in text:
            self._begin()
        elif (process := _PROCESS.match(text)) is not None:
            on_gpu = self._table.pids.setdefault(int(process[1]), {})
            if len(on_gpu) < PROCESSES_MAX:
                on_gpu[process[2]] = process[3], int(process[4])
        elif (use := _USE.search(text)) is not None and self._gpu >= 0 and len(self._table.gpus) < GPUS_MAX:
            power = _POWER.search(text)
            watts = (int(power[1]), int(power[2])) if power is not None else ()
            self._table.gpus[self._gpu] = Gpu(int(use[3]), int(use[1]) / max(1, int(use[2])), int(use[1]), *watts)
            self._gpu = -1
        elif (name := _NAME.match(text)) is not None:
            self._gpu = int(name[1])
        else:
            self._moved = self._moved or is_progress(text.lstrip("| "))

    def _read_words(self, line: Line) -> None:
        """Read how many ranks there are, how many GPUs each one sees, and whether a process says that it runs alone."""
        self._moved = self._moved or is_progress(line.rest)
        self._serves = self._serves or any(word in line.lower for word in _OF_SERVERS)
        self._is_split = self._is_split or "device_map" in line.lower
        self._wanted.read(line)
        if not self._is_alone and any(word in line.lower for word in WORDS_OF_ONE):
            self._is_alone = ALONE.search(line.text) is not None
        if "CUDA_VISIBLE" in line.text and (mask := _MASK.search(line.text)) is not None:
            self._masked = mask[1].count(",") + 1

    def _begin(self) -> None:
        if self._table.gpus:
            self._first = self._first or self._table
        self._table, self._moved_before = SmiTable(), self._moved

    def _read_gpustat(self, row: re.Match[str]) -> None:
        gpu = int(row[1])
        if gpu in self._table.gpus:
            self._begin()
        if len(self._table.gpus) >= GPUS_MAX:
            return
        self._table.gpus[gpu] = Gpu(int(row[2]), int(row[3]) / max(1, int(row[4])), int(row[3]))
        for user, name, pid, mebibytes in _OF_GPUSTAT.findall(row[5]):
            on_gpu = self._table.pids.setdefault(gpu, {})
            if len(on_gpu) < PROCESSES_MAX:
                on_gpu[pid or user] = f"{name or 'a process'} of {user}", int(mebibytes)

    def findings(self) -> tuple[Finding, ...]:
        """Return what the last table shows."""
        gpus = self._table.gpus
        idle = [number for number, gpu in gpus.items() if gpu.percent <= IDLE_PERCENT and gpu.share <= IDLE_SHARE]
        busy = [number for number, gpu in gpus.items() if gpu.percent >= BUSY_PERCENT]
        second = second_contexts(self._table.pids, trains=bool(busy) and (self._trained or self._has_ranks))
        if second is not None:
            return (second,)
        polls = polling(self._table) if not self._moved and not self._serves else None
        if polls is not None:
            return (polls,)
        more = does_more(self._table)
        if more is not None and not self._may_differ():
            return (more,)
        trains = self._trained or self._has_pythons(busy)
        if not trains or not busy:
            return ()
        ranks = self._wanted.ranks
        if ranks > 1 and idle and len(busy) + len(idle) == len(gpus):
            found = self._of_ranks(ranks, busy) or self._of_one_idle(busy)
            return tuple(item if self._trained else replace(item, confidence="possible") for item in found)
        if not self._trained:
            return ()
        if self._is_alone and ranks <= 1 and not self._masked and len(busy) == 1 and 1 <= len(idle) == len(gpus) - 1:
            return (_of_one_process(busy[0], len(gpus)),)
        came = _came(self._first.pids, self._table.pids, busy) if self._first is not None and ranks <= 1 else None
        if came is not None:
            return (came,)
        return self._of_one_idle(busy) if idle and len(busy) + len(idle) == len(gpus) else ()

    def _may_differ(self) -> bool:
        """Return whether the GPUs may hold different amounts on purpose, by the other lines."""
        setting = self._setting
        apart = setting is not None and (setting.is_one_model or setting.are_apart)
        return self._serves or self._is_split or apart

    def _has_pythons(self, busy: list[int]) -> bool:
        """Return whether Python computes on these GPUs, with as much memory as a training, and nothing names something else."""
        if self._serves or self._setting is None or self._setting.is_one_model or self._setting.are_apart:
            return False
        pids = self._table.pids
        return all(
            any(is_python(name) and mebibytes >= OWN_MIN_MIB for name, mebibytes in pids.get(gpu, {}).values()) for gpu in busy
        )

    def _of_ranks(self, ranks: int, busy: list[int]) -> tuple[Finding, ...]:
        """Return that all ranks share a GPU, or that there are fewer than GPUs, which are busy or idle."""
        gpus = len(self._table.gpus)
        here = len(self._table.pids.get(busy[0], {}))
        if len(busy) == 1 and 1 < here <= ranks:
            return (_of_one_gpu(here, busy[0], gpus),)
        if len(busy) != ranks:
            return ()
        return (_of_a_mask(self._masked, gpus) if self._masked == ranks else _of_fewer(ranks, len(busy), gpus),)

    def _of_one_idle(self, busy: list[int]) -> tuple[Finding, ...]:
        """Return that one GPU works and the others are idle while steps go on, though the run asks for several."""
        apart = self._setting is None or self._setting.are_apart
        if len(busy) != 1 or not self._moved_before or self._masked == 1 or self._serves or self._is_alone or apart:
            return ()
        asked = self._wanted.several(busy[0], len(self._table.gpus))
        return (_of_one_that_works(busy[0], len(self._table.gpus), asked),) if asked else ()


def _of_one_gpu(ranks: int, gpu: int, gpus: int) -> Finding:
    return Finding(
        id="A07",
        severity="warning",
        confidence="likely",
        title=f"{words.count(ranks, 'rank')} share GPU {gpu} of {gpus}, and nothing uses the rest",
        evidence=(Fact(f"{ranks} processes compute on GPU {gpu} of {gpus}", gpu, "nvidia-smi, in the log"),),
        cause=ONE_DEVICE.cause,
        fix=ONE_DEVICE.fix,
        refuted_by="They share it on purpose.",
    )


def _of_fewer(ranks: int, busy: int, gpus: int) -> Finding:
    return Finding(
        id="A02",
        severity="warning",
        confidence="likely",
        title=f"{words.count(ranks, 'rank')} on {gpus} GPUs: {words.count(gpus - busy, 'GPU')} idle",
        evidence=(
            Fact(f"{busy} GPUs work, and {gpus - busy} hold nothing", gpus - busy, "nvidia-smi, in the log"),
            Fact(f"the run has {words.count(ranks, 'rank')}", ranks, "log"),
        ),
        cause="The launcher starts a fixed number of ranks, and the machine has more GPUs than that.",
        fix="torchrun --standalone --nproc-per-node=gpu train.py ...  # one for each GPU",
        refuted_by="The other GPUs are meant for other runs.",
    )


def _of_one_that_works(gpu: int, gpus: int, asked: str) -> Finding:
    rest = words.agree(gpus - 1, "the other is", "the others are")
    return Finding(
        id="A02",
        severity="warning",
        confidence="possible",
        title=f"Only GPU {gpu} of {gpus} works, and the log speaks of {asked}",
        evidence=(Fact(f"GPU {gpu} works, {rest} idle and empty", gpu, "nvidia-smi, in the log"),),
        cause="All ranks use the same GPU, or some have not started or have ended; or the script got one GPU, and a batch or a "
        "model that is not split.",
        fix="torchrun --standalone --nproc-per-node=gpu train.py ...  # one rank for each GPU\n"
        'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))  # in each, first',
        refuted_by="This table is of another host or another time, or the ranks are on several hosts.",
    )


def _of_one_process(gpu: int, gpus: int) -> Finding:
    return Finding(
        id="A01",
        severity="warning",
        confidence="likely",
        title=f"{ONE_PROCESS.title} on 1 of {words.count(gpus, 'GPU')}",
        evidence=(Fact(f"GPU {gpu} works, and {words.count(gpus - 1, 'GPU')} hold nothing", gpu, "nvidia-smi, in the log"),),
        cause=ONE_PROCESS.cause,
        fix=ONE_PROCESS.fix,
        refuted_by="The other GPUs belong to other users, or are left out on purpose.",
    )


def _of_a_mask(shown: int, gpus: int) -> Finding:
    return Finding(
        id="A03",
        severity="warning",
        confidence="likely",
        title=f"CUDA_VISIBLE_DEVICES shows {shown} of {words.count(gpus, 'GPU')}",
        evidence=(Fact(f"{gpus - shown} of them hold nothing", gpus - shown, "nvidia-smi, in the log"),),
        cause="Someone or something set the mask: a batch script, a shell's profile, the batch system.",
        fix="unset CUDA_VISIBLE_DEVICES  # or request more GPUs from the batch system: --gpus-per-node=",
        refuted_by="The other GPUs are meant for other runs.",
    )


def _came(before: Processes, now: Processes, busy: list[int]) -> Finding | None:
    """H03: a GPU that had one process has another one besides."""
    for gpu in busy:
        first, last = before.get(gpu, {}), now.get(gpu, {})
        new = [pid for pid in last if pid not in first]
        if len(first) != 1 or not first.keys() <= last.keys() or not new:
            continue
        name, mebibytes = last[new[0]]
        own_name, own_mebibytes = next(iter(first.values()))
        if own_mebibytes < OWN_MIN_MIB or name == own_name or serves(own_name):
            continue
        who = f"PID {new[0]}" if new[0].isdecimal() else f"one of {new[0]}"
        return Finding(
            id="H03",
            severity="warning",
            confidence="likely",
            title=f"Another process has come to the run's GPU {gpu}: {who}, with {bytes_text(mebibytes << 20)}",
            evidence=(
                Fact(f"{who} ({name}) is in the last table of the GPUs, and not in the first", new[0], "log"),
                Fact(f"{next(iter(first))} was there alone", next(iter(first)), "log"),
            ),
            cause="Both compute on the same GPU in turn, and each takes longer.",
            fix="nvidia-smi  # lists the processes of each GPU\ngputop  # says whose they are, and what they do",
            refuted_by="The run started it itself.",
        )
    return None
