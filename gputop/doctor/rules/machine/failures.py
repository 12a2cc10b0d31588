"""GPUs that fail: Xid and memory errors (I04), and a lost GPU (I05)."""

from __future__ import annotations

from dataclasses import replace

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.meaning import xids
from gputop.doctor.logs.meaning.refuted import REFUTED_BY
from gputop.doctor.logs.patterns.table import pattern_of
from gputop.doctor.rules.support.outputs import command_of, outputs_of, quoted, soften
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, Judgement, Rule, Suspicion
from gputop.snapshot import Device, Problem

XID_REPORTED_S = 300.0
"""An application error is reported for this long; a hardware error for as long as the driver reports it."""
_STATE_CODES = ("gpu_lost", "reset_required")
_ECC_CAUSE = "The GPU or its memory failed during the run. Everything computed since then is lost."
_ECC_FIX = "nvidia-smi -q -d ECC,ROW_REMAPPER\n# the GPU with uncorrected errors needs a reset"


def errors_of_the_gpu(evidence: Evidence) -> dict[str, Judgement]:
    """I04: the driver reported an Xid error, or a GPU's memory has uncorrected errors."""
    snapshot = evidence.snapshot
    judged: dict[str, Judgement] = {}
    for device in snapshot.devices if snapshot is not None else ():
        if snapshot is not None and device.kind == "gpu":
            judged[device.uuid] = _xid(evidence, device, snapshot.time) or _memory_errors(evidence, device)
    for output in outputs_of(evidence):
        match = output.first("xid", "ecc")
        if match is not None and not any(judged.values()):
            finding = Finding(
                "I04",
                "error",
                "certain",
                "A GPU reported an uncorrected memory error",
                (quoted(match),),
                _ECC_CAUSE,
                _ECC_FIX,
                REFUTED_BY["ecc"],
            )
            row = pattern_of(match.pattern, match.line)
            if match.pattern == "xid" and row is not None and "xid" in row[1]:
                address = xids.pci_address(row[1]["pci"])
                meaning = xids.meaning_of(int(row[1]["xid"]), address, command_of(output))
                title = f"The driver reported {meaning.short} (GPU at {address})"
                finding = replace(finding, title=title, cause=meaning.cause, fix=meaning.fix, refuted_by=meaning.refuted_by)
            finding = replace(finding, devices=output.devices, pids=output.pids, run=output.run_id)
            judged[output.subject] = Suspicion(soften(output, finding))
    return judged


I04 = Rule(
    id="I04",
    order=103,
    family="hardware",
    title="The driver reported an Xid or memory error",
    severities=("error", "warning"),
    confidences=("certain", "likely", "possible"),
    needs=("NVML events, ECC counters, row remapper", "the run's output"),
    every_s=EVERY_SNAPSHOT,
    threshold=(
        "any Xid but 45 (13, 31, 43 and 109 for 5 minutes), new uncorrected errors, or memory rows whose remapping failed "
        "or is pending; a warning if an application's error may be that of any of several jobs on the GPU"
    ),
    hides=("F02", "G01", "G02", "G04"),
    hides_if=lambda finding: finding.severity == "error",
    hides_when="it is an error",
    mechanism=("The driver reports GPU faults as numbered Xid errors, and counts memory errors that ECC cannot correct."),
    signature=("An Xid event, new uncorrected ECC errors, or memory rows that could not be remapped or wait for a reset."),
    look_alike="Xid 13, 31, 43 and 109 usually come from the application, Xid 45 from its exit.",
    fix=("Follow NVIDIA's list of Xid errors: reset or replace the GPU, or correct the illegal access in the program."),
    judge_machine=errors_of_the_gpu,
)


def _xid(evidence: Evidence, device: Device, now: float) -> Judgement:
    reported = [
        (time, xid)
        for time, xid in device.xid_errors
        if xid not in xids.QUIET and (xids.XIDS.get(xid, ("", ""))[1] != xids.APPLICATION or abs(now - time) <= XID_REPORTED_S)
    ]
    if not reported:
        return None
    # Prefer hardware errors: they explain the errors of the applications on the GPU.
    time, xid = next((item for item in reported if xids.XIDS.get(item[1], ("", ""))[1] != xids.APPLICATION), reported[0])
    text, _ = xids.XIDS.get(xid, ("see NVIDIA's catalog of Xid errors", ""))
    # The driver does not say whose kernel failed.
    groups = [group for group in evidence.groups if device.uuid in group.used]
    group = groups[0] if len(groups) == 1 else None
    anyone_s = len(groups) > 1 and xids.XIDS.get(xid, ("", ""))[1] == xids.APPLICATION
    command = fixes.own_command(group) if group is not None else f"python {fixes.SCRIPT_UNKNOWN}"
    meaning = xids.meaning_of(xid, device.index, command)
    ago = f"{max(0.0, now - time):.0f} s ago"
    facts = [Fact(f"Xid {xid}: {text}, {ago}", xid, "NVML events")]
    if anyone_s:
        text = f"{len(groups)} jobs are on this GPU: the error may be of any of them, or of one that has ended"
        facts.append(Fact(text, len(groups), "NVML"))
    others = sorted({number for _, number in reported} - {xid})
    if others:
        facts.append(Fact(f"also Xid {', '.join(map(str, others))}", others, "NVML events"))
    return Suspicion(
        Finding(
            id="I04",
            severity="warning" if anyone_s else "error",
            confidence="certain",
            title=f"{words.gpu(device)}: {meaning.short}",
            evidence=tuple(facts),
            cause=meaning.cause,
            fix=meaning.fix,
            refuted_by=meaning.refuted_by,
            devices=(device.uuid,),
            pids=group.pids if group is not None else (),
            run=group.run_id if group is not None else None,
        )
    )


