"""Lines about how a process ended that no part of torch prints: command lines, shells, C libraries, Slurm, MPI, files, hubs."""

from __future__ import annotations

ENDS: tuple[tuple[str, str, dict[str, str]], ...] = (
    (
        "argparse_missing",
        "train.py: error: the following arguments are required: --data, --out",
        {"program": "train.py", "arguments": "--data, --out"},
    ),
    ("argparse_missing", "[rank0]: train.py: error: the following arguments are required: --data", {"arguments": "--data"}),
    ("argparse_unknown", "train.py: error: unrecognized arguments: --epoch 3", {"arguments": "--epoch 3"}),
    (
        "argparse_value",
        "main.py: error: argument -a/--arch: invalid choice: 'resnet19' (choose from 'resnet18', 'resnet50')",
        {"argument": "-a/--arch"},
    ),
    ("argparse_value", "train.py: error: argument --lr: invalid float value: '1e-'", {"why": "invalid float value: '1e-'"}),
    ("click_usage", "Error: No such option: --epoch (Possible options: --epochs)", {}),
    ("click_usage", "Error: Missing option '--data'.", {}),
    ("hydra_override", "Could not override 'model.width'.", {"name": "model.width"}),
    ("hydra_mandatory", "omegaconf.errors.MissingMandatoryValue: Missing mandatory value: data.path", {"name": "data.path"}),
    (
        "script_not_found",
        "python: can't open file '/home/ada/trian.py': [Errno 2] No such file or directory",
        {"file": "/home/ada/trian.py"},
    ),
    ("script_not_found", "python3: can't open file 'trian.py': [Errno 2] No such file or directory", {"file": "trian.py"}),
    ("command_not_found", "run.sh: line 3: torchrun: command not found", {"command": "torchrun"}),
    ("command_not_found", "bash: accelerate: command not found", {"command": "accelerate"}),
    ("command_not_found", "sh: 1: torchrun: not found", {"command": "torchrun"}),
    ("command_not_found", "/var/spool/slurmd/job12/slurm_script: 9: nvcc: not found", {"command": "nvcc"}),
    ("command_not_found", "zsh: command not found: torchrun", {"command": "torchrun"}),
    ("syntax", "SyntaxError: expected ':'", {"why": "expected ':'"}),
    ("syntax", "IndentationError: unexpected indent", {"type": "IndentationError"}),
    ("python_fatal", "Fatal Python error: Segmentation fault", {"why": "Segmentation fault"}),
    ("heap_corrupted", "free(): invalid pointer", {"call": "free"}),
    ("heap_corrupted", "malloc(): unaligned tcache chunk detected", {"call": "malloc"}),
    ("heap_corrupted", "double free or corruption (!prev)", {"why": "double free or corruption (!prev)"}),
    ("heap_corrupted", "corrupted size vs. prev_size", {}),
    ("cpp_terminate", "terminate called after throwing an instance of 'c10::Error'", {"type": "c10::Error"}),
    (
        "glibc_version",
        "ImportError: /lib/x86_64-linux-gnu/libm.so.6: version `GLIBC_2.29' not found (required by /opt/x.so)",
        {"version": "GLIBC_2.29", "file": "/opt/x.so"},
    ),
    (
        "library_missing",
        "ImportError: libcudnn.so.8: cannot open shared object file: No such file or directory",
        {"file": "libcudnn.so.8"},
    ),
    (
        "slurm_time_limit",
        "slurmstepd: error: *** JOB 1234 ON node7 CANCELLED AT 2026-05-01T10:00:00 DUE TO TIME LIMIT ***",
        {"job": "1234", "host": "node7"},
    ),
    (
        "slurm_preempted",
        "slurmstepd: error: *** JOB 1234 ON node7 CANCELLED AT 2026-05-01T10:00:00 DUE TO PREEMPTION ***",
        {"why": "PREEMPTION"},
    ),
    ("slurm_cancelled", "slurmstepd: error: *** STEP 1234.0 ON node7 CANCELLED AT 2026-05-01T10:00:00 ***", {"job": "1234.0"}),
    ("srun_exit", "srun: error: node7: task 3: Exited with exit code 1", {"tasks": "3", "code": "1"}),
    ("srun_exit", "srun: error: node7: tasks 0-2: Terminated", {"tasks": "0-2"}),
    ("mpi_exit", "Primary job  terminated normally, but 1 process returned", {}),
    (
        "mpi_exit",
        "mpirun noticed that process rank 3 with PID 4711 on node node7 exited on signal 11 (Segmentation fault).",
        {"number": "3", "signal": "11"},
    ),
    (
        "deepspeed_exit",
        "[ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python', '-u', 'train.py'] exits with return code = 1",
        {"code": "1"},
    ),
    ("signal_crash", "run.sh: line 7: 12345 Segmentation fault      (core dumped) python train.py", {}),
    ("signal_crash", "Bus error (core dumped)", {"why": "Bus error"}),
    ("signal_crash", "Illegal instruction (core dumped)", {"why": "Illegal instruction"}),
    (
        "shape_differs",
        "\tsize mismatch for fc.weight: copying a param with shape torch.Size([10, 5]) from checkpoint, the shape in current "
        "model is torch.Size([10, 6]).",
        {"name": "fc.weight", "saved": "[10, 5]", "own": "[10, 6]"},
    ),
    ("weights_only", "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded, to do so you have", {}),
    (
        "checkpoint_damaged",
        "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
        {"why": "reading zip archive", "more": "failed finding central directory"},
    ),
    ("disk_full", "OSError: [Errno 28] No space left on device: 'ckpt.pt'", {"file": "ckpt.pt"}),
    ("quota", "OSError: [Errno 122] Disk quota exceeded", {}),
    ("cudnn_init", "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", {"status": "NOT_INITIALIZED"}),
    (
        "cublas_handle",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        {"status": "ALLOC_FAILED"},
    ),
    ("hub_refused", "Cannot access gated repo for url https://huggingface.co/x/resolve/main/config.json.", {}),
    ("wandb_key", "wandb.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])", {}),
)

NO_ENDS: tuple[str, ...] = (
    "config.yaml: not found",
    "INFO: cache: not found",
    "checkpoint last.pt not found, starting from scratch",
    "Error: 0.031 (mean over 3 runs)",
    "val Error: 12.5 %",
    "train.py: errors so far: 0",
    "free() is called by the pool",
    "handles Segmentation faults of workers",
    "no core dumped",
    "the job may be CANCELLED AT any time",
    "quota of 3 samples per class",
    "the launcher exits with return codes of its ranks",
    "import error: none",
)
"""Lines that resemble these and say nothing."""
