"""Texts about disks that are full, and hubs that refuse. Pure.

Sources: NumPy's memmap over CPython's mmapmodule.c; batchgenerators' multi-threaded augmenters; the kernel's ENOSPC and
EDQUOT; huggingface_hub/utils/_http.py; wandb/sdk/lib/apikey.py.
"""

from __future__ import annotations

from gputop.doctor.logs.patterns.pattern import Pattern, cascade, failure

PATTERNS: tuple[Pattern, ...] = (
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
        "array_cut_short",
        None,
        "mmap length is greater than file size",
        r"mmap length is greater than file size",
        "A data file is shorter than its header says: it is truncated",
        "NumPy maps the array that the header describes, and the file ends before: it was not written or copied to its end (a "
        "full disk, a job that was stopped), or is still being written.",
        "find DATA -name '*.npy' -size -1k; df -h DATA  # DATA: where the preprocessed files are\n"
        "# delete the file that the traceback was reading, and preprocess it again",
    ),
    cascade(
        "background_workers",
        None,
        "background workers are no longer alive",
        r"One or more background workers are no longer alive",
        "A loader's worker has ended",
        "What the worker printed before is the cause.",
        "# read the lines above: a worker's own traceback comes first",
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
        "wandb.init asks for the key on a terminal, and a job has none: it raises an exception.",
        "wandb login  # once on this machine; or WANDB_MODE=offline, or WANDB_API_KEY",
    ),
)
