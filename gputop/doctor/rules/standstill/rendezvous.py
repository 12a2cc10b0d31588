"""Ranks that wait for others that never arrive (G03)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.facts import model as model_facts
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.standstill.at_rest import has_met_others
from gputop.doctor.rules.standstill.before_steps import held_up
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, Judgement, Rule, Suspicion
from gputop.process import LOCAL_RANKS_MOST
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


JOINS_LOOKS_MIN = 5
"""At least this many looks at a stack are at that line (our choice)."""
_JOINS = "init_process_group("
_NUMBERED = "\n# rank and world size come from the environment"
_FIX_SPAWNED = """\
# choose the address and the port, or the file, once, before mp.spawn: they are the same in every rank
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
    if not all(map(_uses_little, processes)):
        return None
    absent = _absent(evidence, group, ranks)
    by_hand = unnumbered or (absent is not None and all(_polls(evidence, process) for process in processes))
    by_hand = by_hand or all(_joins(evidence, process) for process in processes)
    if not all(_waits(evidence, process, G03_EARLY_S, by_hand) for process in processes) or _has_group(evidence, group):
        return None
    if held_up(evidence, group) is not None:
        return None  # one of them hangs elsewhere, and the others wait for it (G01)
    early = not all(_waits(evidence, process, G03_AGE_S, by_hand) for process in processes)
    if absent is not None:
        return _waits_for_absent(evidence, group, ranks, absent, early)
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
        _spawned_together(evidence, processes)
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
        "another WORLD_SIZE, the ranks use different ports or files, the port is taken, or a firewall is in the way.",
        f"py-spy dump --pid {pid}  # is it in init_process_group, or somewhere "
        f"else?\n{_FIX_SPAWNED if unnumbered else fixes.launch_line(group, started or len(ranks)) + _NUMBERED}"
        if here or missing or unnumbered
        else f"# start the ranks on the other machines with the same --rdzv-endpoint\nss -tnp | grep {port or 29500}",
        "A rank completes a step, or is busy reading data.",
    )
    return Suspicion(finding, G03_EARLY_HOLD_S if early else G03_HOLD_S)


def _spawned_together(evidence: Evidence, processes: Sequence[Process]) -> Fact:
    if all(_joins(evidence, process) for process in processes):
        return Fact("they were spawned together, and are in init_process_group", len(processes), "/proc/<pid>/mem")
    return Fact("they were spawned together, and one of them listens for connections", len(processes), "/proc/<pid>/net/tcp")


class _Absent(NamedTuple):
    """Which ranks, or which nodes, that somebody starts by hand are in no process here; ``of`` is how many there are."""

    what: str
    have: Sequence[int]
    missing: Sequence[int]
    of: int
    meets_at: str | None

    @property
    def only_here(self) -> bool:
        """Whether nobody on another machine can reach the place where they meet."""
        host = (self.meets_at or "").rpartition(":")[0].strip("[]")
        return host in ("localhost", "::1") or host.startswith("127.")


def _absent(evidence: Evidence, group: RankGroup, ranks: Sequence[Member]) -> _Absent | None:
    """Return which ranks or nodes are missing, if these were started one by one and no launcher says how many are here."""
    first = ranks[0].process
    if group.launcher is not None or first is None:
        return None
    environment, stated = first.environment, first.stated
    if stated is not None:
        meets_at = stated.meets_at
    elif environment is not None and (environment.local_world_size or environment.torchelastic_run_id):
        return None
    else:
        address = dict(environment.settings).get("MASTER_ADDR") if environment is not None else None
        port = environment.master_port if environment is not None else None
        meets_at = f"{address}:{port}" if address and port else address
    others = [member.process for other in evidence.groups for member in other.members if member.process is not None]
    if stated is not None and stated.nodes is not None:
        nodes = {item.stated.node for item in others if item.stated is not None and item.stated.meets_at == meets_at}
        have, of, what = {node for node in nodes if node is not None}, stated.nodes, "node"
    else:
        same = [item for item in others if item.world_size == first.world_size and item.uid == first.uid]
        have, of, what = {item.rank for item in same if item.rank is not None}, first.world_size or 0, "rank"
    missing = sorted(set(range(min(of, LOCAL_RANKS_MOST))) - have)
    return _Absent(what, sorted(have), missing, of, meets_at) if missing else None


