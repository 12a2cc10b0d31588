"""A run that makes no step, for no visible reason (G01): a collective that one rank never enters, a lock, a stopped
process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from gputop.doctor.evidence import collective_counts, stacks
from gputop.doctor.evidence.collective_counts import Behind
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.facts import ddp as ddp_facts
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Confidence, Fact, Severity
from gputop.doctor.rules.standstill.spinning import HANG_SYMPTOMS, SPIN_HOLD_S, SPIN_PERCENT, SPIN_POWER_SHARE, spins
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, Judgement, Rule, Suspicion
from gputop.doctor.rules.support.shared import utilization
from gputop.facts.table import Stalled
from gputop.snapshot import CommunicatorRank

STOPPED_STATES = {"T": "a stop signal (Ctrl-Z, kill -STOP)", "t": "a debugger or a tracer (gdb, strace)"}
STOPPED_HOLD_S = 5.0
"""py-spy and strace stop a process for an instant."""
STALL_HOLD_S = 3.0
EARLY_STILL_S = 5.0
PAUSE_HOLD_S = 30.0
"""A rank that evaluates enters a collective now and then; the journal reports its place again every 10 s."""
MUTE_S = 10.0
"""Ranks say where they are every 2 s."""
SILENT_S = 60.0
"""A rank silent for this long while all others wait is the culprit."""
BUSY_PERCENT = 80.0
WORKERS_BUSY_PERCENT = 50.0
IDLE_CPU_PERCENT = 10.0
STACK_SHOWN = 2
_Stalls = Mapping[int, tuple[Member, Stalled]]


def hang(evidence: Evidence, group: RankGroup) -> Judgement:
    """G01: ranks are alive and make no step."""
    stopped = [member for member in group.members if member.process is not None and member.process.state in STOPPED_STATES]
    if stopped:
        return _stopped(group, stopped)
    stalls = {rank: (member, stall) for rank, (member, stall) in _standstills(group).items() if not stall.early}
    late = collective_counts.behind(evidence, group) if stalls or not evidence.progressing(group) else None
    if late is not None and not any(_paused(stall) for _, stall in stalls.values()):
        return _judge_counts(evidence, group, late, stalls)
    held_up = _judge_early(evidence, group)
    if held_up is not None:
        return held_up
    if not stalls:
        return spins(evidence, group)
    if len(tracked.ranks_of(group)) > 1:
        return _judge_several(evidence, group, stalls)
    return _judge_single(evidence, group, *next(iter(stalls.values())))


G01 = Rule(
    id="G01",
    order=1600,
    family="hangs",
    title="The training hangs",
    severities=("error", "warning", "info"),
    confidences=("certain", "likely", "possible"),
    needs=("journal: stalled of every rank, standing", "NCCL RAS", "/proc", "NVML"),
    window_s=3.0,
    every_s=EVERY_SNAPSHOT,
    threshold=(
        "a rank reports no step for 30 s or ten usual steps, outside evaluation, checkpoints and compilation "
        "(possible after a third of that, where one rank idles and all others wait for it); certain where NCCL's or "
        f"torch's counts differ and stand for {collective_counts.STILL_S:.0f} s, or a process is stopped; from outside: "
        f"{SPIN_PERCENT:.0f}% utilization at {SPIN_POWER_SHARE:.0%} of the power for {SPIN_HOLD_S:.0f} s "
        "(possible), while the GPUs and processes of other ranks idle, or no backward thread runs (likely)"
    ),
    hides=HANG_SYMPTOMS,
    mechanism=(
        "A collective waits for a rank that never enters it, a lock or a loader worker blocks the loop, or a "
        "process is stopped. NCCL's kernels poll meanwhile, so GPUs show 100% at little power."
    ),
    signature=(
        "Ranks are alive but make no step for 30 s or ten usual steps, outside evaluation, checkpoints and compilation."
    ),
    look_alike="A long evaluation, checkpoint or compilation on all ranks; E02, where steps advance.",
    fix=("Look at the stack of the rank that the finding names (py-spy dump), and bring every rank to the same collectives."),
    judge=hang,
)


def _standstills(group: RankGroup) -> _Stalls:
    found = {}
    for member in group.members:
        stall = ddp_facts.standstill(member.journal)
        if member.journal is not None and stall is not None:
            found[member.journal.rank] = (member, stall)
    return found


def _judge_early(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge early reports: all ranks wait for one that rests. A rank that evaluates, writes or compiles does not rest."""
    stalls = _standstills(group)
    places = [stall for _, stall in stalls.values()]
    if not any(stall.early for stall in places) or len(stalls) < max(2, len(tracked.ranks_of(group))):
        return None
    odd = _odd_one_out(stalls)
    if odd is None or odd.journal is None or not _is_idle(evidence, odd):
        return None
    if any(_paused(stall) or stacks.compiles(stall) for stall in places):
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
        "No step has come for longer than steps and pauses took in this run before. The others are in a collective operation "
        "that this rank has not entered.",
        f"py-spy dump --pid {odd.pid if odd.pid is not None else 'PID'} --native  # where it is now",
        "A step comes; or it is evaluating, writing or downloading.",
        pids=[odd.pid] if odd.pid is not None else None,
    )
    return Suspicion(finding)


