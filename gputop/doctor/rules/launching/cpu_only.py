"""Training runs on the CPU although the machine has GPUs (A12)."""

from __future__ import annotations

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.process_past import CPU_BUSY_PERCENT
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.evidence.visible import parse_mask
from gputop.doctor.facts import stated
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Abstained, Fact, Finding, Severity
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, EVERYTHING, Judgement, Rule, Suspicion
from gputop.snapshot import Process

CPU_LOAD_S = 120.0
"""A script may prepare its data for this long before it uses CUDA (docs/rules.md#a12)."""
CPU_BUILD_S = 60.0
CPU_BUILD_PERCENT = 400.0
"""A torch build without CUDA never uses a GPU, and a process on several cores computes: data preparation uses one core per
process.
"""
_HIDES_ALL = ("", "-1")
"""The two usual ways to hide the GPUs on purpose."""
_CPU_WORDS = ("--cpu", "--no-cuda", "--no_cuda", "--use_cpu", "--use-cpu")


def cpu_only(evidence: Evidence, group: RankGroup) -> Judgement:
    """A12: no process of the run uses a GPU, and the run trains, or computes with torch for two minutes."""
    if group.virtual or not group.pool or group.used or any(process.devices for process in group.processes):
        return None
    stated_on_cpu = [member for member in group.members if _says_cpu(member)]
    if stated_on_cpu and evidence.progressing(group):
        if _hides_pids(evidence) and not any(_without_cuda(member) for member in stated_on_cpu):
            why = "Which process is on which GPU is unknown: the driver reports PIDs that this container cannot see."
            return Abstained("A12", why, "the host's PID namespace (docker run --pid=host)", group.run_id)
        return Suspicion(_finding(evidence, group, stated_on_cpu[0], certain=True))
    process = group.main_process
    if process is None or not process.torch_mapped or process.nvidia_open is not False:
        return None
    busy_s = evidence.cpu_busy_s(process)
    free = any(evidence.is_free(device) for device in group.pool)
    computes = process.torch_cuda_mapped is False and (process.cpu_percent or 0.0) >= CPU_BUILD_PERCENT
    least_s = CPU_BUILD_S if computes else CPU_LOAD_S
    if busy_s >= least_s and free:
        return Suspicion(_finding(evidence, group, group.members[0], certain=False))
    if busy_s > 0:
        why = f"Process {process.pid} computes with torch on the CPU; watched for {busy_s:.0f} of {least_s:.0f} s."
        return Abstained("A12", why, "more time, or import gputop in the script", group.run_id)
    return None


A12 = Rule(
    id="A12",
    order=400,
    family="cpu",
    title="Training runs on the CPU",
    severities=("error", "warning", "info"),
    confidences=("certain", "likely"),
    needs=("journal: parameter device, steps", "/proc: torch mapped, /dev/nvidia*, CPU time"),
    window_s=CPU_LOAD_S,
    every_s=EVERY_SNAPSHOT,
    threshold=(
        "steps advance on CPU parameters (certain); or torch is loaded, no /dev/nvidia* is open and the process uses over "
        f"{CPU_BUSY_PERCENT:.0f}% of a core for {CPU_LOAD_S:.0f} s while a GPU is free (likely; {CPU_BUILD_S:.0f} s if "
        f"torch is built without CUDA and computes on {CPU_BUILD_PERCENT / 100:.0f} cores or more)"
    ),
    hides=EVERYTHING,
    mechanism=(
        "torch finds no GPU (a CPU build, a driver that is too old, an empty mask) and the script falls back to the CPU, "
        "or the model was never moved to a GPU."
    ),
    signature="Steps advance with parameters on the CPU, no process of the run has a GPU open, and the GPUs are idle.",
    look_alike="Data preparation before the first CUDA call; a run that requests the CPU (reported as information).",
    fix=(
        'Install the torch build for your driver, call model.to("cuda"), and assert torch.cuda.is_available() '
        "early in the script."
    ),
    judge=cpu_only,
)


def _says_cpu(member: Member) -> bool:
    if member.uses:
        return False
    where = stated.parameter_device(member.journal)
    return where == "cpu" or (where is None and _without_cuda(member))


def _without_cuda(member: Member) -> bool:
    return stated.cuda_available(member.journal) is False or stated.cuda_built(member.journal) is False


def _hides_pids(evidence: Evidence) -> bool:
    return evidence.snapshot is not None and any(not process.in_namespace for process in evidence.snapshot.processes)


