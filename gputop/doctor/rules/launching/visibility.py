"""Visibility: a mask that was set too late (A04), one that CUDA reads differently than intended (A05), an order that
differs from nvidia-smi's (A06), and a compute mode that admits one process only (A15)."""

from __future__ import annotations

import re

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.evidence.visible import devices_behind, mask_of, parse_mask, same_uuid
from gputop.doctor.facts import model as model_facts
from gputop.doctor.facts import stated
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Abstained, Fact, Finding
from gputop.doctor.rules.support.outputs import Output, command_of, outputs_of, quoted
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, Judgement, Rule, Suspicion
from gputop.snapshot import Device, LogMatch, Process

_HIDDEN_ON_PURPOSE = ("", "-1", "none", "None", "NoDevFiles", "void")
"""Common ways to hide every GPU."""
_SEPARATORS = re.compile(r"[,;\s]+")
_EXCLUSIVE = ("exclusive_process", "exclusive_thread", "prohibited")

_READ_ONCE = (
    "CUDA reads CUDA_VISIBLE_DEVICES once, when it is initialized (torch.cuda.is_available() is enough for that). The script "
    "assigned it after that."
)
_MASK_FIRST = """\
import os
os.environ["CUDA_VISIBLE_DEVICES"] = "{mask}"  # the first lines of the script, before import torch
import torch

# or, better, at launch:
CUDA_VISIBLE_DEVICES={mask} {command}"""
_DRIVER = """\
nvidia-smi
sudo rmmod nvidia_uvm; sudo modprobe nvidia_uvm  # after the machine slept; no process may use the GPUs
# in a container: docker run --gpus all …
gputop doctor --before"""
_SET_DEVICE = """\
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)  # before any other CUDA call, so that no rank opens another rank's GPU

# or let several processes share a GPU:
sudo nvidia-smi -c DEFAULT"""


def mask_set_late(evidence: Evidence) -> dict[str, Judgement]:
    """A04: os.environ holds another mask than at launch, and CUDA shows other devices than this mask names."""
    judged: dict[str, Judgement] = {}
    for output in outputs_of(evidence):
        match = output.first("cuda_unknown_env")
        if match is not None and not output.survived:
            judged[output.subject] = Suspicion(_not_started(output, match))
    for group in evidence.groups:
        if (finding := _late(group)) is not None:
            judged.setdefault(group.run_id or group.key, Suspicion(finding))
    return judged


A04 = Rule(
    id="A04",
    order=202,
    family="visibility",
    title="CUDA_VISIBLE_DEVICES was set too late",
    severities=("error", "warning"),
    confidences=("certain", "likely", "possible"),
    needs=("journal: mask at launch and now, UUIDs that CUDA shows", "the run's output"),
    every_s=EVERY_SNAPSHOT,
    threshold=(
        "the mask differs from the one at launch, and from the UUIDs that CUDA shows (certain) or their number "
        "(likely); or the text cuda_unknown_env, unless the mask is still that of the launch (then A12)"
    ),
    hides=("A01", "A03", "A06"),
    mechanism=(
        "CUDA reads the variable once, when it is initialized; torch.cuda.is_available() is enough for that. A "
        "later assignment changes nothing, or keeps CUDA from starting."
    ),
    signature="os.environ holds another mask than at launch, and CUDA shows other devices than it names.",
    look_alike="A06 (the right number of GPUs, but another card); a launcher that sets the mask of each rank.",
    fix="Set the variable on the command line, or in the first line of the script, before torch is imported.",
    judge_machine=mask_set_late,
)


def _late(group: RankGroup) -> Finding | None:
    for member in group.members if group.pool and not group.virtual else ():
        fact = model_facts.visibility(member.journal)
        if fact is None or fact.now is None or fact.now == fact.launch:
            continue
        difference = _difference(group, member.process, fact, stated.device_count(member.journal))
        if difference is None:
            continue
        shown, certain = difference
        return Finding(
            id="A04",
            severity="warning",
            confidence="certain" if certain else "likely",
            title=f"CUDA_VISIBLE_DEVICES={fact.now} was set too late: it has no effect",
            evidence=(
                Fact(f"at launch: {_mask_text(fact.launch)}", fact.launch, "journal"),
                Fact(f"os.environ now: CUDA_VISIBLE_DEVICES={fact.now}", fact.now, "journal"),
                shown,
            ),
            cause=_READ_ONCE,
            fix=_MASK_FIRST.format(mask=fixes.shell_word(fact.now), command=_unmasked_command(fixes.own_command(group))),
            refuted_by="The variable was changed for a child process only.",
            devices=tuple(sorted(group.used)),
            pids=(member.pid,) if member.pid is not None else (),
            run=group.run_id,
        )
    return None


