"""Texts of cuDNN, cuBLAS and flash-attn. Pure.

Sources: cudnn.h (cudnnStatus_t, 7 to 9), aten/src/ATen/cudnn/Exceptions.h and ATen/native/cudnn/Conv_v8.cpp (torch 1.8 to 2.13;
"GET was unable to find an engine" until 2.2, "FIND" since 1.13), torch/backends/cudnn/__init__.py; ATen/cuda/CUDAContext;
csrc/flash_attn/flash_api.cpp of flash-attn (2.0 to 2.8); cuda_dnn.cc of TensorFlow, as posted of 1.13 to 2.12.
"""

from __future__ import annotations

from gputop.doctor.logs.patterns.pattern import Pattern, failure

_VERSIONS = (
    'python -c "import torch; print(torch.__version__, torch.backends.cudnn.version())"; pip list | grep -i cudnn\n'
    "echo $LD_LIBRARY_PATH  # no cuDNN except torch's own: unset it, or remove the path of the system's CUDA"
)
_ALONE = "torch.backends.cudnn.enabled = False  # to see whether the same line works without it; slower"

PATTERNS: tuple[Pattern, ...] = (
    failure(
        "cudnn_version",
        None,
        "cuDNN version incompatibility",
        r"cuDNN version incompatibility: PyTorch was compiled\s+against \(?(?P<built>[\d, .]+)\)? but found runtime version "
        r"\(?(?P<found>[\d, .]+?)\)?\.",
        "torch was built for cuDNN {built} but finds {found}",
        "Another cuDNN comes before torch's own on the library path.",
        _VERSIONS,
        refuted_by="LD_LIBRARY_PATH is empty, and pip lists one cuDNN: that of torch's requirements.",
    ),
    failure(
        "tf_cudnn_version",
        None,
        "Loaded runtime CuDNN library: ",
        r"Loaded runtime CuDNN library: (?P<found>\d[\d.]*) but source was compiled with: (?P<built>\d[\d.]*\d)",
        "TensorFlow was built for cuDNN {built} but finds {found}",
        "Another cuDNN comes first on the library path, or the installed one is too old. TensorFlow needs the same major and "
        "at least the same minor version, and cannot convolve without it.",
        "pip install 'nvidia-cudnn-cu11=={built}.*'  # or -cu12; tensorflow[and-cuda] installs the right one\n"
        "echo $LD_LIBRARY_PATH; ldconfig -p | grep cudnn  # which one comes first",
        refuted_by="LD_LIBRARY_PATH and ldconfig name only a cuDNN of the version that TensorFlow was built with.",
    ),
    failure(
        "cudnn_version",
        None,
        "is not compatible with devices with SM",
        r"cuDNN version (?P<found>\d+) is not compatible with devices with SM < (?P<built>[\d.]*\d)",
        "cuDNN {found} does not support this GPU (compute capability below {built})",
        "Newer versions of cuDNN do not support older GPUs; this torch was installed with such a version.",
        'python -c "import torch; print(torch.cuda.get_device_capability())"\n'
        "pip install torch --index-url https://download.pytorch.org/whl/cu126  # a build that still supports the GPU",
        refuted_by="torch.cuda.get_device_capability() of every visible GPU is that version or higher.",
    ),
    *(
        failure(
            "cudnn_no_engine",
            None,
            key,
            expression,
            title,
            "No cuDNN kernel fits this call: often there is too little free memory for its workspace, a different version "
            "of cuDNN is on the library path, this GPU lacks the type (bfloat16), or the input is not contiguous.",
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
                "cuDNN cannot compute this convolution",
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
        "MAPPING_ERROR follows an error in an earlier kernel, or too little free memory; ARCH_MISMATCH means that this "
        "cuDNN does not support the GPU.",
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
        "Often there is too little free GPU memory for cuDNN's handle and workspace; otherwise a different version of cuDNN "
        "is on the library path.",
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
        "Often there is too little free GPU memory for cuBLAS's workspace, or an index was out of range in an earlier kernel.",
        "nvidia-smi  # free memory when it happens; then a smaller batch\n"
        "CUDA_LAUNCH_BLOCKING=1 python train.py  # names the operation that failed first",
        confidence="likely",
    ),
    failure(
        "flash_attention_arch",
        "A12",
        "FlashAttention only supports",
        r"FlashAttention only supports (?P<arch>\w+) GPUs or newer",
        "flash-attn needs a newer GPU: {arch} or later",
        "Its kernels do not run on the architecture of this GPU (Volta, Turing and older).",
        'AutoModel.from_pretrained(name, attn_implementation="sdpa")  # torch\'s own attention; in vLLM: another backend\n'
        "nvidia-smi --query-gpu=name,compute_cap --format=csv",
        refuted_by="nvidia-smi names a compute capability of 8.0 or more for the GPU.",
    ),
)
