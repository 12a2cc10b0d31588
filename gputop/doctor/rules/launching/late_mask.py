"""A CUDA_VISIBLE_DEVICES that was set too late (A04), and the driver failure with the same error text (A12)."""

from __future__ import annotations

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.evidence.visible import devices_behind, parse_mask, same_uuid
from gputop.doctor.facts import model as model_facts
from gputop.doctor.facts import stated
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.commands import filled
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.launching.visibility import unmasked_command
from gputop.doctor.rules.support.outputs import Output, command_of, outputs_of, quoted
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, Judgement, Rule, Suspicion
from gputop.snapshot import LogMatch, Process

_READ_ONCE = (
    "CUDA reads CUDA_VISIBLE_DEVICES once, during initialization (torch.cuda.is_available() is enough). The script set it "
    "after that."
)
_MASK_FIRST = """\
import os
os.environ["CUDA_VISIBLE_DEVICES"] = "{mask}"  # the first lines of the script, before import torch
import torch

# or, better, at launch:
CUDA_VISIBLE_DEVICES={mask} """
_DRIVER = """\
nvidia-smi
sudo rmmod nvidia_uvm; sudo modprobe nvidia_uvm  # after the machine slept, while no process uses the GPUs
# in a container: docker run --gpus all …
gputop doctor --before"""


def mask_set_late(evidence: Evidence) -> dict[str, Judgement]:
    """A04: os.environ has a different mask than at launch, and CUDA shows different devices than this mask names."""
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
        "(likely); or the text cuda_unknown_env, unless the mask is still the one at launch (then A12)"
    ),
    hides=("A01", "A03", "A06"),
    mechanism=(
        "CUDA reads the variable once, during initialization; torch.cuda.is_available() is enough. A later assignment has "
        "no effect, or keeps CUDA from starting."
    ),
    signature="os.environ has a different mask than at launch, and CUDA shows different devices than it names.",
    look_alike="A06 (the right number of GPUs, but a different card); a launcher that sets each rank's mask.",
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
            fix=filled(_MASK_FIRST, {"mask": fact.now}) + unmasked_command(fixes.own_command(group)),
            refuted_by="The script changed the variable only for a child process.",
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
        # The mask may also have been set in time, and the driver failed for another reason.
        confidence="likely",
        title="CUDA does not start: CUDA_VISIBLE_DEVICES was changed after the program started",
        evidence=(quoted(match), *changed),
        cause=_READ_ONCE,
        fix=filled(_MASK_FIRST, {"mask": mask}) + unmasked_command(command_of(output)),
        refuted_by="nvidia-smi fails too. Then the driver is at fault.",
        devices=output.devices,
        pids=output.pids,
        run=output.run_id,
    )


def _driver_at_fault(output: Output, match: LogMatch, fact: model_facts.Visibility) -> Finding:
    """Return the finding for the same text if the mask did not change: the text only guesses that the mask is the reason."""
    return Finding(
        id="A12",
        severity="error",
        confidence="likely",
        title="CUDA does not start although CUDA_VISIBLE_DEVICES did not change: the driver is at fault",
        evidence=(quoted(match), Fact(f"at launch and at the end: {_mask_text(fact.now)}", fact.now, "journal")),
        cause="The driver's kernel modules do not work: nvidia_uvm is not loaded or was lost while the machine slept, the "
        "driver was upgraded without a reboot, or the container has no /dev/nvidia-uvm.",
        fix=_DRIVER,
        refuted_by="python -c 'import torch; torch.cuda.init()' works in a fresh shell.",
        devices=output.devices,
        pids=output.pids,
        run=output.run_id,
    )


def _difference(
    group: RankGroup, process: Process | None, fact: model_facts.Visibility, count: int | None
) -> tuple[Fact, bool] | None:
    """Return what CUDA shows if it differs from the mask, and whether this is known by UUID."""
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
    # In a container, and with unequal cards, an ordinal may rightly name a different card than in NVML.
    unequal = len({device.name for device in group.pool}) > 1 and fact.order != "PCI_BUS_ID"
    contained = process is None or process.container is not None
    if (unequal or contained) and not (entries and entries[0].startswith("GPU-")):
        return (shown_fact, True) if len(shown) != len(entries) else None
    wanted = devices_behind(fact.now, group.pool)
    if group.used and group.used <= {device.uuid for device in wanted}:
        return None  # It had no effect and needed none (Ultralytics sets it late, but also chooses the device).
    if len(shown) == len(entries) and (len(wanted) != len(entries) or [d.uuid for d in wanted] == [d.uuid for d in names]):
        return None
    return shown_fact, True


def _mask_text(mask: str | None) -> str:
    return "CUDA_VISIBLE_DEVICES was not set" if mask is None else f"CUDA_VISIBLE_DEVICES={mask}"
