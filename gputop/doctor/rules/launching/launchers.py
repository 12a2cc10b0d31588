"""Differences between what a launcher passes and what a script expects: --local-rank, which the script rejects (A17), and a
rank and world size that nothing passes on (A18).
"""

from __future__ import annotations

import itertools
import shlex
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup, duplicate_ranks
from gputop.doctor.evidence.visible import mask_of
from gputop.doctor.facts import model as model_facts
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.commands import filled
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.meaning.refuted import REFUTED_BY
from gputop.doctor.rules.support.equal_losses import VALUES_MIN, copies_alike
from gputop.doctor.rules.support.outputs import command_of, outputs_of, quoted
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, Judgement, Rule, Suspicion
from gputop.doctor.rules.support.shared import has_group_threads
from gputop.groups import NUMBERS_BY_LAUNCHER
from gputop.snapshot import Process

A18_START_S = 10.0
A18_HOLD_S = 10.0
"""docs/rules.md#a18."""
TRAINS_WITHIN_S = 60.0
"""How far back looks at its stack show that a process trains whose output says nothing, because others print to it, too."""
_NUMBERS = """\
# in the script, before init_process_group:
os.environ["RANK"], os.environ["WORLD_SIZE"] = os.environ["{rank}"], os.environ["{world}"]
# with MASTER_ADDR and MASTER_PORT; or let torchrun number the processes:
"""
_ARGUMENT = """\
{command}

# and in the script, instead of the argument:
local_rank = int(os.environ["LOCAL_RANK"])"""


def local_rank_refused(evidence: Evidence) -> dict[str, Judgement]:
    """A17: the script rejects the argument --local-rank that the launcher passes."""
    judged: dict[str, Judgement] = {}
    for output in outputs_of(evidence):
        if (match := output.first("local_rank_dash")) is None or output.survived:
            continue
        finding = Finding(
            id="A17",
            severity="error",
            confidence="certain",
            title="The script rejects --local-rank, which the launcher passes",
            evidence=(quoted(match),),
            cause="torch.distributed.launch passes --local-rank to each rank, with a dash since torch 2.0; a parser that "
            "knows only --local_rank, or neither, ends every rank with exit code 2.",
            fix=_ARGUMENT.format(command=_torchrun(command_of(output))),
            refuted_by=REFUTED_BY["local_rank_dash"],
            devices=output.devices,
            pids=output.pids,
            run=output.run_id,
        )
        judged[output.subject] = Suspicion(finding)
    return judged


A17 = Rule(
    id="A17",
    order=603,
    family="launching",
    title="The script rejects --local-rank",
    severities=("error",),
    confidences=("certain",),
    needs=("the run's output or exception",),
    every_s=EVERY_SNAPSHOT,
    threshold="the text local_rank_dash in the run's output",
    hides=("G03", "G04"),
    mechanism=(
        "torch.distributed.launch passes --local-rank to each rank, with a dash since torch 2.0. A parser that "
        "does not know it ends every rank with exit code 2."
    ),
    signature='"unrecognized arguments: --local-rank=0" on every rank.',
    look_alike="An error text that only quotes the usage line.",
    fix='Start with torchrun and read os.environ["LOCAL_RANK"].',
    judge_machine=local_rank_refused,
)


def _torchrun(command: str) -> str:
    """Return the command with torchrun, which passes no argument, instead of torch.distributed.launch."""
    items = shlex.split(command)
    if "torch.distributed.launch" in items:
        rest = [item for item in items[items.index("torch.distributed.launch") + 1 :] if item not in ("--use_env", "--use-env")]
        return fixes.shell_join(["torchrun", *rest])
    return command


