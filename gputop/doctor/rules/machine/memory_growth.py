"""Memory that grows for as long as the run lasts, and when it will be full (H06): a GPU's by the driver's per-process readings,
the machine's by what is resident.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.memory_growth import HOST
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion
from gputop.levels import Stretch
from gputop.snapshot import Device, Process

WARM_UP_S = 60.0
"""Ignore the first seconds of a process, while caches fill, the optimizer allocates its state and cuDNN tries algorithms."""
SPAN_MIN_S = 300.0
PARTS = 8
EVEN = 0.3
"""Each part must add at least this share of what an average part adds. This rules out plateaus, single jumps and growth that
levels off.
"""
GROWTH_MIN_BYTES = 256 << 20
AHEAD = 20.0
"""Extrapolate to at most this many times the observed span; if the memory lasts longer, report nothing."""
LEFT_MAX_S = 24 * 3600.0
"""If the memory lasts for a day, report nothing (our choice)."""
HOST_WARM_UP_S = 10.0
HOST_SPAN_MIN_S = 40.0
HOST_PARTS = 5
HOST_AHEAD = 40.0
HOST_TAKEN_SHARE = 0.5
"""Full memory ends everything that runs on the machine, so gputop reports it sooner, and only as possible (our
choice). What the machine has available must fall by half of the growth: pages of mapped files are resident, but free.
"""


class _Course(NamedTuple):
    """The bytes of a process after the warm-up: the mean of each part of the span, and those at its beginning."""

    means: list[float]
    span_s: float
    first: float


class _Growth(NamedTuple):
    """The growth of one rank on its GPU: ``first`` and ``last`` are the bytes at the ends of the span."""

    member: Member
    device: Device
    bytes_per_s: float
    first: float
    last: float
    span_s: float
    left_s: float


def grows_until_full(evidence: Evidence, group: RankGroup) -> Judgement:
    """H06: a rank's GPU memory grows steadily, and will soon be full; or that of the machine."""
    if group.virtual:
        return _fills_the_machine(evidence, group)
    found = [growth for member in group.members if (growth := _growth(evidence, group, member)) is not None]
    if not found:
        return _fills_the_machine(evidence, group)
    found.sort(key=lambda growth: growth.left_s)
    first = found[0]
    facts = [_fact(growth) for growth in found[:4]]
    facts += _lists(evidence, [growth.member.process for growth in found])
    gpu = words.gpu(first.device)
    finding = tracked.about(
        group,
        "H06",
        "warning",
        "likely",
        f"{gpu[:1].upper()}{gpu[1:]} will run out of memory in about {units.coarse_duration(first.left_s)} if this goes on",
        facts,
        "The script keeps tensors from step to step: a loss or output stored with its graph, a list of predictions, hidden "
        "states that are never detached, or a growing cache.",
        "losses.append(loss.item())  # a number, not the tensor with its graph\n"
        "hidden = hidden.detach()\n"
        "# with this, gputop names the lines when memory runs out\n"
        'torch.cuda.memory._record_memory_history("state", stacks="python")',
        "Memory stops growing: sequences reach their maximum length, or a cache or replay buffer is full.",
        devices=[growth.device for growth in found],
        pids=[growth.member.pid for growth in found if growth.member.pid is not None],
    )
    return Suspicion(finding, 10.0)


H06 = Rule(
    id="H06",
    order=2103,
    family="memory",
    title="Memory that grows until it is full",
    severities=("warning",),
    confidences=("likely", "possible"),
    needs=("NVML memory per process", "/proc, variables"),
    window_s=WARM_UP_S + SPAN_MIN_S,
    every_s=RARELY_S,
    threshold=(
        f"after {WARM_UP_S:.0f} s, over {SPAN_MIN_S / 60:.0f} minutes or more, each eighth of the time adds at least "
        f"{EVEN:.0%} of the mean of all eighths, {GROWTH_MIN_BYTES >> 20} MiB or more in total; full within {AHEAD:.0f} times "
        "the observed span, and within a day",
        f"so of the machine's memory, by each fifth of {HOST_SPAN_MIN_S:.0f} s or more: full within {HOST_AHEAD:.0f} times "
        f"that, if what is available falls by {HOST_TAKEN_SHARE:.0%} of the growth (possible)",
    ),
    estimated=True,
    mechanism="Each step leaves tensors behind that the script still refers to.",
    signature="A rank's memory, as the driver counts it, rises steadily for minutes while the run repeats the same steps.",
    look_alike="A warm-up; torch's allocator, which keeps the memory that a large batch or an evaluation once needed; a replay "
    "buffer or a cache before it is full; a mapped file that is read for the first time.",
    fix="Store numbers instead of tensors, and detach what you carry from step to step.",
    judge=grows_until_full,
)


def _fact(growth: _Growth) -> Fact:
    who = f"rank {growth.member.rank}" if growth.member.rank is not None else f"process {growth.member.pid}"
    text = (
        f"{who} on {words.gpu(growth.device)}: {units.bytes_text(growth.first)} to {units.bytes_text(growth.last)} in "
        f"{units.coarse_duration(growth.span_s)}, full in about {units.coarse_duration(growth.left_s)}"
    )
    return Fact(text, round(growth.left_s), "NVML")


