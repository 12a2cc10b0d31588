"""Ranks and tensors in the wrong place: the global rank as a device (A08), a model or batch that was not moved (A13), an
argument --local-rank that the script rejects (A17), ranks that do not know each other (A18), DataParallel in DDP (A19)."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Sequence

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup, duplicate_ranks
from gputop.doctor.evidence.visible import mask_of
from gputop.doctor.facts import model as model_facts
from gputop.doctor.facts import stated
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Abstained, Confidence, Fact, Finding
from gputop.doctor.logs.refuted import REFUTED_BY
from gputop.doctor.rules.machine.memory import GHOST_BYTES_MAX
from gputop.doctor.rules.support.outputs import Output, command_of, outputs_of, quoted
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, Judgement, Rule, Suspicion
from gputop.snapshot import LogMatch, Process
from gputop.units import bytes_text

A18_START_S = 10.0
A18_HOLD_S = 10.0
A19_HOLD_S = 20.0
"""docs/rules.md#a18, docs/rules.md#a19."""
_GROUP_THREADS = ("pt_nccl_watchdg", "pt_gloo_runloop", "NCCL Service", "NCCL Progress", "NCCL RAS")
"""Threads of a process that has joined a process group."""
_TENSOR_DEVICES = re.compile(r"\b(cuda:\d+|cpu)\b")

_LOCAL_RANK = """\
local_rank = int(os.environ["LOCAL_RANK"])  # 0, 1, … on every machine; RANK counts over all machines
torch.cuda.set_device(local_rank)
model = DDP(model.to(local_rank), device_ids=[local_rank])"""
_MOVE = """\
model.to(device)                          # in place: a module keeps its parameters
x = x.to(device, non_blocking=True)       # not in place: assign the result
y = y.to(device, non_blocking=True)
# tensors that belong to the model: self.register_buffer("name", tensor) moves with it"""
_ARGUMENT = """\
{command}

# and in the script, instead of the argument:
local_rank = int(os.environ["LOCAL_RANK"])"""
_ONE_WRAPPER = """\
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
model = DDP(model.to(local_rank), device_ids=[local_rank])  # and no nn.DataParallel"""


def global_rank_as_device(evidence: Evidence) -> dict[str, Judgement]:
    """A08: "invalid device ordinal" on a machine where rank numbers do not match GPU numbers."""
    judged: dict[str, Judgement] = {}
    for output in outputs_of(evidence):
        if (match := output.first("invalid_ordinal")) is None or output.survived:
            continue
        number = sum(device.kind == "gpu" for device in evidence.snapshot.devices) if evidence.snapshot is not None else 0
        here = _ranks_here(evidence, output)
        apart = {rank: local for rank, local in here.items() if _only_local_rank_fits(output, rank, local, number)}
        # torchrun's own prefix shows the local rank, a number that no global rank here has.
        failed = match.rank if match.rank in apart else None if match.rank in here else next(iter(apart), None)
        if failed is None:
            continue
        finding = Finding(
            id="A08",
            severity="error",
            confidence="certain",
            title=f"Rank {failed} took GPU {failed} of a machine with {words.count(number, 'GPU')}: RANK is not LOCAL_RANK",
            evidence=(
                quoted(match),
                Fact(f"rank {failed} is local rank {apart[failed]} on this machine", apart[failed], "LOCAL_RANK"),
                Fact(f"the machine has {words.count(number, 'GPU')}", number, "NVML"),
            ),
            cause="The script chooses its GPU by RANK, which counts over all machines. It works on the first machine and "
            "leaves the range of GPUs on the second.",
            fix=_LOCAL_RANK,
            refuted_by="The ordinal comes from an argument or a mask that names too few GPUs.",
            devices=output.devices,
            pids=output.pids,
            run=output.run_id,
        )
        judged[output.subject] = Suspicion(finding)
    return judged


