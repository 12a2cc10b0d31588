"""Long and noisy logs, open half: what people post and what batch systems keep. Split at random with the seed 1611."""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case

_case = partial(Case, half="open")
_UNEXPLAINED = ("exception",)

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # Rank 2 reads a file that is not UTF-8; the other ranks then lose it.
    _case("punctuation-over-gloo", (ANY,), "UnicodeDecodeError|utf-8|decode", ("G04",)),
    # NCCL_SOCKET_IFNAME names an interface that this host does not have.
    _case("launch-script-of-another-cluster", (ANY,), "NCCL_SOCKET_IFNAME|interface", _UNEXPLAINED),
    # The ranks gather tensors of unequal sizes; NCCL notices it by their length.
    _case("boxes-of-unequal-count-gathered", ("C08", ANY), "truncated|mismatch|differ|unequal|same (size|shape)", _UNEXPLAINED),
    # torchrun accepts a number, gpu, cpu or auto, but not gpus.
    _case("run-local-of-a-colleague", (ANY,), "nproc.per.node"),
    # A stale NFS handle ends a thread of rank 5, whose loop then waits for ever.
    _case("prefetch-thread-of-rank-5", (ANY,), "stale|Errno 116", ("G01", "G04")),
    # Two images of a batch have different sizes.
    _case("photos-of-two-cameras", (ANY,), "equal size|639|different (size|shape)|same (size|shape)"),
    # One JPEG is not complete.
    _case("pod-meets-a-cut-jpeg", (ANY,), "truncated|incomplete|damaged|not whole", _UNEXPLAINED),
    # The distributed checkpoint lacks the state of the optimizer.
    _case("pretraining-starts-again-at-12000", (ANY,), r"Missing key|wq\.weight|optimizer"),
    # The card takes one process only, and it has one.
    _case("shared-server-at-six-in-the-evening", ("A15", ANY), "busy|exclusive|another process", _UNEXPLAINED),
    # Rank 6 is out of memory while it generates.
    _case("grpo-in-its-46th-step", ("H02",), acceptable=_UNEXPLAINED),
    # A quantized model was loaded on one device for all ranks.
    _case("qlora-over-four-cards", (ANY,), "device_map|different device|quantiz"),
    # Lightning wants 8 devices, Slurm starts one task.
    _case("era5-on-the-booster", (ANY,), "ntasks-per-node|devices=8|SLURM"),
    # The loss is NaN from epoch 4 on.
    _case("mixture-density-stops-early", ("J01", "nan_loss")),
    # A file has one column more than the others.
    _case("pairs-of-two-annotation-rounds", (ANY,), "column|source_id|batch_07"),
    # The hub refuses the requests of that many tasks.
    _case("64-tasks-ask-the-hub", (ANY,), "429|Too Many Requests|rate limit"),
    # Ray was not started on this node.
    _case("ppo-with-address-auto", (ANY,), "Ray instance|ray start|RAY_ADDRESS"),
    # A node has failed.
    _case("night-run-on-four-nodes", (ANY,), "node.{0,10}fail|r3n14"),
    # The disk with the compiler's cache is full.
    _case("nano-compiles-for-a-minute", (ANY,), "space|full disk|disk is full"),
    # The home directory's quota is used up.
    _case("student-account-downloads-a-model", (ANY,), "quota|space"),
    # This bitsandbytes has no binary for CUDA 12.8.
    _case("four-bit-on-a-new-runtime", (ANY,), "bitsandbytes|without GPU support|libbitsandbytes", _UNEXPLAINED),
    # This vLLM does not know the model's architecture.
    _case("rollout-server-and-a-model-of-last-week", (ANY,), "architecture|NewMoe"),
    # Lock files in a shared cache belong to somebody else.
    _case("group-cache-of-models", (ANY,), "permission"),
    # TensorFlow registers its plugins twice, as it does.
    _case("healthy-imports-speak-first"),
    # Words of a game.
    _case("healthy-agents-crash-and-are-killed"),
    # Tests of a guard against errors, and then a run.
    _case("healthy-tests-run-before-training"),
    # Three updates of 3,000 are skipped; the perplexity falls.
    _case("healthy-guard-skips-three-updates"),
    # srun waits for its nodes, and gets them.
    _case("healthy-step-waits-for-its-nodes"),
    # Formerly set aside.
    # The ranks were told different world sizes: 4 and 2.
    _case(
        "half-of-the-ranks-count-differently", (ANY,), "rank count|world.size|number of ranks|mismatch", ("exception", "G04")
    ),
    # nvcc of CUDA 11.8 refuses the new gcc.
    _case(
        "chat-after-a-distribution-upgrade",
        (ANY,),
        "gcc|GNU version|host compiler",
        ("exception", "cuda_mismatch", "no_compiler"),
    ),
    # The class was renamed or moved: hydra does not find it.
    _case("hydra-sweep-ends-at-its-first-job", (ANY,), "ConvNextTiny|locating target|_target_"),
    # Triton needs Python's headers.
    _case("diffusion-in-a-slim-image", (ANY,), r"Python\.h|header|python.{0,4}-dev", ("exception", "no_compiler")),
    # A language model's programs fail; the training does not.
    _case("healthy-written-programs-fail"),
    # A server refuses what its clients send, and goes on.
    _case("healthy-clients-send-too-much"),
)
