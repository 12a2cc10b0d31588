"""More long and noisy logs as people post them, open half. Their author had not read the patterns of the doctor."""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case

_case = partial(Case, half="open")
_UNEXPLAINED = ("exception",)

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # The training of a tokenizer fails inside its native code, which says no more than "Internal".
    _case("vocabulary-has-a-hole", (ANY,), "PanicException|panicked"),
    # One line of the data is not valid JSON; two exceptions follow from it.
    _case("line-84113-of-the-news", (ANY,), r"JSON parse error|closing quotation|part-0007"),
    # The last part of a model was not downloaded whole.
    _case("weights-came-through-a-flaky-wire", (ANY,), "MetadataIncompleteBuffer|incomplete|truncated|not whole", _UNEXPLAINED),
    # The pod filled its node's disk, and was evicted.
    _case("pod-leaves-its-node", (ANY,), "evict|ephemeral|disk|storage"),
    # Slurm gave the nodes to a job with a higher priority.
    _case("somebody-with-more-priority", (ANY,), "preempt|priority"),
    # NVLink SHARP does not work: the fabric manager.
    _case("switches-of-the-new-node", (ANY,), "NVLS|Fabric Manager|NVLink SHARP", _UNEXPLAINED),
    # A memory cell of one GPU is broken.
    _case("memory-cell-of-card-6", (ANY,), "ECC"),
    # A file that each worker opens for writing is locked.
    _case("spectra-in-one-file", (ANY,), "lock"),
    # Each tensor on its way from a worker holds a file open.
    _case("two-hundred-thousand-tensors-in-flight", (ANY,), "open files|ulimit"),
    # The server of the dashboard does not answer.
    _case("the-dashboard-does-not-answer", (ANY,), "wandb|Run initialization"),
    # Triton is newer than torch expects.
    _case("compiled-once-before-the-update", (ANY,), "triton"),
    # The image lacks a library of the system.
    _case("slim-image-and-a-picture-library", (ANY,), r"libGL"),
    # torch was built for NumPy 1.
    _case("old-wheel-beside-a-new-array-library", (ANY,), "numpy"),
    # A text has more tokens than the model has positions.
    _case("long-documents-in-a-short-encoder", (ANY,), "742|512|size of tensor|positions"),
    # A tensor that the backward pass needs was changed.
    _case("residual-plus-equals", (ANY,), "in-?place"),
    # The last batch of an epoch has one sample.
    _case("a-batch-of-one-at-the-end", (ANY,), "drop_last|more than 1 value|one (row|sample)"),
    # The optimizer's parameters have no gradients.
    _case("scaler-and-an-optimizer-without-gradients", (ANY,), "No inf checks|no gradient|gradients"),
    # The interface that the environment names does not exist.
    _case("gloo-looks-for-eth7", (ANY,), "eth7|GLOO_SOCKET_IFNAME|interface"),
    # The disk is full.
    _case("archive-could-not-be-written", (ANY,), "space|disk|write", _UNEXPLAINED),
    # One rank was out of memory; Ray only knows that it died.
    _case("answers-get-longer-and-an-actor-dies", ("H02",), acceptable=_UNEXPLAINED),
    # Two ranks name one mistake differently: an index that is on the CPU.
    _case("one-index-tensor-on-the-host", (ANY,), "same device|cpu", _UNEXPLAINED),
    # Rank 0 still tokenizes while the others wait in a barrier.
    _case("rank-zero-maps-for-half-an-hour", ("G01", "C08"), acceptable=("cpp_terminate",)),
    # All values are nan from epoch 24 on.
    _case("keras-like-table-goes-bad", ("J01", "nan_loss")),
    # The loss rises to a multiple, and stays there.
    _case("recipe-with-a-hundredfold-rate", ("J02",)),
    # Flash attention needs a newer card.
    _case("old-card-and-a-modern-attention", (ANY,), "Ampere|attn_implementation|sdpa", _UNEXPLAINED),
    # torchvision was built for another torch.
    _case("vision-wheel-of-last-year", (ANY,), "torchvision"),
    # The environment was not activated, so that another Python ran.
    _case("batch-script-that-did-not-activate", (ANY,), "conda init|activate|torch"),
    # The compute nodes cannot reach the hub.
    _case("compute-nodes-have-no-internet", (ANY,), "huggingface|offline|unreachable"),
    # protobuf is newer than the generated code.
    _case("message-classes-of-another-compiler", (ANY,), "protobuf|protoc|Descriptors"),
    # The argument was renamed.
    _case("script-for-an-older-trainer", (ANY,), "tokenizer|processing_class"),
    # Saves before its time limit and is queued again.
    _case("healthy-asks-to-run-again"),
    # Optional packages are missing.
    _case("healthy-does-without-extras"),
    # An upload fails and is repeated.
    _case("healthy-uploads-are-retried"),
    # The largest batch size is found by running out of memory.
    _case("healthy-searches-a-batch-size"),
    # System logs are the data.
    _case("healthy-learns-from-system-logs"),
    # NCCL connects at its third try.
    _case("healthy-network-takes-three-tries"),
    # The dashboard is unreachable for three minutes.
    _case("healthy-dashboard-is-down-for-a-while"),
    # Batches with high losses are skipped.
    _case("healthy-jumps-over-a-spike"),
    # Metrics that are computed seldom are nan in between.
    _case("healthy-metrics-without-samples-yet"),
    # Dead codes and neurons are counted.
    _case("healthy-codebook-with-dead-entries"),
    # Python complains as it closes.
    _case("healthy-noise-at-the-exit"),
    # Optional operators cannot be built.
    _case("healthy-accelerator-lists-what-it-lacks"),
    # An environment hangs or crashes now and then, and is started again.
    _case("healthy-environment-takes-too-long"),
    # The head of a pretrained model does not fit, as is usual.
    _case("healthy-loads-what-fits"),
    # Stragglers are looked for, and there are none.
    _case("healthy-warns-of-stragglers-and-goes-on"),
    # NCCL finds no memory for its channels: the card of rank 6 is full. The other ranks lose rank 6 afterwards.
    _case("tensor-parallel-groups-start-late", ("H02", ANY), "memory", ("exception", "G04")),
    # pyxis looks for the image in the wrong registry, which refuses.
    _case("container-job-on-four-nodes", (ANY,), "401|unauthorized|registry|pyxis|container image|docker image"),
    # ssh refuses one node's new host key; the others wait for it in vain.
    _case("hostfile-with-a-reinstalled-node", (ANY,), r"host key|known_hosts|\bssh\b", ("G03",)),
    # Unit tests of guards print their captured errors; then comes a run.
    _case("healthy-pytest-runs-in-the-same-job"),
    # Imports that fail one after the other, until one does not.
    _case("healthy-kernels-it-can-do-without"),
)
