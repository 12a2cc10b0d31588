"""A CUDA_VISIBLE_DEVICES that does not name the intended GPUs: malformed (A05), or in a different order (A06)."""

from __future__ import annotations

import re

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.evidence.visible import devices_behind, mask_of, parse_mask, same_uuid
from gputop.doctor.facts import model as model_facts
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Abstained, Fact, Finding
from gputop.doctor.rules.support.rule import Judgement, Rule, Suspicion
from gputop.snapshot import Device, Process

_HIDDEN_ON_PURPOSE = ("", "-1", "none", "None", "NoDevFiles", "void")
"""Common ways to hide every GPU."""
_SEPARATORS = re.compile(r"[,;\s]+")


def unmasked_command(command: str) -> str:
    """Return the command without the mask set in front of it."""
    return re.sub(r"^(env )?((CUDA_VISIBLE_DEVICES|GPUTOP_VIRTUAL_DEVICES)=\S+ )", "", command)


def mask_malformed(evidence: Evidence, group: RankGroup) -> Judgement:
    """A05: CUDA uses fewer devices than the mask lists."""
    if not group.pool:
        return None
    machine: tuple[Device, ...] | None = None
    for process in group.processes:
        mask = mask_of(process, group.virtual)
        if mask is None or mask.strip() in _HIDDEN_ON_PURPOSE or not _computes(process):
            continue
        written = [entry for entry in _SEPARATORS.split(mask) if entry]
        taken = parse_mask(mask)
        fits = len(taken)
        if taken and not taken[0].startswith("MIG-") and process.container is None:
            machine = _machine(evidence, group) if machine is None else machine
            fits = len(devices_behind(mask, machine))
        if fits >= len(written):
            continue
        return Suspicion(_malformed(group, process, mask, written, taken, fits))
    return None


A05 = Rule(
    id="A05",
    order=200,
    family="visibility",
    title="CUDA_VISIBLE_DEVICES is malformed",
    severities=("error", "warning"),
    confidences=("certain",),
    needs=("CUDA_VISIBLE_DEVICES at launch",),
    threshold=("CUDA uses fewer entries of the mask than it has; masks that hide every GPU on purpose do not count"),
    hides=("A01", "A02", "A03", "A04", "A07", "A12"),
    mechanism=(
        "CUDA reads the list up to the first entry that it cannot use, and a repeated entry empties the whole list. `0,0` "
        "and `all` leave no GPU, `0,a,1` and `0 1` leave one."
    ),
    signature=("CUDA uses fewer entries than the mask lists; a script with a fallback then trains on the CPU."),
    look_alike="An empty mask or -1, the usual ways to hide every GPU on purpose.",
    fix="Write the numbers or UUIDs of existing GPUs, each once, separated by commas.",
    judge=mask_malformed,
)


def _machine(evidence: Evidence, group: RankGroup) -> tuple[Device, ...]:
    """Return every GPU that the mask may have named at launch, including those lost since."""
    if evidence.snapshot is None or group.virtual:
        return group.pool
    listed = [device for device in evidence.snapshot.devices if device.kind == "gpu"]
    known = {device.uuid for device in group.pool}
    return (*group.pool, *(device for device in (*listed, *evidence.history.missing()) if device.uuid not in known))


def _computes(process: Process) -> bool:
    return bool(process.torch_mapped or process.nvidia_open or process.devices or process.run_id)


def _malformed(group: RankGroup, process: Process, mask: str, written: list[str], taken: tuple[str, ...], fits: int) -> Finding:
    left = f"leaves {words.count(fits, 'GPU')}" if fits else "leaves no GPU"
    known = [entry for entry in dict.fromkeys(written) if len(devices_behind(entry, group.pool)) == 1]
    right = ",".join(known) or ",".join(str(device.index) for device in group.pool)
    if len(set(written)) < len(written):
        why = "a repeated entry empties the whole list"
    elif len(taken) > fits:
        why = f"the list ends at the first entry that names no GPU on the machine ({taken[fits]})"
    elif any(sign in mask.strip() for sign in "; "):
        why = "entries must be separated by commas, and CUDA drops anything after the digits of an entry"
    else:
        why = "the list ends at the first entry that is negative or cannot be read"
    name = "GPUTOP_VIRTUAL_DEVICES" if group.virtual else "CUDA_VISIBLE_DEVICES"
    return Finding(
        id="A05",
        severity="error" if not fits else "warning",
        confidence="certain",
        title=f"{name}={mask} {left}",
        evidence=(
            Fact(f"{name}={mask!r} at launch", mask, f"/proc/{process.pid}/environ"),
            Fact(f"CUDA uses {fits} of the {len(written)} entries", fits, "CUDA's rules for the list"),
            Fact(
                f"the machine has {words.count(len(group.pool), 'GPU')}",
                len(group.pool),
                "virtual GPU readings" if group.virtual else "NVML",
            ),
        ),
        cause=f"CUDA reads this list by its own rules: {why}."
        + ("" if fits else " torch then finds no GPU, and a script with a fallback trains on the CPU."),
        fix=f"{name}={right} {unmasked_command(fixes.own_command(group))}",
        refuted_by="The script sets the variable again before it imports torch.",
        devices=tuple(device.uuid for device in group.pool),
        pids=(process.pid,),
        run=group.run_id,
    )


