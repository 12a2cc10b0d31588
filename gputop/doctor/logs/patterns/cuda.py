"""Error texts of CUDA, its driver, and tensors on the wrong device. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from gputop.doctor.logs.patterns.pattern import Pattern, failure, hint

_NAN_LOSS = (
    r"(?i)(?:\b|_)loss(?:(?:[ _]\w{1,40})?['\"]?\s*(?:[:=]|is|became)\s*(?:tensor\()?nan\b"
    # As print(f"epoch {epoch} loss {loss}") writes it: the value ends the line, or the next name and number follow.
    r"|\s+(?:tensor\()?nan(?:\s*(?:$|[,;|)\]])|\s+(?!(?:count|check|guard|ratio|rate|skip|step|batch|event|value|error)\w*\b)"
    r"[\w/]+[ :=]\s*[-+]?(?:\d|nan\b|inf\b)))"
)

_GIB = {"B": 2.0**-30, "KiB": 2.0**-20, "MiB": 2.0**-10, "GiB": 1.0, "TiB": 1024.0}


def _is_another(groups: Mapping[str, str]) -> bool:
    """Return whether the process of the text can be another one than the rank itself.

    In a container torch does not recognize its own PID, and lists itself as a process beside it: then the memory of both
    together is more than what is used.
    """
    sizes = [groups[name].split(" ") for name in ("total", "free", "other", "allocated") if name in groups]
    if len(sizes) < 4 or "this process has" in groups.get("between", ""):
        return True
    total, free, other, allocated = (float(number) * _GIB.get(unit, 1.0) for number, unit in sizes)
    return other + allocated <= (total - free) * 1.02


PATTERNS: tuple[Pattern, ...] = (
    failure(
        "cuda_deser_unavailable",
        "A12",
        "deserialize object on a",
        r"Attempting to deserialize object on a (?P<backend>\w+) device but torch\.\w+\.is_available\(\) is False",
        "The checkpoint was saved on a GPU, and here torch sees none",
        "torch.load puts tensors back on the device from which they were saved, and CUDA is not available in this process.",
        'state = torch.load(path, map_location="cpu")\n'
        "# if this machine has a GPU, see why torch does not see it: gputop doctor --before",
    ),
    failure(
        "cuda_deser_ordinal",
        "H01",
        "deserialize object on CUDA device",
        r"Attempting to deserialize object on CUDA device (?P<device>\d+) but torch\.cuda\.device_count\(\) is (?P<count>\d+)",
        "The checkpoint was saved on cuda:{device}, and this process sees {count} GPU(s)",
        "torch.load puts tensors back on the device from which they were saved; cuda:{device} is not among the {count} here.",
        'state = torch.load(path, map_location={{"cuda:{device}": "cuda:0"}})  # or map_location="cpu"',
    ),
    failure(
        "not_compiled_cuda",
        "A12",
        "not compiled with CUDA",
        r"Torch not compiled with CUDA enabled",
        "This torch is built for the CPU alone",
        "The installed torch has no CUDA in it: no GPU can be used, whatever the driver says.",
        'python -c "import torch; print(torch.__version__, torch.version.cuda)"\n'
        "# install the CUDA build that pytorch.org's selector names for this driver: gputop doctor --before says which",
    ),
    failure(
        "no_driver",
        "A12",
        "no NVIDIA driver",
        r"Found no NVIDIA driver on your system",
        "torch finds no NVIDIA driver",
        "The driver is not installed, not loaded, or this container was started without GPUs.",
        "nvidia-smi\n# in a container: docker run --gpus all ...",
    ),
    failure(
        "driver_too_old",
        "A12",
        "driver on your system is too old",
        r"NVIDIA driver on your system is too old \(found version (?P<version>\d+)\)",
        "The NVIDIA driver is too old for this torch (it supports CUDA API {version})",
        "torch was built for a newer CUDA than the driver supports, and therefore trains on the CPU or fails.",
        "# update the driver, or install a torch build for the CUDA version that nvidia-smi shows at its upper right\n"
        "nvidia-smi",
    ),
    failure(
        "arch_unsupported",
        "A12",
        "no kernel image is available",
        r"no kernel image is available for execution on the device",
        "This torch has no code for this GPU",
        "torch was built without kernels for the compute capability of this GPU: the GPU is newer or older than the build.",
        'python -c "import torch; print(torch.cuda.get_arch_list(), torch.cuda.get_device_capability())"\n'
        "# install a torch build whose list has this GPU's sm_ number",
    ),
    failure(
        "arch_unsupported",
        "A12",
        "is not compatible with the current PyTorch",
        r"(?P<name>(?<!\S)\S.{0,80}?) with CUDA capability (?P<arch>sm_\w+) is not compatible "
        r"with the current PyTorch installation",
        "This torch has no code for {name} ({arch})",
        "torch was built without kernels for {arch}: the GPU is newer or older than the build.",
        'python -c "import torch; print(torch.cuda.get_arch_list())"\n# install a torch build whose list has {arch}',
    ),
    failure(
        "err802",
        "A12",
        "system not yet initialized",
        r"(Error 802|cudaErrorSystemNotReady|CUDA error): system not yet initialized",
        "CUDA error 802: the fabric manager does not run",
        "On machines with NVSwitch the GPUs can be used only once nvidia-fabricmanager, of the driver's own version, runs.",
        "sudo systemctl start nvidia-fabricmanager\n"
        "systemctl status nvidia-fabricmanager  # its version must equal the driver's",
    ),
    failure(
        "cuda_unknown_env",
        "A04",
        "CUDA unknown error",
        r"CUDA unknown error - this may be due to an incorrectly set up environment",
        "CUDA could not be initialized: its environment is wrong",
        "Usually CUDA_VISIBLE_DEVICES was changed inside Python after CUDA had been touched; else the "
        "driver's modules are broken.",
        "CUDA_VISIBLE_DEVICES=0,1 python train.py  # set before Python starts\n"
        "sudo modprobe nvidia_uvm  # if it fails without any change too",
        confidence="likely",
        refuted_by="The same error comes from python -c 'import torch; torch.cuda.init()' in a fresh shell: then it is "
        "the driver.",
    ),
    failure(
        "bad_device_string",
        "A12",
        "device type at start of device string",
        r"Expected one of .{0,400} device type at start of device string: (?P<device>\S+)",
        "There is no device named {device}",
        'torch calls a GPU "cuda", not "{device}".',
        'device = torch.device("cuda")',
    ),
    failure(
        "bad_device_string",
        "A12",
        "Invalid device string",
        r"Invalid device string: '(?P<device>[^']*)'",
        "There is no device named {device}",
        'A device is written "cuda" or "cuda:0", not "{device}".',
        'device = torch.device("cuda:0")',
    ),
    failure(
        "invalid_ordinal",
        None,
        "invalid device ordinal",
        r"invalid device ordinal",
        "A rank asked for a GPU that it does not see",
        "The index is not below the number of visible GPUs: the global RANK was used where LOCAL_RANK belongs, more ranks were "
        "started than there are GPUs, or CUDA_VISIBLE_DEVICES hides some.",
        'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\n'
        "# and not more ranks than GPUs: torchrun --nproc-per-node=gpu ...",
        confidence="likely",
    ),
    failure(
        "devices_busy",
        None,
        "busy or unavailable",
        r"CUDA-capable device\(?s\)? (is/are|are) busy or unavailable",
        "The GPU is held by another process",
        "The GPU is in exclusive-process mode and has its process already: another job's, or another rank's "
        "that took the wrong GPU.",
        'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))  # before the first CUDA call\n'
        "nvidia-smi --query-gpu=index,compute_mode --format=csv\nsudo nvidia-smi -c DEFAULT",
        confidence="likely",
    ),
    failure(
        "nvml_mismatch",
        "I10",
        "river/library version mismatch",
        r"[Dd]river/library version mismatch",
        "The NVIDIA driver was upgraded under the running system",
        "The loaded kernel module is of another version than the library.",
        "sudo reboot  # or unload all nvidia modules and load them again",
    ),
    failure(
        "nvml_unknown",
        "I10",
        "NVML: Unknown Error",
        r"Failed to initialize NVML: Unknown Error",
        "The container lost its GPUs",
        "After a daemon-reload on the host, the container's cgroup no longer allows the GPU devices.",
        "# create the container anew; to keep it from coming again, pass the devices explicitly:\n"
        "docker run --gpus all --device /dev/nvidia0 --device /dev/nvidiactl --device /dev/nvidia-uvm ...",
        confidence="likely",
    ),
    failure(
        "two_devices",
        "A13",
        "same device, but found at least two devices",
        r"Expected all tensors to be on the same device, but found at least two devices, "
        r"(?P<one>\w+(?::\d+)?) and (?P<other>\w+(?::\d+)?)!",
        "Tensors on {one} and on {other} meet in one operation",
        "An input, the model, or a tensor made in forward is on the other device: x.to(device) returns a copy and "
        "changes nothing in place.",
        "x = x.to(model_device)  # in forward: torch.zeros(..., device=x.device), or self.register_buffer(...)",
    ),
    failure(
        "two_devices",
        "A13",
        "on the same device, but got",
        r"Expected all tensors to be on the same device, but got (?P<what>\w+) is on (?P<one>\w+(?::\d+)?), "
        r"different from other tensors on (?P<other>\w+(?::\d+)?)",
        "Tensors on {other} and on {one} meet in one operation ({what})",
        "{what} is on {one}, the others on {other}: x.to(device) returns a copy and changes nothing in place.",
        'x = x.to("{other}")  # in forward: torch.zeros(..., device=x.device), or self.register_buffer(...)',
    ),
    *(
        failure(
            "two_devices",
            "A13",
            "type (torch.cuda.",
            rf"Input type \(torch\.(?P<one>{one}\w+)\) and (?:weight|bias) type \(torch\.(?P<other>{other}\w+)\) "
            r"should be the same",
            "The input is {one} and the weights are {other}",
            "Input and model are on different devices: x.to(device) returns a copy, nothing changes in place.",
            "x = x.to(next(model.parameters()).device)\nmodel.to(device)",
        )
        for one, other in ((r"cuda\.", r"(?!cuda\.)"), (r"(?!cuda\.)", r"cuda\."))
    ),
    *(
        failure(
            "two_dtypes",
            None,
            key,
            expression,
            "Tensors of two types meet in one operation: {one} and {other}",
            "Both are on the same device. NumPy makes float64, .half() and 16-bit checkpoints make float16, and autocast "
            "converts only what runs inside it.",
            "x = x.to(next(model.parameters()).dtype)\n"
            'with torch.autocast("cuda", dtype=torch.bfloat16): loss = model(x)  # or mixed precision: parameters in float32',
        )
        for key, expression in (
            (
                "should be the same",
                r"Input type \((?P<one>torch\.cuda\.\w+)\) and (?:weight|bias) type \((?P<other>torch\.cuda\.\w+)\) should be",
            ),
            (
                "should be the same",
                r"Input type \((?P<one>(?!torch\.cuda)[\w.:]+)\) and (?:weight|bias) type "
                r"\((?P<other>(?!torch\.cuda)[\w.:]+)\) should be",
            ),
            ("expected scalar type", r"expected scalar type (?P<one>\w+) but found (?P<other>\w+)"),
            ("must have the same dtype", r"mat1 and mat2 must have the same dtype, but got (?P<one>\w+) and (?P<other>\w+)"),
        )
    ),
    failure(
        "illegal",
        None,
        "illegal memory access",
        r"an illegal memory access was encountered",
        "A CUDA kernel accessed an illegal address",
        "A software error (an index out of range, a custom kernel); CUDA reports it later than it happens, so that the "
        "line in the traceback may be another one.",
        "CUDA_LAUNCH_BLOCKING=1 python train.py  # the traceback then points at the operation\n"
        "compute-sanitizer python train.py",
    ),
    failure(
        "illegal",
        None,
        "Assertion `",
        # CUDA_KERNEL_ASSERT of torch, which each thread prints: the error that comes up on the host tells less.
        r"\.(?:cu|cuh|h):\d+: .{0,300}\bthread: \[[\d,]+\] Assertion `(?P<what>[^`]{1,200})` failed",
        "An assertion failed inside a CUDA kernel: {what}",
        "Usually a class index or an embedding index out of range: a label beyond the number of classes, a token beyond the "
        "vocabulary (tokens that were added without resizing the embedding). What fails afterwards follows from it.",
        "CUDA_LAUNCH_BLOCKING=1 python train.py  # the traceback then points at the operation; on the CPU it names the index\n"
        "model.resize_token_embeddings(len(tokenizer))  # where tokens were added",
    ),
    failure(
        "illegal",
        None,
        "device-side assert triggered",
        r"device-side assert triggered",
        "An assertion failed inside a CUDA kernel",
        "Usually a class index or an embedding index out of range; CUDA reports it later than it happens.",
        "CUDA_LAUNCH_BLOCKING=1 python train.py  # the traceback then points at the operation; on the CPU it names the index",
    ),
    failure(
        "ecc",
        "I04",
        "uncorrectable ECC error",
        r"uncorrectable ECC error encountered",
        "The GPU reported an uncorrectable memory error",
        "Data in GPU memory was lost; do not trust what the job computed since.",
        "nvidia-smi -q -d ECC,ROW_REMAPPER\n# end the jobs on the GPU that counts uncorrected errors, then reset it",
    ),
    failure(
        "gpu_lost",
        "I04",
        "Unable to determine the device handle for",
        # nvidia-smi and NVML.
        r"Unable to determine the device handle for (?:gpu |GPU ?)(?P<gpu>[\w:.]*\w): ?(?P<why>GPU is lost|Unknown Error)",
        "The driver no longer reaches GPU {gpu}: {why}",
        "The card fell off the bus, or its driver is stuck: power, heat, a riser, or a fault of the card.",
        "sudo dmesg --ctime | grep -i -E 'xid|nvrm' | tail\nsudo reboot  # if it comes again: other slot, cables, card",
        refuted_by="nvidia-smi lists all GPUs without an error.",
    ),
    failure(
        "cuda_init",
        "A12",
        "cudaGetDeviceCount()",
        r"cudaGetDeviceCount\(\).{0,200}\bError (?P<number>\d+): (?P<why>[^(]{1,120}[^(\s])",
        "CUDA could not be initialized (error {number}): {why}",
        "803 and 804: a CUDA compatibility library of the container or environment does not fit the driver or the GPU. 101: "
        "CUDA_VISIBLE_DEVICES names a GPU that does not exist. 3, 304, 999: not all of the driver's modules are loaded.",
        "nvidia-smi; ls /usr/local/cuda/compat; echo $LD_LIBRARY_PATH $CUDA_VISIBLE_DEVICES\n"
        "# 803, 804: take the compat directory out of LD_LIBRARY_PATH, or update the driver",
        confidence="likely",
        refuted_by="python -c 'import torch; torch.cuda.init()' works in a fresh shell of the same container.",
    ),
    failure(
        "xid",
        "I04",
        "Xid (",
        # Not 45, which reports a torn-down context, as for every killed job. ``xids`` explains the numbers.
        r"NVRM: Xid \((?P<pci>[^)]{1,40})\): (?P<xid>(?!45\b)\d+)",
        "The driver reported an Xid error",
        "The GPU, its memory, its links, its driver, or a kernel that ran on it failed.",
        "sudo dmesg --ctime | grep -i -E 'xid|nvrm' | tail",
    ),
    failure(
        "oom_other_proc",
        "H03",
        "memory in use",
        r"GPU (?P<gpu>\d+) has a total capacity of (?P<total>\d+(?:\.\d+)? \w+) of which (?P<free>\d+(?:\.\d+)? \w+) is free\. "
        r"Process (?P<pid>\d+) has (?P<other>\d+(?:\.\d+)? \w+) memory in use"
        r"(?:(?P<between>.{0,400}?)allocated memory (?P<allocated>\d+(?:\.\d+)? \w+) is allocated by PyTorch)?",
        "GPU {gpu} is full, and process {pid} holds {other} of it",
        "Of the {total} of GPU {gpu} {free} were free, while another process, {pid}, had {other}.",
        "ps -fp {pid}\ngputop pick -n 1  # the freest GPU, for CUDA_VISIBLE_DEVICES",
        holds=_is_another,
    ),
    failure(
        "oom",
        "H02",
        "out of memory",
        r"(?:CUDA|HIP|XPU) out of memory\. Tried to allocate (?P<size>[\d.]+ \w+)\.? ?\(?GPU (?P<gpu>\d+)"
        r"(?: has a total capacity of |; )"
        r"(?P<total>[\d.]+ \w+)(?: of which (?P<free>[\d.]+ \w+) is free| total capacity; "
        r".{0,200}?(?P<free_old>\b[\d.]{1,12} \w+) free)?(?:.{0,400}?this process has (?P<own>[\d.]+ \w+) memory in use)?"
        r"(?:.{0,400}?(?P<reserved>\b[\d.]{1,12} \w+) is reserved by PyTorch but)?",
        "GPU {gpu} is full: {size} more did not fit into its {total}",
        "The model, its activations, gradients and optimizer state, with whatever else is on the GPU, need more than it has. "
        "The index is the process's own: under a mask it is another card.",
        "# smaller batch with accumulation, activation checkpointing, bf16, or FSDP\n"
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py  # where much is reserved but not allocated",
    ),
    failure(
        "oom",
        "H02",
        "out of memory",
        r"(?:CUDA|HIP|XPU) (?:error: )?out of memory|cudaErrorMemoryAllocation|CUBLAS_STATUS_ALLOC_FAILED: out of memory",
        "A GPU is full",
        "An allocation on the GPU failed.",
        "# smaller batch with accumulation, activation checkpointing, bf16, or FSDP\nnvidia-smi  # who else is on it",
    ),
    *(
        hint(
            "nan_loss",
            None,
            key,
            _NAN_LOSS,
            "The loss is NaN",
            "The training diverged: too high a learning rate, half precision without scaling, a division by zero or bad data.",
            "torch.autograd.set_detect_anomaly(True)  # names the operation; slow, for finding it alone\n"
            "# lower the learning rate, warm up, clip gradients, use bf16 rather than fp16",
        )
        for key in ("nan", "NaN")
    ),
    hint(
        "nan_loss",
        None,
        "returned nan values",
        r"Function '(?P<function>\w+)' returned nan values in its (?P<output>\d+)\w\w output",
        "{function} made NaN in the backward pass",
        "The first NaN of the backward pass comes from {function}: a root or logarithm of 0, a division by zero, an overflow.",
        "# add an epsilon inside the operation: torch.sqrt(x + 1e-8), x.clamp_min(1e-8).log(); or lower the learning rate",
    ),
    *(
        hint(
            "loss_scale",
            "J01",
            key,
            expression,
            "The gradients overflow at the smallest loss scale",
            "The training diverged in half precision: gradients are infinite or NaN at every scale.",
            "# use bf16 rather than fp16; else lower the learning rate, warm up longer, clip gradients\n"
            "torch.autograd.set_detect_anomaly(True)  # names the operation; slow, for finding it alone",
            severity="error",
            confidence="likely",
        )
        for key, expression in (
            ("loss scale already at minimum", r"loss scale already at minimum"),
            ("Attempted loss scale: 1", r"Attempted loss scale: 1(?:\.0)?, (?:but hysteresis|reducing to (?:1|1\.0|0\.5)\b)"),
        )
    ),
    hint(
        "no_accelerator",
        "A12",
        "falling back to CPU",
        # jax/_src/xla_bridge.py, since 0.2.
        r"No GPU/TPU found, falling back to CPU",
        "JAX sees no GPU and computes on the CPU",
        "jaxlib was installed without CUDA, or its CUDA plugin does not fit the driver.",
        'nvidia-smi; python -m pip install -U "jax[cuda12]"',
        confidence="likely",
    ),
    hint(
        "no_accelerator",
        "A12",
        "registering GPU devices",
        # tensorflow/core/common_runtime/gpu/gpu_device.cc, since 1.14.
        r"Skipping registering GPU devices",
        "TensorFlow sees no GPU and computes on the CPU",
        "It does not find CUDA's libraries. It means nothing where TensorFlow is only imported.",
        "nvidia-smi; python -m pip install 'tensorflow[and-cuda]'",
        confidence="possible",
    ),
)
