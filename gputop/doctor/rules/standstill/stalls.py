"""G01 by what the ranks report: when each completed its last step, and where it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from gputop import units
from gputop.doctor.evidence import stacks, windows
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.facts import ddp as ddp_facts
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Confidence, Fact, Severity
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.doctor.rules.support.shared import utilization
from gputop.facts.standing import Stalled

STALL_HOLD_S = 3.0
EARLY_STILL_S = 5.0
PAUSE_HOLD_S = 30.0
"""A rank that evaluates enters a collective from time to time; the journal reports its place again every 10 s."""
SILENT_S = 60.0
"""A rank silent for this long while all others wait is the culprit."""
BUSY_PERCENT = 80.0
"""On virtual GPUs, a main thread above this share of a core computes a long step (our choice)."""
WORKERS_BUSY_PERCENT = 50.0
IDLE_CPU_PERCENT = 10.0
QUIET_MIN_S = 5.0
QUIET_STEPS = 20.0
"""No step for this long and for this many usual steps: the run may hang, and only that is reported (our choice)."""
QUIET_HOLD_S = 35.0
"""A rank itself reports after 30 s that it stands still, and where, unless its Python code does not run."""
STACK_SHOWN = 2
_HANGS = "The training hangs"
Stalls = Mapping[int, tuple[Member, Stalled]]
"""Rank -> its process and its report."""


def standstills(group: RankGroup) -> Stalls:
    """Return rank -> its report, for the ranks of a group that complete no step, early reports included.

    None of them stands still while one of them logs: ranks of one run wait for each other.
    """
    found = {}
    for member in group.members:
        stall = ddp_facts.standstill(member.journal)
        if member.journal is not None and stall is not None and not ddp_facts.logs_go_on(group.live_ranks, stall):
            found[member.journal.rank] = (member, stall)
    return found


def judge_early(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge early reports: all ranks wait for one that rests. A rank that evaluates, writes or compiles does not rest."""
    stalls = standstills(group)
    places = [stall for _, stall in stalls.values()]
    if not any(stall.early for stall in places) or len(stalls) < max(2, len(tracked.ranks_of(group))):
        return None
    odd = _odd_one_out(stalls)
    if odd is None or odd.journal is None or not is_idle(evidence, odd):
        return None
    if any(is_paused(stall) or stacks.compiles(stall) for stall in places):
        return None
    rank, stall = odd.journal.rank, stalls[odd.journal.rank][1]
    if stacks.pauses(stall) or stall.phase == "data":
        return None
    finding = tracked.about(
        group,
        "G01",
        "warning",
        "possible",
        f"All ranks wait for rank {rank}, which does nothing",
        _stall_facts(stalls),
        "No step has completed for longer than any earlier step or pause of this run. The others are in a collective operation "
        "that this rank has not entered.",
        f"py-spy dump --pid {odd.pid if odd.pid is not None else 'PID'} --native  # where it is now",
        "A step completes, or the rank is evaluating, writing or downloading.",
        pids=[odd.pid] if odd.pid is not None else None,
    )
    return Suspicion(finding)


def is_idle(evidence: Evidence, member: Member) -> bool:
    """Return whether a rank uses no CPU, GPU or disk, as far as that is known."""
    process = member.process
    if process is None or process.cpu_percent is None or process.cpu_percent >= IDLE_CPU_PERCENT:
        return False
    load = evidence.load(member.main) if member.main is not None else None
    workers = process.workers.cpu_percent if process.workers is not None else None
    if (workers or 0.0) >= IDLE_CPU_PERCENT or evidence.still.disks_s(process) < EARLY_STILL_S:
        return False
    return load is None or not load.busy


