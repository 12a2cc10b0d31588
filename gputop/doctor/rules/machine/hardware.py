"""The GPUs, the driver and gputop's access to them: Xid and memory errors (I04), a lost GPU (I05), unequal cards (I06), MPS
(I08), persistence mode (I09), and what gputop cannot see (I10)."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.jobs import Job
from gputop.doctor.facts import stated
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Confidence, Fact, Finding, Severity
from gputop.doctor.logs import xids
from gputop.doctor.logs.patterns.table import pattern_of
from gputop.doctor.logs.refuted import REFUTED_BY
from gputop.doctor.rules.support.outputs import command_of, outputs_of, quoted, soften
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, RARELY_S, Judgement, Rule, Suspicion
from gputop.snapshot import Device, Problem
from gputop.units import bytes_text

XID_REPORTED_S = 300.0
"""An application error is reported for this long; a hardware error for as long as the driver reports it."""
MEMORY_RATIO = 0.75
"""Cards whose memory ratio is below this are unequal (torch's DataParallel warns there; docs/rules.md#i06)."""
STRAGGLER_SHARE = 0.1
"""The straggler score above which unequal cards are a warning (docs/rules.md#measures)."""
STEPS = 20
START_S = 60.0

_STATE_CODES = ("gpu_lost", "reset_required")
_LIMITED = ("driver_mismatch", "no_permission", "hung", "gpu_lost", "reset_required")
_NOTED = ("no_permission", "other", "hung")


_ECC = "A GPU reported an uncorrected memory error"
_ECC_CAUSE = "The GPU or its memory failed under the job; what the job computed since is lost."
_ECC_FIX = "nvidia-smi -q -d ECC,ROW_REMAPPER\n# the GPU that counts uncorrected errors needs a reset"


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
    confidences=("certain", "possible"),
    needs=("NVML events, ECC counters, row remapper", "the run's output"),
    every_s=EVERY_SNAPSHOT,
    threshold=(
        "any Xid but 45 (13, 31, 43 and 109 for 5 minutes), new uncorrected errors, or rows that failed to be "
        "remapped or wait for it"
    ),
    hides=("F02", "G01", "G02", "G04"),
    mechanism=("The driver reports faults of a GPU as numbered Xid errors, and counts memory errors that ECC cannot correct."),
    signature=("An Xid event, new uncorrected ECC errors, or memory rows that failed to be remapped or wait for a reset."),
    look_alike="Xid 13, 31, 43 and 109 mostly come from the application, Xid 45 from its end.",
    fix=("Follow NVIDIA's list of Xid errors: reset or replace the GPU, or correct an illegal access in the program."),
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
    text, _ = xids.XIDS.get(xid, ("see NVIDIA's catalogue of Xid errors", ""))
    job = next((job for job in evidence.jobs if device.uuid in job.used), None)
    command = fixes.own_command(job) if job is not None else f"python {fixes.SCRIPT_UNKNOWN}"
    meaning = xids.meaning_of(xid, device.index, command)
    ago = f"{max(0.0, now - time):.0f} s ago"
    facts = [Fact(f"Xid {xid}: {text}, {ago}", xid, "NVML events")]
    others = sorted({number for _, number in reported} - {xid})
    if others:
        facts.append(Fact(f"also Xid {', '.join(map(str, others))}", others, "NVML events"))
    return Suspicion(
        Finding(
            id="I04",
            severity="error",
            confidence="certain",
            title=f"{words.gpu(device)}: {meaning.short}",
            evidence=tuple(facts),
            cause=meaning.cause,
            fix=meaning.fix,
            refuted_by=meaning.refuted_by,
            devices=(device.uuid,),
            pids=job.pids if job is not None else (),
            run=job.run_id if job is not None else None,
        )
    )


def _memory_errors(evidence: Evidence, device: Device) -> Judgement:
    new = evidence.history.new_uncorrected(device)
    facts = []
    if new:
        facts.append(Fact(f"{new} uncorrected memory errors since gputop watches", new, "NVML"))
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
            cause="Cells of the GPU's memory are broken. Spare rows take their place at a reset, as long as there are any.",
            fix=xids.FIXES[xids.MEMORY].format(index=device.index),
            refuted_by="nvidia-smi -q -d ECC,ROW_REMAPPER counts no uncorrected error, and no row that is pending or failed.",
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
        text = f"GPU {device.index} was there and is no longer listed."
        problem = Problem("gpu_lost", text, "Look for Xid 79 in dmesg, check power and seating, then reboot.")
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
        "After an error that it cannot recover from, the driver switches the GPU off, or no longer reaches it: "
        "power, heat, the seat of the card, or a defect."
    ),
    signature="NVML reports GPU_IS_LOST or asks for a reset, or the GPU is no longer listed.",
    look_alike="Somebody reset the GPU or took it away on purpose.",
    fix="Reset the GPU, or reboot; look for Xid 79 in dmesg and check power and seat of the card.",
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
        cause="The driver has switched the GPU off after an error it cannot recover from."
        if reset
        else "The driver no longer reaches the GPU: power, heat, its seat, or a defect. Jobs on it fail or hang.",
        fix=f"{fix}\n# {problem.hint}",
        refuted_by=f"nvidia-smi -i {device.index} shows the GPU with its readings, and no Xid came at that time (dmesg): "
        "somebody took it away or reset it on purpose.",
        devices=(device.uuid,),
    )


