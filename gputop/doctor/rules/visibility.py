"""Visibility: a mask that came too late (A04), one that CUDA reads otherwise than written (A05), another order than
nvidia-smi's (A06), a process that sees one MIG instance (A14), and a compute mode that lets one process in (A15)."""

from __future__ import annotations

import re
from collections import Counter

from gputop.doctor import fixes, stated, stated_model, words
from gputop.doctor.evidence import Evidence
from gputop.doctor.finding import Abstained, Fact, Finding
from gputop.doctor.jobs import Job
from gputop.doctor.rules.outputs import command_of, quoted, told
from gputop.doctor.rules.placement import wish_for_more
from gputop.doctor.rules.rule import Judgement, MachineRule, Rule, Suspicion
from gputop.doctor.visible import devices_behind, mask_of, parse_mask, same_uuid
from gputop.snapshot import Device, Process

_HIDDEN_ON_PURPOSE = ("", "-1", "none", "None", "NoDevFiles", "void")
"""Usual ways of hiding every GPU."""
_SEPARATORS = re.compile(r"[,;\s]+")
_EXCLUSIVE = ("exclusive_process", "exclusive_thread", "prohibited")

_MASK_FIRST = """\
import os
os.environ["CUDA_VISIBLE_DEVICES"] = "{mask}"  # the first lines of the script, before import torch
import torch

# or, better, at launch:
CUDA_VISIBLE_DEVICES={mask} {command}"""
_SET_DEVICE = """\
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)  # before any other CUDA call, so that no rank opens another rank's GPU

# or let several processes share a GPU:
sudo nvidia-smi -c DEFAULT"""


def mask_set_late(evidence: Evidence, job: Job) -> Judgement:
    """A04: os.environ holds another mask than at launch, and CUDA shows other devices than this mask names."""
    if job.virtual or not job.pool:
        return None
    for member in job.members:
        fact = stated_model.visibility(member.journal)
        if fact is None or fact.now is None or fact.now == fact.launch:
            continue
        difference = _difference(job, member.process, fact, stated.device_count(member.journal))
        if difference is None:
            continue
        shown, certain = difference
        finding = Finding(
            id="A04",
            severity="warning",
            confidence="certain" if certain else "likely",
            title=f"CUDA_VISIBLE_DEVICES={fact.now} was set too late: it has no effect",
            evidence=(
                Fact(f"at launch: {_mask_text(fact.launch)}", fact.launch, "journal"),
                Fact(f"os.environ now: CUDA_VISIBLE_DEVICES={fact.now}", fact.now, "journal"),
                shown,
            ),
            cause="CUDA reads CUDA_VISIBLE_DEVICES once, when it is initialized (torch.cuda.is_available() is enough for "
            "that). The script assigned it after that.",
            fix=_MASK_FIRST.format(mask=fact.now, command=_unmasked_command(job)),
            refuted_by="The variable was changed for a child process only.",
            devices=tuple(sorted(job.used)),
            pids=(member.pid,) if member.pid is not None else (),
            run=job.run_id,
        )
        return Suspicion(finding)
    return None


def _difference(
    job: Job, process: Process | None, fact: stated_model.Visibility, count: int | None
) -> tuple[Fact, bool] | None:
    """Return what CUDA shows where that is not what the mask says, and whether it is known by UUID."""
    entries = parse_mask(fact.now or "")
    if any(entry.startswith("MIG-") for entry in entries):
        return None
    if fact.uuids is None:
        if count is None or count == len(entries):
            return None
        return Fact(f"torch sees {words.count(count, 'GPU')}, the mask names {len(entries)}", count, "torch (journal)"), False
    shown = [next((d for d in job.pool if same_uuid(d.uuid, uuid)), None) for uuid in fact.uuids]
    names = [device for device in shown if device is not None]
    text = f"CUDA shows {words.gpus(names)}" if len(names) == len(shown) else f"CUDA shows {words.count(len(shown), 'GPU')}"
    told_fact = Fact(text, list(fact.uuids), "torch (journal)")
    # In a container, and on unequal cards, an ordinal may rightly name another card than NVML's.
    unequal = len({device.name for device in job.pool}) > 1 and fact.order != "PCI_BUS_ID"
    contained = process is None or process.container is not None
    if (unequal or contained) and not (entries and entries[0].startswith("GPU-")):
        return (told_fact, True) if len(shown) != len(entries) else None
    wanted = devices_behind(fact.now, job.pool)
    if job.used and job.used <= {device.uuid for device in wanted}:
        return None  # it had no effect, and none was needed (Ultralytics sets it late and chooses the device as well)
    if len(shown) == len(entries) and (len(wanted) != len(entries) or [d.uuid for d in wanted] == [d.uuid for d in names]):
        return None
    return told_fact, True


