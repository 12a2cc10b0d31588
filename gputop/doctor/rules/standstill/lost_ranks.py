"""Missing ranks: some never started (G03), died while others wait (G04), or have no shared memory (G05)."""

from __future__ import annotations

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts import model as model_facts
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Confidence, Fact, Finding, Severity
from gputop.doctor.rules.standstill import left_early
from gputop.doctor.rules.standstill.left_early import LATE_S, STILL_S
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.outputs import Output, command_of, is_consequence, outputs_of, quoted
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, Judgement, Rule, Suspicion
from gputop.snapshot import FAILED_STATES, LIVE_STATES, Process, Rank, Run

G03_HOLD_S = 20.0
G03_CPU_PERCENT = 10.0
"""A rank that waits for the others uses less of a core; one that reads a data set uses more (our choice)."""
G03_AGE_S = 20.0
G03_EARLY_S, G03_EARLY_HOLD_S = 8.0, 3.0
"""From here on it is "possible": programs import torch for a few seconds and use little CPU while they read (our choice)."""
G03_AGE_MAX_S = 2400.0
"""torch gives up after 10 minutes with NCCL and 30 with gloo: ranks that idle for longer are servers (our choice)."""
G03_MEMORY_BYTES = 2 * 2**30
"""A context takes half a GiB: above this the model is loaded, so the process group exists (our choice)."""
G04_COUNTS_S = 10.0
"""A job that ends normally loses its ranks one by one, but faster than this."""
STILL_STEPS = 3.0
"""Ranks wait for a dead one after ``STILL_S`` without a step, and at least this many step times (our choice)."""
REPORTED_S = 600.0
"""A run that ended longer ago is no longer reported."""
_DEATH_ONLY = ("sigkill",)
"""Texts that only report a rank's death, not its cause: torchrun's exit code -9."""
SHM_NCCL_BYTES = 256 * 2**20
_TOGETHER = ("rdzv_timeout", "addr_in_use")


def never_complete(evidence: Evidence, group: RankGroup) -> Judgement:
    """G03: ranks wait for a process group that is not complete."""
    ranks = [member for member in group.members if member.rank is not None and member.process is not None]
    if not ranks or (group.run is not None and any(rank.step is not None for rank in group.run.ranks)):
        return None
    processes = [member.process for member in ranks if member.process is not None]
    if not all(_waits(evidence, process, G03_EARLY_S) for process in processes) or _has_group(evidence, group):
        return None
    early = not all(_waits(evidence, process, G03_AGE_S) for process in processes)
    started = group.local_world_size
    expected = max((p.environment.world_size or 0 for p in processes if p.environment is not None), default=0)
    here = started is not None and expected == started
    missing = started is not None and len(ranks) < started
    facts = [
        Fact(
            f"{words.count(len(ranks), 'rank')} of this machine {'runs' if len(ranks) == 1 else 'run'}, without work for a "
            "processor or a disk",
            len(ranks),
            "/proc/<pid>/stat, io",
        ),
        Fact(f"WORLD_SIZE={expected} at launch, {started} of them started here", expected, "/proc/<pid>/environ"),
        Fact("no rank has made a step or reported a process group", 0, "journal"),
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
        else "The ranks wait for each other: none begins",
        facts,
        "init_process_group waits until WORLD_SIZE ranks have come: one was not started or died at once, another WORLD_SIZE in "
        "the script, a port that somebody else has, or a firewall.",
        f"py-spy dump --pid {pid}  # init_process_group, or what else?\n{fixes.launch_line(group, started or len(ranks))}\n"
        "# rank and world size come from the environment"
        if here or missing
        else f"# start the ranks of the other machines, with the same --rdzv-endpoint\nss -tnp | grep {port or 29500}",
        "A rank makes a step, or is busy reading data.",
    )
    return Suspicion(finding, G03_EARLY_HOLD_S if early else G03_HOLD_S)


G03 = Rule(
    id="G03",
    order=1000,
    family="lost ranks",
    title="Ranks wait for a group that is not complete",
    severities=("error", "warning"),
    confidences=("certain", "likely", "possible"),
    needs=("/proc", "RANK, WORLD_SIZE"),
    window_s=G03_HOLD_S,
    every_s=EVERY_SNAPSHOT,
    threshold=(
        f"ranks that are {G03_AGE_S:.0f} s old and use less than {G03_CPU_PERCENT:.0f}% of a core for "
        f"{G03_HOLD_S:.0f} s, without a step; certain where fewer run than were started; possible from an age of "
        f"{G03_EARLY_S:.0f} s"
    ),
    hides=("A02", "G01"),
    mechanism=(
        "init_process_group waits until WORLD_SIZE ranks have come. One was not started or died, WORLD_SIZE is "
        "wrong, the port is taken, or a firewall is in the way."
    ),
    signature="Young ranks idle without a step; certain where fewer run than were started.",
    look_alike="Ranks that read their data set, or that serve and wait for requests.",
    fix="Start all ranks with one launcher, check WORLD_SIZE and the port, and look at the stack with py-spy.",
    judge=never_complete,
)