def _finding(evidence: Evidence, group: RankGroup, member: Member, *, certain: bool) -> Finding:
    deliberate = _deliberate(group)
    idle = all(evidence.is_free(device) for device in group.pool)
    number = len(group.pool)
    everything = "the GPU" if number == 1 else f"all {number} GPUs"
    severity: Severity = "info" if deliberate is not None else "error" if certain else "warning"
    return Finding(
        id="A12",
        severity=severity,
        confidence="certain" if certain else "likely",
        title=f"Training runs on the CPU: {everything} idle" if idle else "Training runs on the CPU, not on a GPU",
        evidence=tuple(_evidence(evidence, group, member, deliberate)),
        cause=_cause(member, deliberate),
        fix=_fix(evidence, group, member),
        refuted_by="The run opens /dev/nvidia* or appears on a GPU later, or it is intended for the CPU.",
        devices=tuple(device.uuid for device in group.pool),
        pids=group.pids,
        run=group.run_id,
    )


def _evidence(evidence: Evidence, group: RankGroup, member: Member, deliberate: str | None) -> list[Fact]:
    facts = []
    where, available = stated.parameter_device(member.journal), stated.cuda_available(member.journal)
    if where is not None:
        facts.append(Fact(f"the model's parameters are on {where}, and steps advance", where, "journal"))
    if available is not None:
        facts.append(Fact(f"torch.cuda.is_available() is {available}", available, "journal"))
    built = stated.cuda_built(member.journal)
    if built is False:
        facts.append(Fact("this torch build has no CUDA", built, "journal"))
    process = member.process
    if process is not None and process.cpu_percent is not None:
        busy_s = evidence.cpu_busy_s(process)
        text = f"process {process.pid} uses {process.cpu_percent:.0f}% of a core"
        facts.append(
            Fact(text + (f", for {busy_s:.0f} s so far" if busy_s else ""), process.cpu_percent, f"/proc/{process.pid}/stat")
        )
    if process is not None and process.torch_cuda_mapped is False and built is None:
        facts.append(Fact("libtorch_cuda.so is not loaded: this is a CPU build of torch", False, f"/proc/{process.pid}/maps"))
    if process is not None and process.nvidia_open is False:
        facts.append(Fact("no /dev/nvidia* file is open", False, f"/proc/{process.pid}/fd"))
    mask = _mask(process)
    if mask is not None and not parse_mask(mask):
        facts.append(Fact(f"CUDA_VISIBLE_DEVICES={mask!r} leaves no GPU", mask, "/proc/<pid>/environ"))
    if deliberate is not None:
        facts.append(Fact(deliberate, None, "the run's command or configuration"))
    facts.append(Fact(f"the machine has {words.count(len(group.pool), 'GPU')}, none used by this run", len(group.pool), "NVML"))
    return facts


def _mask(process: Process | None) -> str | None:
    environment = process.environment if process is not None else None
    return environment.cuda_visible_devices if environment is not None else None


def _deliberate(group: RankGroup) -> str | None:
    """Return how the run asked for the CPU; None if it did not."""
    if any(_mask(member.process) in _HIDES_ALL for member in group.members):
        return "CUDA_VISIBLE_DEVICES hides every GPU"
    if group.run is not None and group.run.config.get("device") == "cpu":
        return "the configuration says device: cpu"
    process = group.main_process
    command = process.command if process is not None and process.command else ()
    if fixes.option(command, ("--device", "--accelerator", "device")) == "cpu" or any(word in command for word in _CPU_WORDS):
        return "the command line asks for the CPU"
    return None


def _cause(member: Member, deliberate: str | None) -> str:
    if deliberate is not None:
        return f"The run asks for it: {deliberate}."
    mask = _mask(member.process)
    if mask is not None and not parse_mask(mask):
        return (
            "CUDA finds no valid entry in this CUDA_VISIBLE_DEVICES, so torch finds no GPU and the script falls back to "
            "the CPU."
        )
    if stated.cuda_available(member.journal):
        return "torch has CUDA, but the model was never moved to a GPU: parameters start on the CPU and stay there."
    unmapped = member.process is not None and member.process.torch_cuda_mapped is False
    if stated.cuda_built(member.journal) is False or unmapped:
        return (
            "The installed torch is the CPU build, so torch.cuda.is_available() is False and the script falls back to the CPU."
        )
    return (
        "torch does not use CUDA here: it is a CPU build, the driver is too old for it, or the script falls back to the "
        "CPU when torch.cuda.is_available() is False."
    )


def _fix(evidence: Evidence, group: RankGroup, member: Member) -> str:
    mask = _mask(member.process)
    if mask is not None and not parse_mask(mask):
        return f"env -u CUDA_VISIBLE_DEVICES {fixes.own_command(group)}"
    if stated.cuda_available(member.journal):
        return 'model = model.to("cuda")\nx, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)'
    host = evidence.snapshot.host if evidence.snapshot is not None else None
    driver = host.driver_version if host is not None and host.driver_version else "N/A"
    cuda = host.cuda_version if host is not None and host.cuda_version else "N/A"
    return (
        "python -c 'import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())'\n# install the "
        f"torch build that the selector on pytorch.org gives for CUDA {cuda} (driver {driver}), and in the script:\nassert "
        "torch.cuda.is_available()"
    )
