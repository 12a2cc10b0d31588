"""Lines about limits of a user or a machine, file systems that go away, and calls that a framework refuses; and look-alikes.

Each is written from the source that its pattern's module names, with made-up values; REAL ones were printed by CPython 3.11
and torch 2.13.
"""

from __future__ import annotations

LIMITS: tuple[tuple[str, str, dict[str, str]], ...] = (
    (
        "thread_limit",
        "OpenBLAS blas_thread_init: pthread_create failed for thread 29 of 64: Resource temporarily unavailable",
        {},
    ),
    ("thread_limit", "OpenBLAS blas_thread_init: pthread_create: Resource temporarily unavailable", {}),
    ("thread_limit", "libgomp: Thread creation failed: Resource temporarily unavailable", {}),
    ("thread_limit", "OMP: Error #34: System unable to allocate necessary resources for OMP thread:", {}),
    ("thread_limit", "RuntimeError: can't start new thread", {}),  # REAL
    ("thread_limit", "bash: fork: retry: Resource temporarily unavailable", {}),
    ("thread_limit", "/usr/bin/bash: fork: Resource temporarily unavailable", {}),
    (
        "thread_limit",
        "terminate called after throwing an instance of 'std::system_error'   what():  Resource temporarily unavailable",
        {},
    ),
    (
        "thread_limit",
        "The global thread pool has not been initialized.: ThreadPoolBuildError { kind: IOError(Os { code: 11, kind: "
        'WouldBlock, message: "Resource temporarily unavailable" }) }',
        {},
    ),
    ("fork_memory", "OSError: [Errno 12] Cannot allocate memory", {}),
    ("fork_memory", "bash: fork: Cannot allocate memory", {}),
    (
        "map_limit",
        "RuntimeError: unable to mmap 2048 bytes from file <filename not specified>: Cannot allocate memory (12)",
        {"bytes": "2048"},
    ),
    (
        "map_limit",
        "RuntimeError: unable to mmap 280 bytes from file </torch_59534_1208885928>: Cannot allocate memory (12)",
        {"bytes": "280"},
    ),
    (
        "file_system",
        "OSError: [Errno 116] Stale file handle: '/scratch/fields/000912.npy'",
        {"why": "Stale file handle", "file": "/scratch/fields/000912.npy"},
    ),
    ("file_system", "OSError: [Errno 107] Transport endpoint is not connected", {"why": "Transport endpoint is not connected"}),
    ("file_system", "OSError: [Errno 5] Input/output error: 'shard_0001.tar'", {"why": "Input/output error"}),
    ("file_system", "OSError: [Errno 30] Read-only file system: '/data/out'", {"why": "Read-only file system"}),
    (
        "file_system",
        "OSError: [Errno 108] Cannot send after transport endpoint shutdown: '/lustre/a/train.bin'",
        {"why": "Cannot send after transport endpoint shutdown"},
    ),
    ("cpu_tensor_in_nccl", "RuntimeError: No backend type associated with device type cpu", {"device": "cpu"}),  # REAL
    ("cpu_tensor_in_nccl", "RuntimeError: Tensors must be CUDA and dense", {"device": "CPU"}),
    ("unscale_fp16", "ValueError: Attempting to unscale FP16 gradients.", {}),  # REAL
    (
        "cuda_before_launch",
        "RuntimeError: Lightning can't create new processes if CUDA is already initialized. Did you manually call "
        "`torch.cuda.*` functions, have moved the model to the device, or allocated memory on the GPU any other way?",
        {"who": "Lightning"},
    ),
    (
        "cuda_before_launch",
        "ValueError: To launch a multi-GPU training from your notebook, the `Accelerator` should only be initialized inside "
        "your training function. Restart your notebook and make sure no cells initializes an `Accelerator`.",
        {"who": "Accelerate"},
    ),
    (
        "cuda_before_launch",
        "RuntimeError: CUDA has been initialized before the `notebook_launcher` could create a forked subprocess. This likely "
        "stems from an outside import causing issues once the `notebook_launcher()` is called.",
        {"who": "Accelerate"},
    ),
    (
        "cuda_before_launch",
        "ValueError: To launch a multi-GPU training from your notebook, you need to avoid running any instruction using "
        "`torch.cuda` in any cell. Restart your notebook and make sure no cells use any CUDA function.",
        {"who": "Accelerate"},
    ),
    (
        "gloo_mesh",
        "RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144] no error",
        {"why": "no error"},
    ),
    (
        "gloo_mesh",
        "RuntimeError: [/opt/conda/work/third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [172.31.71.170]:13195: "
        "Connection refused",
        {"why": "connect [172.31.71.170]:13195: Connection refused"},
    ),
    (
        "world_not_divisible",
        "AssertionError: world size (6) is not divisible by total_model_size (encoder_model_size=0 + decoder_model_size=4)",
        {"world": "6"},
    ),
    (
        "world_not_divisible",
        "AssertionError: world size (6) is not divisible by tensor parallel size (4) times pipeline parallel size (1)",
        {"world": "6"},
    ),
    ("world_not_divisible", "RuntimeError: world_size (12) is not divisible by 8", {"world": "12"}),
    (
        "cache_flushes",
        "[2024-11-06 13:20:27,545] [WARNING] [stage3.py:2139:step] 2 pytorch allocator cache flushes since last step. this "
        "happens when there is high memory pressure and is detrimental to performance.",
        {"times": "2"},
    ),
    (
        "zero3_order",
        "AssertionError: {'id': 918, 'status': 'INFLIGHT', 'numel': 0, 'ds_numel': 5120, 'shape': (0,), 'ds_shape': (5120,), "
        "'requires_grad': False, 'grad_shape': None, 'persist': True, 'active_sub_modules': {578}}",
        {"status": "INFLIGHT"},
    ),
    (
        "zero3_order",
        "AssertionError: {'id': 853, 'status': 'NOT_AVAILABLE', 'numel': 0, 'ds_numel': 0, 'shape': (0,), 'ds_shape': (0,)}",
        {"status": "NOT_AVAILABLE"},
    ),
    (
        "zero3_order",
        "RuntimeError: still have inflight params [<bound method Init._convert_to_deepspeed_param.<locals>.ds_summary of "
        "Parameter containing:",
        {"status": "inflight"},
    ),
)
NO_LIMITS: tuple[str, ...] = (
    "OpenBLAS blas_thread_init: RLIMIT_NPROC 4096 current, 513046 max",
    "each worker can start new thread pools",
    "the resource is temporarily unavailable in your region",
    "unscale_ was called before the step",
    "sequence length 1000 is not divisible by 8: padding",
    "{'id': 918, 'status': 'AVAILABLE', 'numel': 5120, 'ds_numel': 5120}",
    "the model is mapped to a read-only file system image",
    "gloo/transport/tcp/pair.cc: connected to 172.31.71.170",
)
"""Lines that resemble these and say nothing."""
