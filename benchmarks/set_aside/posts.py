"""Long and noisy logs, set aside: what people post and what batch systems keep. Split at random with the seed 1611."""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case

_case = partial(Case, half="set aside")
_UNEXPLAINED = ("exception",)

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # srun sets no MASTER_ADDR, and the script expects it.
    _case("mae-from-srun", (ANY,), "MASTER_ADDR"),
    # The head node's port cannot be reached.
    _case("second-dgx-behind-a-firewall", ("G03", ANY), "dgx-a|29400|connect|reach", _UNEXPLAINED),
    # The checkpoint's tensors belong to device 5; map_location is missing.
    _case("eval-on-the-small-box", (ANY,), "map_location"),
    # The checkpoint holds a class of a module that cannot be imported here.
    _case("vocoder-resumes-elsewhere", (ANY,), "vocoder_lib"),
    # A safetensors file is not one: an LFS pointer or an error page.
    _case("dreambooth-after-git-clone", (ANY,), "header|LFS|pointer|damaged|download|not a safetensors", _UNEXPLAINED),
    # The option is expandable_segments.
    _case("llava-with-exported-options", (ANY,), "expandable_segment|PYTORCH_CUDA_ALLOC_CONF|allocator", _UNEXPLAINED),
    # The driver's libraries were updated, and its module is the old one.
    _case("workstation-after-the-night", ("A12", ANY), "803|driver", _UNEXPLAINED),
    # Error 802: the fabric manager does not run.
    _case("first-job-on-a-new-node", (ANY,), "fabric|802|not yet initialized", ("exception", "A12")),
    # The data set's columns are text; nobody tokenized it.
    _case("instructions-were-not-tokenized", (ANY,), "columns|remove_unused_columns"),
    # tokenizer.json was written by a newer version.
    _case("merged-model-on-the-old-image", (ANY,), "tokenizer|ModelWrapper|version|untagged", _UNEXPLAINED),
    # The cluster has no GPUs of that name.
    _case("distillation-script-from-another-partition", ("slurm_refused", ANY), "gres|generic resource"),
    # The loss is NaN from update 2310 on.
    _case("speech-updates-as-json", ("J01", "nan_loss")),
    # Triton's ptxas does not know the card.
    _case("small-box-compiles-its-first-model", (ANY,), "ptxas|sm_121a", _UNEXPLAINED),
    # FlashAttention 2 does not run on Turing cards.
    _case("two-t4-and-a-long-context", (ANY,), "Ampere|attn_implementation|FlashAttention"),
    # Port 8000 is taken.
    _case("reward-server-next-to-a-notebook", ("G03", ANY), "already in use|8000|port"),
    # The spot instance was taken back: SIGTERM.
    _case(
        "spot-node-is-drained", (ANY,), "SIGTERM|signal.{0,5}15|reclaim|preempt|spot|drain", ("exception", "slurm_cancelled")
    ),
    # LD_LIBRARY_PATH puts the libraries of another CUDA first.
    _case("two-toolkits-in-one-path", (ANY,), "nvJitLink|undefined symbol|LD_LIBRARY_PATH", _UNEXPLAINED),
    # RANK was used as a device number.
    _case("script-that-worked-on-one-machine", ("A08", "A03", "invalid_ordinal", ANY), "ordinal|LOCAL_RANK"),
    # Counters of errors, all 0, before the run.
    _case("healthy-preflight-lists-errors"),
    # A dashboard's port is taken; the run needs none.
    _case("healthy-board-takes-another-port"),
    # German for error, error rate and abort.
    _case("healthy-fehlerrate-sinkt"),
)