def _waits(evidence: Evidence, process: Process, least_s: float) -> bool:
    """Return whether a young process has been idle for ``least_s``: no CPU, no disk, little memory on a GPU."""
    if process.cpu_percent is None or process.cpu_percent >= G03_CPU_PERCENT or process.state != "S":
        return False
    if not least_s <= evidence.age_s(process) <= G03_AGE_MAX_S or evidence.still.disks_s(process) < least_s:
        return False
    return all((use.memory_used_bytes or 0) < G03_MEMORY_BYTES for use in process.devices)


def _has_group(evidence: Evidence, group: RankGroup) -> bool:
    """Return whether the ranks have found each other: one reports its group, or NCCL knows them all."""
    if any(model_facts.group_size(rank) is not None for rank in tracked.ranks_of(group)):
        return True
    return any(len(item.ranks) > 1 for item in evidence.communicators(group))


def dead_rank(evidence: Evidence) -> dict[str, Judgement]:
    """G04: a rank died, and the others wait for it, or went down with it."""
    if evidence.snapshot is None:
        return {}
    outputs = {item.run_id: item for item in outputs_of(evidence) if item.run_id is not None}
    groups = {group.run_id: group for group in evidence.groups if group.run_id is not None}
    found: dict[str, Judgement] = {}
    for run in evidence.snapshot.runs:
        if run.state == "finished":
            continue
        bad = [rank for rank in run.ranks if rank.state in FAILED_STATES]
        if len(run.ranks) < 2 or run.state == "stopped":
            continue
        alive = [rank for rank in run.ranks if rank.state in LIVE_STATES]
        if not bad:
            waiting = left_early.others_wait(evidence, run, alive, groups.get(run.run_id))
            if waiting is not None:
                found[f"dead:{run.run_id}"] = waiting
            continue
        ended = run.ended_at or max((rank.last_log_at for rank in run.ranks if rank.last_log_at is not None), default=None)
        if not alive and (ended is None or evidence.snapshot.time - ended > REPORTED_S):
            continue
        judgement = _dead(evidence, run, bad, alive, outputs.get(run.run_id), groups.get(run.run_id))
        if judgement is not None:
            found[f"dead:{run.run_id}"] = judgement
    for group in evidence.groups:
        subject = f"dead:{group.run_id or group.key}"
        if subject not in found and (lost := _lost(evidence, group)) is not None:
            found[subject] = lost
    return found


def _others_wait(finding: Finding) -> bool:
    """Return False if the others go on without the rank or may not wait for it: then it explains none of their findings."""
    return finding.severity != "info" and finding.confidence != "possible"


G04 = Rule(
    id="G04",
    order=1002,
    family="lost ranks",
    title="A rank died or left, and others wait for it",
    severities=("error", "warning", "info"),
    confidences=("certain", "likely", "possible"),
    needs=("journal", "logs", "NCCL RAS"),
    window_s=2.0,
    every_s=EVERY_SNAPSHOT,
    threshold=(
        f"a rank has failed or was killed while others live and make no step for {STILL_S:.0f} s; or one has "
        "finished and all others wait in a collective; or all have ended and nothing else explains it; or NCCL "
        f"reports a rank dead and no count moves for {G04_COUNTS_S:.0f} s"
    ),
    hides=("G01", "G02", "G03", "A02", "LOG", "K02", "K03"),
    hides_if=_others_wait,
    hides_when="the others wait for the rank, and surely do",
    mechanism=(
        'When one rank dies or leaves the loop, the others stop at the next exchange: with "connection closed by '
        'peer", or silently until a timeout. The first that died has the cause.'
    ),
    signature=(
        "A rank has failed, was killed or has finished, while the others are alive and make no step; or NCCL reports it dead."
    ),
    look_alike=("Ranks that end one after the other at the end of a run; tasks of a sweep, which do not need each other."),
    fix="Read the last output of the first rank that failed, and look for the OOM killer and Xid errors in dmesg.",
    judge_machine=dead_rank,
)


