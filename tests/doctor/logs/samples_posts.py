"""Lines that people post of packages, services and clusters that do not fit, and look-alikes that say nothing.

Each is written from the source that its pattern's module names, with made-up values.
"""

from __future__ import annotations

POSTS: tuple[tuple[str, str, dict[str, str]], ...] = (
    (
        "tf_cudnn_version",
        "2020-07-17 20:50:48.353275: E tensorflow/stream_executor/cuda/cuda_dnn.cc:319] Loaded runtime CuDNN library: 7.5.1 "
        "but source was compiled with: 7.6.0.  CuDNN library major and minor version needs to match or have higher minor",
        {"found": "7.5.1", "built": "7.6.0"},
    ),
    (
        "tf_cudnn_version",
        "2024-06-12 16:19:09.672260: E tensorflow/compiler/xla/stream_executor/cuda/cuda_dnn.cc:417] Loaded runtime CuDNN "
        "library: 8.3.2 but source was compiled with: 8.6.0.  CuDNN library needs to have matching major version",
        {"found": "8.3.2", "built": "8.6.0"},
    ),
    (
        "cpu_build",
        "YOLOv5 🚀 v7.0-294-gdb125a20 Python-3.10.12 torch-2.0.1+cpu CPU (Intel Xeon 2.20GHz)",
        {"torch": "2.0.1"},
    ),
    ("cpu_build", "torch 2.4.1+cpu, Python 3.11.9", {"torch": "2.4.1"}),
    ("cpu_build", "PyTorch version: 2.1.0+cpu", {"torch": "2.1.0"}),
    ("kernel_memory", "Your notebook tried to allocate more memory than is available. It has restarted.", {}),
    (
        "no_labels",
        "train: WARNING ⚠️ No labels found in /home/nora/shelf/train/labels.cache. See the docs for formatting guidance.",
        {"where": "/home/nora/shelf/train/labels.cache"},
    ),
    (
        "no_labels",
        "WARNING: No labels found in ../coco/train.cache, training may not work correctly.",
        {"where": "../coco/train.cache"},
    ),
    (
        "no_training_data",
        "No data found. Please verify arguments (train_data_dir must be the parent of folders with images) / 画像",
        {},
    ),
    (
        "thermal_slowdown",
        "        HW Thermal Slowdown               : Active",
        {},
    ),
    (
        "thermal_slowdown",
        "GPU 84 C, 1605 MHz, SW Thermal Slowdown: Active, HW Thermal Slowdown: Not Active",
        {},
    ),
    (
        "openmp_twice",
        "OMP: Error #15: Initializing libiomp5md.dll, but found libiomp5md.dll already initialized.",
        {"file": "libiomp5md.dll", "other": "libiomp5md.dll"},
    ),
    (
        "old_kernel",
        "Detected kernel version 4.18.0, which is below the recommended minimum of 5.5.0; this can cause the process to hang.",
        {"version": "4.18.0"},
    ),
    ("all_in_eval", "0         Modules in train mode", {}),
    ("pl_no_gpu", "GPU available: False, used: False", {}),
    (
        "all_in_eval",
        "pytorch_lightning/loops/fit_loop.py:527: Found 151 module(s) in eval mode at the start of training. This may lead to",
        {"number": "151"},
    ),
    ("thermal_slowdown", " 24   7582 3.261 4.51 89 2415 408 100%  throttle: sw_thermal", {}),
    ("thermal_slowdown", "gpu1 91C 620MHz thermal_slowdown=Active", {}),
    (
        "tensor_cores",
        "You are using a CUDA device ('NVIDIA H100 80GB HBM3') that has Tensor Cores. To properly utilize them, you should set",
        {},
    ),
    (
        "tensor_cores",
        "_inductor/compile_fx.py: TensorFloat32 tensor cores for float32 matrix multiplication available but not enabled. "
        "Consider setting `torch.set_float32_matmul_precision('high')` for better performance.",
        {},
    ),
    (
        "checkpoint_no_grad",
        "checkpoint.py:87: UserWarning: None of the inputs have requires_grad=True. Gradients will be None",
        {},
    ),
    ("kernel_memory", "Your session crashed after using all available RAM.", {}),
    ("kernel_died", "The kernel for train.ipynb appears to have died. It will restart automatically.", {}),
    ("kernel_died", "[I 12:41:07.119 LabApp] AsyncIOLoopKernelRestarter: restarting kernel (1/5), keep random ports", {}),
    ("unequal_samples", "RuntimeError: Trying to resize storage that is not resizable", {}),
    (
        "unequal_samples",
        "RuntimeError: Trying to resize storage that is not resizable at ../aten/src/ATen/native/Resize.cpp:1",
        {},
    ),
    (
        "unequal_samples",
        "RuntimeError: stack expects each tensor to be equal size, but got [3, 256, 341] at entry 0 and [3, 256, 256]",
        {},
    ),
    ("unequal_samples", "RuntimeError: each element in list of batch should be of equal size", {}),
    (
        "no_samples",
        "pytorch_lightning.utilities.exceptions.MisconfigurationException: Total length of `Dataloader` across ranks is zero. "
        "Please make sure that it returns at least 1 batch.",
        {"what": "Dataloader"},
    ),
    (
        "no_samples",
        "ValueError: num_samples should be a positive integer value, but got num_samples=0",
        {"what": "num_samples"},
    ),
    (
        "pod_evicted",
        "Message:          The node was low on resource: ephemeral-storage. Threshold quantity: 107374182400, available: 98Gi.",
        {"why": "The node was low on resource: ephemeral-storage"},
    ),
    ("pod_evicted", "  Warning  Evicted  14m  kubelet  The node was low on resource: memory.", {}),
    (
        "pod_evicted",
        "  Warning  Evicted  2m  kubelet  Pod ephemeral local storage usage exceeds the total limit of containers 50Gi. ",
        {},
    ),
    (
        "pod_evicted",
        'Usage of EmptyDir volume "shm" exceeds the limit "8Gi". ',
        {"why": 'Usage of EmptyDir volume "shm" exceeds the limit'},
    ),
    ("pod_evicted", 'Container trainer exceeded its local ephemeral storage limit "20Gi". ', {}),
    (
        "batch_of_one",
        "ValueError: Expected more than 1 value per channel when training, got input size torch.Size([1, 512])",
        {"size": "torch.Size([1, 512])"},
    ),
    ("no_inf_checks", "AssertionError: No inf checks were recorded for this optimizer.", {}),
    ("no_inf_checks", "AssertionError: No inf checks were recorded prior to update.", {}),
    (
        "nvls",
        "n1:51:451 [5] transport/nvls.cc:379 (nvlsAllocateMem) NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory "
        "of size 2097152 : CUDA error 401 'the operation cannot be performed in the present state'.",
        {"error": "401"},
    ),
    (
        "gloo_interface",
        "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:83] ifa != nullptr. Unable to "
        "find address for: eth7",
        {"name": "eth7"},
    ),
    (
        "file_locked",
        "BlockingIOError: [Errno 11] Unable to open file (unable to lock file, errno = 11, error message = 'Resource "
        "temporarily unavailable')",
        {"number": "11"},
    ),
    (
        "file_locked",
        "OSError: Unable to open file (unable to lock file, errno = 37, error message = 'No locks available')",
        {"number": "37"},
    ),
    (
        "wandb_timeout",
        "wandb.errors.errors.CommError: Run initialization has timed out after 90.0 sec. Please try increasing the timeout",
        {"seconds": "90.0"},
    ),
    ("wandb_timeout", "wandb.errors.CommError: Run initialization has timed out after 60.0 sec. ", {"seconds": "60.0"}),
    (
        "hub_offline",
        "OSError: We couldn't connect to 'https://huggingface.co' to load this file, couldn't find it in the cached files and "
        "it looks like roberta-base is not the path to a directory containing a file named config.json.",
        {"url": "https://huggingface.co"},
    ),
    (
        "hub_offline",
        "OSError: We couldn't connect to 'https://hf.lan' to load the files, and couldn't find them in the cached files.",
        {"url": "https://hf.lan"},
    ),
    ("numpy_bridge", "RuntimeError: Numpy is not available", {}),
    ("protobuf_version", "TypeError: Descriptors cannot not be created directly.", {}),
    ("protobuf_version", "TypeError: Descriptors cannot be created directly.", {}),
    (
        "operator_missing",
        "RuntimeError: operator torchvision::nms does not exist",
        {"package": "torchvision", "name": "nms"},
    ),
    ("flash_attention_arch", "RuntimeError: FlashAttention only supports Ampere GPUs or newer.", {"arch": "Ampere"}),
)
NO_POSTS: tuple[str, ...] = (
    "the node was low on nothing",
    "INFO flash attention needs Ampere GPUs or newer: using sdpa",
    "found no address for 3 customers",
    "numpy is available",
    "more than 1 value per channel is fine",
    "operator of the crane does not exist in 3 images",
)
"""Lines that resemble these and say nothing."""
