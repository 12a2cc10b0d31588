"""Memory that grows for as long as the run lasts, and when it will be full (H06): a GPU's by the driver's per-process readings,
the machine's by what is resident.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.memory_growth import HOST
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.policies import learns_policy
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion
from gputop.levels import Stretch
from gputop.snapshot import Device, Process, loss_metric

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

STEADY_PARTS, STEADY_SPAN_MIN_S = 8, 80.0
STEADY, STEADY_GROWTH_MIN_BYTES = 0.7, 128 << 20
"""Each eighth of a shorter span adds this share of the mean, or more: a cache that fills, or an allocator, adds less and less.
So even a growth shows sooner, but says little about hours: gputop reports it as an information (our choice).
"""
EACH_STEP, EACH_STEP_SPAN_MIN_S = 0.8, 50.0
"""A leak takes nearly as much in each step: by steps, the fifths of a shorter span show that (our choice)."""
STRAIGHT, LATE_SHARE = 0.95, 0.7
"""Or the lowest readings of the eighths lie on a straight line (this R²), and the second half rises by this share of the first
or more: what a step holds for a moment comes on top of them, and a cache that fills bends the line (our choice)."""
STEADY_LEFT_MAX_S = 4 * 3600.0
"""If the machine's memory lasts for longer, report nothing (our choice)."""


class _Course(NamedTuple):
    """The bytes of a process after the warm-up: what is usual in each part of the span, and those at its beginning."""

    means: list[float]
    span_s: float
    first: float
    lows: list[float]
    """The lowest reading of each part."""


class _Growth(NamedTuple):
    """The growth of one rank on its GPU: ``first`` and ``last`` are the bytes at the ends of the span."""

    member: Member
    device: Device
    bytes_per_s: float
    first: float
    last: float
    span_s: float
    left_s: float


