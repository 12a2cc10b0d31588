"""Ranks and tensors on the wrong device: RANK used as a device (A08), a model or batch that was not moved (A13), DataParallel
in DDP (A19)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.facts import model as model_facts
from gputop.doctor.facts import stated
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Abstained, Confidence, Fact, Finding
from gputop.doctor.rules.machine.memory import GHOST_BYTES_MAX
from gputop.doctor.rules.support.outputs import Output, outputs_of, quoted
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, Judgement, Rule, Suspicion
from gputop.snapshot import LogMatch
from gputop.units import bytes_text

A19_HOLD_S = 20.0
"""docs/rules.md#a19."""
_TENSOR_DEVICES = re.compile(r"\b(cuda:\d+|cpu)\b")

_LOCAL_RANK = """\
local_rank = int(os.environ["LOCAL_RANK"])  # 0, 1, … on each machine; RANK counts across all machines
torch.cuda.set_device(local_rank)
model = DDP(model.to(local_rank), device_ids=[local_rank])"""
_MOVE = """\
model.to(device)                          # in place: a module keeps its parameters
x = x.to(device, non_blocking=True)       # not in place: assign the result
y = y.to(device, non_blocking=True)
# tensors that belong to the model: self.register_buffer("name", tensor) moves with it"""
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
        # torchrun's own prefix shows the local rank, which is not the number of any global rank here.
        failed = match.rank if match.rank in apart else None if match.rank in here else next(iter(apart), None)
        if failed is None:
            continue
        finding = Finding(
            id="A08",
            severity="error",
            confidence="certain",
            title=f"Rank {failed} used GPU {failed} on a machine with {words.count(number, 'GPU')}: RANK is not LOCAL_RANK",
            evidence=(
                quoted(match),
                Fact(f"rank {failed} is local rank {apart[failed]} on this machine", apart[failed], "LOCAL_RANK"),
                Fact(f"the machine has {words.count(number, 'GPU')}", number, "NVML"),
            ),
            cause="The script chooses its GPU by RANK, which counts across all machines. This works on the first machine, "
            "but on the second the number exceeds the number of GPUs.",
            fix=_LOCAL_RANK,
            refuted_by="The ordinal comes from an argument, or a mask names too few GPUs.",
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
    threshold=(
        "the text invalid_ordinal from a rank whose RANK is not the number of a GPU that it sees, but whose LOCAL_RANK is"
    ),
    hides=("A03", "G01", "G03", "G04"),
    mechanism=(
        "RANK counts across all machines, LOCAL_RANK on each machine. A script that chooses its GPU by RANK works on the "
        "first machine and fails on the second."
    ),
    signature='"invalid device ordinal" in a rank whose RANK is no GPU number on the machine, but whose LOCAL_RANK is.',
    look_alike="A mask that is too short, or an argument that names a missing GPU (A03).",
    fix='Use int(os.environ["LOCAL_RANK"]) for the device.',
    judge_machine=global_rank_as_device,
)


def _only_local_rank_fits(output: Output, rank: int, local: int, number: int) -> bool:
    """Return whether only the local rank is a valid device, not the global rank; if neither is, the mask is too short."""
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
    """A13: one operation has tensors on two devices, or the model stays on the CPU although the process opened a GPU."""
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
    look_alike=("A failing replica of nn.DataParallel (B10); parameters offloaded on purpose (DeepSpeed, FSDP)."),
    fix="Write x = x.to(device) and model.to(device), and register the model's tensors as buffers.",
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
        title=f"One operation got tensors on {between}",
        evidence=(quoted(match), *where),
        cause="A tensor (or part of the model) stayed where it was created. Tensor.to returns a copy and changes nothing "
        "in place, and a tensor in a plain attribute or list does not move with its module.",
        fix=_MOVE,
        refuted_by="The operation runs in a replica of nn.DataParallel. Then the replica's first error counts.",
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
            Fact("the model's parameters are on cpu, and steps advance", "cpu", "journal"),
            Fact(
                f"process {member.pid} holds {bytes_text(held)} on {words.gpus(devices) if devices else 'a GPU'}", held, "NVML"
            ),
        ),
        cause="Something opened the GPU (a tensor that was moved, a torch.cuda call), but the model was never moved there.",
        fix=_MOVE,
        refuted_by="The parameters are offloaded to the CPU on purpose.",
        devices=tuple(device.uuid for device in devices),
        pids=(member.pid,) if member.pid is not None else (),
        run=group.run_id,
    )


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
        "The script keeps nn.DataParallel, or moves its model to every GPU, although a launcher now starts one rank per "
        "GPU. Every rank copies the weights to all GPUs."
    ),
    signature="On each GPU, all ranks hold large amounts of memory.",
    look_alike="H01 (contexts below 1.5 GB on one GPU); ranks that split their model over GPUs that no other rank uses.",
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
        title=f"{words.count(len(numbers), 'rank')}, and each one uses all GPUs: DataParallel inside DDP",
        evidence=tuple(facts),
        cause="The script keeps nn.DataParallel (or moves its model to every GPU) although a launcher now starts one rank "
        "per GPU: every rank copies the weights to all GPUs, and the ranks slow each other down.",
        fix=_ONE_WRAPPER,
        refuted_by="Each rank splits its model over GPUs that no other rank uses.",
        devices=tuple(device.uuid for device in devices) or tuple(sorted(group.used)),
        pids=tuple(member.pid for member in ranks if member.pid is not None),
        run=group.run_id,
    )
