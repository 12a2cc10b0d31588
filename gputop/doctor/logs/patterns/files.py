"""Texts about disks that are full, files that are locked, and services that refuse or do not answer. Pure.

Sources: NumPy's memmap over CPython's mmapmodule.c; batchgenerators' multi-threaded augmenters; the kernel's ENOSPC, EDQUOT,
ESTALE and others; huggingface_hub/utils/_http.py; transformers/utils/hub.py (4.20 to 5.x); wandb/sdk/lib/apikey.py and
wandb_init.py (0.13 to 0.2x); H5FDsec2.c of HDF5 (1.10 to 1.14), as h5py raises it.
"""

from __future__ import annotations

from gputop.doctor.logs.patterns.pattern import Pattern, cascade, failure

_GONE = (
    (116, "Stale file handle", "The server exported the file system again, or the file was replaced on it."),
    (107, "Transport endpoint is not connected", "The program behind the mount (FUSE: s3fs, gcsfuse, sshfs) has ended."),
    (108, "Cannot send after transport endpoint shutdown", "The client lost its server (Lustre evicts clients)."),
    (
        30,
        "Read-only file system",
        "It is mounted without write access: on purpose, in a container, or after an error of the disk.",
    ),
    (
        5,
        "Input/output error",
        "The disk or the server behind the file failed. Without a file's name, it may also be a terminal that was closed, to "
        "which the script still prints.",
    ),
)
"""Numbers of failed calls on a file system that had worked before, their words, and why."""

PATTERNS: tuple[Pattern, ...] = (
    *(
        failure(
            "file_system",
            None,
            words,
            rf"\[Errno {number}\] (?P<why>{words})(?:: '(?P<file>[^'\n]{{1,400}})')?",
            "The file system fails: {why}",
            means,
            "findmnt -T {file}; sudo dmesg --ctime | tail  # the mount of the file, and what the kernel says about it\n"
            "# mount it again, or copy the data to a local disk; then continue from the last checkpoint",
            confidence="likely",
            refuted_by="Reading and writing the same file from a new shell on the same host works.",
            groups={"file": "DATA"},
        )
        for number, words, means in _GONE
    ),
    failure(
        "disk_full",
        None,
        "No space left on device",
        r"\[Errno 28\] No space left on device(?:: '?(?P<file>[^']+)'?)?",
        "The disk is full",
        "Something could not be written: a checkpoint, a log, or a temporary file (/tmp and /dev/shm count as disks too).",
        "df -h . /tmp /dev/shm; df -i .",
        lasting=True,
    ),
    failure(
        "array_cut_short",
        None,
        "mmap length is greater than file size",
        r"mmap length is greater than file size",
        "A data file is shorter than its header says: it is truncated",
        "NumPy maps the array that the header describes, but the file ends earlier: it was not written or copied completely "
        "(a full disk, a stopped job), or is still being written.",
        "find DATA -name '*.npy' -size -1k; df -h DATA  # DATA: where the preprocessed files are\n"
        "# delete the file that the traceback was reading, and preprocess it again",
    ),
    cascade(
        "background_workers",
        None,
        "background workers are no longer alive",
        r"One or more background workers are no longer alive",
        "A loader's worker has ended",
        "The cause is in what the worker printed before.",
        "# read the lines above: a worker's own traceback comes first",
    ),
    failure(
        "quota",
        None,
        "Disk quota exceeded",
        r"Disk quota exceeded",
        "The disk quota is used up",
        "Your share of the file system is full, even if the disk has free space.",
        "quota -s; du -sh ~/.cache ~/* | sort -h | tail  # caches of pip, conda and Hugging Face are the usual ones",
        lasting=True,
    ),
    failure(
        "hub_refused",
        None,
        "gated repo",
        r"Cannot access gated repo for url (?P<url>\S+)",
        "The hub refuses {url}: the repository is gated",
        "The repository asks for an accepted license and a token of an account that has accepted it.",
        "huggingface-cli login  # and accept the license on the repository's page; in jobs: HF_TOKEN",
    ),
    failure(
        "wandb_key",
        None,
        "api_key not configured",
        r"api_key not configured \(no-tty\)",
        "W&B has no API key on this machine",
        "wandb.init asks for the key on a terminal. A job has none, so it raises an exception.",
        "wandb login  # once on this machine; or WANDB_MODE=offline, or WANDB_API_KEY",
    ),
    failure(
        "file_locked",
        None,
        "unable to lock file",
        r"unable to lock file, errno = (?P<number>\d+)",
        "HDF5 cannot lock the file: another process has it open",
        'A file that is open for writing (mode "a" or "r+") can be opened once only, and some network file systems know no '
        "locks. Each rank and each loader worker opens it separately.",
        'h5py.File(path, "r")  # read only, and opened in the worker: not in __init__\n'
        "HDF5_USE_FILE_LOCKING=FALSE python train.py  # where nothing writes to the file",
        refuted_by="lsof FILE shows no other process, and the file system has locks (errno is not 37 or 38).",
    ),
    failure(
        "wandb_timeout",
        None,
        "Run initialization has timed out",
        r"Run initialization has timed out after (?P<seconds>[\d.]+) sec",
        "W&B did not answer within {seconds} s",
        "The host reaches the server slowly or not at all: a proxy, a firewall, compute nodes without internet, or the server "
        "is down. wandb.init then raises an exception.",
        "WANDB_MODE=offline python train.py  # and later: wandb sync wandb/offline-run-*\n"
        "curl -sI https://api.wandb.ai | head -1  # from the same host",
        confidence="likely",
        refuted_by="The script catches it and goes on without W&B.",
    ),
    failure(
        "hub_offline",
        None,
        "We couldn't connect to '",
        r"We couldn't connect to '(?P<url>[^']{1,200})' to load",
        "{url} cannot be reached, and the files are not in the cache",
        "Compute nodes often have no internet: what a script loads by name has to be there before.",
        "hf download NAME  # where there is internet: fills the cache of HF_HOME, which the nodes must see\n"
        "HF_HUB_OFFLINE=1 python train.py  # asks nobody: fails at once where a file is missing",
        refuted_by="curl -sI {url} answers on the host that failed.",
    ),
)