def _memory_errors(evidence: Evidence, device: Device) -> Judgement:
    new = evidence.history.new_uncorrected(device)
    facts = []
    if new:
        facts.append(Fact(f"{new} uncorrected memory errors since gputop started", new, "NVML"))
    if device.remapped_rows_failed:
        facts.append(Fact("rows of memory could not be remapped", True, "NVML"))
    if device.remapped_rows_pending:
        facts.append(Fact("rows of memory wait for a reset to be remapped", True, "NVML"))
    if not facts:
        return None
    worst = bool(new or device.remapped_rows_failed)
    return Suspicion(
        Finding(
            id="I04",
            severity="error" if worst else "warning",
            confidence="certain",
            title=f"Memory of {words.gpu(device)} {'has uncorrected errors' if worst else 'waits for a reset to remap rows'}",
            evidence=tuple(facts),
            cause="Cells of the GPU's memory are broken. A reset replaces them with spare rows while any are left.",
            fix=xids.FIXES[xids.MEMORY].format(index=device.index),
            refuted_by="nvidia-smi -q -d ECC,ROW_REMAPPER shows no uncorrected error and no pending or failed row.",
            devices=(device.uuid,),
        )
    )


def lost_gpu(evidence: Evidence) -> dict[str, Judgement]:
    """I05: a GPU is lost, needs a reset, or is no longer listed."""
    snapshot = evidence.snapshot
    judged: dict[str, Judgement] = {}
    for device in snapshot.devices if snapshot is not None else ():
        code = device.problem.code if device.problem is not None else None
        if device.kind == "gpu" and (device.state == "lost" or code in _STATE_CODES):
            problem = device.problem or Problem("gpu_lost", f"GPU {device.index} is lost.", "Look for Xid 79 in dmesg; reboot.")
            judged[device.uuid] = Suspicion(_lost(device, problem))
    for device in evidence.history.missing():
        text = f"GPU {device.index} was listed before and no longer is."
        problem = Problem(
            "gpu_lost", text, "Look for Xid 79 in dmesg, check the power and that the card is seated, then reboot."
        )
        judged[device.uuid] = Suspicion(_lost(device, problem), 10.0)
    return judged


I05 = Rule(
    id="I05",
    order=102,
    family="hardware",
    title="A GPU is lost or needs a reset",
    severities=("error",),
    confidences=("certain",),
    needs=("NVML",),
    every_s=EVERY_SNAPSHOT,
    threshold="NVML reports the GPU as lost or in need of a reset, or has not listed it for 10 s",
    hides=("A12", "F02", "G01", "G02", "G04", "I04"),
    mechanism=(
        "After an error that it cannot recover from, the driver switches the GPU off or can no longer reach it: power, "
        "heat, a loose card, or a defect."
    ),
    signature="NVML reports GPU_IS_LOST or asks for a reset, or the GPU is no longer listed.",
    look_alike="Somebody reset or removed the GPU on purpose.",
    fix="Reset the GPU, or reboot. Look for Xid 79 in dmesg, and check the power and that the card is seated.",
    judge_machine=lost_gpu,
)


def _lost(device: Device, problem: Problem) -> Finding:
    reset = problem.code == "reset_required"
    facts = [Fact(problem.message.rstrip("."), problem.code, "NVML")]
    if device.xid_errors:
        facts.append(Fact(f"last Xid: {device.xid_errors[-1][1]}", device.xid_errors[-1][1], "NVML events"))
    if device.temperature_c is not None:
        facts.append(Fact(f"last temperature: {device.temperature_c:.0f} °C", device.temperature_c, "NVML"))
    fix = f"sudo nvidia-smi --gpu-reset -i {device.index}" if reset else xids.FIXES["bus"]
    return Finding(
        id="I05",
        severity="error",
        confidence="certain",
        title=f"GPU {device.index} needs a reset" if reset else f"GPU {device.index} is lost",
        evidence=tuple(facts),
        cause="The driver switched the GPU off after an error that it cannot recover from."
        if reset
        else "The driver can no longer reach the GPU: power, heat, a loose card, or a defect. Jobs on it fail or hang.",
        fix=f"{fix}\n# {problem.hint}",
        refuted_by=f"nvidia-smi -i {device.index} shows the GPU with its readings, and dmesg has no Xid at that time: "
        "somebody removed or reset it on purpose.",
        devices=(device.uuid,),
    )