A08 = Rule(
    id="A08",
    order=601,
    family="placement",
    title="RANK was used as a device number",
    severities=("error",),
    confidences=("certain",),
    needs=("the run's output or exception", "RANK, LOCAL_RANK"),
    every_s=EVERY_SNAPSHOT,
    threshold=("the text invalid_ordinal from a rank whose RANK is not among the GPUs that it sees, and whose LOCAL_RANK is"),
    hides=("A03", "G01", "G03", "G04"),
    mechanism=(
        "RANK counts over all machines, LOCAL_RANK over one. A script that chooses its GPU by RANK works on the "
        "first machine and fails on the second."
    ),
    signature='"invalid device ordinal" in a rank whose RANK is no GPU of the machine, and whose LOCAL_RANK is one.',
    look_alike="A mask that is too short, or an argument that names a missing GPU (A03).",
    fix='Use int(os.environ["LOCAL_RANK"]) for the device.',
    judge_machine=global_rank_as_device,
)


def _only_local_rank_fits(output: Output, rank: int, local: int, number: int) -> bool:
    """Return whether only the local rank is a valid device, not the rank; if neither is, the mask is too short."""
    seen = stated.device_count(output.rank(rank)) or number
    return local != rank and (not seen or local < seen <= rank)


def _ranks_here(evidence: Evidence, output: Output) -> dict[int, int]:
    """Return rank -> local rank for the ranks on this machine."""
    here = evidence.snapshot.host.hostname if evidence.snapshot is not None else None
    found = {
        rank.rank: rank.local_rank
        for rank in (output.run.ranks if output.run is not None else ())
        if rank.local_rank is not None and rank.hostname in (None, here)
    }
    for member in output.group.members if output.group is not None else ():
        if member.rank is not None and member.local_rank is not None:
            found.setdefault(member.rank, member.local_rank)
    return found


def not_moved(evidence: Evidence) -> dict[str, Judgement]:
    """A13: one operation has tensors on two devices, or the model stays on the CPU though the process opened a GPU."""
    judged: dict[str, Judgement] = {}
    for output in outputs_of(evidence):
        match = output.first("two_devices")
        if match is not None and not output.survived and output.first("dp_replica_error") is None:
            judged[output.subject] = Suspicion(_two_devices(output, match))
    for group in evidence.groups:
        if group.key.removeprefix("run:") not in judged and (member := _left_on_cpu(evidence, group)) is not None:
            judged[group.run_id or group.key] = Suspicion(_model_on_cpu(group, member), 3.0)
    return judged


A13 = Rule(
    id="A13",
    order=602,
    family="placement",
    title="The model or a batch was not moved to the GPU",
    severities=("error",),
    confidences=("certain",),
    needs=("the run's output or exception", "journal: parameter device", "NVML"),
    window_s=3.0,
    every_s=EVERY_SNAPSHOT,
    threshold=("the text two_devices in the run's output; or steps on CPU parameters in a process with a context on a GPU"),
    hides=("A12", "G04"),
    mechanism=(
        "Tensor.to returns a copy and changes nothing in place. A tensor in a plain attribute or list does not "
        "move with its module."
    ),
    signature=(
        '"Expected all tensors to be on the same device", or steps on CPU parameters in a process that has a context on a GPU.'
    ),
    look_alike=("A replica of nn.DataParallel that fails (B10); parameters that are offloaded on purpose (DeepSpeed, FSDP)."),
    fix="Write x = x.to(device) and model.to(device), and register tensors of the model as buffers.",
    judge_machine=not_moved,
)


def _two_devices(output: Output, match: LogMatch) -> Finding:
    named = list(dict.fromkeys(_TENSOR_DEVICES.findall(match.line)))
    failure = model_facts.failure(output.rank(match.rank))
    where = [Fact(f"at {failure.where}", failure.where, "journal")] if failure is not None and failure.where else []
    between = f"{named[0]} and {named[1]}" if len(named) > 1 else "two devices"
    return Finding(
        id="A13",
        severity="error",
        confidence="certain",
        title=f"Tensors on {between} met in one operation",
        evidence=(quoted(match), *where),
        cause="A tensor (or a part of the model) was left where it was made. Tensor.to returns a copy and changes nothing in "
        "place, and a tensor kept in a plain attribute or list does not move with its module.",
        fix=_MOVE,
        refuted_by="The operation runs in a replica of nn.DataParallel, where the first error of the replica counts.",
        devices=output.devices,
        pids=output.pids,
        run=output.run_id,
    )


