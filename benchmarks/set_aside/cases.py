"""Set aside: logs and programs, what the doctor should say of each, and why. See the package for who may read this."""

from __future__ import annotations

from functools import partial

from _stranger_programs import Program, with_python, with_torchrun
from _strangers import Case

_case = partial(Case, half="set aside")

LOGS: tuple[Case, ...] = (
    # The state of AdamW does not fit beside 8 billion parameters: the first optimizer step of two ranks fails.
    _case("accelerate-sft-oom-in-the-optimizer", ("H02",), acceptable=("exception",)),
    # cuBLAS cannot create its handle on a full card: out of memory by another name.
    _case("fairseq-cublas-create-fails", ("H02", "cublas_handle", "exception"), "memory", ("exception",)),
    # "Killed" is SIGKILL, which the kernel sends to workers when the host has no memory left.
    _case("lightning-loader-workers-killed", ("H05",), acceptable=("exception",)),
    # Ray's monitor killed a task because the node's memory was at 95 %.
    _case("ray-low-memory-on-the-node", ("H05",), acceptable=("exception",)),
    # Rank 5 could not write its part of the checkpoint; the timeouts half an hour later follow from that.
    _case("nemo-checkpoint-over-quota", ("exception", "quota"), "quota", ("G04",)),
    # Torch says itself that rank 0 is in ALLREDUCE and rank 1 in BROADCAST.
    _case("detail-mode-names-two-collectives", ("C08",)),
    # All ranks but 0 time out in one and the same barrier, while rank 0 packs the data set.
    _case("torchtune-packing-outlasts-the-barrier", ("G01",), acceptable=("cpp_terminate",)),
    # The name of the head node has no address on the other node.
    _case("rendezvous-name-does-not-resolve", ("G03",), r"c0411\.ib|resol|address"),
    # Port 29500 belongs to another process.
    _case("accelerate-port-in-use", ("G03",), "29500|port", ("exception",)),
    # The wheel holds no code for sm_120.
    _case("new-card-old-wheel", ("A12",), acceptable=("exception",)),
    # Nine added tokens and an embedding that was not resized: an index beyond its rows. cuBLAS only tells it later.
    _case("added-tokens-and-cublas", ("illegal",), "index|vocab|embedding", ("cublas_handle", "exception")),
    # A mask that was made with .cuda() stays on cuda:0 for every rank.
    _case("spawn-mask-stays-on-the-first-gpu", ("A13",), acceptable=("exception",)),
    # Parameters 318 to 341 take no part in the loss.
    _case("mmengine-auxiliary-head-unused", ("C09",)),
    # Validation runs without the autocast that training runs under.
    _case("srun-validation-without-autocast", ("exception", "two_dtypes"), "dtype"),
    # The gradients overflow at every scale: training has diverged.
    _case("fairseq-smallest-loss-scale", ("J01", "J02", "exception"), "loss scale|explod|diverge|overflow", ("exception",)),
    # torch.distributed.launch passes --local-rank, and the script requires --local_rank.
    _case("swin-script-and-the-new-launcher", ("A17",)),
    # The names in the checkpoint begin with "module.".
    _case("hydra-evaluates-a-wrapped-checkpoint", ("C13",)),
    # /dev/shm is too small for NCCL's segments.
    _case("container-nccl-segment", ("G05",), acceptable=("D08",)),
    # A lock file in a shared cache belongs to somebody else.
    _case("deepspeed-lock-of-a-colleague", ("exception",), "permission"),
    # Warnings about new heads, long sequences and forks; the F1 rises, and the run ends well.
    _case("healthy-ner-with-a-page-of-warnings"),
    # The scaler skips a few steps, one with a gradient norm of nan; the perplexity falls.
    _case("healthy-fairseq-finds-its-loss-scale"),
    # NCCL's own account of a run that ends well: plugins that it does without, and "Abort COMPLETE" as it closes.
    _case("healthy-nccl-talks-a-lot"),
    # Out of memory is how the batch size is found; the run goes on with a smaller one.
    _case("healthy-yolo-halves-its-batch"),
    # No episode has ended yet, so its mean is nan; the loss grows with the returns.
    _case("healthy-ppo-nan-before-the-first-episode"),
)

PROGRAMS: tuple[Program, ...] = (
    # The optimizer holds the parameters of the model before it was copied: the loss is constant.
    Program(_case("stale-optimizer", ("J03",)), with_python("stale_optimizer")),
    # Rank 1 has fewer batches and is in the evaluation's all_gather while rank 0 is in a backward.
    Program(_case("short-shard", ("C07", "C08"), acceptable=("G01",)), with_torchrun("short_shard"), 2, onset="last line"),
    # Rank 1 reads over a slow mount, and rank 0 waits for it in each backward.
    Program(_case("slow-mount", ("F01",), acceptable=("D01",)), with_torchrun("slow_mount"), 2),
    # In each batch one of two heads takes no part in the loss.
    Program(_case("two-heads", ("C09",)), with_torchrun("two_heads"), 2, onset="end"),
    # Actors with small networks and a learner; the loss changes its sign, as it may.
    Program(_case("healthy-actor-learner"), with_python("actor_learner")),
    # Five steps of the critic for one of the generator, whose losses have no floor at 0.
    Program(_case("healthy-wgan"), with_python("wgan_gp")),
    # A pipeline by send and recv: the ranks hold different layers and need no wrapper.
    Program(_case("healthy-two-stages"), with_torchrun("two_stage"), 2),
    # A search in one process: each trial begins anew, and one that diverges is dropped on purpose.
    Program(_case("healthy-random-search"), with_python("random_search")),
)