def judge_quiet(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge a run whose steps have stopped, as long as no rank has reported that it stands still."""
    ranks, usual_s = tracked.ranks_of(group), windows.median_step_s(evidence, group)
    stepped_at = [rank.stepped_at for rank in ranks if rank.stepped_at is not None]
    if evidence.snapshot is None or usual_s is None or not stepped_at:
        return None
    quiet_s = evidence.snapshot.time - max(stepped_at)
    if quiet_s < max(QUIET_MIN_S, QUIET_STEPS * usual_s):
        return None
    finding = tracked.about(
        group,
        "G01",
        "warning",
        "possible",
        "The training may hang: its steps have stopped",
        [
            Fact(
                f"no step for {units.duration(quiet_s)}, where one takes {units.rounded(usual_s * 1e3)} ms",
                round(quiet_s, 1),
                "journal: step_s",
            )
        ],
        "It waits for something, or its Python code does not run: then no rank can report where it stands.",
        f"gputop where {fixes.shell_join((group.run_id or '',))}",
        "A step completes, or the process is compiling, evaluating, writing a checkpoint, or done training.",
    )
    return Suspicion(finding, QUIET_HOLD_S)


def is_paused(stall: Stalled) -> bool:
    """Return whether a rank evaluates or writes, and does not wait for others."""
    return stacks.pauses(stall) and not stacks.communicates(stall)


_EXCHANGE_FIX = """\
# the ranks take turns: one sends first, and the other receives first
if rank % 2 == 0: dist.send(mine, other); dist.recv(theirs, other)
else: dist.recv(theirs, other); dist.send(mine, other)
# or both at once: for work in dist.batch_isend_irecv([P2POp(...), ...]): work.wait()"""


def judge_several(evidence: Evidence, group: RankGroup, stalls: Stalls) -> Judgement:
    """Judge several ranks: find the one that the others wait for."""
    ranks = tracked.ranks_of(group)
    places = [stall for _, stall in stalls.values()]
    if any(is_paused(stall) or stacks.compiles(stall) for stall in places) or all(
        stacks.rests(member.journal, stall) for member, stall in stalls.values()
    ):
        return None
    silent = [rank.rank for rank in ranks if rank.rank not in stalls]
    if silent:
        waiting = all(stacks.communicates(stall) for stall in places)
        if not waiting or len(silent) > 1 or stalled_s(evidence, stalls) < SILENT_S:
            return None
        odd = next((member for member in group.members if member.rank == silent[0]), None)
        if odd is None:
            return None
    else:
        odd = _odd_one_out(stalls)
    facts = _stall_facts(stalls)
    if silent:
        text = f"rank {silent[0]} reports nothing: its Python code is not running"
        facts.append(Fact(text, silent[0], "journal: stalled"))
    facts += utilization(evidence, tracked.used_devices(group))
    hold_s = PAUSE_HOLD_S if any(stacks.pauses(stall) for stall in places) else STALL_HOLD_S
    pid = odd.pid if odd is not None and odd.pid is not None else (group.pids[0] if group.pids else "PID")
    said = stalls.get(odd.journal.rank) if odd is not None and odd.journal is not None else None
    if odd is not None and said is not None and stacks.in_debugger(said[1]):
        title = f"The training waits for rank {odd.rank}, which is in a debugger"
        cause = "A breakpoint() or a debugger prompt waits for input, and all other ranks wait for this one."
        fix = f"PYTHONBREAKPOINT=0 {fixes.own_command(group)}  # or remove the breakpoint()"
    elif odd is not None:
        title = f"The training hangs: all ranks wait for rank {odd.rank}"
        cause = (
            "The others are in a collective operation (backward, all_reduce, barrier) that this rank has not entered: it "
            "waits for something else, or took a different path through the code."
        )
        if silent:
            cause += " It is in C code that holds Python's lock, or in a driver call that does not return."
        fix = f"py-spy dump --pid {pid} --native  # where it is now\n# every rank must call the same collective operations"
    elif {stacks.exchange_of(stall) for stall in places} == {"send"}:
        title = "The training hangs: all ranks send, and none receives"
        cause = "A send may end only when the other rank receives. Here each rank sends first, so none gets to its receive."
        fix = _EXCHANGE_FIX
    elif {stacks.exchange_of(stall) for stall in places} == {"recv"}:
        title = "The training hangs: all ranks wait to receive, and none sends"
        cause = (
            "Each rank waits for a message from another one that is waiting, too: a send is missing, or comes after the wait."
        )
        fix = _EXCHANGE_FIX
    else:
        title = "The training hangs: no rank completes a step"
        cause = "All ranks are at the same place: a collective operation that never completes, a lock, or missing input."
        fix = f"py-spy dump --pid {pid}\n{recorder_command(group)}"
    finding = tracked.about(
        group,
        "G01",
        "error",
        "likely",
        title,
        facts,
        cause,
        fix,
        "A step completes, or the run is compiling, evaluating or writing a checkpoint.",
        pids=[pid] if isinstance(pid, int) and odd is not None else None,
    )
    return Suspicion(finding, hold_s)


def recorder_command(group: RankGroup) -> str:
    """Return a command for the next run that makes torch record which rank is missing from which operation."""
    return (
        f"TORCH_FR_BUFFER_SIZE=2000 TORCH_DISTRIBUTED_DEBUG=DETAIL {fixes.own_command(group)}  # next time: shows which "
        "rank is missing where"
    )


def stalled_s(evidence: Evidence, stalls: Stalls) -> float:
    """Return how many seconds ago the last rank stopped completing steps."""
    known = [stall.since for _, stall in stalls.values() if stall.since is not None]
    return evidence.snapshot.time - max(known) if evidence.snapshot is not None and len(known) == len(stalls) else 0.0


def _stall_facts(stalls: Stalls) -> list[Fact]:
    step = min((stall.step for _, stall in stalls.values() if stall.step is not None), default=None)
    said = Fact(
        f"no step since step {units.count(step)}" if step is not None else "no step completes", step, "journal: stalled"
    )
    return [said, *(stall_fact(rank, stall) for rank, (_, stall) in stalls.items())]


def stall_fact(rank: int, stall: Stalled) -> Fact:
    """Return the phase and the lines at which a rank waits."""
    shown, own = stall.stack[:STACK_SHOWN], stacks.own_line(stall)
    if own is not None and own not in shown:
        shown = (*shown[:1], own)
    frames = " < ".join(shown)
    phase = stall.phase or "an unknown phase"
    return Fact(f"rank {rank} is in {phase}" + (f", at {frames}" if frames else ""), list(stall.stack), "journal: stalled")


def _odd_one_out(stalls: Stalls) -> Member | None:
    """Return the one rank whose phase or place differs from that of all others."""
    waiting = {rank for rank, (_, stall) in stalls.items() if stacks.communicates(stall)}
    if len(waiting) == len(stalls) - 1:
        return next(member for rank, (member, _) in stalls.items() if rank not in waiting)
    if len(stalls) < 3:
        return None
    phases: dict[int, object] = {rank: stall.phase for rank, (_, stall) in stalls.items()}
    tops: dict[int, object] = {rank: stall.stack[:1] for rank, (_, stall) in stalls.items()}
    for places in (phases, tops):
        counted = Counter(places.values())
        if len(counted) == 2:
            (_, most), (rare, few) = counted.most_common(2)
            if few == 1 and most > 1:
                return next(stalls[rank][0] for rank, place in places.items() if place == rare)
    return None


def judge_single(evidence: Evidence, group: RankGroup, member: Member, stall: Stalled) -> Judgement:
    """Judge a single process, which no other rank can block."""
    if stacks.pauses(stall) or stacks.compiles(stall) or stacks.rests(member.journal, stall):
        return None
    process, pid = member.process, member.pid if member.pid is not None else "PID"
    main = process.main_thread_cpu_percent if process is not None else None
    workers = process.workers if process is not None else None
    busy = group.virtual and main is not None and main >= BUSY_PERCENT and stall.phase in ("forward", "backward", "optimizer")
    fed = (
        stall.phase == "data"
        and workers is not None
        and ((workers.cpu_percent or 0.0) >= WORKERS_BUSY_PERCENT or workers.blocked > 0)
    )
    facts = _stall_facts({0: (member, stall)})
    if workers is not None and workers.cpu_percent is not None:
        text = f"its {words.count(workers.count, 'loader worker')} use {workers.cpu_percent:.0f}% of a core"
        facts.append(Fact(text, workers.cpu_percent, "/proc"))
    facts += utilization(evidence, tracked.used_devices(group))
    title, cause = _HANGS, "Its process is alive but completes no step. The stack shows where it waits."
    severity: Severity = "error"
    confidence: Confidence = "likely"
    fix = f"py-spy dump --pid {pid}"
    if stacks.in_debugger(stall):
        title, cause = "The training waits in a debugger", "A breakpoint() or a debugger prompt waits for input."
        severity, confidence, fix = "info", "certain", f"PYTHONBREAKPOINT=0 {fixes.own_command(group)}"
    elif stall.phase == "data":
        title = "The training waits for a batch that does not arrive"
        cause = (
            "A loader worker hangs (a lock held at fork time, a file system that does not respond), or the loader waits "
            "for a worker that died."
        )
        loader = facts_of(member.journal).loader
        least = "DataLoader(..., timeout=60)  # then torch raises an error" if loader is None or loader.num_workers else ""
        pids = (pid, *(workers.pids[:1] if workers is not None else ()))
        fix = "\n".join([*(f"py-spy dump --pid {item}" for item in pids), least]).rstrip()
    elif stall.phase in (None, "other"):
        # After its last step, a script may plot, upload or wait for input: nothing shows that more steps follow.
        confidence = "possible"
    if (fed or busy) and confidence == "likely":
        severity, confidence = "warning", "possible"
    if title == _HANGS and confidence == "possible":
        title = "The training may hang"
    finding = tracked.about(
        group,
        "G01",
        severity,
        confidence,
        title,
        facts,
        cause,
        fix,
        "A step completes, or the process is compiling, evaluating, writing a checkpoint, or done training.",
    )
    return Suspicion(finding, STALL_HOLD_S)
