"""A GPU that accepts only one process (A15)."""

from __future__ import annotations

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.support.outputs import command_of, outputs_of, quoted
from gputop.doctor.rules.support.rule import Judgement, Rule, Suspicion

_EXCLUSIVE = ("exclusive_process", "exclusive_thread", "prohibited")

_SET_DEVICE = """\
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)  # before any other CUDA call, so that no rank opens another rank's GPU

# or let several processes share a GPU:
sudo nvidia-smi -c DEFAULT"""


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
            title=f"{words.gpus(exclusive)} {'accepts' if len(exclusive) == 1 else 'accept'} one process: a rank found it busy",
            evidence=(
                Fact(
                    f"compute mode of {words.gpus(exclusive)}: {exclusive[0].compute_mode}", exclusive[0].compute_mode, "NVML"
                ),
                quoted(match),
            ),
            cause="In this compute mode, a GPU accepts one process (none if prohibited). A rank that has not chosen its "
            "own GPU yet may open a context on another rank's GPU, and takes its place.",
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
    title="A GPU accepts only one process",
    severities=("error",),
    confidences=("certain",),
    needs=("NVML: compute mode", "the run's output"),
    threshold="an exclusive compute mode, and the text devices_busy in a run that failed",
    hides=("G01", "G03", "G04"),
    mechanism=(
        "In an exclusive compute mode, a GPU accepts one process; in prohibited mode, none. A rank that opens a context on "
        "another rank's GPU takes that rank's place."
    ),
    signature='The run fails with "CUDA-capable device(s) is/are busy or unavailable".',
    look_alike="Another user's process that holds the GPU.",
    fix=(
        "Call torch.cuda.set_device(local_rank) before any other CUDA call, or set the compute mode to DEFAULT "
        "(`nvidia-smi -c DEFAULT`)."
    ),
    judge_machine=exclusive_mode,
)