def _mask_text(mask: str | None) -> str:
    return "CUDA_VISIBLE_DEVICES was not set" if mask is None else f"CUDA_VISIBLE_DEVICES={mask}"


def _unmasked_command(job: Job) -> str:
    return re.sub(r"^(env )?((CUDA_VISIBLE_DEVICES|GPUTOP_VIRTUAL_DEVICES)=\S+ )", "", fixes.own_command(job))


def mask_malformed(evidence: Evidence, job: Job) -> Judgement:
    """A05: CUDA takes fewer devices from the mask than are written in it."""
    if not job.pool:
        return None
    machine = _machine(evidence, job)
    for process in job.processes:
        mask = mask_of(process, job.virtual)
        if mask is None or mask.strip() in _HIDDEN_ON_PURPOSE or not _computes(process):
            continue
        written = [entry for entry in _SEPARATORS.split(mask) if entry]
        taken = parse_mask(mask)
        fits = len(taken)
        if taken and not taken[0].startswith("MIG-") and process.container is None:
            fits = len(devices_behind(mask, machine))
        if fits >= len(written):
            continue
        return Suspicion(_malformed(job, process, mask, written, taken, fits))
    return None


def _machine(evidence: Evidence, job: Job) -> tuple[Device, ...]:
    """Return every GPU that the mask may have named at launch, also those that were lost since."""
    if evidence.snapshot is None or job.virtual:
        return job.pool
    listed = [device for device in evidence.snapshot.devices if device.kind == "gpu"]
    return (*job.pool, *(device for device in (*listed, *evidence.history.missing()) if device not in job.pool))


def _computes(process: Process) -> bool:
    return bool(process.torch_mapped or process.nvidia_open or process.devices or process.run_id)


def _malformed(job: Job, process: Process, mask: str, written: list[str], taken: tuple[str, ...], fits: int) -> Finding:
    left = f"leaves {words.count(fits, 'GPU')}" if fits else "leaves no GPU"
    known = [entry for entry in dict.fromkeys(written) if len(devices_behind(entry, job.pool)) == 1]
    right = ",".join(known) or ",".join(str(device.index) for device in job.pool)
    if len(set(written)) < len(written):
        why = "an entry that is repeated empties the whole list"
    elif len(taken) > fits:
        why = f"the list ends at the first entry that names no GPU of the machine ({taken[fits]})"
    elif any(sign in mask.strip() for sign in "; "):
        why = "entries are separated by commas, and what follows the digits of an entry is dropped"
    else:
        why = "the list ends at the first entry that is negative or cannot be read"
    name = "GPUTOP_VIRTUAL_DEVICES" if job.virtual else "CUDA_VISIBLE_DEVICES"
    return Finding(
        id="A05",
        severity="error" if not fits else "warning",
        confidence="certain",
        title=f"{name}={mask} {left}",
        evidence=(
            Fact(f"{name}={mask!r} at launch", mask, f"/proc/{process.pid}/environ"),
            Fact(f"CUDA takes {fits} of the {len(written)} that are written", fits, "CUDA's reading of the list"),
            Fact(
                f"the machine has {words.count(len(job.pool), 'GPU')}",
                len(job.pool),
                "virtual GPU readings" if job.virtual else "NVML",
            ),
        ),
        cause=f"CUDA reads this list in its own way: {why}."
        + ("" if fits else " torch then finds no GPU, and a script with a fallback trains on the CPU."),
        fix=f"{name}={right} {_unmasked_command(job)}",
        refuted_by="The script sets the variable again before it imports torch.",
        devices=tuple(device.uuid for device in job.pool),
        pids=(process.pid,),
        run=job.run_id,
    )


