"""Programs and logs in other people's style, with what the doctor should say about each; and how an answer is judged.

There are two sets. The cases listed here are the first: rules were fixed against its figures, so they show that what was fixed
stays fixed. The second set has two halves, by an author who had not read the rules: rules may be written against ``open_half``;
``set_aside`` is only measured: whoever writes or fixes rules does not read it, and no report names its cases.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gputop.doctor.findings.finding import Finding

REPOSITORY = Path(__file__).parents[2]
ROOT = Path(__file__).parents[1] / "strangers"
Half = Literal["first", "open", "set aside"]
FOLDERS: dict[Half, Path] = {
    "first": ROOT,
    "open": Path(__file__).parents[1] / "open_half",
    "set aside": Path(__file__).parents[1] / "set_aside",
}
ANY = "*"
"""Stands for any id: whichever finding says what it should is right. The named cause counts, not the rule."""
Answer = Literal["right", "acceptable", "silent", "undecided", "wrong", "false alarm"]
ANSWERS: tuple[Answer, ...] = ("right", "acceptable", "silent", "undecided", "wrong", "false alarm")
"""How a first verdict is rated. For a fault: right, less than right, no finding, a finding or suspicion that is only possible,
or wrong. For a healthy case: right, or a false alarm (a problem above "possible")."""


@dataclass(frozen=True, slots=True)
class Case:
    """``right`` are the ids that the first finding may have; none: healthy. ``says`` is what the finding must also contain.

    ``acceptable`` are ids that are not wrong but say less; a right id that does not say what it should is acceptable too. With
    ANY, each finding that says it is right, and the others are wrong unless they are acceptable.

    ``outside_trace`` is decided from the program alone: whether a skilled person could see the fault with ps, top, py-spy,
    nvidia-smi and what the program prints. Where not, a program that is watched attached is counted apart.
    """

    name: str
    right: tuple[str, ...] = ()
    says: str = ""
    acceptable: tuple[str, ...] = ()
    half: Half = "first"
    outside_trace: bool = True

    @property
    def folder(self) -> Path:
        """The folder with the logs and programs of its half."""
        return FOLDERS[self.half]


def judge(case: Case, findings: Sequence[Finding], suspected: bool = False) -> Answer:
    """Judge what was said in the end. ``suspected``: something was being watched but not reported yet."""
    first = next(iter(findings), None)
    if not case.right:
        return "false alarm" if any(is_alarm(finding) for finding in findings) else "right"
    if first is None:
        return "undecided" if suspected else "silent"
    text = f"{first.title}\n{first.cause}\n{first.fix}".replace(case.name, "")  # the file's name gives the cause away
    if (first.id in case.right or ANY in case.right) and re.search(case.says, text, re.IGNORECASE) is not None:
        return "right"
    if first.id in case.right or first.id in case.acceptable:
        return "acceptable"
    return "wrong" if is_alarm(first) else "undecided"


def is_alarm(finding: Finding) -> bool:
    """Return whether a finding requires action."""
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
    # 12.90 GiB of PyTorch's own and 13.26 GiB of "process 51077" exceed the GPU's 14.58: in a container torch lists itself.
    Case("ray-train-worker-oom", ("H02",), acceptable=("exception",)),
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
    # The state of AdamW does not fit beside 8 billion parameters: the first optimizer step of two ranks fails.
    Case("accelerate-sft-oom-in-the-optimizer", ("H02",), acceptable=("exception",)),
    # cuBLAS cannot create its handle on a full card: out of memory by another name.
    Case("fairseq-cublas-create-fails", ("H02", "cublas_handle", "exception"), "memory", ("exception",)),
    # "Killed" is SIGKILL, which the kernel sends to workers when the host has no memory left.
    Case("lightning-loader-workers-killed", ("H05",), acceptable=("exception",)),
    # Ray's monitor killed a task because the node's memory was at 95 %.
    Case("ray-low-memory-on-the-node", ("H05",), acceptable=("exception",)),
    # Rank 5 could not write its part of the checkpoint; the timeouts half an hour later follow from that.
    Case("nemo-checkpoint-over-quota", ("exception", "quota"), "quota", ("G04",)),
    # Torch says itself that rank 0 is in ALLREDUCE and rank 1 in BROADCAST.
    Case("detail-mode-names-two-collectives", ("C08",)),
    # All ranks but 0 time out in one and the same barrier, while rank 0 packs the data set.
    Case("torchtune-packing-outlasts-the-barrier", ("G01",), acceptable=("cpp_terminate",)),
    # The name of the head node has no address on the other node.
    Case("rendezvous-name-does-not-resolve", ("G03",), r"c0411\.ib|resol|address"),
    # Port 29500 belongs to another process.
    Case("accelerate-port-in-use", ("G03",), "29500|port", ("exception",)),
    # The wheel holds no code for sm_120.
    Case("new-card-old-wheel", ("A12",), acceptable=("exception",)),
    # Nine added tokens and an embedding that was not resized: an index beyond its rows. cuBLAS only tells it later.
    Case("added-tokens-and-cublas", ("illegal",), "index|vocab|embedding", ("cublas_handle", "exception")),
    # A mask that was made with .cuda() stays on cuda:0 for every rank.
    Case("spawn-mask-stays-on-the-first-gpu", ("A13",), acceptable=("exception",)),
    # Parameters 318 to 341 take no part in the loss.
    Case("mmengine-auxiliary-head-unused", ("C09",)),
    # Validation runs without the autocast that training runs under.
    Case("srun-validation-without-autocast", ("exception", "two_dtypes"), "dtype"),
    # The gradients overflow at every scale: training has diverged.
    Case("fairseq-smallest-loss-scale", ("J01", "J02", "exception"), "loss scale|explod|diverge|overflow", ("exception",)),
    # torch.distributed.launch passes --local-rank, and the script requires --local_rank.
    Case("swin-script-and-the-new-launcher", ("A17",)),
    # The names in the checkpoint begin with "module.".
    Case("hydra-evaluates-a-wrapped-checkpoint", ("C13",)),
    # /dev/shm is too small for NCCL's segments.
    Case("container-nccl-segment", ("G05",), acceptable=("D08",)),
    # A lock file in a shared cache belongs to somebody else.
    Case("deepspeed-lock-of-a-colleague", ("exception",), "permission"),
    # Warnings about new heads, long sequences and forks; the F1 rises, and the run ends well.
    Case("healthy-ner-with-a-page-of-warnings"),
    # The scaler skips a few steps, one with a gradient norm of nan; the perplexity falls.
    Case("healthy-fairseq-finds-its-loss-scale"),
    # NCCL's own account of a run that ends well: plugins that it does without, and "Abort COMPLETE" as it closes.
    Case("healthy-nccl-talks-a-lot"),
    # Out of memory is how the batch size is found; the run goes on with a smaller one.
    Case("healthy-yolo-halves-its-batch"),
    # No episode has ended yet, so its mean is nan; the loss grows with the returns.
    Case("healthy-ppo-nan-before-the-first-episode"),
)
"""Logs as people paste them; each is the file of that name in strangers/logs. The later ones were formerly set aside."""
