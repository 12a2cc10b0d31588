"""What stands between gputop, or a job, and the GPUs: MPS (I08), persistence mode (I09), and what gputop cannot see (I10)."""

from __future__ import annotations

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Confidence, Fact, Finding, Severity
from gputop.doctor.rules.support.outputs import outputs_of, soften
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, RARELY_S, Judgement, Rule, Suspicion
from gputop.snapshot import Problem

START_S = 60.0
"""Only a run that is younger than this may still wait for the driver to initialize its GPUs (our choice)."""
_LIMITED = ("driver_mismatch", "no_permission", "hung", "gpu_lost", "reset_required")
_NOTED = ("no_permission", "other", "hung")


def multi_process_service(evidence: Evidence) -> dict[str, Judgement]:
    """I08: MPS owns the contexts, so memory and utilization per process may be hidden."""
    pid = evidence.snapshot.host.mps_server_pid if evidence.snapshot is not None else None
    if pid is None or not evidence.groups:
        return {}
    finding = Finding(
        id="I08",
        severity="info",
        confidence="certain",
        title="MPS is on: the GPUs' contexts belong to its server",
        evidence=(Fact(f"nvidia-cuda-mps-server runs as process {pid}", pid, "process list"),),
        cause="With MPS, clients share one context on a GPU: the driver attributes all per-process readings to the server, and "
        "MPS renumbers the visible devices. So it is less certain which process uses which GPU.",
        fix="echo quit | nvidia-cuda-mps-control  # ends MPS; run it once no client is left",
        refuted_by="The job does not use the server: its CUDA_MPS_PIPE_DIRECTORY points elsewhere, or nvidia-smi lists its "
        "processes with type C, not M+C.",
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
    threshold="nvidia-cuda-mps-server runs alongside a job",
    mechanism=(
        "With MPS (Multi-Process Service), clients share one context that belongs to a server. The driver then attributes "
        "per-process readings to that server, and MPS renumbers the visible GPUs."
    ),
    signature="The process nvidia-cuda-mps-server runs alongside a job.",
    look_alike="A job whose CUDA_MPS_PIPE_DIRECTORY points elsewhere does not use the server.",
    fix="Keep it if you share GPUs on purpose; otherwise stop it with `echo quit | nvidia-cuda-mps-control`.",
    judge_machine=multi_process_service,
)


def persistence_off(evidence: Evidence) -> dict[str, Judgement]:
    """I09: without persistence mode, the driver initializes an idle GPU again for its next client."""
    snapshot = evidence.snapshot
    if snapshot is None:
        return {}
    starting = [
        group for group in evidence.groups if group.processes and all(evidence.age_s(p) < START_S for p in group.processes)
    ]
    off = [
        device
        for device in snapshot.devices
        if device.kind == "gpu" and device.persistence_enabled is False and not evidence.owners(device.uuid)
    ]
    group = next((group for group in starting if not group.virtual and not group.used), None)
    if group is None or not off:
        return {}
    finding = Finding(
        id="I09",
        severity="info",
        confidence="possible",
        title="Persistence mode is off: the first CUDA call takes seconds",
        evidence=(Fact(f"persistence mode of {words.gpus(off)} is off, and no process is on it", False, "NVML"),),
        cause="Without a client, the driver unloads the GPU's state and rebuilds it for the next one.",
        fix="sudo nvidia-smi -pm 1  # or the nvidia-persistenced service",
        refuted_by="The script has other work to do before its first CUDA call.",
        devices=tuple(device.uuid for device in off),
        pids=group.pids,
        run=group.run_id,
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
    mechanism=("Without a client, the driver unloads the GPU's state. It rebuilds that state for the next client."),
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
            # Not a fault in itself (it may be a container), but it limits what can be judged.
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
    confidences=("certain", "likely", "possible"),
    needs=("NVML initialization and notes", "the run's output"),
    every_s=EVERY_SNAPSHOT,
    threshold="the driver cannot be used, does not answer, or hides processes",
    hides=("A12",),
    mechanism=(
        "gputop reads the GPUs through the driver's management library (NVML). Anything that the driver refuses or a "
        "container hides stays unknown."
    ),
    signature=(
        "NVML does not start, does not answer, or lists no processes; often after a driver upgrade without a "
        "reboot, or when a container has lost its GPUs."
    ),
    look_alike="A machine without a GPU: nothing is hidden there.",
    fix=(
        "Follow the hint in the message: reboot or reload the driver's modules, recreate the container, or ask for permission."
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
        cause="gputop reads the GPUs through the NVIDIA driver's management library. Anything that it refuses stays unknown.",
        fix=problem.hint or "nvidia-smi",
        refuted_by="nvidia-smi, run as the same user in the same container, shows the readings that gputop reports as refused.",
        devices=devices,
    )