def _lists(evidence: Evidence, processes: Sequence[Process | None]) -> list[Fact]:
    """Return which list of tensors grows along with the memory of an untracked process."""
    for process in processes:
        grown = evidence.held.grown_list(process) if process is not None else None
        if process is not None and grown is not None:
            name, before, now = grown
            text = f"the list {name} of process {process.pid} grew from {units.count(before)} to {words.count(now, 'tensor')}"
            return [Fact(text, now, f"/proc/{process.pid}/mem")]
    return []


def _growth(evidence: Evidence, group: RankGroup, member: Member) -> _Growth | None:
    device = next((item for item in group.pool if item.uuid == member.main), None)
    if member.process is None or device is None or not device.memory_total_bytes or device.memory_used_bytes is None:
        return None
    if not _may_have_grown(evidence, member.process, device.uuid):
        return None
    found = _parts(evidence.memory_growth.of(member.process, device.uuid), evidence.now)
    slope = _even_growth(found.means, found.span_s) if found is not None else None
    if found is None or slope is None:
        return None
    left_s = max(0.0, device.memory_total_bytes - device.memory_used_bytes) / slope
    if left_s > min(LEFT_MAX_S, AHEAD * found.span_s):
        return None
    now = next((use.memory_used_bytes for use in member.uses if use.device_uuid == device.uuid), None)
    return _Growth(member, device, slope, found.first, now or found.means[-1], found.span_s, left_s)


def _may_have_grown(evidence: Evidence, process: Process, where: str) -> bool:
    """Return whether ``_even_growth`` may find something: there may be hundreds of processes, and most do not grow.

    From the first part to the last, the means then differ by at least 4 fifths of ``GROWTH_MIN_BYTES``.
    """
    return evidence.memory_growth.range_of(process, where) >= GROWTH_MIN_BYTES / 2


def _even_growth(means: Sequence[float], span_s: float) -> float | None:
    """Return by how many bytes a second memory grows, from its means in the parts of a span; None if not, or unevenly."""
    added = [later - earlier for earlier, later in itertools.pairwise(means)]
    mean = (means[-1] - means[0]) / len(added)
    if mean * len(means) < GROWTH_MIN_BYTES or min(added) < EVEN * mean:
        return None
    half = added[len(added) // 2 :]
    return min(mean, sum(half) / len(half)) / (span_s / len(means))  # The slower rate: growth may be levelling off.


def _fills_the_machine(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge the machine's memory: that of the ranks grows evenly, and what is available shrinks with it."""
    host = evidence.snapshot.host if evidence.snapshot is not None else None
    if host is None or not host.memory_available_bytes:
        return None
    grown = []
    for member in group.members:
        if member.process is None or not _may_have_grown(evidence, member.process, HOST):
            continue
        seen = evidence.memory_growth.in_host(member.process)
        found = _parts(seen, evidence.now, HOST_PARTS, HOST_WARM_UP_S, HOST_SPAN_MIN_S)
        slope = _even_growth(found.means, found.span_s) if found is not None else None
        if found is not None and slope is not None:
            grown.append((member.process, slope, found))
    if not grown:
        return None
    span_s = min(course.span_s for *_, course in grown)
    slope = sum(rate for _, rate, _ in grown)
    available = evidence.memory_growth.available
    before = [item.mean for item in available if item.step <= evidence.now - span_s]
    left_s = host.memory_available_bytes / slope
    if not before or before[-1] - available[-1].mean < HOST_TAKEN_SHARE * slope * span_s or left_s > HOST_AHEAD * span_s:
        return None
    facts = [
        Fact(
            f"process {process.pid} grew from {units.bytes_text(course.first)} to "
            f"{units.bytes_text(process.memory_rss_bytes or course.means[-1])} in {units.coarse_duration(course.span_s)}",
            round(rate),
            "/proc",
        )
        for process, rate, course in grown[:4]
    ]
    facts += _lists(evidence, [process for process, *_ in grown])
    facts.append(
        Fact(
            f"the machine has {units.bytes_text(host.memory_available_bytes)} available",
            host.memory_available_bytes,
            "/proc/meminfo",
        )
    )
    finding = tracked.about(
        group,
        "H06",
        "warning",
        "possible",
        f"The machine will run out of memory in about {units.coarse_duration(left_s)} if this goes on",
        facts,
        "The script keeps what each step makes: a list of outputs or losses with their graphs, a replay buffer without a "
        "limit, or a cache.",
        "replay = collections.deque(maxlen=100_000)  # a limit\nlosses.append(loss.item())  # a number, not the tensor",
        "Memory stops growing: a cache, a data set or a replay buffer is complete.",
        pids=[process.pid for process, *_ in grown],
    )
    return Suspicion(finding, 5.0)


def _parts(
    stretches: Sequence[Stretch],
    now: float,
    number: int = PARTS,
    warm_up_s: float = WARM_UP_S,
    span_min_s: float = SPAN_MIN_S,
) -> _Course | None:
    """Return the series after the warm-up in equal parts; None if it is too short."""
    if not stretches:
        return None
    kept = [item for item in stretches if item.step >= stretches[0].step + warm_up_s]
    span_s = now - kept[0].step if kept else 0.0
    if span_s < span_min_s:
        return None
    parts: list[list[Stretch]] = [[] for _ in range(number)]
    for item in kept:
        parts[min(number - 1, int((item.step - kept[0].step) / span_s * number))].append(item)
    if not all(parts):
        return None
    means = [sum(item.mean * item.count for item in part) / sum(item.count for item in part) for part in parts]
    return _Course(means, span_s, kept[0].mean)