def _is_idle(evidence: Evidence, member: Member) -> bool:
    """Return whether a rank uses no CPU, GPU or disk, as far as that is known."""
    process = member.process
    if process is None or process.cpu_percent is None or process.cpu_percent >= IDLE_CPU_PERCENT:
        return False
    load = evidence.load(member.main) if member.main is not None else None
    workers = process.workers.cpu_percent if process.workers is not None else None
    if (workers or 0.0) >= IDLE_CPU_PERCENT or evidence.still.disks_s(process) < EARLY_STILL_S:
        return False
    return load is None or not load.busy


def _paused(stall: Stalled) -> bool:
    return stacks.pauses(stall) and not stacks.communicates(stall)


def _stopped(group: RankGroup, stopped: Sequence[Member]) -> Judgement:
    first = stopped[0].process
    assert first is not None
    holder = STOPPED_STATES[first.state or "T"]
    several = len(group.members) > 1
    facts = [
        Fact(f"process {m.process.pid} is stopped (state {m.process.state})", m.process.pid, "/proc/<pid>/stat")
        for m in stopped
        if m.process is not None
    ]
    who = tracked.capital(tracked.who([m.rank for m in stopped if m.rank is not None], tracked.world(group)))
    name = who if several and all(m.rank is not None for m in stopped) else f"Process {first.pid}"
    pids = [m.process.pid for m in stopped if m.process is not None]
    fix = (
        f"kill -CONT {' '.join(map(str, pids))}" if first.state == "T" else f"gdb -p {first.pid} -batch  # attach, then detach"
    )
    finding = tracked.about(
        group,
        "G01",
        "error" if several else "warning",
        "certain",
        f"{name} {'is' if len(stopped) == 1 else 'are'} stopped: the training stands still",
        facts,
        f"{tracked.capital(holder)} holds it; ranks that wait for it wait as long, until the time-out of their collective.",
        fix,
        "The state is R or S.",
        pids=pids,
    )
    return Suspicion(finding, STOPPED_HOLD_S)


def _judge_counts(evidence: Evidence, group: RankGroup, late: Behind, stalls: _Stalls) -> Judgement:
    """Judge by counts that have stopped: some ranks have begun an operation that others have not entered."""
    ahead, slow = [rank.rank for rank in late.ahead], [rank.rank for rank in late.behind]
    working = [rank for rank in late.behind if _has_other_work(evidence, group, rank, stalls)]
    facts = _told_facts(evidence, late) if late.standing else [_count_fact(late)]
    facts += [_stall_fact(rank, stall) for rank, (_, stall) in stalls.items()]
    facts += utilization(evidence, tracked.used_devices(group))
    pids = [rank.pid for rank in late.behind if rank.pid is not None]
    dump = f"py-spy dump --pid {pids[0]}" if pids else "py-spy dump --pid PID"
    if late.standing and group.run is not None:
        dump = f"gputop where {group.run.run_id}"
    finding = tracked.about(
        group,
        "G01",
        "error",
        "possible" if working else "certain",
        f"The training hangs: {words.ranks(ahead)} wait{'s' if len(ahead) == 1 else ''} in {late.operation} for "
        f"{words.ranks(slow)}",
        facts,
        "A collective operation ends when every rank has called it. The missing rank waits for something else, died inside, or "
        "takes another way through the code.",
        f"{dump}  # of {words.ranks(slow)}: where it is now\n{_recorder(group)}",
        "The counts move; or the missing rank evaluates or writes, while the others rightly wait for it.",
        [device for device in group.pool if device.uuid in _mains(group, pids)] or None,
        pids or None,
    )
    return Suspicion(finding, STALL_HOLD_S)


