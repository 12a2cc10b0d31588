"""MIG: a process sees one instance of a divided GPU, whatever the run asks for (A14)."""

from __future__ import annotations

from collections import Counter

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts import stated
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.launching.placement import alone_in_data_parallel, extra_devices_wanted
from gputop.doctor.rules.support.rule import Judgement, Rule, Suspicion


def mig_slice(evidence: Evidence, group: RankGroup) -> Judgement:
    """A14: the run asks for several devices, but each of its processes sees only one MIG instance."""
    listed = evidence.snapshot.devices if evidence.snapshot is not None else ()
    parents = {device.uuid for device in listed if device.mig_enabled}
    instances = {device.uuid: device for device in listed if device.kind == "mig"}
    if group.virtual or not parents:
        return None
    ranks = [member for member in group.members if member.rank is not None]
    located = [member for member in group.members if member.main in instances]
    if not located and not all(device.uuid in parents for device in group.pool):
        return None
    if len(ranks) >= 2:
        crowds = Counter(member.main for member in ranks if member.main in instances)
        crowd = max(crowds.values(), default=0)
        started = group.local_world_size or len(ranks)
        if crowd < 2 and started <= len(instances):
            return None
        detail = Fact(f"{crowd or started} ranks share one instance", crowd or started, "NVML")
        title = f"{started} ranks on MIG: a process sees one of {len(instances)} instances"
    else:
        count = stated.device_count(group.members[0].journal)
        wish = (extra_devices_wanted(group, 1) or alone_in_data_parallel(group)) if count in (None, 1) else None
        if wish is None:
            return None
        detail, title = wish, f"MIG shows this process 1 of {len(instances)} instances"
    indices = sorted(device.index for device in listed if device.uuid in parents)
    finding = Finding(
        id="A14",
        severity="error" if len(ranks) >= 2 else "warning",
        confidence="certain",
        title=title,
        evidence=(
            Fact(
                f"MIG is on: GPU {units.ranges(indices)} is divided into {words.count(len(instances), 'instance')}",
                len(instances),
                "NVML",
            ),
            detail,
        ),
        cause="A CUDA process sees a single MIG instance, whatever its mask names. Instances have neither NVLink nor peer "
        "access, so one training cannot be spread over them.",
        fix=_mig_fix(group, indices, list(instances)),
        refuted_by="The processes are independent, one per instance.",
        devices=tuple(sorted(parents)),
        pids=group.pids,
        run=group.run_id,
    )
    return Suspicion(finding, 3.0)


A14 = Rule(
    id="A14",
    order=300,
    family="visibility",
    title="A process sees only one MIG instance",
    severities=("error", "warning"),
    confidences=("certain",),
    needs=("NVML: MIG mode and instances", "LOCAL_WORLD_SIZE"),
    window_s=3.0,
    threshold="MIG is on, and ranks share an instance or outnumber the instances, or one process asks for several",
    hides=("A01", "A02", "A03", "A07"),
    mechanism=(
        "A CUDA process sees a single MIG instance, whatever its mask names. Instances have neither NVLink nor "
        "peer access, so one training cannot be spread over them."
    ),
    signature="MIG is on, and ranks share an instance, outnumber the instances, or one process asks for several.",
    look_alike="Independent processes, one per instance.",
    fix="Run one independent process per MIG instance, or turn MIG off once no job uses it.",
    judge=mig_slice,
)


def _mig_fix(group: RankGroup, indices: list[int], instances: list[str]) -> str:
    process = group.main_process
    script = fixes.shell_join(fixes.script_of(process.command if process is not None else None))
    lines = [f"CUDA_VISIBLE_DEVICES={fixes.shell_word(uuid)} python {script} &" for uuid in instances[:2]]
    off = "\n".join(f"sudo nvidia-smi -i {index} -mig 0" for index in indices)
    return "\n".join(
        ["# one independent process per instance:", *lines, "# or turn MIG off, once no job uses these GPUs:", off]
    )