def _waits_for_absent(evidence: Evidence, group: RankGroup, ranks: Sequence[Member], absent: _Absent, early: bool) -> Suspicion:
    processes = [member.process for member in ranks if member.process is not None]
    first, whole = processes[0], absent.what == "rank"
    have, missing = _numbers(absent.what, absent.have), _numbers(absent.what, absent.missing)
    one = len(absent.have) == 1
    waits, runs = "waits" if one else "wait", "runs" if len(absent.missing) == 1 else "run"
    seen = all(process.read_bytes is not None for process in processes)
    idle = all(_polls(evidence, process) for process in processes)
    option = first.stated.option if first.stated is not None else None
    source = "/proc/<pid>/environ" if first.stated is None else "/proc/<pid>/cmdline"
    facts = [
        Fact(
            f"{tracked.capital(words.processes([process.pid for process in processes]))} "
            f"{words.agree(len(processes), 'uses', 'use')} no CPU and no disk",
            len(processes),
            "/proc/<pid>/stat, io",
        ),
        Fact(f"{have} of {absent.of}{f', by {option} on the command line' if option else ''}", list(absent.have), source),
        Fact(f"no process on this machine is {missing}", list(absent.missing), source),
        *([Fact(f"they meet at {absent.meets_at}", absent.meets_at, source)] if absent.meets_at is not None else []),
        Fact("no rank has completed a step or reported a process group", 0, "journal"),
    ]
    finding = tracked.about(
        group,
        "G03",
        "warning" if early else "error",
        "possible" if early or not seen else "certain" if absent.only_here and whole and idle else "likely",
        f"{tracked.capital(have)} {waits} for {missing}, which {'does' if runs == 'runs' else 'do'} not run"
        f"{'' if absent.only_here else ' on this machine'}",
        facts,
        f"init_process_group waits until all {absent.of} {absent.what}s have come to one address. "
        f"{tracked.capital(missing)} {words.agree(len(absent.missing), 'was', 'were')} not started, ended at once, or "
        f"{words.agree(len(absent.missing), 'goes', 'go')} to another address.",
        _start_absent(evidence, first, absent),
        "The others are being started by hand, or a rank completes a step.",
        pids=[process.pid for process in processes],
    )
    return Suspicion(finding, G03_EARLY_HOLD_S if early else G03_HOLD_S)


def _numbers(what: str, numbers: Sequence[int]) -> str:
    return f"{what}{'' if len(numbers) == 1 else 's'} {units.ranges(numbers)}"


def _start_absent(evidence: Evidence, first: Process, absent: _Absent) -> str:
    """Return the command that starts the first of the missing ranks or nodes."""
    number = absent.missing[0]
    more = "" if len(absent.missing) == 1 else f"  # and so on, up to {absent.missing[-1]}"
    where = "" if absent.only_here else "# on its machine:\n"
    command = first.command
    if absent.what == "node":
        runs = evidence.snapshot.process_runs if evidence.snapshot is not None else ()
        script = next((run.command for run in runs if first.pid in (rank.pid for rank in run.ranks)), ())
        command = ("python", *script) if script else None
    if first.stated is not None and first.stated.option is not None:
        other = fixes.with_option(command or (), (first.stated.option,), str(number))
        return f"{where}{fixes.shell_join(other)}{more}"
    host, _, port = (absent.meets_at or "").rpartition(":")
    address = f"MASTER_ADDR={fixes.shell_word(host)} MASTER_PORT={port} " if host and port.isdigit() else ""
    own = fixes.shell_join(command or fixes.script_of(None))
    return f"{where}{address}WORLD_SIZE={absent.of} RANK={number} {own}{more}"