def _count_fact(late: Behind) -> Fact:
    ahead, slow = [rank.rank for rank in late.ahead], [rank.rank for rank in late.behind]
    text = (
        f"{words.ranks(slow)} {'has' if len(slow) == 1 else 'have'} begun fewer {late.operation} operations than "
        f"{words.ranks(ahead)} ({late.most}), and no count has moved for {late.still_s:.0f} s"
    )
    return Fact(text, late.most, "NCCL RAS")


def _told_facts(evidence: Evidence, late: Behind) -> list[Fact]:
    """Return what the ranks say of themselves: torch's counts, and where those are that are behind."""
    ahead, slow = [rank.rank for rank in late.ahead], [rank.rank for rank in late.behind]
    least = min(stands.begun for rank, stands in late.standing.items() if rank in slow and stands.begun is not None)
    text = (
        f"{words.ranks(slow)} {'has' if len(slow) == 1 else 'have'} begun {least} collective operations and "
        f"{words.ranks(ahead)} {late.most}, and no count has moved for {late.still_s:.0f} s"
    )
    facts = [Fact(text, late.most, "the ranks: standing")]
    now = evidence.snapshot.time if evidence.snapshot is not None else 0.0
    for rank in slow:
        stands = late.standing[rank]
        place = f"{stands.line} in {stands.function}" if stands.line is not None else "none of the script's lines"
        silent_s = now - stands.at if stands.at is not None else 0.0
        if silent_s > MUTE_S:
            text = f"rank {rank} has not said where it is for {silent_s:.0f} s: its Python does not run; it was at {place}"
        else:
            text = f"rank {rank} is at {place}"
        facts.append(Fact(text, list(stands.stack), "the ranks: standing"))
    return facts


def _mains(group: RankGroup, pids: Sequence[int]) -> set[str | None]:
    return {member.main for member in group.members if member.pid in pids} - {None}


def _has_other_work(evidence: Evidence, group: RankGroup, rank: CommunicatorRank, stalls: _Stalls) -> bool:
    """Return whether a missing rank may have other work: its GPU or its CPU is busy, or it uses a disk."""
    member = next((member for member in group.members if rank.pid is not None and member.pid == rank.pid), None)
    if member is None or member.process is None:
        return False
    if any(known.pid == member.pid for known, _ in stalls.values()):
        return False  # the rank itself reported that it makes no step, and that it neither evaluates nor writes a checkpoint
    load = evidence.load(member.main) if member.main is not None else None
    cpu = member.process.cpu_percent
    return (
        (load is not None and load.busy)
        or (cpu is not None and cpu >= IDLE_CPU_PERCENT)
        or evidence.still.disks_s(member.process) < collective_counts.STILL_S
    )


def _judge_several(evidence: Evidence, group: RankGroup, stalls: _Stalls) -> Judgement:
    """Judge several ranks: find the one that the others wait for."""
    ranks = tracked.ranks_of(group)
    places = [stall for _, stall in stalls.values()]
    if any(_paused(stall) or stacks.compiles(stall) for stall in places) or all(
        stacks.rests(member.journal, stall) for member, stall in stalls.values()
    ):
        return None
    silent = [rank.rank for rank in ranks if rank.rank not in stalls]
    if silent:
        waiting = all(stacks.communicates(stall) for stall in places)
        if not waiting or len(silent) > 1 or _stalled_s(evidence, stalls) < SILENT_S:
            return None
        odd = next((member for member in group.members if member.rank == silent[0]), None)
        if odd is None:
            return None
    else:
        odd = _odd_one_out(stalls)
    facts = _stall_facts(stalls)
    if silent:
        text = f"rank {silent[0]} says nothing: its Python does not run"
        facts.append(Fact(text, silent[0], "journal: stalled"))
    facts += utilization(evidence, tracked.used_devices(group))
    hold_s = PAUSE_HOLD_S if any(stacks.pauses(stall) for stall in places) else STALL_HOLD_S
    pid = odd.pid if odd is not None and odd.pid is not None else (group.pids[0] if group.pids else "PID")
    said = stalls.get(odd.journal.rank) if odd is not None and odd.journal is not None else None
    if odd is not None and said is not None and stacks.in_debugger(said[1]):
        title = f"The training waits for rank {odd.rank}, which stands in a debugger"
        cause = "A breakpoint() or a debugger's prompt waits for somebody to type; all other ranks wait for this one."
        fix = f"PYTHONBREAKPOINT=0 {fixes.own_command(group)}  # or take the breakpoint() out"
    elif odd is not None:
        title = f"The training hangs: all ranks wait for rank {odd.rank}"
        cause = (
            "The others are in a collective operation (backward, all_reduce, barrier) that this rank has not entered: it waits "
            "for something else, or takes another way through the code."
        )
        if silent:
            cause += " It is in C code that keeps Python's lock, or in a driver call that does not return."
        fix = f"py-spy dump --pid {pid} --native  # where it is now\n# every rank has to come to the same collective operations"
    else:
        title = "The training hangs: no rank makes a step"
        cause = "All ranks stand at the same place: a collective operation that never completes, a lock, or missing input."
        fix = f"py-spy dump --pid {pid}\n{_recorder(group)}"
    finding = tracked.about(
        group,
        "G01",
        "error",
        "likely",
        title,
        facts,
        cause,
        fix,
        "A step comes; or it is compiling, evaluating or writing a checkpoint.",
        pids=[pid] if isinstance(pid, int) and odd is not None else None,
    )
    return Suspicion(finding, hold_s)