def _left_on_cpu(evidence: Evidence, group: RankGroup) -> Member | None:
    """Return a rank that trains CPU parameters although it has a context on a GPU."""
    if group.virtual or not evidence.progressing(group):
        return None
    for member in group.members:
        if stated.parameter_device(member.journal) != "cpu" or not member.uses:
            continue
        wraps = stated.wrapper(member.journal)
        offloads = "deepspeed" in facts_of(member.journal).frameworks or (wraps is not None and wraps.startswith("FSDP"))
        devices = model_facts.parameters_by_device(member.journal)
        # Only if every parameter is on the CPU: some may be offloaded on purpose.
        if not offloads and (not devices or set(devices) == {"cpu"}):
            return member
    return None


def _model_on_cpu(group: RankGroup, member: Member) -> Finding:
    held = sum(use.memory_used_bytes or 0 for use in member.uses)
    devices = [device for device in group.pool if device.uuid in {use.device_uuid for use in member.uses}]
    return Finding(
        id="A13",
        severity="error",
        confidence="certain",
        title=f"The model trains on the CPU; {words.gpus(devices) if devices else 'its GPU'} holds only a context",
        evidence=(
            Fact("the model's parameters are on cpu, and steps progress", "cpu", "journal"),
            Fact(
                f"process {member.pid} holds {bytes_text(held)} on {words.gpus(devices) if devices else 'a GPU'}", held, "NVML"
            ),
        ),
        cause="Something opened the GPU (a tensor that was moved, a call of torch.cuda), but the model was never moved there.",
        fix=_MOVE,
        refuted_by="The parameters are offloaded to the CPU on purpose.",
        devices=tuple(device.uuid for device in devices),
        pids=(member.pid,) if member.pid is not None else (),
        run=group.run_id,
    )