def unequal_cards(evidence: Evidence, job: Job) -> Judgement:
    """I06: the job's ranks use cards of different speed or memory; the slowest card sets the step time."""
    # With nn.DataParallel, unequal cards concern the wrapper (B11).
    if (
        job.virtual
        or any(device.mig_enabled for device in job.pool)
        or any(stated.data_parallel(m.journal) for m in job.members)
    ):
        return None
    cards = [device for device in job.pool if device.uuid in {member.main for member in job.members} | job.used]
    names = {device.name for device in cards}
    sizes = [device.memory_total_bytes for device in cards if device.memory_total_bytes]
    if len(cards) < 2 or (len(names) < 2 and (not sizes or min(sizes) >= MEMORY_RATIO * max(sizes))):
        return None
    slow = _slowest(evidence, job)
    facts = [
        Fact(f"{words.gpu(card)}: {card.name or 'N/A'}, {bytes_text(card.memory_total_bytes)}", card.name, "NVML")
        for card in cards
    ]
    usual = max(names, key=lambda name: (sum(card.name == name for card in cards), name or ""))
    alike = [card for card in cards if card.name == usual]
    ranks = len(alike)
    fix = (
        fixes.launch_line(job, ranks, alike) if len(job.members) > 1 else fixes.mask_prefix(job, alike) + fixes.own_command(job)
    )
    finding = Finding(
        id="I06",
        severity="warning" if slow is not None else "info",
        confidence="certain",
        title=f"The run's {len(cards)} GPUs are not alike: a step takes as long as on the slowest",
        evidence=(*facts[:4], *([slow] if slow is not None else [])),
        cause="Ranks get equal batches and wait for each other in every step, so that the fast cards idle, and the batch must "
        "fit the smallest memory.",
        fix=f"# equal cards only:\n{fix}\n# or give each rank rows in proportion to its speed",
        refuted_by="The ranks do different work, in proportion to their cards.",
        devices=tuple(card.uuid for card in cards),
        pids=job.pids,
        run=job.run_id,
    )
    return Suspicion(finding, 3.0)


I06 = Rule(
    id="I06",
    order=100,
    family="hardware",
    title="The job's GPUs differ",
    severities=("warning", "info"),
    confidences=("certain",),
    needs=("NVML names and memory", "CUDA events (journal)"),
    window_s=3.0,
    every_s=RARELY_S,
    threshold=(
        f"names differ, or the smallest memory is below {MEMORY_RATIO} of the largest; a warning when a rank's "
        f"forward takes {STRAGGLER_SHARE:.0%} longer over {STEPS} steps"
    ),
    hides=("F02",),
    mechanism=(
        "Ranks get equal batches and wait for each other in every step. A step takes as long as the slowest card "
        "needs, and a batch must fit the smallest memory."
    ),
    signature="The cards have different names or memory sizes, and the fast ones wait.",
    look_alike=("Ranks that get rows in proportion to the speed of their card; in nn.DataParallel the same cards are B11."),
    fix="Use equal cards for one job, or give each rank rows in proportion to the speed of its card.",
    judge=unequal_cards,
)