def _lost(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge by NCCL: the other ranks can no longer reach one, and wait."""
    if evidence.progressing(group):
        return None
    for item in evidence.communicators(group):
        dead = [rank for rank in item.ranks if rank.state == "dead"]
        alive = [rank for rank in item.ranks if rank.state == "running"]
        if not dead or not alive or evidence.still.counts_s(item) < G04_COUNTS_S:
            continue
        numbers, left = words.ranks([rank.rank for rank in dead]), words.ranks([rank.rank for rank in alive])
        text = (
            f"{numbers} {'does' if len(dead) == 1 else 'do'} not answer and {'is' if len(dead) == 1 else 'are'} considered dead"
        )
        facts = [Fact(text, [rank.pid for rank in dead], "NCCL RAS")]
        gone = [rank.pid for rank in dead if rank.pid is not None and rank.pid not in group.pids]
        if gone:
            facts.append(Fact(f"no process {', '.join(map(str, gone))} any more", gone, "/proc"))
        facts.append(Fact(f"{left} {'waits' if len(alive) == 1 else 'wait'} for it", len(alive), "NCCL RAS"))
        finding = tracked.about(
            group,
            "G04",
            "error",
            "certain" if gone else "likely",
            f"{tracked.capital(numbers)} died, the others wait",
            facts,
            _CAUSE,
            f"{_KERNEL_LOG}\n{fixes.own_command(group)}",
            "The process is there, and answers again.",
            pids=[rank.pid for rank in alive if rank.pid is not None],
        )
        return Suspicion(finding, 2.0)
    return None


def _dead(
    evidence: Evidence, run: Run, bad: list[Rank], alive: list[Rank], output: Output | None, group: RankGroup | None
) -> Judgement:
    first = min(
        bad,
        key=lambda rank: (
            is_consequence(rank, output.matches if output is not None else ()),
            not _was_killed(rank),
            rank.last_log_at or 0.0,
            rank.rank,
        ),
    )
    failure = model_facts.failure(first)
    early = any(rank.state == "finished" for rank in run.ranks)
    if not alive and early and all(is_consequence(rank, output.matches if output is not None else ()) for rank in bad):
        return left_early.others_failed(run, bad, group)
    if not alive and (failure is not None or (not _was_killed(first) and first.exit_code is None)):
        return None  # another rule judges the text that ended it; or nothing is known
    if (
        not alive
        and output is not None
        and any(not match.cascade and match.pattern not in _DEATH_ONLY for match in output.matches)
    ):
        return None
    others = _others_state(evidence, run, first, alive)
    if others == "seen too shortly":
        return None
    others_go_on = others == "go on"
    how = _how(first)
    facts = [Fact(f"rank {first.rank} (process {first.pid}) {how}", first.exit_code, "journal")]
    if failure is not None:
        facts.append(Fact(f"it said: {failure.type}: {failure.message}", failure.where, "journal: error"))
    if alive:
        names, one = words.ranks([rank.rank for rank in alive]), len(alive) == 1
        does = "goes on" if one and others_go_on else "go on" if others_go_on else "lives" if one else "live"
        still = min(evidence.stood_s(run.run_id, rank.rank) for rank in alive)
        facts.append(
            Fact(f"{names} {does}: steps come", len(alive), "journal")
            if others_go_on
            else Fact(f"{names} {does}, without a step for {still:.0f} s", len(alive), "journal")
        )
    later = [rank.rank for rank in bad if rank is not first]
    if later and not others_go_on:
        facts.append(Fact(f"{words.ranks(later)} ended after it: what they say follows from that", later, "journal"))
    if output is not None:
        facts += [quoted(match) for match in output.matches[:1] if match.cascade or match.pattern in _DEATH_ONLY]
    title = f"Rank {first.rank} {how}, {_TITLES[others]}"
    command = (
        fixes.own_command(group)
        if group is not None
        else command_of(output)
        if output is not None
        else " ".join(run.command or ())
    )
    severity, confidence = _WEIGHTS[others]
    finding = Finding(
        "G04",
        severity,
        confidence,
        title,
        tuple(facts),
        _CAUSE_ALONE if others_go_on else _CAUSE,
        f"{_fix(run, first, others_go_on)}\n{command}".rstrip(),
        "The rank is alive."
        if others == "gone"
        else "The ranks exchange gradients."
        if others_go_on
        else "The other ranks make steps.",
        devices=tuple(sorted(group.used)) if group is not None else (),
        pids=_pids(first) if group is not None else (),
        run=run.run_id,
    )
    return Suspicion(finding, 2.0)


_TITLES = {
    "gone": "and the run with it",
    "go on": "the others go on without it",
    "may wait": "the others may wait for it",
    "wait": "the others wait for it",
}
_WEIGHTS: dict[str, tuple[Severity, Confidence]] = {
    "gone": ("error", "certain"),
    "go on": ("info", "likely"),
    "may wait": ("warning", "possible"),
    "wait": ("error", "certain"),
}


def _others_state(evidence: Evidence, run: Run, dead: Rank, alive: list[Rank]) -> str:
    """Return what the live ranks do since one died. Ranks of a sweep that one srun started do not depend on it."""
    if not alive:
        return "gone"
    ended = evidence.ended_s(run.run_id, dead.rank)
    stood = [evidence.stood_s(run.run_id, rank.rank) for rank in alive]
    if ended - min(stood) > LATE_S:
        return "go on"
    quiet = min(ended, *stood)
    if quiet < STILL_S:
        return "seen too shortly"
    usual = [took for rank in alive if (took := _usual_s(evidence, run, rank)) is not None]
    return "wait" if quiet >= STILL_STEPS * max(usual, default=0.0) else "may wait"


def _usual_s(evidence: Evidence, run: Run, rank: Rank) -> float | None:
    """Return the mean time between a rank's newest steps, by whatever it logs; None with too few of them."""
    times = max((evidence.series(run.run_id, rank.rank, name).times[-20:] for name in rank.metrics), key=len, default=[])
    return (times[-1] - times[0]) / (len(times) - 1) if len(times) > 2 else None


def _fix(run: Run, rank: Rank, others_go_on: bool) -> str:
    failure = model_facts.failure(rank)
    if failure is not None:
        return f"# mend {failure.where or 'that'} first" + ("" if others_go_on else ": the other errors go with it")
    if _was_killed(rank):
        return f"{_KERNEL_LOG}\n# fewer loader workers, less memory a rank; then start it again"
    advice = f"gputop logs {run.job_id}  # what it said last" if run.job_id else "# what it said last tells why"
    return f"{advice}: rank {rank.rank} left by itself, with exit code {rank.exit_code}"


_KERNEL_LOG = "sudo dmesg --ctime | grep -i -E 'killed process|oom|xid' | tail  # memory, or the driver"
_CAUSE = (
    "When one rank dies, the others stop at the next exchange: with 'connection closed by peer', or without a word until a "
    "timeout. The first that died has the cause."
)


_CAUSE_ALONE = (
    "One task of several ended, and the others do without it: they exchange nothing, as the tasks of a sweep that one srun "
    "started."
)


def _pids(rank: Rank) -> tuple[int, ...]:
    return (rank.pid,) if rank.pid is not None else ()


def _was_killed(rank: Rank) -> bool:
    return rank.state == "killed" or (rank.exit_code or 0) < 0


def _how(rank: Rank) -> str:
    code = rank.exit_code
    if code is not None and code < 0:
        return f"was ended by {units.signal_name(-code)}"
    if rank.state == "killed":
        return "was killed"
    return f"failed (exit code {code})" if code is not None else "failed"


def small_shared_memory(evidence: Evidence, group: RankGroup) -> Judgement:
    """G05: NCCL's ranks share less than 256 MB of /dev/shm."""
    host = evidence.snapshot.host if evidence.snapshot is not None else None
    nccl = [p for p in group.processes if any(name.startswith("pt_nccl") for name, _ in p.threads)]
    if host is None or not host.shm_total_bytes or host.shm_total_bytes >= SHM_NCCL_BYTES or len(nccl) < 2:
        return None
    runs = evidence.progressing(group)  # NCCL allocates what it needs at the start: here that was enough
    finding = tracked.about(
        group,
        "G05",
        "info" if runs else "warning",
        "possible" if runs else "likely",
        "/dev/shm is too small for NCCL",
        [
            Fact(f"/dev/shm has {host.shm_total_bytes / 2**20:.0f} MiB", host.shm_total_bytes, "statvfs"),
            Fact(f"{len(nccl)} processes use NCCL", len(nccl), "/proc/<pid>/task"),
        ],
        "NCCL keeps the buffers between the ranks of a machine there; Docker gives 64 MB.",
        "docker run --shm-size=1g --ulimit memlock=-1 ...",
        "The GPUs reach each other by NVLink, or NCCL_SHM_DISABLE=1 is set on purpose.",
    )
    return Suspicion(finding, 5.0)


G05 = Rule(
    id="G05",
    order=1001,
    family="lost ranks",
    title="/dev/shm is too small for NCCL",
    severities=("warning", "info"),
    confidences=("likely", "possible"),
    needs=("statvfs", "/proc"),
    window_s=5.0,
    every_s=EVERY_SNAPSHOT,
    threshold="/dev/shm below 256 MB and two processes that use NCCL",
    mechanism="NCCL keeps the buffers between the ranks of one machine in /dev/shm. Docker gives it 64 MB.",
    signature="Two or more processes use NCCL, and /dev/shm has less than 256 MB.",
    look_alike="GPUs that reach each other by NVLink; NCCL_SHM_DISABLE=1 that is set on purpose.",
    fix="Start the container with --shm-size=1g --ulimit memlock=-1.",
    judge=small_shared_memory,
)
