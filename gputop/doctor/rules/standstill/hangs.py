"""A run that completes no step, for no visible reason (G01): the rule, and processes that are stopped."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.command_line import script_name
from gputop.doctor.evidence import collective_counts
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.process_past import STOPPED_CPU_PERCENT, STOPPED_STATE
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.standstill.at_rest import (
    FED_HOLD_S,
    IDLE_SPAN_S,
    LOCK_HOLD_S,
    LONGER_THAN_BEFORE,
    REST_HOLD_S,
    SURE_AFTER_S,
    WORKS_HOLD_S,
    all_rest,
    idles_beside,
    some_rest,
)
from gputop.doctor.rules.standstill.before_steps import LIKELY_S, POSSIBLE_S, judge_start
from gputop.doctor.rules.standstill.behind import judge_counts
from gputop.doctor.rules.standstill.deadlock import DEADLOCK_HOLD_S, deadlock
from gputop.doctor.rules.standstill.held_back import CROSSED_HOLD_S, UNREAD_HOLD_S, crossed_locks, unread_output
from gputop.doctor.rules.standstill.long_pause import LONG_PAUSE_S, LONGER_THAN_PAUSES, judge_long_pause
from gputop.doctor.rules.standstill.named import one_named
from gputop.doctor.rules.standstill.progress import LONGER_THAN_STEPS, STOOD_MIN_S
from gputop.doctor.rules.standstill.single_process import (
    FIRST_HOLD_S,
    LONGER_THAN_BREAKS,
    OTHERS_HOLD_S,
    OWN_HOLD_S,
    single_process_hangs,
)
from gputop.doctor.rules.standstill.single_process import SURE_AFTER_S as SURE_AT_LINE_S
from gputop.doctor.rules.standstill.spinning import (
    FALLEN_SHARE,
    HANG_SYMPTOMS,
    SPIN_HOLD_S,
    SPIN_PERCENT,
    SPIN_POWER_SHARE,
    spins,
)
from gputop.doctor.rules.standstill.stalls import (
    QUIET_HOLD_S,
    QUIET_STEPS,
    is_paused,
    judge_early,
    judge_quiet,
    judge_several,
    judge_single,
    standstills,
)
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, Judgement, Rule, Suspicion, case
from gputop.snapshot import Process

STOPPED_STATES = {"T": "a stop signal (Ctrl-Z, kill -STOP)", "t": "a debugger or a tracer (gdb, strace)"}
STOPPED_HOLD_S = 1.5
"""py-spy and strace stop a process for a moment."""
TURN_S = 40.0
"""For up to this time, a run that a signal has stopped may only wait for its turn: a scheduler that shares devices gives each
job 30 s (Slurm's default), and the other one uses none before it has imported torch."""
START_S = 120.0
"""The same while another training uses no device: it may be starting, and prepare its data (our choice)."""


def hang(evidence: Evidence, group: RankGroup) -> Judgement:
    """G01: ranks are alive but complete no step."""
    stopped = [member for member in group.members if member.process is not None and _is_stopped(member.process)]
    held = _stopped(evidence, group, stopped) if stopped else None
    if held is not None:
        return held
    held_back = unread_output(evidence, group) or crossed_locks(evidence, group)
    if held_back is not None:
        return held_back
    stalls = {rank: (member, stall) for rank, (member, stall) in standstills(group).items() if not stall.early}
    late = collective_counts.behind(evidence, group) if stalls or not evidence.progressing(group) else None
    if late is not None and not any(is_paused(stall) for _, stall in stalls.values()):
        return judge_counts(evidence, group, late, stalls)
    held_up = judge_early(evidence, group)
    if held_up is not None:
        return held_up
    if not stalls:
        judges = (judge_start, spins, deadlock, one_named, all_rest, some_rest, idles_beside, single_process_hangs, judge_quiet)
        return next((found for judge in judges if (found := judge(evidence, group)) is not None), None)
    if len(tracked.ranks_of(group)) > 1:
        return judge_several(evidence, group, stalls) or judge_long_pause(evidence, group, stalls)
    return judge_single(evidence, group, *next(iter(stalls.values())))


G01 = Rule(
    id="G01",
    order=1600,
    family="hangs",
    title="The training hangs",
    severities=("error", "warning", "info"),
    confidences=("certain", "likely", "possible"),
    needs=(
        "journal: stalled of every rank, standing",
        "places before the first step",
        "NCCL RAS",
        "/proc",
        "the ranks' TCP connections (sock_diag)",
        "NVML",
    ),
    window_s=3.0,
    every_s=EVERY_SNAPSHOT,
    threshold=(
        case(
            "A tracked rank reports nothing",
            "a rank reports no step for 30 s or ten usual steps, outside evaluation, checkpoints and compilation, and the "
            "script logs nothing any more (possible after a third of that, if one rank idles and all others wait for it)",
            f"no rank reports anything for {QUIET_HOLD_S:.0f} s and {QUIET_STEPS:.0f} usual steps (possible)",
            f"one rank evaluates or writes, and all others wait, for {LONG_PAUSE_S:.0f} s and {LONGER_THAN_PAUSES:.0f} times "
            "the longest pause (possible)",
            f"before the first step, ranks wait for {LIKELY_S:.0f} s for one that uses no CPU, disk or GPU (possible from "
            f"{POSSIBLE_S:.0f} s), or all of them wait in different collectives (certain)",
        ),
        case(
            "A process is stopped",
            "a process is stopped and uses no CPU (certain; if a signal has stopped all of its run, only possible while "
            f"another run uses its devices, and for {TURN_S:.0f} s, or {START_S:.0f} s while another training uses no device "
            "yet)",
        ),
        case(
            "Collectives differ",
            f"NCCL's or torch's counts differ and have not changed for {collective_counts.STILL_S:.0f} s (certain)",
        ),
        case(
            "From outside, GPUs spin or ranks rest",
            f"a GPU shows {SPIN_PERCENT:.0f}% utilization at {SPIN_POWER_SHARE:.0%} of the power limit, or "
            f"{FALLEN_SHARE:.0%} of the power at work, for {SPIN_HOLD_S:.0f} s (possible; likely while the GPUs and processes "
            "of other ranks idle, no backward thread runs for as long, or no step is logged)",
            f"all ranks have connected and worked, and now use no CPU, disk or GPU, for {REST_HOLD_S:.0f} s and "
            f"{LONGER_THAN_BEFORE:.0f} times the longest rest after which they resumed, or for {FED_HOLD_S:.0f} s if a "
            f"process of the same user works on a GPU (possible; after {LOCK_HOLD_S:.0f} s if every main thread waits for "
            "another thread)",
            f"by the output of such a run, no step has ended for {STOOD_MIN_S:.0f} s and {LONGER_THAN_STEPS:.0f} times the "
            f"longest step: also while a rank sleeps, or {WORKS_HOLD_S:.0f} s later while it works or waits for something "
            f"else (possible; likely after {SURE_AFTER_S:.0f} s)",
            "by /proc or the ranks' TCP connections, a rank may be behind, and all others wait for a thread: it is named, "
            f"without output after {LOCK_HOLD_S:.0f} s, {REST_HOLD_S:.0f} s if none was seen to work, or {FED_HOLD_S:.0f} s "
            "if it works",
            f"some ranks have connected and then waited for {IDLE_SPAN_S:.0f} s, while the others make steps (possible)",
        ),
        case(
            "A process waits for a reader, a lock or itself",
            f"for {STOOD_MIN_S:.0f} s and {UNREAD_HOLD_S:.0f} s more, a process waits until somebody reads what it prints "
            "(likely)",
            f"a rank waits for a file lock of a rank that waits for a thread, for {STOOD_MIN_S:.0f} s and "
            f"{CROSSED_HOLD_S:.0f} s more (likely)",
            f"no step ends, and for {DEADLOCK_HOLD_S:.0f} s every thread of a process waits for another one of the same "
            "process (likely)",
        ),
        case(
            "A single process waits",
            "a single process that is no session makes no step, uses no CPU, disk or GPU, and waits for one thing for "
            f"{OTHERS_HOLD_S:.0f} s more ({OWN_HOLD_S:.0f} s for a thread or program of its own, possible), or for input, or "
            f"{FIRST_HOLD_S:.0f} s for loader workers that use no CPU, before its first step",
            f"such a process was seen to train, and then at one line in every look at its stack, for {STOOD_MIN_S:.0f} s and "
            f"{LONGER_THAN_BREAKS:.0f} times the longest break before: {OWN_HOLD_S:.0f} s more, unless it may wait for work "
            "(possible)",
            f"{OTHERS_HOLD_S:.0f} s more if it waits there for a queue, a lock or the end of a thread while its other threads "
            "wait, too, and it has no child process, or if it waits for the end of a process that waits until it reads from "
            f"a pipe (likely after {SURE_AT_LINE_S:.0f} s at this line)",
            "if it was hardly seen to train, after the same time: in such a wait for a process (likely after "
            f"{SURE_AT_LINE_S:.0f} s), or in such a wait for a queue, a lock or a thread without any time limit, if it has no "
            "socket for connections (possible)",
        ),
    ),
    hides=HANG_SYMPTOMS,
    mechanism=(
        "A collective waits for a rank that never enters it, a lock or a loader worker blocks the loop, or a "
        "process is stopped. Meanwhile NCCL's kernels poll, so the GPUs show 100% utilization at low power."
    ),
    signature=(
        "Ranks are alive but complete no step for 30 s or ten usual steps, outside evaluation, checkpoints and compilation."
    ),
    look_alike="A long evaluation, checkpoint or compilation on all ranks; learners that wait for rollouts or requests, or "
    "sleep until their next round; E02 (steps advance).",
    fix=("Look at the stack of the rank that the finding names (py-spy dump), and make every rank call the same collectives."),
    judge=hang,
)


_TURNS = "A scheduler that shares devices in turns stops one job while another one runs, and continues it later. "
_OTHERS_WAIT = "Ranks that wait for it wait just as long, until their collective times out."


def _is_stopped(process: Process) -> bool:
    return process.state in STOPPED_STATES and (process.cpu_percent or 0.0) < STOPPED_CPU_PERCENT


def _takes_turns(evidence: Evidence, group: RankGroup, stopped: Sequence[Member]) -> bool:
    """Return whether all of a run is stopped while another one uses its devices, as where a scheduler shares them in turns."""
    return len(stopped) == len(group.members) and any(
        other.key != group.key
        and other.used & group.used
        and not any(member.process is not None and _is_stopped(member.process) for member in other.members)
        for other in evidence.groups
    )


def _may_take_turns(evidence: Evidence, group: RankGroup, stopped: Sequence[Member]) -> bool:
    """Return whether a signal stopped all of a run so lately that this may be the turn of another one, which only starts."""
    processes = [member.process for member in stopped if member.process is not None]
    if len(processes) < len(group.members) or any(process.state != STOPPED_STATE for process in processes):
        return False
    starts = any(other.key != group.key and not other.used and not _all_stopped(other) for other in evidence.groups)
    return min(map(evidence.stopped_s, processes)) < (START_S if starts else TURN_S)


def _all_stopped(group: RankGroup) -> bool:
    return all(member.process is not None and _is_stopped(member.process) for member in group.members)


def _stopped(evidence: Evidence, group: RankGroup, stopped: Sequence[Member]) -> Judgement:
    first = stopped[0].process
    assert first is not None
    takes_turns = _takes_turns(evidence, group, stopped)
    may_take_turns = takes_turns or _may_take_turns(evidence, group, stopped)
    if may_take_turns and evidence.stopped_s(first) < STOPPED_HOLD_S:
        return None
    hangs = f": the training {'may hang' if may_take_turns else 'hangs'}"
    holder = STOPPED_STATES[first.state or "T"]
    several = len(group.members) > 1
    facts = [
        Fact(f"process {m.process.pid} is stopped (state {m.process.state})", m.process.pid, "/proc/<pid>/stat")
        for m in stopped
        if m.process is not None
    ]
    who = tracked.capital(tracked.who([m.rank for m in stopped if m.rank is not None], tracked.world(group)))
    script = script_name(first.command)
    alone = f"{script} (process {first.pid})" if script is not None and len(stopped) == 1 else f"Process {first.pid}"
    name = who if several and all(m.rank is not None for m in stopped) else alone
    pids = [m.process.pid for m in stopped if m.process is not None]
    fix = (
        f"kill -CONT {' '.join(map(str, pids))}" if first.state == "T" else f"gdb -p {first.pid} -batch  # attach, then detach"
    )
    finding = tracked.about(
        group,
        "G01",
        "info" if takes_turns else "error" if several else "warning",
        "possible" if may_take_turns else "certain",
        f"{name} {'is' if len(stopped) == 1 else 'are'} stopped"
        + (", while another run uses its devices" if takes_turns else hangs),
        facts,
        f"{tracked.capital(holder)} holds it. {_TURNS if may_take_turns else ''}{'' if takes_turns else _OTHERS_WAIT}".rstrip(),
        fix,
        "The process state is R or S.",
        pids=pids,
    )
    return Suspicion(finding, STOPPED_HOLD_S)