def _slowest(evidence: Evidence, job: Job) -> Fact | None:
    """Return how much slower one rank's GPU runs its forward, by CUDA events; None if unknown or small."""
    times = {}
    for member in job.members:
        points = evidence.series(job.run_id, member.rank or 0, "cuda/forward_s")[-STEPS:]
        if len(points) >= STEPS:
            times[member.rank or 0] = median(points.values)
    if len(times) < 2:
        return None
    rank = max(times, key=lambda number: times[number])
    others = median(value for number, value in times.items() if number != rank)
    if not others > 0 or times[rank] < (1 + STRAGGLER_SHARE) * others:
        return None
    text = f"rank {rank} takes {times[rank] * 1e3:.1f} ms for its forward, the others {others * 1e3:.1f} ms"
    return Fact(text, round(times[rank], 6), "CUDA events (journal)")


def multi_process_service(evidence: Evidence) -> dict[str, Judgement]:
    """I08: MPS owns the contexts, so memory and utilization per process may be hidden."""
    pid = evidence.snapshot.host.mps_server_pid if evidence.snapshot is not None else None
    if pid is None or not evidence.jobs:
        return {}
    finding = Finding(
        id="I08",
        severity="info",
        confidence="certain",
        title="MPS is on: the GPUs' contexts belong to its server",
        evidence=(Fact(f"nvidia-cuda-mps-server runs as process {pid}", pid, "process list"),),
        cause="With MPS, clients share one context on a GPU; what the driver tells per process is that of the server, and "
        "MPS numbers the visible devices anew. What is said here of which process is on which GPU is less sure.",
        fix="echo quit | nvidia-cuda-mps-control  # ends MPS, once no client runs",
        refuted_by="The job does not use the server: its CUDA_MPS_PIPE_DIRECTORY names another place, or nvidia-smi shows its "
        "processes with type C and not M+C.",
        pids=(pid,),
    )
    return {"machine": Suspicion(finding)}


I08 = Rule(
    id="I08",
    order=104,
    family="hardware",
    title="MPS is on",
    severities=("info",),
    confidences=("certain",),
    needs=("process list",),
    threshold="nvidia-cuda-mps-server runs beside a job",
    mechanism=(
        "With MPS (Multi-Process Service), clients share one context that belongs to a server. What the driver "
        "says of a process is then said of that server, and MPS numbers the visible GPUs anew."
    ),
    signature="A process nvidia-cuda-mps-server runs beside a job.",
    look_alike="A job whose CUDA_MPS_PIPE_DIRECTORY names another place does not use the server.",
    fix="Keep it if you share GPUs on purpose; otherwise stop it with `echo quit | nvidia-cuda-mps-control`.",
    judge_machine=multi_process_service,
)


def persistence_off(evidence: Evidence) -> dict[str, Judgement]:
    """I09: without persistence mode the driver initializes the GPU again for each first client."""
    snapshot = evidence.snapshot
    if snapshot is None:
        return {}
    starting = [job for job in evidence.jobs if job.processes and all(evidence.age_s(p) < START_S for p in job.processes)]
    off = [
        device
        for device in snapshot.devices
        if device.kind == "gpu" and device.persistence_enabled is False and not evidence.owners(device.uuid)
    ]
    job = next((job for job in starting if not job.virtual and not job.used), None)
    if job is None or not off:
        return {}
    finding = Finding(
        id="I09",
        severity="info",
        confidence="possible",
        title="Persistence mode is off: the first CUDA call takes seconds",
        evidence=(Fact(f"persistence mode of {words.gpus(off)} is off, and no process is on it", False, "NVML"),),
        cause="Without a client the driver unloads the GPU's state, and builds it up again for the next one.",
        fix="sudo nvidia-smi -pm 1  # or the nvidia-persistenced service",
        refuted_by="The script has other work to do before its first CUDA call.",
        devices=tuple(device.uuid for device in off),
        pids=job.pids,
        run=job.run_id,
    )
    return {"machine": Suspicion(finding, 5.0)}


