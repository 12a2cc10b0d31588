"""Logs around wordings of more raise sites, all set aside: they replace those that somebody looked into.

Each comment names the cause and the source of the wording.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case

_case = partial(Case, half="set aside")
_UNEXPLAINED = ("exception",)

KIND = "by raise site"
LOGS: tuple[Case, ...] = (
    # torch/serialization.py, _legacy_load: a pickle, but not one of torch.save.
    _case("pretrained-encoder-from-a-zoo", (ANY,), "corrupt|damaged|torch.save|download", _UNEXPLAINED),
    # NCCL, bootstrap.cc: NCCL_SOCKET_IFNAME names an interface that this machine lacks.
    _case("same-script-on-the-new-partition", (ANY,), "NCCL_SOCKET_IFNAME|interface", _UNEXPLAINED),
    # torch, fsdp/_flat_param.py: adapters in float32 beside weights in bfloat16.
    _case("adapters-in-two-precisions", (ANY,), "uniform dtype|same dtype|float32", _UNEXPLAINED),
    # transformers, training_args.py: best model at end, but no evaluation.
    _case("keep-the-best-of-the-sentiment-models", (ANY,), "eval.{0,20}strategy|load_best_model_at_end", _UNEXPLAINED),
    # DeepSpeed, runtime/config.py: fp16 and bf16 at once.
    _case("settings-of-two-colleagues-merged", (ANY,), "fp16|bf16|bfloat16", _UNEXPLAINED),
    # Triton, compiler.py: a kernel wants more shared memory of the GPU than it has. Not /dev/shm.
    _case("long-attention-kernel-on-a-smaller-card", (ANY,), "block|num_stages|kernel", _UNEXPLAINED),
    # HDF5, H5FDsec2.c through h5py: the file system gives no locks.
    _case("spectrograms-on-the-parallel-file-system", (ANY,), "HDF5_USE_FILE_LOCKING|lock", _UNEXPLAINED),
    # wandb, apikey: no key and no terminal.
    _case("tracker-was-switched-on-for-the-batch-job", (ANY,), "wandb login|WANDB_API_KEY|WANDB_MODE|api.?key", _UNEXPLAINED),
    # torch, nn/parallel/distributed.py: all parameters are frozen.
    _case("teacher-gets-a-wrapper-too", (ANY,), "frozen|requires? (a )?grad|not needed", _UNEXPLAINED),
    # Slurm, slurmstepd: a node failed.
    _case("second-night-of-the-large-sweep", (ANY,), "node (has )?fail|node failure", ("slurm_cancelled",)),
    # Lightning, device_parser.py: four GPUs asked for, one given.
    _case("workstation-settings-in-the-shared-queue", (ANY,), "devices|requested|only has|visible", _UNEXPLAINED),
    # Open MPI: rank 5 crashed in native code.
    _case("horovod-job-ends-with-a-dashed-line", (ANY,), "segmentation|SIGSEGV|signal 11|native", ("G04",)),
    # Kubernetes, kubelet: no such image.
    _case("trainer-pod-of-release-candidate-three", (ANY,), "image", _UNEXPLAINED),
    # A loss that is 0.0000 once the samples are known by heart.
    _case("healthy-learns-sixty-four-samples-by-heart"),
    # Records that cannot be decoded are logged and skipped.
    _case("healthy-notes-three-broken-pictures"),
    # The script kills what holds its port, and then trains.
    _case("healthy-clears-the-port-before-it-starts"),
    # NCCL does without InfiniBand; the losses of a GAN go up and down.
    _case("healthy-painter-and-critic-over-ethernet"),
    # A trial fails and two are pruned, as studies go.
    _case("healthy-tabular-study-prunes"),
    # The loss of a policy is about 0 in every step.
    _case("healthy-policy-loss-hovers-about-nothing"),
)
