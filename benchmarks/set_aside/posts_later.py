"""More long and noisy logs, all set aside: by another author, who had not read the rules and changed none."""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case

_case = partial(Case, half="set aside")
_UNEXPLAINED = ("exception",)

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # The virtual machine does not let its cards reach each other.
    _case("whisper-on-the-hosters-virtual-machine", (ANY,), r"peer access|\bP2P\b|peer-to-peer", _UNEXPLAINED),
    # The model has SyncBatchNorm, but the script runs without a launcher and makes no process group.
    _case("point-clouds-without-the-launcher", (ANY,), "init_process_group|process group|torchrun|launcher", _UNEXPLAINED),
    # The process has too many open files: file descriptors of the workers' tensors pile up.
    _case("sign-language-clips-at-night", (ANY,), r"file.descriptor|open files|ulimit|sharing.strategy", _UNEXPLAINED),
    # The file server was mounted again, read-only.
    _case("molecules-on-the-departments-file-server", (ANY,), "read.only", _UNEXPLAINED),
    # ZeRO wrote its checkpoint with 8 ranks and is to read it with 4.
    _case("sft-goes-on-where-a-smaller-queue-is-free", (ANY,), "world.size|number of (ranks|GPUs)", _UNEXPLAINED),
    # pip replaced torch, and torchvision is that of the former torch.
    _case("detector-after-a-small-upgrade", (ANY,), "torchvision", _UNEXPLAINED),
    # Rank 2 is out of memory, a third of which is reserved and in pieces.
    _case("long-documents-of-many-lengths", ("H02", "E04"), acceptable=("exception", "H06", "G04")),
    # Validation is asked for every 5,000 batches, and an epoch has 1,184.
    _case("small-corpus-with-the-settings-of-the-large", (ANY,), "val_check_interval"),
    # Reentrant checkpointing under DDP.
    _case("adapter-on-three-gaming-cards", (ANY,), "ready (only once|twice)|reentrant|static_graph", _UNEXPLAINED),
    # datasets 4 runs no scripts.
    _case("common-benchmark-on-a-fresh-notebook-image", (ANY,), r"scripts? (is|are) no longer|datasets *<|loading script"),
    # A node's disk is full of spilled objects.
    _case("clip-pretraining-streams-its-blocks", (ANY,), "disk|space", _UNEXPLAINED),
    # The logarithm's gradient is NaN; anomaly detection names it.
    _case("flow-with-the-slow-mode-on", ("J01", "nan_loss", ANY), "nan|LogBackward", _UNEXPLAINED),
    # sentencepiece is not installed.
    _case("translation-model-in-a-minimal-venv", (ANY,), "sentencepiece", _UNEXPLAINED),
    # The model branches on a tensor's value, and fullgraph=True allows no graph break.
    _case("router-compiles-as-one-graph", (ANY,), r"data.dependent|control flow|graph break|torch\.cond", _UNEXPLAINED),
    # The container has lost its devices, as after a reload of systemd.
    _case(
        "second-run-in-a-container-that-is-up-for-days",
        ("I10", "container_gpu", ANY),
        "NVML|container|no CUDA GPUs|no GPU",
        ("exception", "A12"),
    ),
    # Downloads that are resumed.
    _case("healthy-weights-arrive-in-pieces"),
    # Error rates, and sentences about errors.
    _case("healthy-recognizer-prints-what-it-hears"),
    # Out of memory is how the batch size is found.
    _case("healthy-searches-for-its-batch-size"),
    # The run has finished, and its end is noisy.
    _case("healthy-leaves-the-house-untidily"),
)