I09 = Rule(
    id="I09",
    order=105,
    family="hardware",
    title="Persistence mode is off",
    severities=("info",),
    confidences=("possible",),
    needs=("NVML persistence mode",),
    window_s=5.0,
    every_s=RARELY_S,
    threshold="persistence mode is off and no process is on the GPU while a job starts, in its first 60 s",
    mechanism=("Without a client the driver unloads the GPU's state. It builds the state up again for the next first client."),
    signature="The first CUDA call of a job takes seconds.",
    look_alike="A script that does other work before its first CUDA call.",
    fix="Run `sudo nvidia-smi -pm 1`, or the nvidia-persistenced service.",
    judge_machine=persistence_off,
)


def limited_access(evidence: Evidence) -> dict[str, Judgement]:
    """I10: the driver is unusable or hides something, so gputop sees only part of the machine."""
    snapshot = evidence.snapshot
    if snapshot is None:
        return {}
    judged: dict[str, Judgement] = {}
    problem = snapshot.host.problem
    if problem is not None and problem.code in _LIMITED:
        judged["machine"] = Suspicion(_unseen(problem, "error", "certain", ()))
    for device in snapshot.devices:
        if device.problem is not None and device.problem.code in ("hung", "no_permission") and device.kind == "gpu":
            severity: Severity = "error" if device.problem.code == "hung" else "warning"
            judged[device.uuid] = Suspicion(_unseen(device.problem, severity, "certain", (device.uuid,)))
    for note in snapshot.notes:
        if note.code in _NOTED:
            # It is no fault in itself (a container), but limits what can be judged.
            judged[f"note:{note.message}"] = Suspicion(_unseen(note, "info", "possible", ()))
    for output in outputs_of(evidence):
        match = output.first("nvml_mismatch", "nvml_unknown")
        if match is not None and "machine" not in judged:
            text = "The NVIDIA driver was upgraded, or the container lost its GPUs, while jobs ran."
            hint = (
                "Reboot (or reload the nvidia modules once no job uses them); recreate the container (docker run --gpus all)."
            )
            finding = _unseen(Problem("driver_mismatch", text, hint), "error", "certain", output.devices)
            judged[output.subject] = Suspicion(soften(output, finding))
    return judged


I10 = Rule(
    id="I10",
    order=101,
    family="hardware",
    title="gputop cannot see everything",
    severities=("error", "warning", "info"),
    confidences=("certain", "possible"),
    needs=("NVML's start and notes", "the run's output"),
    every_s=EVERY_SNAPSHOT,
    threshold="the driver cannot be used, does not answer, or hides processes",
    hides=("A12",),
    mechanism=(
        "gputop reads the GPUs through the driver's management library (NVML). What the driver refuses, or what a "
        "container hides, stays unknown."
    ),
    signature=(
        "NVML does not start, does not answer, or lists no processes; often after a driver upgrade without a "
        "reboot, or when a container has lost its GPUs."
    ),
    look_alike="A machine without a GPU: nothing is hidden there.",
    fix=(
        "Follow the hint of the message: reboot or reload the driver's modules, create the container again, or "
        "ask for permission."
    ),
    judge_machine=limited_access,
)


def _unseen(problem: Problem, severity: Severity, confidence: Confidence, devices: tuple[str, ...]) -> Finding:
    return Finding(
        id="I10",
        severity=severity,
        confidence=confidence,
        title=problem.message.rstrip("."),
        evidence=(Fact(problem.message.rstrip("."), problem.code, "NVML"),),
        cause="gputop reads the GPUs through the NVIDIA driver's management library; what that refuses stays unknown here.",
        fix=problem.hint or "nvidia-smi",
        refuted_by="nvidia-smi, run as the same user in the same container, shows what is said to be refused.",
        devices=devices,
    )
