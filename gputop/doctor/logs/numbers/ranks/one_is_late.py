"""One rank or host for which all others wait, by the parts of a step that each prints of itself. Pure."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.parts import LINES_MIN, PartKind, kind_of
from gputop.doctor.logs.numbers.texts import COMPUTES_LONGER
from gputop.units import metric

Member = Literal["rank", "host"]
_COPIES = re.compile(r"(?i)h2d|(?:copy|to)[ _]?(?:device|gpu|cuda)")
"""Parts that copy a batch to the GPU."""

DATA_SHARE, DATA_TIMES = 0.3, 3.0
"""A rank waits for its data if that takes at least this share of its step, and this many times as long as on the others (our
choice)."""
WORK_SHARE, WORK_TIMES = 0.15, 1.25
"""Its work takes longer if the excess is at least this share of its step, and the work takes this many times as long as on the
others (our choice)."""
WAIT_SHARE = 0.5
"""The others wait for it if a part of their steps takes longer than its own, by this share of the difference (our choice)."""


def one_is_late(
    printed: Mapping[str, Mapping[str, Sequence[float]]], what: Member, unit: str, least: int = LINES_MIN
) -> Finding | None:
    """Return the finding on the one that all others wait for; None if there is none.

    Args:
        printed: for each by its name, the seconds of each part of its steps.
        what: what they are.
        unit: follows the seconds: "" if the lines name none.
        least: the fewest values of a part to judge.
    """
    means = {name: _means(parts, least) for name, parts in printed.items() if parts}
    if len(means) < 2 or not all(means.values()):
        return None
    common = set.intersection(*(set(parts) for parts in means.values()))
    kinds = {part: kind_of(part) or "compute" for part in common}
    # Next to a collective operation, in which ranks wait for each other, any other wait is for something the rank itself needs.
    others_wait = ("whole", "communication") if "communication" in kinds.values() else ("whole", "communication", "waiting")
    own = [part for part in common if kinds[part] not in others_wait]
    found = max(((*_latest(means, part), part) for part in sorted(own)), default=None)
    if found is None:
        return None
    more, late, part = found
    usual, takes = means[late][part] - more, means[late][part]
    step = sum(seconds for name, seconds in means[late].items() if kinds.get(name) != "whole")
    waits_for_data = kinds[part] in ("data", "waiting")
    share, times = (DATA_SHARE, DATA_TIMES) if waits_for_data else (WORK_SHARE, WORK_TIMES)
    if more <= 0 or (takes if waits_for_data else more) < share * step or takes < times * usual:
        return None
    others = [parts for name, parts in means.items() if name != late]
    waiting = [name for name in common if name != part and _may_wait(name, kinds[name])]
    waits = max((min(each[name] for each in others) - means[late][name] for name in waiting), default=0.0)
    if waits < WAIT_SHARE * more:
        return None
    return _finding(late, part, kinds[part], what, (takes, usual, step), unit)


def _may_wait(name: str, kind: PartKind) -> bool:
    """Return whether ranks wait for each other in a part: DDP exchanges gradients within the backward pass."""
    return kind in ("communication", "waiting") or "bwd" in name or "backward" in name


def _means(parts: Mapping[str, Sequence[float]], least: int) -> dict[str, float]:
    """Return the mean seconds of each part; empty if too few are printed."""
    return {name: statistics.fmean(values) for name, values in parts.items() if len(values) >= least}


def _latest(means: Mapping[str, Mapping[str, float]], part: str) -> tuple[float, str]:
    """Return by how much a part takes longer for one than usual for the others, and for which one."""
    late = max(means, key=lambda name: means[name][part])
    return means[late][part] - statistics.median(parts[part] for name, parts in means.items() if name != late), late


def _finding(late: str, part: str, kind: PartKind, what: Member, times: tuple[float, float, float], unit: str) -> Finding:
    takes, usual, step = times
    who = f"{what} {late}"
    of_data = _OF_COPIES if _COPIES.search(part) else _OF_DATA
    id_, title, cause, fix = of_data if kind in ("data", "waiting") else _OF_WORK if kind == "compute" else _OF_MORE
    return Finding(
        id="K01" if what == "host" else id_,
        severity="warning",
        confidence="possible" if id_ == "I03" else "likely",
        title=f"{who[0].upper()}{who[1:]} {title}, and the others wait for {who}",
        evidence=(
            Fact(f"{part} takes {metric(takes)}{unit} of a step of {metric(step)}{unit} on {who}", takes, "log"),
            Fact(f"it takes {metric(usual)}{unit} on the others, whose steps are as long", usual, "log"),
        ),
        cause=cause,
        fix=fix,
        refuted_by=f"Another {what} than {late} has such times in the rest of the run.",
    )


_OF_DATA = (
    "F01",
    "waits for its data",
    "Each step is as slow as its slowest rank: the ranks average their gradients. This one reads from a slower disk, has fewer "
    "workers or cores, or larger samples.",
    "# put its part of the data on the disk of the others, or give each rank a share of all of it\n"
    "DistributedSampler(dataset, shuffle=True)  # over data that is equally fast for all ranks",
)
_OF_COPIES = (
    "I03",
    "takes longer to copy its batches to its GPU",
    "Each step is as slow as its slowest rank. The PCIe link of this one's GPU has fewer lanes or a lower speed than the "
    "others, or its process runs on the other processor socket.",
    "nvidia-smi --query-gpu=index,pcie.link.width.current,pcie.link.width.max,pcie.link.gen.current --format=csv\n"
    "nvidia-smi topo -m  # NUMA affinity: the cores near each GPU",
)
_OF_WORK = ("F02", *COMPUTES_LONGER)
_OF_MORE = (
    "F05",
    "does more than the others",
    "Each step is as slow as its slowest rank: what only this one does (saving, logging, evaluating) all others wait for.",
    "# do it less often, in another process, or a share of it on each rank",
)
