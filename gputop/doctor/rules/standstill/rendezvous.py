"""Ranks that wait for others that never arrive (G03)."""

from __future__ import annotations

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.facts import model as model_facts
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.standstill.at_rest import has_met_others
from gputop.doctor.rules.standstill.before_steps import held_up
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, Judgement, Rule, Suspicion
from gputop.snapshot import Process

G03_HOLD_S = 20.0
G03_CPU_PERCENT = 10.0
"""A rank that waits for the others uses less CPU than this; one that reads a data set uses more (our choice)."""
G03_AGE_S = 20.0
G03_SAMPLED_S, G03_RUNS_MIN = 15.0, 2
"""A rank that waits for others is never seen running; one that works in turns, or on a crowded machine, sometimes is."""
G03_EARLY_S, G03_EARLY_HOLD_S = 8.0, 3.0
""""Possible" from this age: programs import torch for a few seconds and use little CPU while they read (our choice)."""
POLLS_SAMPLES, POLLS_SHARE = 3, 0.6
"""Rank 0 looks every few milliseconds who has come: the rest of its samples may show it running or polling (our choice)."""
G03_AGE_MAX_S = 2400.0
"""torch gives up after 10 minutes with NCCL and 30 with gloo, so ranks that idle for longer are servers (our choice)."""
G03_MEMORY_BYTES = 2 * 2**30
"""A context takes half a GiB. Above this, the model is loaded, so the process group exists (our choice)."""


_NUMBERED = "\n# rank and world size come from the environment"
_FIX_SPAWNED = """\
# choose the address and the port once, before mp.spawn: they are the same in every rank
os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", "29500"
mp.spawn(worker, args=(world_size,), nprocs=world_size)  # world_size in init_process_group is nprocs"""


def never_complete(evidence: Evidence, group: RankGroup) -> Judgement:
    """G03: ranks wait for a process group that is not complete."""
    ranks = [member for member in group.members if member.process is not None and member.rank is not None]
    unnumbered = not ranks
    if unnumbered:
        ranks = _meeting(evidence, group)
    if not ranks or any(rank.step is not None for rank in (*(group.run.ranks if group.run else ()), *logged.ranks_of(group))):
        return None
    processes = [member.process for member in ranks if member.process is not None]
    if not all(_waits(evidence, process, G03_EARLY_S, unnumbered) for process in processes) or _has_group(evidence, group):
        return None
    if held_up(evidence, group) is not None:
        return None  # one of them stands elsewhere, and the others wait for it (G01)
    early = not all(_waits(evidence, process, G03_AGE_S, unnumbered) for process in processes)
    started = group.local_world_size
    expected = max((p.environment.world_size or 0 for p in processes if p.environment is not None), default=0)
    here = started is not None and expected == started
    missing = started is not None and len(ranks) < started
    facts = [
        Fact(
            f"{words.count(len(ranks), 'rank')} on this machine {'runs' if len(ranks) == 1 else 'run'}, but "
            f"{'uses' if len(ranks) == 1 else 'use'} no CPU and no disk",
            len(ranks),
            "/proc/<pid>/stat, io",
        ),
        Fact("they were spawned together, and one of them listens for connections", len(ranks), "/proc/<pid>/net/tcp")
        if unnumbered
        else Fact(f"WORLD_SIZE={expected} at launch, {started} ranks started here", expected, "/proc/<pid>/environ"),
        Fact("no rank has completed a step or reported a process group", 0, "journal"),
    ]
    port = next((p.environment.master_port for p in processes if p.environment is not None and p.environment.master_port), None)
    if port is not None:
        facts.append(Fact(f"MASTER_PORT={port}", port, "/proc/<pid>/environ"))
    pid = processes[0].pid
    seen = all(process.read_bytes is not None for process in processes)
    finding = tracked.about(
        group,
        "G03",
        "warning" if early else "error",
        "certain" if missing and not early else "likely" if seen and not early else "possible",
        f"Only {len(ranks)} of {started} ranks run, and they wait for the others"
        if missing
        else "The ranks wait for each other: none of them starts",
        facts,
        "init_process_group waits until WORLD_SIZE ranks have joined: one was not started or died at once, the script sets "
        "another WORLD_SIZE, the ranks use different ports, the port is taken, or a firewall is in the way.",
        f"py-spy dump --pid {pid}  # is it in init_process_group, or somewhere "
        f"else?\n{_FIX_SPAWNED if unnumbered else fixes.launch_line(group, started or len(ranks)) + _NUMBERED}"
        if here or missing or unnumbered
        else f"# start the ranks on the other machines with the same --rdzv-endpoint\nss -tnp | grep {port or 29500}",
        "A rank completes a step, or is busy reading data.",
    )
    return Suspicion(finding, G03_EARLY_HOLD_S if early else G03_HOLD_S)


