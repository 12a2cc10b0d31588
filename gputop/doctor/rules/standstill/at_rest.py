"""Ranks that have connected and now rest, all or all but some: shows a standstill from outside when no GPU polls (G01)."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.doctor.evidence.evidence import PROGRESS_S, Evidence
from gputop.doctor.evidence.group_past import RESTS_CPU_PERCENT, has_run_backward, uses_no_processor
from gputop.doctor.evidence.process_past import CPU_WORKS_PERCENT
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.evidence.stillness import GLOO_THREAD
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.standstill.progress import STOOD_MIN_S, standing
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.doctor.rules.support.shared import seen_at, utilization
from gputop.groups import compute_uses
from gputop.snapshot import Process

REST_HOLD_S = 90.0
"""From outside, a hang looks like a wait for new rollouts, which takes a minute or more (our choice)."""
LONGER_THAN_BEFORE = 3.0
"""Ranks resumed after their longest rest so far, so only a rest this many times as long counts (our choice)."""
FED_HOLD_S = 600.0
"""If another process may be working for the ranks, they must rest for as long as torch lets an NCCL collective wait."""
LOCK_HOLD_S = 30.0
"""If every main thread waits for another thread of its process, as in gloo's collectives, and none for a file, a request or
input, a shorter rest counts (our choice)."""
LOCK_SPAN_S = 10.0
SAMPLES_MIN = 5
RAN_MIN = 5
"""A rank that was seen running this often since it was connected has worked, or has at least set up its training."""
STANDS_HOLD_S = 5.0
SURE_AFTER_S = 60.0
BESIDE_HOLD_S = 10.0
"""Added to the time for which no step has ended, if a rank sleeps while the others wait for it."""
WORKS_HOLD_S = 30.0
"""The same if it works, or waits for something other than time: it may evaluate, save or upload for all (our choice)."""
SLEEPS_SHARE = 0.4
"""A rank whose main thread sleeps in this share of the samples does nothing for the others (our choice)."""
_SLEEPS = ("sleep", "terminal")
_SERVED = ("child", "socket", "events", "pipe", "file", "file lock")
SERVED_SHARE = 0.5
IDLE_SPAN_S = 40.0
IDLE_SAMPLES_MIN = 30
SETUP_SHARE = 1 / 3
"""A rank that ran for longer than this share of its wait, since it was connected, has done more than set up its model."""
IDLE_CPU_PERCENT = 2.0
"""A parameter server, which has little to do, uses more."""
RUNS_SHARE = 0.3
"""The others work on if the main thread of each runs in this share of the samples (our choice)."""
NO_DISK_S = 15.0
"""A rank that reads or writes pauses for less than this (our choice)."""


def has_met_others(process: Process) -> bool:
    """Return whether a rank has passed init_process_group.

    gloo starts its threads once every rank is connected to every other one, and backward threads run only in training. NCCL's
    watchdog shows nothing: under torchrun it starts without the other ranks.
    """
    return dict(process.threads).get(GLOO_THREAD, 0) > 0 or has_run_backward(process)


def all_rest(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge G01 for untracked ranks: they have trained, and none of them uses a CPU, a disk or a GPU any more."""
    processes = [member.process for member in group.members if member.process is not None]
    if group.run is not None or len(processes) < max(2, len(group.members)):
        return None
    if not all(process.state == "S" and uses_no_processor(process) and has_met_others(process) for process in processes):
        return None
    if not all(has_worked(evidence, group, process) and is_still(evidence, process) for process in processes):
        return None
    devices = tracked.used_devices(group)
    loads = [evidence.load(device.uuid) for device in devices]
    if not group.virtual and any(
        load is None or not load.idle for load in loads
    ):  # virtual GPUs are CPU cores that all ranks share
        return None
    pid = processes[0].pid
    facts = [
        Fact(
            f"process {process.pid} uses {process.cpu_percent:.0f}% of a core and no disk",
            process.cpu_percent,
            f"/proc/{process.pid}/stat, io",
        )
        for process in processes[:4]
    ]
    fed = may_be_fed(evidence, group)
    locked = all(is_locked(evidence, process) for process in processes)
    stands, run = standing(evidence, group), logged.run_id(group)
    if stands is not None:
        facts.append(stands.fact)
    elif run is not None and evidence.has_moved(run, STOOD_MIN_S):
        return None
    sure = stands is not None and locked and not fed and stands.stood_s >= SURE_AFTER_S
    finding = tracked.about(
        group,
        "G01",
        "error" if sure else "warning",
        "likely" if sure else "possible",
        "The training hangs: no rank computes any more" if sure else "The training may hang: no rank computes any more",
        [*facts, *seen_at(evidence, processes[:4], LOCK_SPAN_S), *utilization(evidence, devices)],
        "The ranks connected and worked, and now all of them wait: in a collective operation that one rank never enters (a "
        "barrier under `if rank == 0`), for a file, or for user input.",
        f"py-spy dump --pid {pid}  # for each rank: which one is somewhere else?",
        "They wait for requests, like a server, or the next round of work begins.",
    )
    if fed:
        hold_s = FED_HOLD_S
    elif stands is not None:
        return Suspicion(finding, WORKS_HOLD_S if _one_is_served(evidence, processes) else STANDS_HOLD_S)
    else:
        hold_s = LOCK_HOLD_S if locked else REST_HOLD_S
    return Suspicion(finding, max(hold_s, LONGER_THAN_BEFORE * evidence.past.longest_rest_s(group)))


