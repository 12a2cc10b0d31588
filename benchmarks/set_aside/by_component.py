"""Logs by the component that fails, the half that is set aside.

They were written and committed before they were measured, by an author who had not read the patterns then, and mended them
afterwards: that author knows the texts, but neither looked at a case's answer nor at this folder again.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case

_case = partial(Case, half="set aside")
_UNEXPLAINED = ("exception",)

KIND = "by component"
LOGS: tuple[Case, ...] = (
    _case("no-route-to-the-head-node", ("G03",), r"a40-7|route|reach|29533", _UNEXPLAINED),
    _case("nccl-asked-for-on-a-login-node", (ANY,), "no GPUs found|no GPU"),
    _case("rank-5-crashes-in-native-code", (ANY,), "SIGSEGV|segmentation|crash", ("G04",)),
    _case("rendezvous-endpoint-without-a-host", (ANY,), "endpoint"),
    # A worker gives nothing for two minutes; Empty is how the queue says it.
    _case("loader-waits-two-minutes", (ANY,), "timed out after 120|DataLoader|worker"),
    _case("unet-of-another-version", (ANY,), "down_blocks|key|names"),
    _case("resume-from-an-empty-file", (ANY,), "empty|truncated|incomplete|not whole|damaged", _UNEXPLAINED),
    _case("mask-is-an-empty-string", (ANY,), "CUDA_VISIBLE_DEVICES|no GPU|no CUDA GPUs"),
    # The memory ran out; that the handler fails follows from it.
    _case("handler-of-the-oom-fails-too", ("H02",), acceptable=_UNEXPLAINED),
    _case("locked-memory-is-limited", (ANY,), "memlock|locked memory|ulimit -l", ("G05", "nccl_system", "exception")),
    _case("accelerate-tells-the-command-that-failed", (ANY,), r"train_v2\.jsonl.*no such|no such.*train_v2|FileNotFound"),
    _case("half-precision-without-a-card", (ANY,), "CUDA|fp16"),
    _case("zero-config-with-a-fraction", (ANY,), "stage3_prefetch_bucket_size|integer", _UNEXPLAINED),
    _case("hydra-wants-the-root", (ANY,), r"data\.root"),
    _case("one-row-of-the-json-is-broken", (ANY,), "JSON|row 41", _UNEXPLAINED),
    _case("compute-nodes-have-no-internet", (ANY,), "resolve|connect|network|internet|offline"),
    _case("slurm-takes-the-node-back", (ANY,), "preempt", ("slurm_cancelled",)),
    # Both of Lustre's answers mean that nothing more could be written.
    _case("stream-writer-at-an-unexpected-position", (ANY,), "space|disk|quota|write failed", _UNEXPLAINED),
    _case("pool-is-larger-than-the-node", (ANY,), "available GPUs 4"),
    _case("cudnn-library-not-found", (ANY,), "libcudnn"),
    _case("kernel-log-below-the-word-killed", ("H05",), acceptable=("killed", "signal_killed")),
    _case("healthy-tracker-goes-offline-for-a-while"),
    _case("healthy-compiler-talks-of-recompiles"),
)