G03 = Rule(
    id="G03",
    order=1000,
    family="lost ranks",
    title="Ranks wait for a group that is not complete",
    severities=("error", "warning"),
    confidences=("certain", "likely", "possible"),
    needs=("/proc", "RANK, WORLD_SIZE, or the command line's, or processes that the script spawns"),
    window_s=G03_HOLD_S,
    every_s=EVERY_SNAPSHOT,
    threshold=(
        f"ranks that are {G03_AGE_S:.0f} s old and use less than {G03_CPU_PERCENT:.0f}% of a core for "
        f"{G03_HOLD_S:.0f} s, without a step; certain if fewer run than were started; possible from an age of "
        f"{G03_EARLY_S:.0f} s",
        "spawned processes without RANK, if just one listens and all main threads sleep or wait for a connection, or all are "
        "in init_process_group by their stacks",
        "ranks or nodes that their command lines number (--rank 0 --world-size 2), while others of them are in no process "
        "here; certain if these can only be on this machine",
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
    alone = all(process.stated is not None and process.stated.node is not None for process in processes)
    if len(processes) < (1 if alone else 2) or not all(process.in_rendezvous for process in processes):
        return []
    if not all(_polls(evidence, process) or _joins(evidence, process) for process in processes):
        return []
    return [member for member in group.members if member.process is not None]


def _uses_little(process: Process) -> bool:
    return process.cpu_percent is not None and process.cpu_percent < G03_CPU_PERCENT


def _waits(evidence: Evidence, process: Process, least_s: float, may_poll: bool) -> bool:
    """Return whether a young process has been idle for ``least_s``: no CPU, no disk, little memory on a GPU.

    ``may_poll``: it may also be seen running at times, and has been found to do nothing but that and wait.
    """
    if not least_s <= evidence.age_s(process) <= G03_AGE_MAX_S or evidence.still.disks_s(process) < least_s:
        return False
    rests = process.state == "S" and evidence.still.times_seen_running(process, G03_SAMPLED_S) < G03_RUNS_MIN
    if not rests and not may_poll:
        return False
    return all((use.memory_used_bytes or 0) < G03_MEMORY_BYTES for use in process.devices)


def _polls(evidence: Evidence, process: Process) -> bool:
    """Return whether the main thread sleeps between looks, or waits for an answer, and does nothing else.

    What a server or a pool does looks the same if it waits for events; a rank that its command numbers is neither.
    """
    seen = evidence.still.samples(process, G03_SAMPLED_S, POLLS_SAMPLES)
    waits = seen["sleep"] + seen["socket"] + (seen["events"] if process.stated is not None else 0)
    return waits >= POLLS_SHARE * max(1, seen.total()) and seen["sleep"] + seen["socket"] + seen["runs"] + seen["events"] == (
        seen.total()
    )


def _joins(evidence: Evidence, process: Process) -> bool:
    """Return whether the main thread has lately only been seen at a line that joins a process group.

    Ranks that meet in a file look into it every few milliseconds: they are seen running at times.
    """
    looks = evidence.doings.seen_at_all(process, G03_SAMPLED_S).looks
    return len(looks) >= JOINS_LOOKS_MIN and all(_JOINS in (look.text or "") for look in looks)


def _has_group(evidence: Evidence, group: RankGroup) -> bool:
    """Return whether the ranks have connected: one reports its group or shows it, or NCCL knows them all."""
    if any(member.process is not None and has_met_others(member.process) for member in group.members):
        return True
    if any(model_facts.group_size(rank) is not None for rank in tracked.ranks_of(group)):
        return True
    return any(len(item.ranks) > 1 for item in evidence.communicators(group))
