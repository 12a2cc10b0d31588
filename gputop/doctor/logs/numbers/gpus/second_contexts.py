"""Processes that compute on one GPU each and hold a little memory on others, too, by the tables of nvidia-smi. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.gpus.smi_table import Processes, is_python, serves
from gputop.units import bytes_text, ranges

SECOND_MOST_MIB, SECOND_SHARE = 1024, 0.25
"""A context that holds nothing else takes at most this much, and this share of what its process holds on its own GPU (our
choice)."""
EQUAL_MIN, EQUAL_WITHIN = 3, 0.02
"""This many contexts on a GPU, which differ by at most this share, are equal: they hold the same, and no data (our choice)."""
EQUAL_MOST_MIB, EQUAL_SHARE = 2048, 0.5
"""Each of them may then take this much, and this share (our choice)."""
CONTEXTS_MIN = 2
"""On another GPU than the first, or if nothing else shows a training, this many processes hold some (our choice)."""


class _Second(NamedTuple):
    """What a process holds on another GPU than its own, in MiB.

    ``own`` is its GPU, and ``most`` what it holds there. Both are None if a table that was cut shows only equal contexts.
    """

    pid: str
    mebibytes: int
    own: int | None
    most: int | None


def second_contexts(pids: Processes, trains: bool) -> Finding | None:
    """H01: processes that compute on other GPUs hold a little memory on one GPU, or on each other's.

    Args:
        pids: The computing processes of one table.
        trains: Whether the log shows in other words that they train. If not, they must be Python's.
    """
    sizes: dict[str, dict[int, int]] = {}
    for gpu, on_gpu in pids.items():
        for pid, (name, mebibytes) in on_gpu.items():
            if pid.isdecimal() and not serves(name) and (trains or is_python(name)):
                sizes.setdefault(pid, {})[gpu] = mebibytes
    own = {pid: _own(held) for pid, held in sizes.items()}
    mains = [gpu for gpu in own.values() if gpu is not None]
    are_apart = len(set(mains)) == len(mains)
    found = {}
    for gpu in sorted(set(mains)):
        second = _on(gpu, sizes, own)
        if len(second) >= CONTEXTS_MIN or (second and gpu == 0 and trains and are_apart):
            found[gpu] = second
    if not found:
        return None
    is_sure = trains or all(_are_equal([item.mebibytes for item in second]) for second in found.values())
    return _on_each_other(found, is_sure) if len(found) > 1 else _on_one(*next(iter(found.items())), is_sure)


def _own(held: dict[int, int]) -> int | None:
    """Return the GPU on which a process holds by far the most; None if there is none."""
    most = max(held, key=lambda gpu: held[gpu])
    return most if all(gpu == most or size <= EQUAL_SHARE * held[most] for gpu, size in held.items()) else None


def _on(gpu: int, sizes: dict[str, dict[int, int]], own: dict[str, int | None]) -> list[_Second]:
    """Return the second contexts on a GPU; none if one of its processes from elsewhere holds more than a context."""
    there = {pid: held[gpu] for pid, held in sizes.items() if gpu in held and own[pid] != gpu}
    second = []
    for pid, mebibytes in there.items():
        main = own[pid]
        second.append(_Second(pid, mebibytes, main, sizes[pid][main] if main is not None else None))
    known = [item for item in second if item.own is not None]
    if not known or len({item.own for item in known}) < len(known):
        return []
    are_equal = _are_equal([item.mebibytes for item in second])
    if len(known) < len(second) and not are_equal:
        return []
    is_raised = are_equal and len(second) >= EQUAL_MIN
    most, share = (EQUAL_MOST_MIB, EQUAL_SHARE) if is_raised else (SECOND_MOST_MIB, SECOND_SHARE)
    least = min(item.most for item in known if item.most is not None)
    return second if all(item.mebibytes <= min(most, share * (item.most or least)) for item in second) else []


def _are_equal(sizes: Sequence[int]) -> bool:
    return len(sizes) >= CONTEXTS_MIN and max(sizes) <= (1.0 + EQUAL_WITHIN) * min(sizes)


def _facts(second: Sequence[_Second], gpu: int, most: int) -> list[Fact]:
    return [
        Fact(
            f"PID {item.pid}: {bytes_text(item.most << 20)} on GPU {item.own}, {bytes_text(item.mebibytes << 20)} on GPU {gpu}",
            item.mebibytes << 20,
            "nvidia-smi, in the log",
        )
        for item in second
        if item.most is not None
    ][:most]


def _on_one(gpu: int, second: Sequence[_Second], is_sure: bool) -> Finding:
    who = "1 process of another GPU also holds" if len(second) == 1 else f"{len(second)} processes of other GPUs also hold"
    return Finding(
        id="H01",
        severity="warning",
        confidence="likely" if is_sure else "possible",
        title=f"{who} memory on GPU {gpu}",
        evidence=tuple(_facts(second, gpu, 4)),
        cause="Something in these processes used CUDA before they chose their device, or names one, such as cuda:0: torch.load "
        "without map_location, .cuda() without a number, empty_cache() or a barrier before set_device.",
        fix='torch.cuda.set_device(local_rank)  # first, before anything uses CUDA\ntorch.load(path, map_location="cpu")',
        refuted_by=f"They exchange data over GPU {gpu} on purpose.",
    )


def _on_each_other(found: dict[int, list[_Second]], is_sure: bool) -> Finding:
    pids = {item.pid for second in found.values() for item in second}
    return Finding(
        id="H01",
        severity="warning",
        confidence="likely" if is_sure else "possible",
        title=f"{len(pids)} processes also hold memory on each other's GPUs: {ranges(found)}",
        evidence=tuple(fact for gpu, second in found.items() for fact in _facts(second, gpu, 2))[:4],
        cause="Something in each process uses CUDA on every GPU that it sees: a loop over all devices, a load of weights to "
        "the GPUs that they were saved from, or a framework that opens all visible GPUs when it starts.",
        fix="torch.cuda.set_device(local_rank)  # first; then only this device, and no loop over device_count()\n"
        'torch.load(path, map_location="cpu")\n'
        'tf.config.set_visible_devices(gpus[local_rank], "GPU")  # in TensorFlow',
        refuted_by="They exchange data over these GPUs on purpose.",
    )
