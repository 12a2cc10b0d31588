"""Texts of cuDNN and cuBLAS. Pure.

Sources: cudnn.h (cudnnStatus_t, 7 to 9), aten/src/ATen/cudnn/Exceptions.h and ATen/native/cudnn/Conv_v8.cpp (torch 1.8 to
2.13; "GET was unable to find an engine" until 2.2, "FIND" since 1.13), torch/backends/cudnn/__init__.py; ATen/cuda/CUDAContext.
"""

from __future__ import annotations

from gputop.doctor.logs.patterns.pattern import Pattern, failure

_VERSIONS = (
    'python -c "import torch; print(torch.__version__, torch.backends.cudnn.version())"; pip list | grep -i cudnn\n'
    "echo $LD_LIBRARY_PATH  # no other cuDNN than torch's own: unset it, or take the path of the system's CUDA out"
)
_ALONE = "torch.backends.cudnn.enabled = False  # to see whether the same line works without it; slower"

PATTERNS: tuple[Pattern, ...] = (
    failure(
        "cudnn_version",
        None,
        "cuDNN version incompatibility",
        r"cuDNN version incompatibility: PyTorch was compiled\s+against \(?(?P<built>[\d, .]+)\)? but found runtime version "
        r"\(?(?P<found>[\d, .]+?)\)?\.",
        "torch was built for cuDNN {built} and finds {found}",
        "Another cuDNN comes before torch's own on the library path.",
        _VERSIONS,
        refuted_by="LD_LIBRARY_PATH is empty, and pip lists one cuDNN: that of torch's requirements.",
    ),
    failure(
        "cudnn_version",
        None,
        "is not compatible with devices with SM",
        r"cuDNN version (?P<found>\d+) is not compatible with devices with SM < (?P<built>[\d.]*\d)",
        "cuDNN {found} has no code for this GPU (compute capability below {built})",
        "Newer versions of cuDNN leave out older GPUs; this torch was installed with one of them.",
        'python -c "import torch; print(torch.cuda.get_device_capability())"\n'
        "pip install torch --index-url https://download.pytorch.org/whl/cu126  # a build that still has the GPU",
        refuted_by="torch.cuda.get_device_capability() of every visible GPU is that version or higher.",
    ),
    *(
        failure(
            "cudnn_no_engine",
            None,
            key,
            expression,
            title,
            "No kernel of cuDNN fits this call: often too little free memory for its workspace, a cuDNN of another version on "
            "the library path, a type that this GPU lacks (bfloat16), or an input that is not contiguous.",
            f"nvidia-smi  # free memory when it happens; then a smaller batch\n{_VERSIONS.splitlines()[0]}\nx = "
            f"x.contiguous()\n"
            f"{_ALONE}",
            confidence="likely",
            refuted_by="The same call works in a fresh Python with the same shapes and types on the same GPU.",
        )
        for key, expression, title in (
            (
                "was unable to find an engine",
                r"(?P<step>GET|FIND) was unable to find an engine to execute this computation",
                "cuDNN has no way to compute this convolution",
            ),
            ("CUDNN_STATUS_NOT_SUPPORTED", r"CUDNN_STATUS_NOT_SUPPORTED", "cuDNN does not support this call: NOT_SUPPORTED"),
            ("CUDNN_STATUS_BAD_PARAM", r"CUDNN_STATUS_BAD_PARAM", "cuDNN refuses the arguments of a call: BAD_PARAM"),
        )
    ),
    failure(
        "cudnn_init",
        None,
        "CUDNN_STATUS_",
        r"CUDNN_STATUS_(?P<status>MAPPING_ERROR|ARCH_MISMATCH)",
        "cuDNN failed: {status}",
        "MAPPING_ERROR follows an error of a kernel before it, or too little free memory; ARCH_MISMATCH means that this "
        "cuDNN has no code for the GPU.",
        f"CUDA_LAUNCH_BLOCKING=1 python train.py  # names the operation that failed first\n{_VERSIONS}",
        confidence="likely",
    ),
    failure(
        "cudnn_init",
        None,
        "CUDNN_STATUS_",
        r"CUDNN_STATUS_(?P<status>NOT_INITIALIZED|INTERNAL_ERROR|ALLOC_FAILED|EXECUTION_FAILED|VERSION_MISMATCH"
        r"|SUBLIBRARY_VERSION_MISMATCH|SUBLIBRARY_LOADING_FAILED)",
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
)
