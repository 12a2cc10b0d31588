"""Error texts of CUDA, its driver and its GPUs: they cannot be used, or they fail. Pure."""

from __future__ import annotations

from gputop.doctor.findings.finding import Confidence
from gputop.doctor.logs.patterns.pattern import Pattern, failure, hint

_CPU_BUILDS: tuple[tuple[str, str, Confidence], ...] = (
    # The first line of YOLOv5 and of all that Ultralytics has published since.
    ("+cpu CPU (", r"\bPython-\S{1,20} torch-(?P<torch>[\d.]{1,20})\+cpu CPU \(", "likely"),
    # What scripts print of their torch before they train. A machine may have no GPU.
    (
        "+cpu",
        r"\b(?:torch|pytorch|PyTorch)(?: version)?[ :=]{1,3}(?P<torch>\d{1,2}\.[\d.]{1,10})\+cpu\b(?! CPU \()",
        "possible",
    ),
)

_THERMAL = r"(?i)thermal[_ ]slowdown\s{0,40}[:=] ?Active\b"
"""nvidia-smi -q -d PERFORMANCE, and what people print of it."""

PATTERNS: tuple[Pattern, ...] = (
    failure(
        "cuda_deser_unavailable",
        "A12",
        "deserialize object on a",
        r"Attempting to deserialize object on a (?P<backend>\w+) device but torch\.\w+\.is_available\(\) is False",
        "The checkpoint was saved on a GPU, but torch sees no GPU here",
        "torch.load restores tensors to the device that they were saved from, and CUDA is not available in this process.",
        'state = torch.load(path, map_location="cpu")\n'
        "# if this machine has a GPU, see why torch does not see it: gputop doctor --before",
    ),
    failure(
        "cuda_deser_ordinal",
        "H01",
        "deserialize object on CUDA device",
        r"Attempting to deserialize object on CUDA device (?P<device>\d+) but torch\.cuda\.device_count\(\) is (?P<count>\d+)",
        "The checkpoint was saved on cuda:{device}, but this process sees {count} GPU(s)",
        "torch.load restores tensors to the device that they were saved from; cuda:{device} is not one of the {count} here.",
        'state = torch.load(path, map_location={{"cuda:{device}": "cuda:0"}})  # or map_location="cpu"',
    ),
    failure(
        "not_compiled_cuda",
        "A12",
        "not compiled with CUDA",
        r"Torch not compiled with CUDA enabled",
        "This build of torch supports only the CPU",
        "The installed torch was built without CUDA: it cannot use any GPU, whatever the driver says.",
        'python -c "import torch; print(torch.__version__, torch.version.cuda)"\n'
        "# install the CUDA build that pytorch.org's selector names for this driver: gputop doctor --before says which",
    ),
    *(
        hint(
            "cpu_build",
            "A12",
            key,
            expression,
            "This build of torch ({torch}+cpu) supports only the CPU, and the training runs there",
            "The installed torch was built without CUDA: it cannot use any GPU, whatever the driver says. On Windows, that is "
            "the build that pip installs if it is not told otherwise.",
            'python -c "import torch; print(torch.__version__, torch.version.cuda)"\n'
            "# install the CUDA build that pytorch.org's selector names for this driver: gputop doctor --before says which",
            confidence=confidence,
        )
        for key, expression, confidence in _CPU_BUILDS
    ),
    *(
        hint(
            "thermal_slowdown",
            "I01",
            key,
            expression,
            "The GPU slows itself down because it is too hot",
            "Its clock falls as far as it must to stay below the limit of its temperature: dust, a blocked fan, a closed case, "
            "a hot room.",
            "nvidia-smi -q -d TEMPERATURE,PERFORMANCE,CLOCK  # temperature, limit, and the clock it has left\n"
            "sudo nvidia-smi -pl 100  # less power (in W) is cooler, and often hardly slower",
            confidence="likely",
        )
        for key, expression in (
            ("Thermal Slowdown", _THERMAL),
            ("thermal_slowdown", _THERMAL),
            # What people print of NVML's reasons, line by line.
            ("w_thermal", r"(?i)\bthrottl\w{0,6}\W{1,4}(?:reasons?\W{1,3})?[sh]w_thermal(?:_slowdown)?\b"),
        )
    ),
    *(
        hint(
            "tensor_cores",
            "E03",
            key,
            expression,
            "Matrix products in float32 leave the tensor cores idle",
            "By default, torch multiplies float32 matrices in full precision, without the tensor cores. TF32 takes a fraction "
            "of the time. Autocast with bf16 or fp16 uses the tensor cores anyway.",
            'torch.set_float32_matmul_precision("high")  # once, before the training\n'
            '# or mixed precision: torch.autocast("cuda", dtype=torch.bfloat16)',
            severity="info",
            confidence="possible",
        )
        for key, expression in (
            (
                "Tensor Cores. To properly utilize",
                r"You are using a CUDA device .{1,100} that has Tensor Cores\. To properly utilize",
            ),
            (
                "tensor cores for float32",
                r"TensorFloat32 tensor cores for float32 matrix multiplication available but not enabled",
            ),
        )
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
        "This build of torch does not support this GPU",
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
        "This build of torch does not support {name} ({arch})",
        "torch was built without kernels for {arch}: the GPU is newer or older than the build.",
        'python -c "import torch; print(torch.cuda.get_arch_list())"\n# install a torch build whose list has {arch}',
    ),
    failure(
        "err802",
        "A12",
        "system not yet initialized",
        r"(Error 802|cudaErrorSystemNotReady|CUDA error): system not yet initialized",
        "CUDA error 802: the fabric manager is not running",
        "On machines with NVSwitch, the GPUs work only while nvidia-fabricmanager is running, in the same version as the "
        "driver.",
        "sudo systemctl start nvidia-fabricmanager\n"
        "systemctl status nvidia-fabricmanager  # its version must equal the driver's",
    ),
    failure(
        "cuda_unknown_env",
        "A04",
        "CUDA unknown error",
        r"CUDA unknown error - this may be due to an incorrectly set up environment",
        "CUDA could not be initialized: its environment is wrong",
        "Usually CUDA_VISIBLE_DEVICES was changed inside Python after CUDA was initialized; otherwise the driver's modules "
        "are broken.",
        "CUDA_VISIBLE_DEVICES=0,1 python train.py  # set before Python starts\n"
        "sudo modprobe nvidia_uvm  # if it also fails without this change",
        confidence="likely",
        refuted_by="python -c 'import torch; torch.cuda.init()' in a fresh shell fails with the same error: then the driver "
        "is at fault.",
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
        "The index is too high for the number of visible GPUs: the script uses the global RANK instead of LOCAL_RANK, more "
        "ranks were started than there are GPUs, or CUDA_VISIBLE_DEVICES hides some.",
        'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\n'
        "# and no more ranks than GPUs: torchrun --nproc-per-node=gpu ...",
        confidence="likely",
    ),
    failure(
        "devices_busy",
        None,
        "busy or unavailable",
        r"CUDA-capable device\(?s\)? (is/are|are) busy or unavailable",
        "The GPU is held by another process",
        "The GPU is in exclusive-process mode and already has its process: that of another job, or another rank that took "
        "the wrong GPU.",
        'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))  # before the first CUDA call\n'
        "nvidia-smi --query-gpu=index,compute_mode --format=csv\nsudo nvidia-smi -c DEFAULT",
        confidence="likely",
    ),
    failure(
        "nvml_mismatch",
        "I10",
        "river/library version mismatch",
        r"[Dd]river/library version mismatch",
        "The NVIDIA driver was upgraded while the system was running",
        "The loaded kernel module and the library have different versions.",
        "sudo reboot  # or unload all nvidia modules and load them again",
    ),
    failure(
        "nvml_unknown",
        "I10",
        "NVML: Unknown Error",
        r"Failed to initialize NVML: Unknown Error",
        "The container lost its GPUs",
        "After a daemon-reload on the host, the container's cgroup no longer allows the GPU devices.",
        "# recreate the container; to prevent this, pass the devices explicitly:\n"
        "docker run --gpus all --device /dev/nvidia0 --device /dev/nvidiactl --device /dev/nvidia-uvm ...",
        confidence="likely",
    ),
    failure(
        "illegal",
        None,
        "illegal memory access",
        r"an illegal memory access was encountered",
        "A CUDA kernel accessed an illegal address",
        "A software error (an index out of range, a custom kernel). CUDA reports it late, so the traceback may point at the "
        "wrong line.",
        "CUDA_LAUNCH_BLOCKING=1 python train.py  # the traceback then points at the operation\n"
        "compute-sanitizer python train.py",
    ),
    failure(
        "illegal",
        None,
        "Assertion `input_val >= zero",
        # aten/src/ATen/native/cuda/Loss.cu, since 1.3.
        r"Assertion `input_val >= zero && input_val <= one` failed",
        "binary_cross_entropy got a value that is not between 0 and 1",
        "The loss takes probabilities, and these are the raw outputs of the model (logits), or NaN.",
        "nn.BCEWithLogitsLoss()  # takes raw outputs, and is safe in float16\n"
        "nn.BCELoss()(torch.sigmoid(output), target)  # or this",
        refuted_by="output.min() >= 0 and output.max() <= 1 before the loss, in each step.",
    ),
    failure(
        "illegal",
        None,
        "Assertion `",
        # torch's CUDA_KERNEL_ASSERT, printed by each thread: the error that follows on the host says less.
        r"\.(?:cu|cuh|h):\d+: .{0,300}\bthread: \[[\d,]+\] Assertion `(?P<what>[^`]{1,200})` failed",
        "An assertion failed inside a CUDA kernel: {what}",
        "Usually a class index or an embedding index is out of range: a label beyond the number of classes, or a token "
        "beyond the vocabulary (tokens were added without resizing the embedding). Later errors follow from this one.",
        "CUDA_LAUNCH_BLOCKING=1 python train.py  # the traceback then points at the operation; on the CPU it names the index\n"
        "model.resize_token_embeddings(len(tokenizer))  # if tokens were added",
    ),
    failure(
        "illegal",
        None,
        "device-side assert triggered",
        r"device-side assert triggered",
        "An assertion failed inside a CUDA kernel",
        "Usually a class index or an embedding index is out of range. CUDA reports it late, so the traceback may point at "
        "the wrong line.",
        "CUDA_LAUNCH_BLOCKING=1 python train.py  # the traceback then points at the operation; on the CPU it names the index",
    ),
    failure(
        "ecc",
        "I04",
        "uncorrectable ECC error",
        r"uncorrectable ECC error encountered",
        "The GPU reported an uncorrectable memory error",
        "Data in GPU memory was lost; do not trust anything that the job has computed since.",
        "nvidia-smi -q -d ECC,ROW_REMAPPER\n# end the jobs on the GPU with uncorrected errors, then reset it",
    ),
    failure(
        "gpu_lost",
        "I04",
        "Unable to determine the device handle for",
        # nvidia-smi and NVML.
        r"Unable to determine the device handle for (?:gpu |GPU ?)(?P<gpu>[\w:.]*\w): ?(?P<why>GPU is lost|Unknown Error)",
        "The driver can no longer reach GPU {gpu}: {why}",
        "The card fell off the bus, or its driver is stuck: power, heat, a riser, or a defective card.",
        "sudo dmesg --ctime | grep -i -E 'xid|nvrm' | tail\nsudo reboot  # again? try another slot, cable or card",
        refuted_by="nvidia-smi lists all GPUs without an error.",
    ),
    *(
        failure(
            "gpu_lost",
            "I04",
            key,
            expression,
            "The driver can no longer reach {gpu}: it has fallen off the bus",
            "The card does not answer on PCIe: power, heat, a riser or slot, its firmware, or a defective card.",
            "sudo dmesg --ctime | grep -i -E 'xid|nvrm|pcieport' | tail\nsudo reboot  # again? try another slot, cable or card",
            refuted_by="nvidia-smi lists all GPUs without an error.",
            groups={"gpu": "a GPU"},
        )
        # src/nvidia/arch/nvalloc/unix/src/osinit.c of the open driver, on three lines; and what follows Xid 79.
        for key, expression in (
            ("NVRM: The NVIDIA GPU", r"NVRM: The NVIDIA (?P<gpu>GPU [\da-fA-F:.]{4,20}\b).{0,120}\bfallen off the bus\b"),
            ("fallen off the bus", r"NVRM: (?!Xid)(?P<gpu>GPU [\da-fA-F:.]{4,20}\d): GPU has fallen off the bus"),
            ("fallen off the bus", r"NVRM: (?:system has |has )?fallen off the bus and is not responding to commands"),
        )
    ),
    failure(
        "cuda_init",
        "A12",
        "cudaGetDeviceCount()",
        r"cudaGetDeviceCount\(\).{0,200}\bError (?P<number>\d+): (?P<why>[^(]{1,120}[^(\s])",
        "CUDA could not be initialized (error {number}): {why}",
        "803 and 804: a CUDA compatibility library in the container or environment does not match the driver or the GPU. "
        "101: CUDA_VISIBLE_DEVICES names a GPU that does not exist. 3, 304, 999: some of the driver's modules are not "
        "loaded.",
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
    hint(
        "no_accelerator",
        "A12",
        "falling back to CPU",
        # jax/_src/xla_bridge.py, since 0.2.
        r"No GPU/TPU found, falling back to CPU",
        "JAX sees no GPU and computes on the CPU",
        "jaxlib was installed without CUDA, or its CUDA plugin does not match the driver.",
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
        "TensorFlow cannot find CUDA's libraries. Ignore this if the script only imports TensorFlow.",
        "nvidia-smi; python -m pip install 'tensorflow[and-cuda]'",
        confidence="possible",
    ),
    hint(
        "no_accelerator",
        "A12",
        "Could not find cuda drivers",
        # tsl/cuda/cudart_stub.cc, since 2.12.
        r"Could not find cuda drivers on your machine, GPU will not be used",
        "TensorFlow finds no CUDA driver and computes on the CPU",
        "There is no driver in this machine or container, or libcuda.so is not where the loader looks.",
        'nvidia-smi; python -c "import tensorflow as tf; print(tf.config.list_physical_devices())"',
        confidence="possible",
    ),
)