def device_order(evidence: Evidence, group: RankGroup) -> Judgement:
    """A06: with unequal cards, CUDA and nvidia-smi number devices differently, and the run uses nvidia-smi's numbers."""
    if group.virtual or len({device.name for device in group.pool}) < 2:
        return None
    for member in group.members:
        process, fact = member.process, model_facts.visibility(member.journal)
        environment = process.environment if process is not None else None
        order = fact.order if fact is not None else environment.cuda_device_order if environment is not None else None
        mask = fact.now if fact is not None else environment.cuda_visible_devices if environment is not None else None
        if order == "PCI_BUS_ID" or (process is not None and process.container is not None):
            continue
        if mask is None or not all(entry.isdigit() for entry in parse_mask(mask)):
            continue
        meant = devices_behind(mask, group.pool)
        got = _shown(group, fact.uuids) if fact is not None and fact.uuids is not None else ()
        if not got and process is not None and process.environment is not None:
            got = tuple(device for device in group.pool if device.uuid in {use.device_uuid for use in member.uses})
            if not got and group.run is None and process.torch_mapped:
                why = "The cards are unequal, and CUDA numbers them by speed; which card this mask names is not known yet."
                return Abstained("A06", why, "a context on a GPU, or import gputop in the script", group.run_id)
        outside = [device for device in got if device not in meant]
        if not meant or not outside:
            continue
        return Suspicion(_other_order(group, mask, meant, tuple(got), member.pid))
    return None


A06 = Rule(
    id="A06",
    order=201,
    family="visibility",
    title="CUDA's device order differs from nvidia-smi's",
    severities=("warning",),
    confidences=("certain",),
    needs=("CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER", "NVML contexts or the journal's UUIDs"),
    threshold="unequal cards, no PCI_BUS_ID, and a context on a GPU that the mask's numbers do not name in nvidia-smi",
    hides=("A03",),
    mechanism=("CUDA numbers unequal cards by speed, fastest first. NVML, nvidia-smi and gputop number them by PCI bus."),
    signature=(
        "On a machine with different cards, a process is on a different GPU than the one that nvidia-smi shows under the "
        "mask's number."
    ),
    look_alike="Equal cards, for which both orders agree; numbers that are intended in CUDA's order.",
    fix="Set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name the GPUs by UUID.",
    judge=device_order,
)


def _shown(group: RankGroup, uuids: tuple[str, ...]) -> tuple[Device, ...]:
    found = (next((device for device in group.pool if same_uuid(device.uuid, uuid)), None) for uuid in uuids)
    return tuple(device for device in found if device is not None)


def _other_order(group: RankGroup, mask: str, meant: tuple[Device, ...], got: tuple[Device, ...], pid: int | None) -> Finding:
    uuids = ",".join(device.uuid for device in meant)
    command = unmasked_command(fixes.own_command(group))
    return Finding(
        id="A06",
        severity="warning",
        confidence="certain",
        title=f"CUDA_VISIBLE_DEVICES={mask} names {words.gpus(got)}, not {words.gpus(meant)}",
        evidence=(
            Fact(f"CUDA_VISIBLE_DEVICES={mask}, CUDA_DEVICE_ORDER is not PCI_BUS_ID", mask, "/proc/<pid>/environ"),
            Fact(f"the process is on {', '.join(map(_named, got))}", [device.uuid for device in got], "NVML, torch"),
            Fact(f"nvidia-smi's {mask} is {', '.join(map(_named, meant))}", [device.uuid for device in meant], "NVML"),
        ),
        cause="CUDA numbers unequal cards by speed, fastest first; nvidia-smi and gputop number them by PCI bus.",
        fix=f"CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={fixes.shell_word(mask)} {command}\n"
        f"# or by UUID, which never changes:\nCUDA_VISIBLE_DEVICES={fixes.shell_word(uuids)} {command}",
        refuted_by="The numbers are intended in CUDA's order.",
        devices=tuple(dict.fromkeys(device.uuid for device in (*got, *meant))),
        pids=(pid,) if pid is not None else (),
        run=group.run_id,
    )


def _named(device: Device) -> str:
    return f"GPU {device.index} ({device.name or 'N/A'})"
