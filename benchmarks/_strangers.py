"""Programs and logs in other people's style, with what the doctor should say of each; and how an answer is judged.

These are the open half: rules may be written against them. The other half, in ``set_aside``, has an author of its own, and is
only measured: whoever writes or mends rules reads nothing of it, and no report names its cases that fail.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gputop.doctor.findings.finding import Finding

REPOSITORY = Path(__file__).parent.parent
ROOT = Path(__file__).parent / "strangers"
SET_ASIDE = Path(__file__).parent / "set_aside"
Half = Literal["open", "set aside"]
Answer = Literal["right", "acceptable", "silent", "undecided", "wrong", "false alarm"]
ANSWERS: tuple[Answer, ...] = ("right", "acceptable", "silent", "undecided", "wrong", "false alarm")
"""What a first verdict is. Of a fault: right, less than right, no finding, a finding or suspicion that is only possible, or
wrong. Of a healthy case: right, or a false alarm (a problem above "possible")."""


@dataclass(frozen=True, slots=True)
class Case:
    """``right``: ids that the first finding may have; none: healthy. ``says``: what the finding has to contain, too.

    ``acceptable`` are ids that are not wrong, and say less; so is a right id that does not say what it should.
    """

    name: str
    right: tuple[str, ...] = ()
    says: str = ""
    acceptable: tuple[str, ...] = ()
    half: Half = "open"

    @property
    def folder(self) -> Path:
        """Where the logs and programs of its half are."""
        return ROOT if self.half == "open" else SET_ASIDE


def judge(case: Case, findings: Sequence[Finding], suspected: bool = False) -> Answer:
    """Judge what was said in the end. ``suspected``: something was watched for, and not told yet."""
    first = next(iter(findings), None)
    if not case.right:
        return "false alarm" if any(is_alarm(finding) for finding in findings) else "right"
    if first is None:
        return "undecided" if suspected else "silent"
    text = f"{first.title}\n{first.cause}\n{first.fix}"
    if first.id in case.right and re.search(case.says, text, re.IGNORECASE) is not None:
        return "right"
    if first.id in case.right or first.id in case.acceptable:
        return "acceptable"
    return "wrong" if is_alarm(first) else "undecided"


def is_alarm(finding: Finding) -> bool:
    """Return whether a finding calls for something to be done."""
    return finding.confidence != "possible" and finding.severity != "info"


_UNEXPLAINED = ("exception",)
LOGS: tuple[Case, ...] = (
    Case("accelerate-cpu-oom", ("H05",), acceptable=("G04", "exception")),
    Case("apex-is-missing", ("exception", "module_missing"), "apex"),
    Case("argparse-invalid-choice", ("argparse_value",), "resnet5O"),
    Case("bash-loop-killed", ("H05",), acceptable=("G04", "signal_killed")),
    Case("checkpoint-weights-only", ("weights_only",)),
    Case("compile-without-a-c-compiler", ("exception", "no_compiler"), "compiler"),
    Case("container-cannot-load-nvml", ("I10", "container_gpu"), acceptable=("library_missing",)),
    Case("datasets-map-worker-died", ("H05",), acceptable=_UNEXPLAINED),
    Case("deepspeed-batch-sizes", ("exception", "ds_batch_sizes"), "train_batch_size"),
    Case("deepspeed-minus-nine", ("H05",), acceptable=("G04",)),
    Case("deepspeed-op-builder-cuda", ("exception", "cuda_mismatch"), r"11\.8"),
    Case("detectron-data-time", ("D01",)),
    Case("docker-shm-bus-error", ("D08",)),
    Case("docker-without-gpu-runtime", ("I10", "container_gpu")),
    Case("flash-attn-built-for-another-torch", ("exception", "undefined_symbol"), "undefined symbol|built for"),
    Case("frozen-everything", ("exception", "J03", "no_grad"), "does not require grad|frozen|requires_grad"),
    Case("gloo-peer-gone", ("exception",), "KeyError", ("G04",)),
    Case("healthy-curriculum-print"),
    Case("healthy-download-retries"),
    Case("healthy-gan"),
    Case("healthy-imagenet-script"),
    Case("healthy-nanogpt-with-warnings"),
    Case("healthy-ppo"),
    Case("healthy-skips-bad-images"),
    Case("healthy-stopped-by-hand"),
    Case("healthy-throughput-after-warm-up"),
    Case("hf-trainer-grad-norm-nan", ("J01", "nan_loss")),
    Case("hydra-typo-in-override", ("hydra_override",), r"optim\.lrr"),
    Case("imagenet-script-slow-disk", ("D01", "D07")),
    Case("labels-out-of-range", ("illegal",), "index|n_classes"),
    Case("lightning-loss-turns-nan", ("J01", "nan_loss")),
    Case("lightning-slurm-time-limit", ("slurm_time_limit",)),
    Case("mmengine-waits-for-data", ("D01",)),
    Case("nccl-no-route-between-nodes", ("nccl_connect", "nccl_system"), "No route to host", ("exception", "G04")),
    Case("printed-loss-explodes", ("J02", "J01")),
    Case("ray-train-worker-oom", ("H03",), "51077", ("H02",)),
    Case("second-job-on-the-same-port", ("G03",), "taken"),
    Case("second-node-cannot-join", ("G03",), r"10\.0\.4\.11"),
    Case("slurm-no-such-configuration", ("slurm_refused",), "configuration"),
    Case("slurm-step-not-created", ("slurm_refused",), "processors"),
    Case("spawn-killed", ("H05",), acceptable=("G04", "exception")),
    Case("spawn-one-process-raises", ("exception",), "IndexError"),
    Case("sweep-agent-shapes", ("exception", "shapes"), "mat1 and mat2|shape"),
    Case("throughput-falls-over-hours", ("E10", "E11")),
    Case("torch-1-10-launch-oom-interleaved", ("H02",)),
    Case("torch-1-13-communicator-aborted", ("G01", "C08")),
    Case("torchrun-oom-on-rank-2", ("H02",), "GPU 2"),
    Case("validation-longer-than-training", ("E07", "B13")),
    Case("vllm-context-too-long", ("exception", "H02"), "KV cache"),
    Case("vllm-not-enough-free-memory", ("H03", "H02"), "memory", ("exception",)),
    Case("watchdog-of-torch-1-9", ("G01",), acceptable=("cpp_terminate",)),
    Case("watchdog-of-torch-2-6", ("G01", "C08")),
    Case("watchdog-ranks-in-different-calls", ("C08",), acceptable=("G01",)),
)
"""Logs as people paste them; each is the file of its name in strangers/logs."""
