"""The environment variables whose values a snapshot carries: they change how torch, CUDA or NCCL run.

``SETTINGS`` is the complete list: nothing else from a process's environment leaves the machine in a stream or a recording.
Names that may hold a secret do not belong here. Imports only the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping

LONGEST = 256
"""Maximum characters kept of one value."""

SETTINGS = frozenset(
    {
        # where ranks meet
        *("MASTER_ADDR", "GROUP_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "TORCHELASTIC_RESTART_COUNT"),
        *("SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_NNODES", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NPROCS"),
        *("SLURM_JOB_ID", "SLURM_CPUS_PER_TASK", "SLURM_GPUS_PER_TASK", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS"),
        *("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_RANK", "PMI_SIZE"),
        # threads and memory of the host
        *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "KMP_AFFINITY"),
        *("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "MALLOC_ARENA_MAX", "TOKENIZERS_PARALLELISM"),
        # CUDA
        *("CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MODULE_LOADING", "CUDA_MPS_PIPE_DIRECTORY"),
        *("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_TF32_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG"),
        *("CUDA_CACHE_DISABLE", "CUDA_FORCE_PTX_JIT", "CUDA_MANAGED_FORCE_DEVICE_ALLOC", "GPU_DEVICE_ORDINAL"),
        # torch
        *("TORCH_DISTRIBUTED_DEBUG", "TORCH_NCCL_BLOCKING_WAIT", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_CPP_LOG_LEVEL"),
        *("NCCL_BLOCKING_WAIT", "NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "TORCH_FR_BUFFER_SIZE"),
        *("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_ENABLE_MONITORING", "TORCH_SHOW_CPP_STACKTRACES"),
        *("PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NVML_BASED_CUDA_CHECK"),
        *("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE", "TORCH_LOGS", "TORCHINDUCTOR_COMPILE_THREADS"),
        *("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "PYTORCH_ENABLE_MPS_FALLBACK", "PYTHONFAULTHANDLER", "PYTHONUNBUFFERED"),
        # NCCL
        *("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE"),
        *("NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_NET_GDR_LEVEL", "NCCL_NVLS_ENABLE", "NCCL_ALGO", "NCCL_PROTO"),
        *("NCCL_MULTI_RANK_GPU_ENABLE", "NCCL_CUMEM_ENABLE", "NCCL_RAS_ENABLE", "NCCL_RAS_ADDR", "NCCL_SET_THREAD_NAME"),
        *("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_BUFFSIZE", "NCCL_LAUNCH_MODE", "GLOO_SOCKET_IFNAME"),
        # frameworks and gputop
        *("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED", "ACCELERATE_MIXED_PRECISION", "WANDB_MODE"),
        *("GPUTOP", "GPUTOP_AUTO", "GPUTOP_VIRTUAL"),
    }
)


def settings_of(values: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the settings in an environment, sorted by name."""
    return tuple((name, values[name][:LONGEST]) for name in sorted(SETTINGS & values.keys()))