def independent_worlds(evidence: Evidence) -> dict[str, Judgement]:
    """A18: processes of one command, started together, each of which runs as if it were the only one."""
    packs: dict[tuple[object, ...], dict[str | None, list[_Copy]]] = {}
    for group in evidence.groups:
        for member in (*group.members, *duplicate_ranks(group)):
            process = member.process
            if process is None or process.environment is None or not process.command:
                continue
            if process.started_at is None or (process.world_size or 1) > 1 or _is_titled(process):
                continue
            launcher = process.launcher.pid if process.launcher is not None else process.ppid
            masks = packs.setdefault((process.uid, process.command, launcher), {})
            masks.setdefault(mask_of(process, group.virtual), []).append(_Copy(group, member, process))
    judged: dict[str, Judgement] = {}
    for masks in packs.values():
        everyone = [copy for copies in masks.values() for copy in copies]
        whole = _worlds(evidence, everyone) if len(masks) > 1 and _begin_together(everyone) else None
        if whole is not None:
            judged[_subject(everyone)] = whole
            continue
        for copies in masks.values():
            if _begin_together(copies):
                judged[_subject(copies)] = _worlds(evidence, copies, packed=len(masks) > 1)
    return judged


class _Copy(NamedTuple):
    """One of several processes of one command."""

    group: RankGroup
    member: Member
    process: Process


def _begin_together(copies: Sequence[_Copy]) -> bool:
    starts = [copy.process.started_at for copy in copies if copy.process.started_at is not None]
    return len(starts) > 1 and max(starts) - min(starts) <= A18_START_S


def _subject(copies: Sequence[_Copy]) -> str:
    return f"pid:{min(copy.process.pid for copy in copies)}"


def _is_titled(process: Process) -> bool:
    """Return whether the command is a title that Ray set for the process, which hides its arguments."""
    return process.command is not None and process.command[0].startswith("ray::")


A18 = Rule(
    id="A18",
    order=604,
    family="launching",
    title="Processes that do not know about each other",
    severities=("warning",),
    confidences=("likely", "possible"),
    needs=("/proc/<pid>/cmdline", "WORLD_SIZE at launch", "thread names", "NVML", "the run's output", "/proc: variables"),
    window_s=A18_HOLD_S,
    every_s=EVERY_SNAPSHOT,
    threshold=(
        f"processes with the same command and parent that start within {A18_START_S:.0f} s, world size 1 and no "
        "collective threads: likely on one GPU or with equal configurations, otherwise possible",
        "also on several GPUs, each with a LOCAL_RANK or RANK of its own and no WORLD_SIZE (likely)",
        "also with such threads, each with a LOCAL_RANK or RANK of its own and a WORLD_SIZE of 1 (likely)",
        f"also with a mask for each, if they print {VALUES_MIN} losses or more that are equal to the last digit (likely), or a "
        "launcher numbers them in variables that torch does not read, and their variables hold no wrapper (possible)",
    ),
    hides=("A01", "A02", "A07", "A16", "C03", "G03", "H03"),
    mechanism=(
        "Nothing set RANK and WORLD_SIZE for the processes, or the script reads other variables than the launcher sets, or a "
        "wrapper set them for one. So each one trains its own model: the same training several times."
    ),
    signature=(
        "Several processes have the same command and parent, start at the same time, and have world size 1 and no "
        "collective threads."
    ),
    look_alike="A sweep that reads its settings elsewhere; several workers placed on each GPU by masks; Ray actors; gradients "
    "that mpi4py or Horovod averages.",
    fix="Start all ranks with one launcher: torchrun, or srun with MASTER_ADDR, RANK and WORLD_SIZE.",
    judge_machine=independent_worlds,
)