def some_rest(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge G01 for untracked ranks: no step has ended for long, some ranks wait for another thread, and the others do not."""
    processes = [member.process for member in group.members if member.process is not None]
    if group.run is not None or len(processes) < max(2, len(group.members)) or not all(map(has_met_others, processes)):
        return None
    stands = standing(evidence, group)
    if stands is None:
        return None
    waiting = [process for process in processes if uses_no_processor(process) and is_locked(evidence, process)]
    others = [process for process in processes if process not in waiting]
    if (
        not waiting
        or not others
        or any(evidence.still.samples(process, LOCK_SPAN_S, SAMPLES_MIN)["lock"] for process in others)
    ):
        return None
    numbers = {member.pid: member.rank for member in group.members}
    names = {pid: f"rank {number}" if number is not None else f"process {pid}" for pid, number in numbers.items()}
    works, one = _named(group, others), len(others) == 1
    they, them = ("it evaluates or saves", "it") if one else ("they evaluate or save", "them")
    facts = [
        stands.fact,
        *(
            Fact(f"{names[process.pid]} waits for another thread and uses no CPU", process.pid, f"/proc/{process.pid}/syscall")
            for process in waiting[:4]
        ),
        *(
            Fact(f"{names[process.pid]} uses {process.cpu_percent:.0f}% of a core", process.cpu_percent, f"/proc/{process.pid}")
            for process in others[:4]
            if process.cpu_percent is not None
        ),
        *seen_at(evidence, [*others[:4], *waiting[:4]], LOCK_SPAN_S),
    ]
    finding = tracked.about(
        group,
        "G01",
        "warning",
        "possible",
        f"The training may hang: {_named(group, waiting)} {words.agree(len(waiting), 'waits', 'wait')}, and {works} "
        f"{words.agree(len(others), 'does', 'do')} something else",
        facts,
        f"{tracked.capital(works)} may have left the training loop, because the data ended or a condition holds only there, "
        f"while the others wait in a collective operation for {them}. Or {they} for all, and the others wait in a barrier.",
        f"py-spy dump --pid {others[0].pid}  # where is {names[others[0].pid]}?\n"
        f"py-spy dump --pid {waiting[0].pid}  # and {names[waiting[0].pid]}, which waits?",
        f"Steps continue once {words.agree(len(others), 'it is', 'they are')} done.",
        pids=[process.pid for process in (*others, *waiting)],
    )
    asleep = all(is_asleep(evidence, process) for process in others)
    return Suspicion(finding, BESIDE_HOLD_S if asleep else WORKS_HOLD_S)


def idles_beside(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge G01 for untracked ranks: some have connected and waited ever since, while the others work on.

    Steps must advance: before the first one, rank 0 may prepare the data while the others wait in a barrier.
    """
    processes = [member.process for member in group.members if member.process is not None]
    if group.run is not None or len(processes) < max(2, len(group.members)) or not all(map(has_met_others, processes)):
        return None
    run = logged.run_id(group)
    if run is None or not evidence.has_moved(run, PROGRESS_S):
        return None
    idle = [process for process in processes if _is_idle(evidence, process)]
    others = [process for process in processes if process not in idle]
    samples = [evidence.still.samples(process, IDLE_SPAN_S) for process in others]
    if not idle or not others or any(seen["runs"] < RUNS_SHARE * max(1, seen.total()) for seen in samples):
        return None
    one, names = len(idle) == 1, _named(group, idle)
    finding = tracked.about(
        group,
        "G01",
        "warning",
        "possible",
        f"{tracked.capital(names)} may hang: no CPU used for {IDLE_SPAN_S:.0f} s, while the others work",
        [
            *(
                Fact(f"process {process.pid} waits for another thread", process.pid, "/proc/<pid>/syscall")
                for process in idle[:4]
            ),
            *(
                Fact(
                    f"process {process.pid} uses {process.cpu_percent:.0f}% of a core", process.cpu_percent, "/proc/<pid>/stat"
                )
                for process in others[:4]
                if process.cpu_percent is not None
            ),
            *seen_at(evidence, [*idle[:4], *others[:4]], LOCK_SPAN_S),
        ],
        f"{'It waits' if one else 'They wait'} for a message or a collective operation that does not come: the others do not "
        f"call it, or call it for other ranks. The others train without {'it' if one else 'them'}, or do the work of all.",
        f"py-spy dump --pid {idle[0].pid}  # where does it wait?",
        f"{'It stands' if one else 'They stand'} by on purpose, or the others have more to do before they meet.",
        pids=[process.pid for process in idle],
    )
    return Suspicion(finding, BESIDE_HOLD_S)


def _named(group: RankGroup, processes: Sequence[Process]) -> str:
    """Return "ranks 1-3", or "processes 4001, 4002" if a rank's number is unknown."""
    pids = [process.pid for process in processes]
    numbers = [member.rank for member in group.members if member.pid in pids and member.rank is not None]
    return words.ranks(numbers) if len(numbers) == len(pids) else words.processes(pids)


def _is_idle(evidence: Evidence, process: Process) -> bool:
    samples = evidence.still.samples(process, IDLE_SPAN_S, IDLE_SAMPLES_MIN)
    waits = samples["lock"] >= IDLE_SAMPLES_MIN and samples["lock"] == samples.total()
    # A rank that has worked may wait in a barrier while another one evaluates.
    waits = waits and SETUP_SHARE * samples["lock"] >= evidence.still.times_run(process)
    return waits and process.cpu_percent is not None and process.cpu_percent < IDLE_CPU_PERCENT


def may_be_fed(evidence: Evidence, group: RankGroup) -> bool:
    """Return whether another process of the same user uses a GPU: it may produce the rollouts that the ranks wait for."""
    own = set(group.pids)
    return evidence.snapshot is not None and any(
        process.pid not in own and process.uid in group.uids and (process.cpu_percent or 0.0) >= CPU_WORKS_PERCENT
        for process in evidence.snapshot.processes
        if compute_uses(process)
    )


def is_locked(evidence: Evidence, process: Process) -> bool:
    """Return whether the main thread has only waited for another thread lately."""
    samples = evidence.still.samples(process, LOCK_SPAN_S, SAMPLES_MIN)
    return samples["lock"] >= SAMPLES_MIN and samples["lock"] == samples.total()


def is_asleep(evidence: Evidence, process: Process) -> bool:
    """Return whether a rank does nothing for the others: it sleeps or waits for the user, again and again."""
    samples = evidence.still.samples(process, STOOD_MIN_S, SAMPLES_MIN)
    if process.cpu_percent is None or process.cpu_percent >= CPU_WORKS_PERCENT or not is_still(evidence, process):
        return False
    return sum(samples[word] for word in _SLEEPS) >= SLEEPS_SHARE * max(SAMPLES_MIN, samples.total())


def _one_is_served(evidence: Evidence, processes: Sequence[Process]) -> bool:
    """Return whether some ranks wait for another thread, and the rest for something outside, such as an upload or a program."""
    others = [process for process in processes if not is_locked(evidence, process)]
    samples = [evidence.still.samples(process, STOOD_MIN_S, SAMPLES_MIN) for process in others]
    served = all(sum(seen[word] for word in _SERVED) >= SERVED_SHARE * max(1, seen.total()) for seen in samples)
    return 0 < len(others) < len(processes) and served


def has_worked(evidence: Evidence, group: RankGroup, process: Process) -> bool:
    """Return whether a rank has trained: on a GPU, its backward threads show it; on the CPU, only that it was seen working."""
    if has_run_backward(process):
        return True
    worked = evidence.has_worked(process) or evidence.still.times_run(process) >= RAN_MIN
    return (group.virtual or not process.devices) and (worked or bool(logged.ranks_of(group)))


def is_still(evidence: Evidence, process: Process) -> bool:
    """Return whether a rank's loader workers use no CPU, and it uses no disk."""
    workers = process.workers.cpu_percent if process.workers is not None else None
    return (workers or 0.0) < RESTS_CPU_PERCENT and evidence.still.disks_s(process) >= NO_DISK_S
