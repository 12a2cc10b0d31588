"""Texts about checkpoints that cannot be loaded, disks that are full, and hubs that refuse. Pure.

Sources: torch/nn/modules/module.py (load_state_dict), torch/serialization.py, caffe2/serialize/inline_container.cc; the
kernel's ENOSPC and EDQUOT; huggingface_hub/utils/_http.py; wandb/sdk/lib/apikey.py; ATen/cudnn and ATen/cuda.
"""

from __future__ import annotations

from gputop.doctor.logs.patterns.pattern import Pattern, failure

PATTERNS: tuple[Pattern, ...] = (
    failure(
        "shape_differs",
        None,
        "size mismatch for",
        r"size mismatch for (?P<name>\S+): copying a param with shape torch\.Size\((?P<saved>[^)]*)\) from checkpoint, "
        r"the shape in "
        r"current model is torch\.Size\((?P<own>[^)]*)\)",
        "The checkpoint does not fit the model: {name} is {saved} there and {own} here",
        "The model was built with other sizes than the one that was saved: number of classes, width, vocabulary.",
        "# build the model with the checkpoint's configuration, or leave {name} out:\n"
        "state = torch.load(path); state.pop('{name}'); model.load_state_dict(state, strict=False)",
    ),
    failure(
        "weights_only",
        None,
        "Weights only load failed",
        r"Weights only load failed",
        "The checkpoint holds more than weights, and torch.load takes weights only",
        "torch.load has weights_only=True by default since torch 2.6: classes beside tensors are refused.",
        "torch.load(path, weights_only=False)  # only for a file that you trust; or "
        "torch.serialization.add_safe_globals([Class])",
    ),
    failure(
        "checkpoint_damaged",
        None,
        "PytorchStreamReader failed",
        r"PytorchStreamReader failed (?P<why>[^:\n]+)(?:: (?P<more>.+))?",
        "A checkpoint is damaged or incomplete: {why}",
        "The file was cut short: the run that wrote it ended in between, the disk was full, or it is still being "
        "written or copied.",
        "ls -l PATH; df -h PATH  # go on from the checkpoint before it\n"
        "torch.save(state, path + '.tmp'); os.replace(path + '.tmp', path)  # a save that cannot be cut short",
    ),
    failure(
        "disk_full",
        None,
        "No space left on device",
        r"\[Errno 28\] No space left on device(?:: '?(?P<file>[^']+)'?)?",
        "The disk is full",
        "Something could not be written: a checkpoint, a log, or a temporary file (/tmp and /dev/shm count as disks too).",
        "df -h . /tmp /dev/shm; df -i .",
    ),
    failure(
        "quota",
        None,
        "Disk quota exceeded",
        r"Disk quota exceeded",
        "The disk quota is used up",
        "Your share of the file system is full, even where the disk has room.",
        "quota -s; du -sh ~/.cache ~/* | sort -h | tail  # caches of pip, conda and Hugging Face are the usual ones",
    ),
    failure(
        "cudnn_init",
        None,
        "CUDNN_STATUS_",
        r"CUDNN_STATUS_(?P<status>NOT_INITIALIZED|INTERNAL_ERROR|ALLOC_FAILED|EXECUTION_FAILED|VERSION_MISMATCH)",
        "cuDNN failed: {status}",
        "Often too little free GPU memory for cuDNN's handle and workspace; else a cuDNN of another version on the "
        "library path.",
        "nvidia-smi  # free memory when it happens; then a smaller batch\necho $LD_LIBRARY_PATH  # no other cuDNN than "
        "torch's own",
        confidence="likely",
    ),
    failure(
        "cublas_handle",
        None,
        "CUBLAS_STATUS_",
        r"CUBLAS_STATUS_(?P<status>ALLOC_FAILED|NOT_INITIALIZED|EXECUTION_FAILED|INTERNAL_ERROR)",
        "cuBLAS failed: {status}",
        "Often too little free GPU memory for cuBLAS's workspace, or an index out of range in an earlier kernel.",
        "nvidia-smi  # free memory when it happens; then a smaller batch\n"
        "CUDA_LAUNCH_BLOCKING=1 python train.py  # names the operation that failed first",
        confidence="likely",
    ),
    failure(
        "hub_refused",
        None,
        "gated repo",
        r"Cannot access gated repo for url (?P<url>\S+)",
        "The hub refuses {url}: the repository is gated",
        "The repository asks for an accepted licence and a token of an account that has accepted it.",
        "huggingface-cli login  # and accept the licence on the repository's page; in jobs: HF_TOKEN",
    ),
    failure(
        "wandb_key",
        None,
        "api_key not configured",
        r"api_key not configured \(no-tty\)",
        "W&B has no API key on this machine",
        "wandb.init asks for the key on a terminal, and a job has none: it raises instead.",
        "wandb login  # once on this machine; or WANDB_MODE=offline, or WANDB_API_KEY",
    ),
)