G03 = Rule(
    id="G03",
    order=1000,
    family="lost ranks",
    title="Ranks wait for a group that is not complete",
    severities=("error", "warning"),
    confidences=("certain", "likely", "possible"),
    needs=("/proc", "RANK, WORLD_SIZE, or processes that the script spawns"),
    window_s=G03_HOLD_S,
    every_s=EVERY_SNAPSHOT,
    threshold=(
        f"ranks that are {G03_AGE_S:.0f} s old and use less than {G03_CPU_PERCENT:.0f}% of a core for "
        f"{G03_HOLD_S:.0f} s, without a step; certain if fewer run than were started; possible from an age of "
        f"{G03_EARLY_S:.0f} s; spawned processes without RANK, if just one listens and all main threads sleep or wait for a "
        "connection"
    ),
    hides=("A02", "G01"),
    mechanism=(
        "init_process_group waits until WORLD_SIZE ranks have joined. One was not started or died, WORLD_SIZE is "
        "wrong, the port is taken, or a firewall is in the way."
    ),
    signature="Young ranks idle without a step; certain if fewer run than were started.",
    look_alike="Ranks that read their data set, or that serve and wait for requests; pools of processes.",
    fix="Start all ranks with one launcher, check WORLD_SIZE and the port, and look at the stack with py-spy.",
    judge=never_complete,
)


def _meeting(evidence: Evidence, group: RankGroup) -> list[Member]:
    """Return the members if the script itself numbers its ranks, and none of them has got beyond the rendezvous.

    Rank 0 sleeps between looks at who has come, and so do the others between attempts to connect; who is connected waits for an
    answer. The processes of a server or of a pool wait for events, for each other or for a pipe.
    """
    processes = [member.process for member in group.members if member.process is not None]
    if len(processes) < 2 or not all(process.in_rendezvous for process in processes):
        return []
    if not all(_polls(evidence, process) for process in processes):
        return []
    return [member for member in group.members if member.process is not None]


def _waits(evidence: Evidence, process: Process, least_s: float, may_poll: bool) -> bool:
    """Return whether a young process has been idle for ``least_s``: no CPU, no disk, little memory on a GPU.

    ``may_poll``: it may also be seen running at times, and has been found to do nothing but that and wait.
    """
    if process.cpu_percent is None or process.cpu_percent >= G03_CPU_PERCENT:
        return False
    if not least_s <= evidence.age_s(process) <= G03_AGE_MAX_S or evidence.still.disks_s(process) < least_s:
        return False
    rests = process.state == "S" and evidence.still.times_seen_running(process, G03_SAMPLED_S) < G03_RUNS_MIN
    if not rests and not may_poll:
        return False
    return all((use.memory_used_bytes or 0) < G03_MEMORY_BYTES for use in process.devices)


def _polls(evidence: Evidence, process: Process) -> bool:
    """Return whether the main thread sleeps between looks, or waits for an answer, and does nothing else."""
    seen = evidence.still.samples(process, G03_SAMPLED_S, POLLS_SAMPLES)
    waits = seen["sleep"] + seen["socket"]
    return waits >= POLLS_SHARE * max(1, seen.total()) and waits + seen["runs"] + seen["events"] == seen.total()


def _has_group(evidence: Evidence, group: RankGroup) -> bool:
    """Return whether the ranks have connected: one reports its group or shows it, or NCCL knows them all."""
    if any(member.process is not None and has_met_others(member.process) for member in group.members):
        return True
    if any(model_facts.group_size(rank) is not None for rank in tracked.ranks_of(group)):
        return True
    return any(len(item.ranks) > 1 for item in evidence.communicators(group))
