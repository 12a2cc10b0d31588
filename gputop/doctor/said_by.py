"""Which program prints each known text. Versions appear where the table of the texts names its sources in them. Pure."""

from __future__ import annotations

from collections.abc import Mapping

_WHO: Mapping[str, str] = {
    # torch
    "torch, about devices and memory": (
        "arch_unsupported bad_device_string cuda_deser_ordinal cuda_deser_unavailable cuda_init cuda_unknown_env driver_too_old"
        " no_driver not_compiled_cuda oom oom_other_proc pin_no_accel tensor_cores two_devices two_dtypes"
    ),
    "torch, autograd and operators": (
        "anomaly_mode batch_of_one inplace_modified leaf_in_place loss_no_scalar no_grad rnn_flat second_backward shapes"
        " sharded_parameter target_size"
    ),
    "torch 1.8 to 2.13, torch.amp": "no_inf_checks unscale_fp16",
    "torch, nn.DataParallel": (
        "dp_gather_scalar dp_imbalance dp_kwargs_mismatch dp_not_on_dev0 dp_replica_error dp_scatter_scalar"
    ),
    "torch, DistributedDataParallel": (
        "ddp_devids_cpu ddp_devids_spread ddp_not_needed fup_useless param_shape ready_twice unused_idx unused_params"
    ),
    "torch, c10d": (
        "barrier_guess coll_mismatch cpu_tensor_in_nccl env_rdzv_missing monitored_barrier nccl_heartbeat nccl_watchdog"
        " pg_not_init store_lost store_other_program store_timeout"
    ),
    "torch, torchrun": (
        "addr_in_use child_failed elastic_exit launch_deprecated launcher_no_cuda omp1 rdzv_address rdzv_closed"
        " rdzv_connection rdzv_timeout bus_error sigkill stopped"
    ),
    "torch, DataLoader and its workers": (
        "map_limit no_samples pin_thread sampler_excl too_many_workers unequal_samples worker_bus worker_crashed worker_killed"
        " worker_timeout"
    ),
    "torch, activation checkpoints": "checkpoint_no_grad",
    "torch, checkpoints": (
        "checkpoint_damaged checkpoint_not_one checkpoint_write module_prefix not_loaded optimizer_groups shape_differs"
        " state_dict_names"
    ),
    "torch 2.0 to 2.13, torch.load": "weights_only",
    "torch 1.8 to 2.13, cuDNN and cuBLAS": "cublas_handle cudnn_init cudnn_no_engine cudnn_version",
    "torch 1.8 to 2.13, extensions and torch.compile; Triton 2.0 to 3": (
        "cuda_home cuda_mismatch extension_build no_compiler numpy_bridge"
    ),
    "torch, torch.library": "operator_missing",
    # CUDA, its driver, and NCCL
    "the CUDA runtime, in the words of torch or of the program that uses it": "devices_busy err802 illegal invalid_ordinal",
    "the NVIDIA driver, in the kernel's log": "xid",
    "the NVIDIA driver, through NVML and nvidia-smi": "ecc gpu_lost nvml_mismatch nvml_unknown thermal_slowdown",
    "NCCL 2.14 to 2.29": (
        "nccl_connect nccl_cuda nccl_cuda_oom nccl_dup_gpu nccl_ib nccl_ib_call nccl_ib_memory nccl_no_interface"
        " nccl_peer_closed nccl_rank_count nccl_rank_twice nccl_remote nccl_shm nccl_sys nccl_version nvls"
    ),
    "gloo, as torch 1.8 to 2.13 contains it": "gloo_interface gloo_mesh gloo_peer gloo_timeout",
    # Frameworks
    "Accelerate": (
        "acc_p2p old_kernel accelerate_config accelerate_state hf_8bit_device hf_devicemap_dist optimizer_before_device"
    ),
    "Transformers": "hf_n_gpu hub_offline version_required without_labels",
    "Hugging Face Hub": "hub_refused",
    "tokenizers 0.13 to 0.20": "tokenizer_newer",
    "Lightning": (
        "all_in_eval cuda_before_launch lightning_devices pl_gpu_unused pl_no_gpu"
        " pl_notebook pl_slurm_tasks pl_workers precision_unsupported"
    ),
    "DeepSpeed": "cache_flushes deepspeed_exit ds_batch_sizes ds_config ds_cvd_ignored ds_hosts ssh_failed zero3_order",
    "Megatron-LM, fairseq and other trainers with a loss scale": "loss_scale",
    "the training script": "nan_loss",
    "Megatron-LM, DeepSpeed and other parallel trainers": "world_not_divisible",
    "Horovod": "horovod_stall",
    "TensorRT-LLM": "engine_ranks",
    "PaddlePaddle": "paddle_exit",
    "vLLM 0.2 to 0.11": ("vllm_bfloat16 vllm_context vllm_engine vllm_heads vllm_length vllm_memory_taken vllm_no_cache"),
    "TensorFlow": "oom_tf tf_cudnn_version",
    "JAX, and what else uses XLA": "oom_xla",
    "Lightning, Accelerate and other frameworks on a machine without a GPU": "no_accelerator",
    "flash-attn 2.0 to 2.8": "flash_attention_arch",
    "Ultralytics, and YOLOv5 before it; what scripts print of their torch": "cpu_build no_labels",
    "kohya's sd-scripts": "no_training_data",
    "Jupyter, nbclient, VS Code": "kernel_died",
    "Kaggle and Colab": "kernel_memory",
    "bitsandbytes": "bnb_no_binary",
    "protobuf 4 to 6": "protobuf_version",
    "wandb": "wandb_key wandb_timeout",
    "batchgenerators, as nnU-Net uses it": "background_workers",
    "HDF5 1.10 to 1.14, as h5py raises it": "file_locked",
    "Hydra, with OmegaConf": "hydra_call hydra_choice hydra_mandatory hydra_override hydra_target",
    "click": "click_usage",
    "conda": "conda_activate",
    "Ray 1.9 to 2.40": "ray_resources ray_worker_died",
    # Python, its C libraries, compilers, shells
    "Python": (
        "argparse_missing argparse_unknown argparse_value argument_unknown checkpoint_empty fork_memory import_name"
        " local_rank_dash module_missing module_part python_fatal script_not_found spawn_main_guard syntax worker_pickle"
    ),
    "NumPy, over Python's mmap": "array_cut_short",
    "Intel's and LLVM's OpenMP": "openmp_twice",
    "torch and Python": "fd_limit fork_cuda",
    "glibc": "glibc_version heap_corrupted library_missing undefined_symbol",
    "libstdc++ and libc++": "bad_alloc cpp_terminate",
    "Rust": "panic",
    "gcc, clang, ld, nvcc and ptxas (CUDA 9 to 13)": "toolchain",
    "OpenBLAS, libgomp, Intel's OpenMP, bash, Python and Rust": "thread_limit",
    "bash, dash and zsh": "command_not_found killed signal_crash",
    # Systems
    "Linux": "disk_full file_system kernel_oom quota",
    "Slurm": (
        "slurm_cancelled slurm_oom slurm_preempted slurm_refused slurm_step_waits slurm_time_limit srun_exit srun_killed"
    ),
    "OpenPBS, LSF, Slurm and Kubernetes": "memory_limit time_limit",
    "Kubernetes": "pod_evicted",
    "Docker and the NVIDIA container toolkit": "container_gpu",
    "Docker, Podman, Apptainer and Kubernetes": "container_image",
    "Open MPI": "mpi_exit mpi_launch mpi_slots",
}
SAID_BY: Mapping[str, str] = {text: who for who, texts in _WHO.items() for text in texts.split()}
"""The program that prints the text of this id."""