def device_order(evidence: Evidence, job: Job) -> Judgement:
    """A06: on unequal cards, CUDA numbers the devices otherwise than nvidia-smi, and the run means nvidia-smi's numbers."""
    if job.virtual or len({device.name for device in job.pool}) < 2:
        return None
    for member in job.members:
        process, fact = member.process, stated_model.visibility(member.journal)
        environment = process.environment if process is not None else None
        order = fact.order if fact is not None else environment.cuda_device_order if environment is not None else None
        mask = fact.now if fact is not None else environment.cuda_visible_devices if environment is not None else None
        if order == "PCI_BUS_ID" or (process is not None and process.container is not None):
            continue
        if mask is None or not all(entry.isdigit() for entry in parse_mask(mask)):
            continue
        meant = devices_behind(mask, job.pool)
        got = _shown(job, fact.uuids) if fact is not None and fact.uuids is not None else ()
        if not got and process is not None and process.environment is not None:
            got = tuple(device for device in job.pool if device.uuid in {use.device_uuid for use in member.uses})
            if not got and job.run is None and process.torch_mapped:
                why = "The cards are unequal, and CUDA numbers them by speed; which one this mask names is not known yet."
                return Abstained("A06", why, "a context on a GPU, or import gputop in the script", job.run_id)
        outside = [device for device in got if device not in meant]
        if not meant or not outside:
            continue
        return Suspicion(_other_order(job, mask, meant, tuple(got), member.pid))
    return None


def _shown(job: Job, uuids: tuple[str, ...]) -> tuple[Device, ...]:
    found = (next((device for device in job.pool if same_uuid(device.uuid, uuid)), None) for uuid in uuids)
    return tuple(device for device in found if device is not None)


def _other_order(job: Job, mask: str, meant: tuple[Device, ...], got: tuple[Device, ...], pid: int | None) -> Finding:
    uuids = ",".join(device.uuid for device in meant)
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
        cause="CUDA numbers unequal cards by speed, fastest first; nvidia-smi and gputop number them by their slot.",
        fix=f"CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={mask} {_unmasked_command(job)}\n"
        f"# or by UUID, which never changes:\nCUDA_VISIBLE_DEVICES={uuids} {_unmasked_command(job)}",
        refuted_by="The numbers were meant in CUDA's order.",
        devices=tuple(dict.fromkeys(device.uuid for device in (*got, *meant))),
        pids=(pid,) if pid is not None else (),
        run=job.run_id,
    )


def _named(device: Device) -> str:
    return f"GPU {device.index} ({device.name or 'N/A'})"


def mig_slice(evidence: Evidence, job: Job) -> Judgement:
    """A14: the run wants several devices where each of its processes sees one MIG instance."""
    listed = evidence.snapshot.devices if evidence.snapshot is not None else ()
    parents = {device.uuid for device in listed if device.mig_enabled}
    instances = {device.uuid: device for device in listed if device.kind == "mig"}
    if job.virtual or not parents:
        return None
    ranks = [member for member in job.members if member.rank is not None]
    located = [member for member in job.members if member.main in instances]
    if not located and not all(device.uuid in parents for device in job.pool):
        return None
    if len(ranks) >= 2:
        crowds = Counter(member.main for member in ranks if member.main in instances)
        crowd = max(crowds.values(), default=0)
        started = job.local_world_size or len(ranks)
        if crowd < 2 and started <= len(instances):
            return None
        detail = Fact(f"{crowd or started} ranks share one instance", crowd or started, "NVML")
        title = f"{started} ranks on MIG: a process sees one instance of {len(instances)}"
    else:
        count = stated.device_count(job.members[0].journal)
        wish = wish_for_more(job, 1) if count in (None, 1) else None
        if wish is None:
            return None
        detail, title = wish, f"MIG leaves this process 1 instance of {len(instances)}"
    indices = sorted(device.index for device in listed if device.uuid in parents)
    finding = Finding(
        id="A14",
        severity="error" if len(ranks) >= 2 else "warning",
        confidence="certain",
        title=title,
        evidence=(
            Fact(f"MIG is on: GPU {words.span(indices)} in {words.count(len(instances), 'instance')}", len(instances), "NVML"),
            detail,
        ),
        cause="A CUDA process enumerates a single MIG instance, whatever its mask names; instances have neither NVLink nor "
        "peer access between them, so that one training cannot be spread over them.",
        fix=_mig_fix(job, indices, list(instances)),
        refuted_by="The processes are independent of each other, one for each instance.",
        devices=tuple(sorted(parents)),
        pids=job.pids,
        run=job.run_id,
    )
    return Suspicion(finding, 3.0)