def _worlds(evidence: Evidence, copies: Sequence[_Copy], *, packed: bool | None = None) -> Judgement:
    """Judge processes of one command.

    Args:
        evidence: What was observed.
        copies: The processes.
        packed: Whether more of them run under other masks, on purpose; None: these have different masks. Then each has GPUs
            of its own, as in a sweep, unless they learn the same or a launcher of ranks numbers them.
    """
    numbered = _numbered(copies)
    # Their WORLD_SIZE decides where it is given. Without one, they may have joined by arguments.
    of_one = numbered is not None and all(copy.process.world_size == 1 for copy in copies)
    # Whoever makes a process group trains, even if neither its steps nor its backward threads can be seen.
    training = {key for key, group in {copy.group.key: copy.group for copy in copies}.items() if evidence.trains(group)}
    trains = all(
        copy.group.key in training
        or (of_one and has_group_threads(copy.process))
        or evidence.doings.seen(copy.process, TRAINS_WITHIN_S).trains
        for copy in copies
    )
    if not trains or any(_joined(evidence, copy, threads_decide=not of_one) for copy in copies):
        return None
    alike = copies_alike(evidence, [copy.group for copy in copies])
    launched = _launch_number(copies)
    if packed is None and alike is None and (launched is None or not all(map(_holds_no_wrapper, copies))):
        return None
    crowds = Counter(copy.member.main for copy in copies if copy.member.main is not None)
    group, _, process = copies[0]
    number, crowd = len(copies), max(crowds.values(), default=0)
    launcher = process.launcher.name if process.launcher is not None else None
    together = crowd == number and len(group.pool) > 1
    configs = [copy.group.run.config if copy.group.run is not None else None for copy in copies]
    same = alike is not None or (configs[0] is not None and configs[0] and all(config == configs[0] for config in configs))
    # Without a launcher, processes on one GPU each are a sweep in which every run has its own GPU on purpose.
    if not together and launcher is None and numbered is None and launched is None and alike is None:
        return None
    devices = [device for device in group.pool if device.uuid in crowds]
    script = fixes.script_of(process.command)[0]
    facts = [
        Fact(
            f"{number} processes run {script} with the same arguments, started at the same time", number, "/proc/<pid>/cmdline"
        ),
        _world_size(copies),
        *([numbered.fact] if numbered is not None else []),
        *([launched.fact] if launched is not None else []),
        *([Fact(alike.text, alike.values, alike.source)] if alike is not None else []),
        _alone(copies),
        *([Fact(f"{launcher} started them", launcher, "parent processes")] if launcher is not None else []),
        *([Fact(f"they compute on {words.gpus(devices)}", [device.index for device in devices], "NVML")] if devices else []),
    ]
    finding = Finding(
        id="A18",
        severity="warning",
        confidence="likely" if (together and not packed) or same or numbered is not None else "possible",
        title=f"{number} processes of one script train {number} models: none knows about the others",
        evidence=tuple(facts),
        cause=_cause(numbered is not None, of_one, launched),
        fix=(launched.fix if launched is not None else "") + _one_world(process, number),
        refuted_by="They are independent runs on purpose (a sweep that reads its settings elsewhere).",
        devices=tuple(device.uuid for device in devices),
        pids=tuple(copy.process.pid for copy in copies),
    )
    return Suspicion(finding, A18_HOLD_S)


class _Numbers(NamedTuple):
    """A variable that numbers the processes as ranks, and its values."""

    name: str
    values: tuple[int, ...]

    @property
    def fact(self) -> Fact:
        return Fact(f"but {self.name} is {units.ranges(self.values)}", list(self.values), "/proc/<pid>/environ")


class _LaunchNumber(NamedTuple):
    """Variables in which a launcher numbers the processes, and torch does not look."""

    rank: str
    world: str
    fact: Fact

    @property
    def fix(self) -> str:
        return filled(_NUMBERS, {"rank": self.rank, "world": self.world})