def _not_started(output: Output, match: LogMatch) -> Finding:
    fact = model_facts.visibility(output.rank(match.rank))
    if fact is not None and fact.now == fact.launch:
        return _driver_at_fault(output, match, fact)
    mask = fact.now if fact is not None and fact.now else "0,1"
    changed = [Fact(f"os.environ at the end: {_mask_text(fact.now)}", fact.now, "journal")] if fact is not None else []
    return Finding(
        id="A04",
        severity="error",
        # A mask may also be set in time while the driver fails for reasons of its own.
        confidence="likely",
        title="CUDA does not start: CUDA_VISIBLE_DEVICES was changed after the program began",
        evidence=(quoted(match), *changed),
        cause=_READ_ONCE,
        fix=_MASK_FIRST.format(mask=fixes.shell_word(mask), command=_unmasked_command(command_of(output))),
        refuted_by="nvidia-smi fails as well: then the driver is at fault.",
        devices=output.devices,
        pids=output.pids,
        run=output.run_id,
    )


def _driver_at_fault(output: Output, match: LogMatch, fact: model_facts.Visibility) -> Finding:
    """Return the finding for the same text if nobody changed the mask: the text only guesses that the mask is to blame."""
    return Finding(
        id="A12",
        severity="error",
        confidence="likely",
        title="CUDA does not start, and CUDA_VISIBLE_DEVICES is as it was at launch: the driver is at fault",
        evidence=(quoted(match), Fact(f"at launch and at the end: {_mask_text(fact.now)}", fact.now, "journal")),
        cause="The driver's modules do not do their work: nvidia_uvm is not loaded, or was lost while the machine slept, the "
        "driver was upgraded without a reboot, or the container was not given /dev/nvidia-uvm.",
        fix=_DRIVER,
        refuted_by="python -c 'import torch; torch.cuda.init()' works in a fresh shell.",
        devices=output.devices,
        pids=output.pids,
        run=output.run_id,
    )


def _difference(
    group: RankGroup, process: Process | None, fact: model_facts.Visibility, count: int | None
) -> tuple[Fact, bool] | None:
    """Return what CUDA shows if that differs from the mask, and whether it is known by UUID."""
    entries = parse_mask(fact.now or "")
    if any(entry.startswith("MIG-") for entry in entries):
        return None
    if fact.uuids is None:
        if count is None or count == len(entries):
            return None
        return Fact(f"torch sees {words.count(count, 'GPU')}, the mask names {len(entries)}", count, "torch (journal)"), False
    shown = [next((d for d in group.pool if same_uuid(d.uuid, uuid)), None) for uuid in fact.uuids]
    names = [device for device in shown if device is not None]
    text = f"CUDA shows {words.gpus(names)}" if len(names) == len(shown) else f"CUDA shows {words.count(len(shown), 'GPU')}"
    shown_fact = Fact(text, list(fact.uuids), "torch (journal)")
    # In a container, and with unequal cards, an ordinal may rightly name another card than NVML's.
    unequal = len({device.name for device in group.pool}) > 1 and fact.order != "PCI_BUS_ID"
    contained = process is None or process.container is not None
    if (unequal or contained) and not (entries and entries[0].startswith("GPU-")):
        return (shown_fact, True) if len(shown) != len(entries) else None
    wanted = devices_behind(fact.now, group.pool)
    if group.used and group.used <= {device.uuid for device in wanted}:
        return None  # it had no effect and needed none (Ultralytics sets it late and chooses the device as well)
    if len(shown) == len(entries) and (len(wanted) != len(entries) or [d.uuid for d in wanted] == [d.uuid for d in names]):
        return None
    return shown_fact, True


def _mask_text(mask: str | None) -> str:
    return "CUDA_VISIBLE_DEVICES was not set" if mask is None else f"CUDA_VISIBLE_DEVICES={mask}"


def _unmasked_command(command: str) -> str:
    return re.sub(r"^(env )?((CUDA_VISIBLE_DEVICES|GPUTOP_VIRTUAL_DEVICES)=\S+ )", "", command)


