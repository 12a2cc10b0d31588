"""GPUs that are fully busy at low power in a table of nvidia-smi: kernels of NCCL that wait for other ranks. Pure.

The kernels of a small model and the ranks of an idle server look the same. So the log must have no other lines, or only those
of a start without any step, and no GPU may be nearly full.
"""

from __future__ import annotations

from collections.abc import Mapping

from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.gpus.first_collective import SPINS_PERCENT
from gputop.doctor.logs.numbers.gpus.one_process import IDLE_PERCENT
from gputop.doctor.logs.numbers.gpus.smi_table import Gpu, Processes, SmiTable, serves
from gputop.units import bytes_text, ranges

POWER_SHARE = 0.35
"""While its kernels poll, a GPU draws at most this share of its limit, as in rule G01 (docs/rules.md#g01, estimates)."""
HELD_MIN_MIB, HELD_SHARE = 256, 0.85
"""A rank holds at least this much: without processes, some drivers show 100%, too. And at most this share: a server fills its
GPUs, and its ranks poll while there are no requests (our choice)."""
POWER_WITHIN, MEMORY_WITHIN = 0.2, 0.05
"""GPUs that poll differ in their power by no more than this; two ranks of one training in their memory (our choice)."""


def polling(table: SmiTable) -> Finding | None:
    """G01: all GPUs of a run poll for other ranks, or all but one, which rests."""
    polls = {number: gpu for number, gpu in table.gpus.items() if _polls(gpu)}
    others = {number: gpu for number, gpu in table.gpus.items() if number not in polls and gpu.mebibytes >= HELD_MIN_MIB}
    if not polls or len(others) > 1 or any(gpu.percent > IDLE_PERCENT for gpu in table.gpus.values() if not _polls(gpu)):
        return None
    shares = [gpu.power_w / gpu.limit_w for gpu in polls.values() if gpu.power_w is not None and gpu.limit_w]
    if max(shares) > (1.0 + POWER_WITHIN) * min(shares) or not _may_be_ranks(table.pids, [*polls, *others]):
        return None
    if others:
        number, rests = next(iter(others.items()))
        alike = any(abs(gpu.mebibytes - rests.mebibytes) <= MEMORY_WITHIN * rests.mebibytes for gpu in polls.values())
        return _one_rests(number, rests, polls) if alike else None
    return _all_poll(polls) if len(polls) > 1 else None


def _polls(gpu: Gpu) -> bool:
    if gpu.power_w is None or not gpu.limit_w or not gpu.mebibytes >= HELD_MIN_MIB or gpu.share > HELD_SHARE:
        return False
    return gpu.percent >= SPINS_PERCENT and gpu.power_w <= POWER_SHARE * gpu.limit_w


def _may_be_ranks(pids: Processes, gpus: list[int]) -> bool:
    """Return whether the processes on these GPUs, if they are listed, may be ranks of one run."""
    listed = [pids[gpu] for gpu in gpus if pids.get(gpu)]
    names = [{name for name, _ in on_gpu.values()} for on_gpu in listed]
    if any(serves(name) for found in names for name in found):
        return False
    return not names or (bool(set.intersection(*names)) and len({pid for found in listed for pid in found}) > 1)


def _fact(number: int, gpu: Gpu) -> Fact:
    power = f" at {gpu.power_w} of {gpu.limit_w} W" if gpu.power_w is not None and gpu.limit_w else ""
    held = bytes_text(gpu.mebibytes << 20)
    return Fact(f"GPU {number}: {gpu.percent}%{power}, {held} in use", gpu.percent, "nvidia-smi, in the log")


def _one_rests(number: int, rests: Gpu, polls: Mapping[int, Gpu]) -> Finding:
    those = f"GPU{'s' if len(polls) > 1 else ''} {ranges(polls)}"
    return Finding(
        id="G01",
        severity="warning",
        confidence="possible",
        title=f"{those} may wait for the rank on GPU {number}, which is idle",
        evidence=(_fact(number, rests), *(_fact(other, gpu) for other, gpu in list(polls.items())[:3])),
        cause="NCCL's kernels poll while a rank waits in a collective operation: the GPU is fully busy at little power. The "
        f"rank on GPU {number} has not entered it: it reads data, computes on the CPU, saves, evaluates, or is stuck.",
        fix="gputop where  # on the host: where each rank is now\npy-spy dump --pid PID  # of the rank on the idle GPU",
        refuted_by="They belong to different runs, or steps go on, and this was one moment between two of them.",
    )


def _all_poll(polls: Mapping[int, Gpu]) -> Finding:
    return Finding(
        id="G01",
        severity="warning",
        confidence="possible",
        title=f"The ranks on GPUs {ranges(polls)} may wait for each other: the GPUs are fully busy at little power",
        evidence=tuple(_fact(number, gpu) for number, gpu in list(polls.items())[:4]),
        cause="NCCL's kernels poll while a rank waits in a collective operation. If no step follows, the data does not get "
        "from one GPU to the other, or the ranks are in different operations.",
        fix="gputop where  # on the host: where each rank is now\n"
        "NCCL_P2P_DISABLE=1 torchrun ...  # if it trains then, transfers between the GPUs are blocked",
        refuted_by="Steps go on: the kernels of a small model draw little power, too.",
    )