def _recorder(group: RankGroup) -> str:
    """Return a command for the next run that makes torch record which rank is missing from which operation."""
    return f"TORCH_FR_BUFFER_SIZE=2000 TORCH_DISTRIBUTED_DEBUG=DETAIL {fixes.own_command(group)}  # next time: who misses where"


def _stalled_s(evidence: Evidence, stalls: _Stalls) -> float:
    """Return how many seconds ago the last rank stopped making steps."""
    known = [stall.since for _, stall in stalls.values() if stall.since is not None]
    return evidence.snapshot.time - max(known) if evidence.snapshot is not None and len(known) == len(stalls) else 0.0


def _stall_facts(stalls: _Stalls) -> list[Fact]:
    step = min((stall.step for _, stall in stalls.values() if stall.step is not None), default=None)
    said = Fact(f"no step since step {step}" if step is not None else "no step comes", step, "journal: stalled")
    return [said, *(_stall_fact(rank, stall) for rank, (_, stall) in stalls.items())]


def _stall_fact(rank: int, stall: Stalled) -> Fact:
    frames = " < ".join(stall.stack[:STACK_SHOWN])
    phase = stall.phase or "an unknown phase"
    return Fact(f"rank {rank} stands in {phase}" + (f", at {frames}" if frames else ""), list(stall.stack), "journal: stalled")


def _odd_one_out(stalls: _Stalls) -> Member | None:
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


def _judge_single(evidence: Evidence, group: RankGroup, member: Member, stall: Stalled) -> Judgement:
    """Judge a single process, which no other rank can hold up."""
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
        text = f"its {words.count(workers.count, 'loader worker')} use {workers.cpu_percent:.0f} % of a core"
        facts.append(Fact(text, workers.cpu_percent, "/proc"))
    facts += utilization(evidence, tracked.used_devices(group))
    title, cause = "The training stands still", "Its process lives and makes no step; the stack says where it waits."
    severity: Severity = "error"
    confidence: Confidence = "likely"
    fix = f"py-spy dump --pid {pid}"
    if stacks.in_debugger(stall):
        title, cause = "The training stands in a debugger", "A breakpoint() or a debugger's prompt waits for somebody to type."
        severity, confidence, fix = "info", "certain", f"PYTHONBREAKPOINT=0 {fixes.own_command(group)}"
    elif stall.phase == "data":
        title = "The training waits for a batch that does not come"
        cause = (
            "A loader worker hangs (a lock that was held when it was forked, a file system that does not answer), "
            "or waits for one that died."
        )
        loader = facts_of(member.journal).loader
        least = "DataLoader(..., timeout=60)  # then it says so" if loader is None or loader.num_workers else ""
        pids = (pid, *(workers.pids[:1] if workers is not None else ()))
        fix = "\n".join([*(f"py-spy dump --pid {item}" for item in pids), least]).rstrip()
    elif stall.phase in (None, "other"):
        # After its last step a script plots, uploads or waits for input: nothing says that more steps follow.
        confidence = "possible"
    if (fed or busy) and confidence == "likely":
        severity, confidence = "warning", "possible"
    finding = tracked.about(
        group,
        "G01",
        severity,
        confidence,
        title,
        facts,
        cause,
        fix,
        "A step comes; or it is compiling, evaluating, writing a checkpoint, or done with its training.",
    )
    return Suspicion(finding, STALL_HOLD_S)