def mask_malformed(evidence: Evidence, group: RankGroup) -> Judgement:
    """A05: CUDA takes fewer devices from the mask than it lists."""
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
    threshold=("CUDA takes fewer entries from the mask than it holds; masks that hide every GPU on purpose do not count"),
    hides=("A01", "A02", "A03", "A04", "A07", "A12"),
    mechanism=(
        "CUDA reads the list up to the first entry that it cannot use, and an entry that is repeated empties the "
        "whole list. `0,0` and `all` leave no GPU, `0,a,1` and `0 1` leave one."
    ),
    signature=(
        "CUDA takes fewer entries from the mask than are written in it; a script with a fallback then trains on the CPU."
    ),
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
        why = "an entry that is repeated empties the whole list"
    elif len(taken) > fits:
        why = f"the list ends at the first entry that names no GPU of the machine ({taken[fits]})"
    elif any(sign in mask.strip() for sign in "; "):
        why = "entries are separated by commas, and what follows the digits of an entry is dropped"
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
            Fact(f"CUDA takes {fits} of the {len(written)} that are written", fits, "CUDA's reading of the list"),
            Fact(
                f"the machine has {words.count(len(group.pool), 'GPU')}",
                len(group.pool),
                "virtual GPU readings" if group.virtual else "NVML",
            ),
        ),
        cause=f"CUDA reads this list in its own way: {why}."
        + ("" if fits else " torch then finds no GPU, and a script with a fallback trains on the CPU."),
        fix=f"{name}={right} {_unmasked_command(fixes.own_command(group))}",
        refuted_by="The script sets the variable again before it imports torch.",
        devices=tuple(device.uuid for device in group.pool),
        pids=(process.pid,),
        run=group.run_id,
    )


def device_order(evidence: Evidence, group: RankGroup) -> Judgement:
    """A06: on unequal cards, CUDA and nvidia-smi number devices differently, and the run means nvidia-smi's numbers."""
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
                why = "The cards are unequal, and CUDA numbers them by speed; which one this mask names is not known yet."
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
    title="CUDA's device order is not nvidia-smi's",
    severities=("warning",),
    confidences=("certain",),
    needs=("CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER", "NVML contexts or the journal's UUIDs"),
    threshold="unequal cards, no PCI_BUS_ID, and a context on a GPU that the numbers of the mask do not name",
    hides=("A03",),
    mechanism=("CUDA numbers unequal cards by speed, fastest first. NVML, nvidia-smi and gputop number them by PCI bus."),
    signature=(
        "On a machine with different cards, a process sits on another GPU than the number in its mask names in nvidia-smi."
    ),
    look_alike="Equal cards, whose two orders agree; or numbers that are meant in CUDA's order.",
    fix="Set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name the GPUs by UUID.",
    judge=device_order,
)


def _shown(group: RankGroup, uuids: tuple[str, ...]) -> tuple[Device, ...]:
    found = (next((device for device in group.pool if same_uuid(device.uuid, uuid)), None) for uuid in uuids)
    return tuple(device for device in found if device is not None)


def _other_order(group: RankGroup, mask: str, meant: tuple[Device, ...], got: tuple[Device, ...], pid: int | None) -> Finding:
    uuids = ",".join(device.uuid for device in meant)
    command = _unmasked_command(fixes.own_command(group))
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
        fix=f"CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={fixes.shell_word(mask)} {command}\n"
        f"# or by UUID, which never changes:\nCUDA_VISIBLE_DEVICES={uuids} {command}",
        refuted_by="The numbers were meant in CUDA's order.",
        devices=tuple(dict.fromkeys(device.uuid for device in (*got, *meant))),
        pids=(pid,) if pid is not None else (),
        run=group.run_id,
    )


def _named(device: Device) -> str:
    return f"GPU {device.index} ({device.name or 'N/A'})"


def exclusive_mode(evidence: Evidence) -> dict[str, Judgement]:
    """A15: a run failed with "busy or unavailable" while a GPU is in an exclusive compute mode."""
    listed = evidence.snapshot.devices if evidence.snapshot is not None else ()
    exclusive = [device for device in listed if device.compute_mode in _EXCLUSIVE]
    judged: dict[str, Judgement] = {}
    for output in outputs_of(evidence):
        match = output.first("devices_busy")
        if match is None or not exclusive or output.survived:
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
            fix=_SET_DEVICE + f"\n{command_of(output)}",
            refuted_by="Another user's process held the GPU.",
            devices=tuple(device.uuid for device in exclusive),
            pids=output.pids,
            run=output.run_id,
        )
        judged[output.subject] = Suspicion(finding)
    return judged


A15 = Rule(
    id="A15",
    order=203,
    family="visibility",
    title="A GPU takes one process only",
    severities=("error",),
    confidences=("certain",),
    needs=("NVML: compute mode", "the run's output"),
    threshold="an exclusive compute mode, and the text devices_busy in a run that failed",
    hides=("G01", "G03", "G04"),
    mechanism=(
        "In an exclusive compute mode a GPU takes one process, in prohibited mode none. A rank that opens a "
        "context on another rank's GPU takes that rank's place."
    ),
    signature='The run fails with "CUDA-capable device(s) is/are busy or unavailable".',
    look_alike="Another user's process that holds the GPU.",
    fix=(
        "Call torch.cuda.set_device(local_rank) before any other CUDA call, or ask for compute mode DEFAULT "
        "(`nvidia-smi -c DEFAULT`)."
    ),
    judge_machine=exclusive_mode,
)
