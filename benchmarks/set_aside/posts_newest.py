"""Long and noisy logs around errors that people post often, set aside: their author knew only the titles of the rules.

Each comment names the cause. The error lines have the wording of the version that they belong to; all else is invented.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case

_case = partial(Case, half="set aside")
_UNEXPLAINED = ("exception",)

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # Rank 0 writes 60 GB to a slow mount, for longer than the others wait in gloo's barrier.
    _case(
        "archive-on-the-slow-mount",
        ("G01", "gloo_timeout", ANY),
        r"rank 0|1800|30 min|timed out|timeout|waited",
        ("exception", "G04", "child_failed"),
    ),
    # Node 1 cannot reach the store at the endpoint.
    _case("german-bert-on-a-pair-of-nodes", ("G03", ANY), r"10\.28\.1\.16|29511|reach|connect", _UNEXPLAINED),
    # Both ranks load the 8-bit model onto the same card.
    _case("reviews-on-a-pair-of-3090", (ANY,), "device_map|8-bit|quantized", _UNEXPLAINED),
    # Masks hold three values, and the network has two classes.
    _case("masks-of-three-tissues", ("illegal", ANY), "class|label|index|n_classes", _UNEXPLAINED),
    # DeepSpeed wants nvcc, and only the driver is installed.
    _case("small-model-from-scratch-at-home", (ANY,), "CUDA_HOME|toolkit|nvcc", _UNEXPLAINED),
    # The disk of the hub's cache is full; hf_xet, in Rust, says it in its own way.
    _case("nightly-evaluation-of-many-models", (ANY,), r"no space|disk (is )?full|full disk|os error 28", _UNEXPLAINED),
    # An auxiliary head takes no part in the loss; Lightning's words for it.
    _case(
        "molecules-with-an-auxiliary-head", ("C09", ANY), "unused|not used|find_unused|did not contribute|no part", _UNEXPLAINED
    ),
    # The model logs val/loss, and the callback wants val_loss.
    _case("birds-for-one-epoch", (ANY,), r"val_loss|val/loss|monitor", _UNEXPLAINED),
    # Another job has port 29500.
    _case("detector-next-to-a-detector", ("G03", "addr_in_use", ANY), "29500|port|in use", _UNEXPLAINED),
    # Both ranks take the first GPU: the script has its own local_rank, which is 0.
    _case("histology-on-the-workstation", ("A07", "nccl_dup_gpu", ANY), "same GPU|duplicate|share", _UNEXPLAINED),
    # GPT-2 has no padding token.
    _case("tickets-into-fourteen-queues", (ANY,), "pad", _UNEXPLAINED),
    # Windows cannot promise the workers enough memory. The broken pipe follows.
    _case("falls-on-a-laptop", (ANY,), "paging file|page file|virtual memory", ("exception", "H05")),
    # Out of memory in the validation, in the wording of torch 1.9.
    _case("happy-whales-fold-zero", ("H02",), acceptable=("exception", "oom")),
    # Each room has its own number of points.
    _case("rooms-of-every-size", ("unequal_samples", ANY), "size|collate|length|pad", _UNEXPLAINED),
    # The linker does not find libcurand. One rank built, the other imported what was not built.
    _case("reasoning-with-three-cards", ("extension_build", ANY), "curand|cpu_adam", ("exception", "library_missing")),
    # Statistics on the CPU are reduced by NCCL.
    _case("first-evaluation-after-a-thousand-steps", ("cpu_tensor_in_nccl", ANY), "CPU|not on a GPU", _UNEXPLAINED),
    # The mirror answered with a page of HTML.
    _case(
        "tracker-from-the-old-repository",
        ("checkpoint_not_one", ANY),
        r"HTML|web page|not a checkpoint|download|'<'",
        _UNEXPLAINED,
    ),
    # The code was written for torch 1.
    _case("vision-and-language-of-2020", (ANY,), r"torch\._six|version|older torch", _UNEXPLAINED),
    # fp16 on a card without bfloat16: the gradients are NaN, and the loss is printed as 0.0.
    _case("lora-of-a-volta-card", ("J01", "nan_loss", ANY), "nan", ("J03",)),
    # Rank 5 met a row without text; the others time out ten minutes later.
    _case("mixture-of-code-and-prose", ("exception", ANY), r"KeyError|'content'|rank 5", ("G04",)),
    # The loss of the critic grows with the returns.
    _case("healthy-pendulum-in-tables"),
    # A package that is missing is not needed; the loss of a diffusion model jumps about.
    _case("healthy-teapot-on-the-beach"),
    # Damaged EXIF data and bytes too many, in pictures that can be read.
    _case("healthy-pictures-with-odd-headers"),
    # The loss of GRPO begins at 0, as it should, while the rewards rise.
    _case("healthy-rewards-while-the-loss-is-nothing"),
)