class _InHost(NamedTuple):
    """A process whose resident memory grows, and by how many bytes a second."""

    process: Process
    bytes_per_s: float
    course: _Course


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
    severities=("warning", "info"),
    confidences=("likely", "possible"),
    needs=("NVML memory per process", "/proc, variables"),
    window_s=WARM_UP_S + SPAN_MIN_S,
    every_s=RARELY_S,
    threshold=(
        f"after {WARM_UP_S:.0f} s, over {SPAN_MIN_S / 60:.0f} minutes or more, each eighth of the time adds at least "
        f"{EVEN:.0%} of the mean of all eighths, {GROWTH_MIN_BYTES >> 20} MiB or more in total; full within {AHEAD:.0f} times "
        "the observed span, and within a day",
        f"so of the machine's memory, by each fifth of {HOST_SPAN_MIN_S:.0f} s or more: full within {HOST_AHEAD:.0f} times "
        f"that, if what is available falls by {HOST_TAKEN_SHARE:.0%} of the growth, in total or in the middle half of its "
        "changes (possible); the time of a rank counts by its steps",
        f"or, over {STEADY_SPAN_MIN_S:.0f} s of losses, each eighth adds {STEADY:.0%} of the mean (by known steps, each fifth "
        f"{EACH_STEP:.0%} over {EACH_STEP_SPAN_MIN_S:.0f} s), {STEADY_GROWTH_MIN_BYTES >> 20} MiB or more in total, and it is "
        f"full within {STEADY_LEFT_MAX_S / 3600:.0f} hours; "
        "not for an agent, nor within the first epoch seen (possible, info)",
        f"the same if the lowest readings of the eighths lie on a straight line (R² of {STRAIGHT:g} or more), and rise in the "
        f"second half by {LATE_SHARE:.0%} of the first or more",
        f"the same over {HOST_SPAN_MIN_S:.0f} s or more, by each fifth, if a list of tensors, or of what holds some, has "
        "doubled and never shrunk (possible, info)",
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
            text = f"the list {name} of process {process.pid} grew from {units.count(before)} to {words.count(now, 'element')}"
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

    From the first part to the last, the means then differ by at least 4 fifths of the least growth.
    """
    least = STEADY_GROWTH_MIN_BYTES if where == HOST else GROWTH_MIN_BYTES
    return evidence.memory_growth.range_of(process, where) >= least / 2


def _even_growth(
    means: Sequence[float], span_s: float, even: float = EVEN, least_bytes: int = GROWTH_MIN_BYTES
) -> float | None:
    """Return by how many bytes a second memory grows, from its means in the parts of a span; None if not, or unevenly."""
    added = [later - earlier for earlier, later in itertools.pairwise(means)]
    mean = (means[-1] - means[0]) / len(added)
    if mean * len(means) < least_bytes or min(added) < even * mean:
        return None
    half = added[len(added) // 2 :]
    return min(mean, sum(half) / len(half)) / (span_s / len(means))  # The slower rate: growth may be levelling off.


def _straight_growth(lows: Sequence[float], span_s: float, least_bytes: int) -> float | None:
    """Return by how many bytes a second memory grows if the lowest readings of the parts of a span lie on a straight line."""
    half = len(lows) // 2
    early, late = lows[half - 1] - lows[0], lows[-1] - lows[half]
    if lows[-1] - lows[0] < least_bytes or late < LATE_SHARE * early or early <= 0:
        return None
    places = range(len(lows))
    if statistics.correlation(places, lows) ** 2 < STRAIGHT:
        return None
    return statistics.linear_regression(places, lows).slope / (span_s / len(lows))


def _fills_the_machine(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge the machine's memory: that of the ranks grows evenly, and what is available shrinks with it."""
    host = evidence.snapshot.host if evidence.snapshot is not None else None
    if host is None or not host.memory_available_bytes:
        return None
    grown = _grown(evidence, group, HOST_PARTS, HOST_SPAN_MIN_S, EVEN, GROWTH_MIN_BYTES)
    left_s = _left_s(evidence, grown, host.memory_available_bytes)
    soon = left_s is not None and left_s <= HOST_AHEAD * min(course.span_s for *_, course in grown)
    if not soon:
        began_s = _began_s(evidence, group)
        if began_s is None or _may_fill_up(evidence, group):
            return None
        lists = any(member.process is not None and evidence.held.grown_list(member.process) for member in group.members)
        ways = [(HOST_PARTS, HOST_SPAN_MIN_S, EVEN)] if lists else [(STEADY_PARTS, STEADY_SPAN_MIN_S, STEADY)]
        if all(member.process is not None and evidence.memory_growth.knows_steps(member.process) for member in group.members):
            ways.append((HOST_PARTS, EACH_STEP_SPAN_MIN_S, EACH_STEP))
        found = (_grown(evidence, group, *way, STEADY_GROWTH_MIN_BYTES, began_s) for way in ways)
        grown = next((item for item in found if item), [])
        left_s = _left_s(evidence, grown, host.memory_available_bytes)
        left_s = left_s if left_s is not None and left_s <= STEADY_LEFT_MAX_S else None
    if left_s is None:
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
        "warning" if soon else "info",
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


def _grown(
    evidence: Evidence,
    group: RankGroup,
    parts: int,
    span_min_s: float,
    even: float,
    least_bytes: int,
    since_s: float = -math.inf,
) -> list[_InHost]:
    """Return the group's processes whose resident memory grows in each part of the time; ``since_s``: monotonic."""
    grown = []
    for member in group.members:
        if member.process is None or not _may_have_grown(evidence, member.process, HOST):
            continue
        seen = [item for item in evidence.memory_growth.in_host_by_steps(member.process) if item.step >= since_s]
        found = _parts(seen, evidence.now, parts, HOST_WARM_UP_S, span_min_s)
        slope = _even_growth(found.means, found.span_s, even, least_bytes) if found is not None else None
        if slope is None and found is not None and even == STEADY:
            slope = _straight_growth(found.lows, found.span_s, least_bytes)
        if found is not None and slope is not None:
            grown.append(_InHost(member.process, slope, found))
    return grown


def _left_s(evidence: Evidence, grown: Sequence[_InHost], available_bytes: float) -> float | None:
    """Return after how many seconds these processes fill the machine; None if it does not lack what they have taken."""
    if not grown:
        return None
    span_s = min(course.span_s for *_, course in grown)
    slope = sum(rate for _, rate, _ in grown)
    available = evidence.memory_growth.available
    before = [item for item in available if item.step <= evidence.now - span_s]
    if not before:
        return None
    fallen = (before[-1].mean - available[-1].mean) / span_s
    least = HOST_TAKEN_SHARE * slope
    return available_bytes / slope if max(fallen, _usual_fall(available[len(before) - 1 :])) >= least else None


def _usual_fall(available: Sequence[Stretch]) -> float:
    """Return by how many bytes a second the available memory falls, without its largest and smallest changes.

    Those are of other programs that begin or end: on a crowded machine, they may release as much as a leak takes.
    """
    falls = sorted((before.mean - after.mean) / (after.step - before.step) for before, after in itertools.pairwise(available))
    usual = falls[len(falls) // 4 : len(falls) - len(falls) // 4]
    return units.mean(usual) if usual else 0.0


def _began_s(evidence: Evidence, group: RankGroup) -> float | None:
    """Return when the first known value of a training loss came (monotonic): before, data and modules are loaded."""
    now = evidence.snapshot
    times = [
        series.times[0]
        for rank in logged.ranks_of(group)
        if (name := loss_metric(rank.metrics)) is not None
        and (series := evidence.series(logged.run_id(group), rank.rank, name)).times
    ]
    return min(times) - now.time + now.monotonic_s if now is not None and times else None


def _may_fill_up(evidence: Evidence, group: RankGroup) -> bool:
    """Return whether the growth may be a replay buffer's, or a data set's that is read for the first time."""
    ranks = logged.ranks_of(group)
    if learns_policy(ranks):
        return True
    epochs = [evidence.series(logged.run_id(group), rank.rank, "epoch").values for rank in ranks if "epoch" in rank.metrics]
    return any(values and max(values) - min(values) < 1 for values in epochs)


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
    return _Course([_usual(part) for part in parts], span_s, kept[0].mean, [min(item.mean for item in part) for part in parts])


def _usual(part: Sequence[Stretch]) -> float:
    """Return the mean of the lower half: what a step holds for a moment, such as dense gradients, comes on top of what
    stays."""
    lower = sorted(part, key=lambda item: item.mean)[: -(-len(part) // 2)]
    return sum(item.mean * item.count for item in lower) / sum(item.count for item in lower)
