"""The past of each rank group: its local ranks, and how long it rested before it worked again.

``Evidence`` keeps one ``GroupPast`` and feeds it the groups of each snapshot. It forgets a group that is gone. Pure: no clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.snapshot import Process

RESTS_CPU_PERCENT = 10.0
"""Below this share of a core, a rank computes nothing."""


@dataclass(slots=True)
class _Past:
    """What is known of one group. Times are ``Snapshot.monotonic_s``."""

    members: tuple[Member, ...] = ()
    """The members in the last snapshot. While they are the same objects, so are their local ranks and PIDs."""
    local_ranks: frozenset[int] = frozenset()
    pids: frozenset[int] = frozenset()
    backward_s: float = 0.0
    rests_since: float | None = None
    rested_until: float = 0.0
    longest_rest_s: float = 0.0
    is_idle: bool = False
    """Whether no member has run backward, so none can rest after it."""


class GroupPast:
    """The past of each group since the stream began."""

    def __init__(self) -> None:
        self._known: dict[str, _Past] = {}

    def observe(self, groups: Iterable[RankGroup], now: float) -> None:
        """Process the groups of the next snapshot, taken at ``now`` (seconds)."""
        known = {}
        for group in groups:
            past = known[group.key] = self._known.get(group.key) or _Past()
            is_known = past.members is group.members
            if not is_known:
                past.members = group.members
                past.local_ranks |= {member.local_rank for member in group.members if member.local_rank is not None}
            if not (is_known and past.rests_since is None and past.is_idle):
                _note_rest(past, group, now)
        self._known = known

    def local_ranks(self, group: RankGroup) -> frozenset[int]:
        """Return every local rank that the group was ever seen to have."""
        past = self._known.get(group.key)
        return past.local_ranks if past is not None else frozenset()

    def longest_rest_s(self, group: RankGroup) -> float:
        """Return the longest time in seconds that all ranks rested before they ran backward again; 0 if they never did.

        Only for ranks that run backward on GPUs: for others, nothing shows that they train again.
        """
        past = self._known.get(group.key)
        return past.longest_rest_s if past is not None else 0.0


def uses_no_processor(process: Process) -> bool:
    """Return whether a process computes nothing; False where that is unknown."""
    return process.cpu_percent is not None and process.cpu_percent < RESTS_CPU_PERCENT


def has_run_backward(process: Process) -> bool:
    """Return whether the process has computed gradients on a GPU: its backward threads have used the CPU."""
    return any(seconds > 0 for _, seconds in process.autograd_threads)


def _note_rest(past: _Past, group: RankGroup, now: float) -> None:
    """Note whether the ranks rest. Only a backward pass ends a rest: even during a hang, a thread sometimes wakes up."""
    pids = frozenset(group.pids)
    past.is_idle = not any(member.process.autograd_threads for member in group.members if member.process is not None)
    processes = [member.process for member in group.members if member.process is not None]
    backward_s = sum(seconds for process in processes for _, seconds in process.autograd_threads)
    if pids != past.pids:
        past.rests_since, past.longest_rest_s = None, 0.0
    elif backward_s > past.backward_s and past.rests_since is not None:
        past.longest_rest_s = max(past.longest_rest_s, past.rested_until - past.rests_since)
        past.rests_since = None
    past.pids, past.backward_s = pids, backward_s
    if processes and all(uses_no_processor(process) and has_run_backward(process) for process in processes):
        past.rests_since = now if past.rests_since is None else past.rests_since
        past.rested_until = now