def local_rank_refused(evidence: Evidence) -> dict[str, Judgement]:
    """A17: the script does not know the argument --local-rank that the launcher passes."""
    judged: dict[str, Judgement] = {}
    for output in outputs_of(evidence):
        if (match := output.first("local_rank_dash")) is None or output.survived:
            continue
        finding = Finding(
            id="A17",
            severity="error",
            confidence="certain",
            title="The script refuses --local-rank, which the launcher passes",
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
    title="The script refuses --local-rank",
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
    """Return the command with torchrun instead of torch.distributed.launch; torchrun passes no argument."""
    items = shlex.split(command)
    if "torch.distributed.launch" in items:
        rest = [item for item in items[items.index("torch.distributed.launch") + 1 :] if item not in ("--use_env", "--use-env")]
        return fixes.shell_join(["torchrun", *rest])
    return command


def independent_worlds(evidence: Evidence) -> dict[str, Judgement]:
    """A18: processes of one command, started together, each of which takes itself for the only one."""
    packs: dict[tuple[object, ...], list[tuple[RankGroup, Member, Process]]] = {}
    for group in evidence.groups:
        for member in (*group.members, *duplicate_ranks(group)):
            process = member.process
            if process is None or process.environment is None or not process.command:
                continue
            if process.started_at is None or (process.environment.world_size or 1) > 1 or _is_titled(process):
                continue
            launcher = process.launcher.pid if process.launcher is not None else process.ppid
            key = (process.uid, process.command, launcher, mask_of(process, group.virtual))
            packs.setdefault(key, []).append((group, member, process))
    judged: dict[str, Judgement] = {}
    packed = Counter(kind[:-1] for kind in packs)
    for kind, found in packs.items():
        starts = [process.started_at for _, _, process in found if process.started_at is not None]
        if len(found) > 1 and max(starts) - min(starts) <= A18_START_S:
            judged[f"pid:{min(process.pid for _, _, process in found)}"] = _worlds(evidence, found, packed[kind[:-1]] > 1)
    return judged


def _is_titled(process: Process) -> bool:
    """Return whether the command is a title that Ray gave the process, which hides its arguments."""
    return process.command is not None and process.command[0].startswith("ray::")


A18 = Rule(
    id="A18",
    order=604,
    family="launching",
    title="Processes that do not know of each other",
    severities=("warning",),
    confidences=("likely", "possible"),
    needs=("/proc/<pid>/cmdline", "WORLD_SIZE at launch", "thread names", "NVML"),
    window_s=A18_HOLD_S,
    every_s=EVERY_SNAPSHOT,
    threshold=(
        f"processes with the same command and parent that start within {A18_START_S:.0f} s, world size 1 and no "
        "collective threads: likely on one GPU or with equal configurations, otherwise possible"
    ),
    hides=("A01", "A02", "A07", "A16", "C03", "G03", "H03"),
    mechanism=(
        "Nothing told the processes their RANK and WORLD_SIZE, so each one trains a model of its own: the same "
        "training several times over."
    ),
    signature=(
        "Several processes have the same command and parent, start together, and have world size 1 and no collective threads."
    ),
    look_alike="A sweep that reads its settings elsewhere; several workers on each GPU by masks; Ray's actors.",
    fix="Start all ranks with one launcher: torchrun, or srun with MASTER_ADDR, RANK and WORLD_SIZE.",
    judge_machine=independent_worlds,
)


def _worlds(evidence: Evidence, found: Sequence[tuple[RankGroup, Member, Process]], packed: bool) -> Judgement:
    """Judge the processes of one command and one mask. ``packed``: there are more of them under other masks, on purpose."""
    if not all(evidence.trains(group) for group, _, _ in found) or any(
        _joined(evidence, group, member, process) for group, member, process in found
    ):
        return None
    crowds = Counter(member.main for _, member, _ in found if member.main is not None)
    group, _, process = found[0]
    number, crowd = len(found), max(crowds.values(), default=0)
    launcher = process.launcher.name if process.launcher is not None else None
    together = crowd == number and len(group.pool) > 1
    configs = [item.run.config if item.run is not None else None for item, _, _ in found]
    alike = configs[0] is not None and configs[0] and all(config == configs[0] for config in configs)
    # Without a launcher, processes on one GPU each are a sweep, in which every run has its share on purpose.
    if not together and launcher is None:
        return None
    devices = [device for device in group.pool if device.uuid in crowds]
    script = fixes.script_of(process.command)[0]
    facts = [
        Fact(f"{number} processes run {script} with the same arguments, started together", number, "/proc/<pid>/cmdline"),
        Fact("WORLD_SIZE is 1 or not set in each of them", 1, "/proc/<pid>/environ"),
        _alone(found),
        *([Fact(f"{launcher} started them", launcher, "parent processes")] if launcher is not None else []),
        *([Fact(f"they compute on {words.gpus(devices)}", [device.index for device in devices], "NVML")] if devices else []),
    ]
    finding = Finding(
        id="A18",
        severity="warning",
        confidence="likely" if (together and not packed) or alike else "possible",
        title=f"{number} processes of one script train {number} models: none knows of the others",
        evidence=tuple(facts),
        cause="Nothing told these processes their RANK and WORLD_SIZE, so that each is a world of its own: the same training "
        "several times over, and without a LOCAL_RANK all on the first GPU.",
        fix=_one_world(group, process, number),
        refuted_by="They are independent runs on purpose (a sweep that reads its settings elsewhere).",
        devices=tuple(device.uuid for device in devices),
        pids=tuple(process.pid for _, _, process in found),
    )
    return Suspicion(finding, A18_HOLD_S)


def _joined(evidence: Evidence, group: RankGroup, member: Member, process: Process) -> bool:
    """Return whether the process has joined others, or may have: even a group of one starts the threads of a group."""
    sizes = [item.size for item in evidence.communicators(group) if any(rank.pid == process.pid for rank in item.ranks)]
    size = model_facts.group_size(member.journal)
    if sizes or size is not None:
        return max([*sizes, size or 1]) > 1
    return "threads" in process.hidden or any(name.startswith(_GROUP_THREADS) for name, _ in process.threads)


def _alone(found: Sequence[tuple[RankGroup, Member, Process]]) -> Fact:
    if all(model_facts.group_size(member.journal) == 1 for _, member, _ in found):
        return Fact("each is a process group of its own: world size 1", 1, "torch.distributed (journal)")
    return Fact("none has met another by NCCL or gloo", None, "threads (/proc/<pid>/task), NCCL")


def _one_world(group: RankGroup, process: Process, number: int) -> str:
    script = fixes.shell_join(fixes.script_of(process.command))
    torchrun = f"torchrun --standalone --nproc-per-node={number} {script}"
    if process.launcher is not None and process.launcher.name == "srun":
        return f"srun --ntasks-per-node=1 torchrun --nproc-per-node={number} {script}\n# on one machine:\n{torchrun}"
    return torchrun


def data_parallel_in_ddp(evidence: Evidence, group: RankGroup) -> Judgement:
    """A19: several ranks, each working on several GPUs."""
    ranks = [member for member in group.members if member.rank is not None]
    if len(ranks) < 2:
        return None
    wrapped = [(m, fact) for m in ranks if (fact := stated.data_parallel(m.journal)) is not None and fact.devices > 1]
    if wrapped:
        number = wrapped[0][1].devices
        evidence_fact = Fact(f"each rank runs nn.DataParallel on {words.count(number, 'device')}", number, "journal")
        return Suspicion(_doubled(group, [member for member, _ in wrapped], [evidence_fact], "certain"))
    heavy = [{use.device_uuid for use in m.uses if (use.memory_used_bytes or 0) > GHOST_BYTES_MAX} for m in ranks]
    shared = {uuid for uuid, times in Counter(uuid for uuids in heavy for uuid in uuids).items() if times > 1}
    doubled = [m for m, uuids in zip(ranks, heavy, strict=True) if len(uuids) > 1 and len(uuids & shared) > 1]
    if len(doubled) < 2:
        unknown = [m for m in ranks if len(m.uses) > 1 and all(use.memory_used_bytes is None for use in m.uses)]
        if len(unknown) > 1:
            why = "Ranks have contexts on several GPUs, but memory per process is N/A."
            return Abstained("A19", why, f"gputop run -- {fixes.own_command(group)}", group.run_id)
        return None
    sizes = [use.memory_used_bytes for use in doubled[0].uses if (use.memory_used_bytes or 0) > GHOST_BYTES_MAX]
    text = f"process {doubled[0].pid} holds {' / '.join(bytes_text(size) for size in sizes)} on {len(sizes)} GPUs"
    return Suspicion(_doubled(group, doubled, [Fact(text, sizes, "NVML")], "likely"), A19_HOLD_S)


A19 = Rule(
    id="A19",
    order=600,
    family="placement",
    title="DataParallel inside DDP",
    severities=("error",),
    confidences=("certain", "likely"),
    needs=("journal: DataParallel", "NVML memory per process"),
    window_s=A19_HOLD_S,
    threshold=(
        "ranks with nn.DataParallel on several devices (certain), or two ranks with over 1.5 GB each on the same "
        f"two GPUs for {A19_HOLD_S:.0f} s (likely)"
    ),
    hides=("A07", "B07", "B08", "C03", "H01", "H02", "H03"),
    mechanism=(
        "The script keeps nn.DataParallel, or moves its model to every GPU, although a launcher now starts one "
        "rank for each GPU. Every rank copies the weights to all GPUs."
    ),
    signature="Each GPU lists all ranks with large amounts of memory.",
    look_alike="H01 (contexts below 1.5 GB on one GPU); ranks that split their model over GPUs of their own.",
    fix="Remove nn.DataParallel and use DDP(model.to(local_rank), device_ids=[local_rank]).",
    judge=data_parallel_in_ddp,
)


def _doubled(group: RankGroup, ranks: Sequence[Member], facts: list[Fact], confidence: Confidence) -> Finding:
    contexts = sum(len(member.uses) for member in ranks)
    devices = [device for device in group.pool if device.uuid in {use.device_uuid for m in ranks for use in m.uses}]
    if contexts:
        text = f"{contexts} contexts of {len(ranks)} ranks on {words.count(len(devices), 'GPU')}"
        facts = [*facts, Fact(text, contexts, "NVML")]
    numbers = [member.rank for member in ranks if member.rank is not None]
    return Finding(
        id="A19",
        severity="error",
        confidence=confidence,
        title=f"{words.count(len(numbers), 'rank')}, and each works on all GPUs: DataParallel within DDP",
        evidence=tuple(facts),
        cause="The script keeps nn.DataParallel (or moves its model to every GPU) although a launcher now starts a rank for "
        "each GPU: every rank copies the weights to all GPUs, and they stand in each other's way.",
        fix=_ONE_WRAPPER,
        refuted_by="Each rank splits its model over GPUs of its own, which no other rank uses.",
        devices=tuple(device.uuid for device in devices) or tuple(sorted(group.used)),
        pids=tuple(member.pid for member in ranks if member.pid is not None),
        run=group.run_id,
    )
