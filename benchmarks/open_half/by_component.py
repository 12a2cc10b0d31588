"""Logs by the component that fails, open half: what c10d, NCCL, torchrun, data loaders, frameworks and batch systems print."""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case

_case = partial(Case, half="open")
_UNEXPLAINED = ("exception",)

KIND = "by component"
LOGS: tuple[Case, ...] = (
    # Rank 3 does not know its host, and ends; the others lose the store, or rank 0, only then.
    _case("others-lost-the-store", (ANY,), "tun-gpu4", ("G04",)),
    # An assertion on rank 2; NCCL tells the others that a remote process has ended.
    _case("remote-error-after-an-assert", (ANY,), "transcript"),
    # The script's name is misspelled; torchrun reports exit code 2 of each rank.
    _case("launcher-starts-a-file-that-is-not-there", (ANY,), r"pretrain_gtp\.py"),
    # Of two nodes one came.
    _case("one-node-of-two-at-the-rendezvous", ("G03",), acceptable=_UNEXPLAINED),
    # A data set returns None for a sample.
    _case("collate-meets-none", (ANY,), "NoneType"),
    # The checkpoint's head has 21,841 classes and the model 87.
    _case("head-for-other-classes", (ANY,), r"head\.weight|21841|shape|size mismatch"),
    # The third file of seven was not downloaded to its end.
    _case("shard-that-was-not-copied-whole", (ANY,), "truncated|incomplete|not whole|damaged|download", _UNEXPLAINED),
    # After sleep the driver's module has to be loaded anew.
    _case("cuda-after-the-laptop-slept", (ANY,), "nvidia_uvm|driver|module|reboot|sleep", _UNEXPLAINED),
    # The CUDA context itself does not fit: others fill the card.
    _case("card-is-full-before-the-first-tensor", ("H02", "H03"), acceptable=_UNEXPLAINED),
    # Status 12 is IBV_WC_RETRY_EXC_ERR: the peer did not answer over InfiniBand.
    _case(
        "infiniband-completion-with-status-12", (ANY,), "InfiniBand|link|cable|switch|fabric|retr", ("G01", "G04", "exception")
    ),
    # A model that is spread over cards by device_map cannot be copied to each rank.
    _case("device-map-auto-under-accelerate", (ANY,), "device_map"),
    # The key is val_acc, and the callback watches val/acc.
    _case("checkpoint-watches-a-metric-nobody-logs", (ANY,), "val/acc"),
    # Sequences of 61 and 88 tokens, and no padding.
    _case("rows-of-unequal-length", (ANY,), "padding"),
    # The fused optimizer is compiled, and there is no toolkit.
    _case("deepspeed-without-cuda-home", (ANY,), "CUDA_HOME|toolkit"),
    # Some parameters are bfloat16 and some float32.
    _case("fsdp-over-two-dtypes", (ANY,), "dtype"),
    # --grad-acum for --grad-accum.
    _case("option-with-a-letter-missing", (ANY,), "grad-acum"),
    # The model's license has to be accepted, with a token.
    _case("model-behind-a-gate", (ANY,), "gated|access|token|log in"),
    # The weights leave no room for the cache.
    _case("engine-core-without-cache-blocks", (ANY,), "cache blocks|gpu_memory_utilization|KV cache"),
    # The job went over the memory that it had asked for.
    _case("slurm-counts-an-oom-kill", ("H05",), acceptable=("killed", "signal_killed")),
    # The disk is full.
    _case("no-room-for-the-shards", (ANY,), "space|full"),
    # flashinfer is not installed where the actor starts.
    _case("ray-worker-lacks-a-package", (ANY,), "flashinfer"),
    # With "spawn", what a loader gets has to be picklable; the child's EOFError follows from that.
    _case("lambda-cannot-go-to-the-workers", (ANY,), "pickle|lambda"),
    # The store is late by two seconds.
    _case("healthy-store-warns-then-trains"),
    # A traceback with its level ERROR; the script takes another tokenizer.
    _case("healthy-logger-exception-and-a-slow-tokenizer"),
    # A search notes what a trial failed with, and begins the next one. It was set aside until somebody had to look into it.
    _case("healthy-trials-are-pruned"),
    # NCCL warns of what it can do without.
    _case("healthy-nccl-warns-of-a-plugin"),
    # Formerly set aside.
    _case("lightning-finds-parameters-without-gradients", ("C09",), acceptable=_UNEXPLAINED),
    _case("embedding-read-outside-the-wrapped-forward", (ANY,), "shard|FSDP|ZeRO", _UNEXPLAINED),
)
