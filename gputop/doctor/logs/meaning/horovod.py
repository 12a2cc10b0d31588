"""Horovod's warnings that ranks stand still: which ranks are missing, or which ones are ready. Pure.

The coordinator prints them while the others wait: they may be the first sign, and follow from nothing in the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.meaning.observed import finding_of, place, quote, short
from gputop.doctor.logs.observation import Observation
from gputop.doctor.logs.scan import LogScan

STALL = "horovod_stall"


def stalled(consequences: Sequence[Observation], scans: Sequence[LogScan]) -> Finding | None:
    """Return the finding on a stall; None unless Horovod's warning is the first sign in these logs.

    Of the ranks that are ready, it says which of those that print to the log are not.
    """
    if not _is_stall(consequences[0]):
        return None
    stalls = [item for item in consequences if _is_stall(item)]
    named = next((item for item in stalls if "ranks" in item.groups or "ready" in item.groups), stalls[0])
    found = finding_of(named)
    if named is not stalls[0]:
        found = replace(found, evidence=(Fact(quote(stalls[0]), short(stalls[0].line), place(stalls[0])), *found.evidence))
    missing = sorted({rank for scan in scans for rank in scan.ranks} - _numbers(named.groups.get("ready", "")))
    if "ready" in named.groups and missing:
        found = replace(
            found,
            evidence=(*found.evidence, Fact(f"not among them: {words.ranks(missing)}", missing, "log")),
            fix=f"# read the logs of {words.ranks(missing)}\ngputop doctor  # while it hangs: says where each rank is",
        )
    return replace(found, confidence="possible")


def _is_stall(item: Observation) -> bool:
    return item.pattern is not None and item.pattern.id == STALL


def _numbers(listed: str) -> set[int]:
    return {int(number) for number in listed.replace(",", " ").split()}