def _mig_fix(job: Job, indices: list[int], instances: list[str]) -> str:
    process = job.main_process
    script = " ".join(fixes.script_of(process.command if process is not None else None))
    lines = [f"CUDA_VISIBLE_DEVICES={uuid} python {script} &" for uuid in instances[:2]]
    off = "\n".join(f"sudo nvidia-smi -i {index} -mig 0" for index in indices)
    return "\n".join(
        ["# one independent process for each instance:", *lines, "# or whole GPUs again, once no job uses them:", off]
    )


def exclusive_mode(evidence: Evidence) -> dict[str, Judgement]:
    """A15: a run failed with "busy or unavailable" where a GPU is in an exclusive compute mode."""
    listed = evidence.snapshot.devices if evidence.snapshot is not None else ()
    exclusive = [device for device in listed if device.compute_mode in _EXCLUSIVE]
    judged: dict[str, Judgement] = {}
    for said in told(evidence):
        match = said.first("devices_busy")
        if match is None or not exclusive or said.goes_on:
            continue
        finding = Finding(
            id="A15",
            severity="error",
            confidence="certain",
            title=f"{words.gpus(exclusive)} {'lets' if len(exclusive) == 1 else 'let'} in one process: a rank found it busy",
            evidence=(
                Fact(
                    f"compute mode of {words.gpus(exclusive)}: {exclusive[0].compute_mode}", exclusive[0].compute_mode, "NVML"
                ),
                quoted(match),
            ),
            cause="In this compute mode a GPU takes one process (none, if prohibited). A rank that opens a context on a GPU "
            "of another rank, because it has not chosen its own yet, takes the other's place.",
            fix=_SET_DEVICE + f"\n{command_of(said)}",
            refuted_by="Another user's process held the GPU.",
            devices=tuple(device.uuid for device in exclusive),
            pids=said.pids,
            run=said.run_id,
        )
        judged[said.subject] = Suspicion(finding)
    return judged


RULES = (
    Rule(
        "A05",
        "visibility",
        ("CUDA_VISIBLE_DEVICES at launch",),
        0.0,
        "CUDA takes fewer entries from the mask than are written in it; not of masks that hide all on purpose (catalogue A05)",
        mask_malformed,
    ),
    Rule(
        "A04",
        "visibility",
        ("journal: mask at launch and now, UUIDs that CUDA shows",),
        0.0,
        "the mask now differs from launch, and from the UUIDs that CUDA shows (certain) or their number (catalogue A04)",
        mask_set_late,
    ),
    Rule(
        "A06",
        "visibility",
        ("CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER", "NVML contexts or the journal's UUIDs"),
        0.0,
        "unequal cards, no PCI_BUS_ID, and a context on a GPU that the mask's numbers do not name (catalogue A06)",
        device_order,
    ),
    Rule(
        "A14",
        "visibility",
        ("NVML: MIG mode and instances", "LOCAL_WORLD_SIZE"),
        3.0,
        "MIG, and ranks that share an instance, outnumber them, or one process that asks for several (catalogue A14)",
        mig_slice,
    ),
)
MACHINE_RULES = (
    MachineRule(
        "A15",
        "visibility",
        ("NVML: compute mode", "the run's output"),
        0.0,
        "an exclusive compute mode, and the run failed with devices_busy (catalogue A15)",
        exclusive_mode,
    ),
)

HIDES = {
    "A04": ("A01", "A03", "A06"),
    "A05": ("A01", "A02", "A03", "A04", "A07", "A12"),
    "A06": ("A03",),
    "A14": ("A01", "A02", "A03", "A07"),
    "A15": ("G01", "G03", "G04"),
}