def _launch_number(copies: Sequence[_Copy]) -> _LaunchNumber | None:
    """Return where a launcher gave each process a number of its own; None if none did."""
    settings = [dict(copy.process.environment.settings) for copy in copies if copy.process.environment is not None]
    for ranks, _, worlds, _ in NUMBERS_BY_LAUNCHER.values():
        for rank, world in itertools.product(ranks, worlds):
            known = [(values[rank], values[world]) for values in settings if rank in values and world in values]
            numbers, sizes = {number for number, _ in known}, {size for _, size in known}
            if len(numbers) != len(copies) or len(sizes) != 1 or not all(item.isdecimal() for item in (*numbers, *sizes)):
                continue
            found = sorted(map(int, numbers))
            if int(next(iter(sizes))) >= len(copies):
                text = f"but {rank} is {units.ranges(found)}, and {world} is {next(iter(sizes))}"
                return _LaunchNumber(rank, world, Fact(text, found, "/proc/<pid>/environ"))
    return None


def _holds_no_wrapper(copy: _Copy) -> bool:
    """Return whether the variables of a process show its models, and nothing that exchanges their gradients."""
    held = copy.process.held
    return held is not None and held.models is not None and held.models.wrapper is None and held.calls_wrapper is not True


def _world_size(copies: Sequence[_Copy]) -> Fact:
    sizes = {copy.process.world_size for copy in copies}
    text = "1 in each" if sizes == {1} else "set in none" if sizes == {None} else "1 or not set in each"
    return Fact(f"WORLD_SIZE is {text} of them", None if sizes == {None} else 1, "/proc/<pid>/environ")


def _cause(numbered: bool, of_one: bool, launched: _LaunchNumber | None) -> str:
    if of_one:
        return "Each process was started with WORLD_SIZE=1, so each trains alone, as the only rank of its run."
    if numbered:
        return (
            "What started these processes set a rank for each of them, but no WORLD_SIZE. So each one trains alone: the same "
            "training several times."
        )
    if launched is not None:
        return (
            f"The launcher numbers its processes in {launched.rank} and {launched.world}, and the script looks for other "
            "variables, such as RANK and WORLD_SIZE. So each one trains alone: the same training several times."
        )
    return (
        "Nothing set RANK and WORLD_SIZE for these processes, so each one trains alone: the same training several "
        "times and, without a LOCAL_RANK, all on the first GPU."
    )


def _numbered(copies: Sequence[_Copy]) -> _Numbers | None:
    """Return the numbers of the processes if each has a LOCAL_RANK, or RANK, of its own."""
    given = [copy.process.environment for copy in copies if copy.process.environment is not None]
    for name, numbers in (("LOCAL_RANK", [item.local_rank for item in given]), ("RANK", [item.rank for item in given])):
        known = {number for number in numbers if number is not None}
        if len(known) == len(copies):
            return _Numbers(name, tuple(sorted(known)))
    return None


def _joined(evidence: Evidence, copy: _Copy, *, threads_decide: bool) -> bool:
    """Return whether the process has joined others, or may have: even a group of one process starts these threads.

    ``threads_decide``: nothing else says how many processes the group has.
    """
    group, member, process = copy
    sizes = [item.size for item in evidence.communicators(group) if any(rank.pid == process.pid for rank in item.ranks)]
    size = model_facts.group_size(member.journal)
    if sizes or size is not None:
        return max([*sizes, size or 1]) > 1
    if not threads_decide:
        return False
    return "threads" in process.hidden or has_group_threads(process)


def _alone(copies: Sequence[_Copy]) -> Fact:
    if all(model_facts.group_size(copy.member.journal) == 1 for copy in copies):
        return Fact("each is its own process group, with world size 1", 1, "torch.distributed (journal)")
    return Fact("none is connected to another by NCCL or gloo", None, "threads (/proc/<pid>/task), NCCL")


def _one_world(process: Process, number: int) -> str:
    script = fixes.shell_join(fixes.script_of(process.command))
    torchrun = f"torchrun --standalone --nproc-per-node={number} {script}"
    if process.launcher is not None and process.launcher.name == "srun":
        return f"srun --ntasks-per-node=1 torchrun --nproc-per-node={number} {script}\n# on one machine:\n{torchrun}"
    return torchrun
