"""Lines as raise sites of torch, NCCL, DeepSpeed, Accelerate, vLLM and others word them: old wordings, new ones, look-alikes.

Each is written from the source that its pattern's module names, with made-up values; REAL ones were printed by torch 2.13.
"""

from __future__ import annotations

SOURCES: tuple[tuple[str, str, dict[str, str]], ...] = (
    # TensorFlow's nccl_manager, Horovod's nccl_operations.cc, torch 1.4.
    ("nccl_sys", "  (0) Internal:  NCCL: unhandled system error. Set NCCL_DEBUG=WARN for detail.", {}),
    ("nccl_sys", "horovod.common.exceptions.HorovodInternalError: ncclCommInitRank failed: unhandled system error", {}),
    (
        "nccl_sys",
        "RuntimeError: NCCL error in: /tmp/build/torch/lib/c10d/ProcessGroupNCCL.cpp:410, unhandled system error, "
        "NCCL version 2.4.8",
        {},
    ),
    # The NVIDIA driver: what follows Xid 79, and the end of its sentence on three lines.
    ("gpu_lost", "[ 5120.2] NVRM: GPU 0000:d8:00.0: GPU has fallen off the bus.", {"gpu": "GPU 0000:d8:00.0"}),
    ("gpu_lost", "[  911.1] NVRM: fallen off the bus and is not responding to commands.", {}),
    # cpp/tensorrt_llm/runtime/worldConfig.cpp.
    (
        "engine_ranks",
        "RuntimeError: [TensorRT-LLM][ERROR] Assertion failed: mpiSize == tp * pp "
        "(/src/cpp/tensorrt_llm/runtime/worldConfig.cpp:91)",
        {},
    ),
    (
        "engine_ranks",
        "RuntimeError: [TensorRT-LLM][ERROR] Assertion failed: MPI size 1 != TP size 4 * PP size 2 (/src/worldConfig.cpp:80)",
        {"world": "1", "tp": "4", "pp": "2"},
    ),
    # deepspeed/launcher/runner.py, with and without a port.
    (
        "ssh_failed",
        "subprocess.CalledProcessError: Command 'ssh -o PasswordAuthentication=no node-b hostname' returned non-zero exit "
        "status 255.",
        {"host": "node-b"},
    ),
    (
        "ssh_failed",
        "subprocess.CalledProcessError: Command 'ssh -o PasswordAuthentication=no -p 2222 10.1.0.7 hostname' returned non-zero "
        "exit status 255.",
        {"host": "10.1.0.7"},
    ),
    # python/paddle/distributed/launch/controllers/controller.py and job/container.py.
    ("paddle_exit", "LAUNCH ERROR 2023-03-04 10:11:12,131 Container failed !!!", {}),
    (
        "paddle_exit",
        "Container rank 2 status failed cmd ['/opt/bin/python3', '-u', 'train.py', '--amp'] code 1 log logs/workerlog.2 ",
        {"number": "2", "code": "1", "file": "logs/workerlog.2"},
    ),
    # src/ray/gcs/gcs_server/gcs_actor_manager.cc.
    (
        "ray_worker_died",
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker "
        "unexpectedly exits with a connection error code 2. End of file.",
        {"how": "SYSTEM_ERROR"},
    ),
    ("signal_crash", "job.sh: line 41: 71311 Bus error               python train.py --amp", {"why": "Bus error"}),
    # torch/nn/modules/module.py (_IncompatibleKeys), which a script prints; since 1.0.
    (
        "not_loaded",
        "teacher: _IncompatibleKeys(missing_keys=['0.weight', '0.bias'], unexpected_keys=['module.0.weight', 'module.0.bias'])",
        {"name": "0.weight", "other": "module.0.weight"},
    ),
    (
        "not_loaded",
        "<All keys...> IncompatibleKeys(missing_keys=['conv1.weight'], unexpected_keys=['model.backbone.conv1.weight'])",
        {"name": "conv1.weight", "other": "model.backbone.conv1.weight"},
    ),
    (
        "not_loaded",
        "loaded: _IncompatibleKeys(missing_keys=['_orig_mod.wte.weight'], unexpected_keys=['wte.weight'])",
        {"name": "_orig_mod.wte.weight", "other": "wte.weight"},
    ),
    # importlib/_bootstrap.py: the name that is missing, so that what comes before the dot was found.
    ("module_part", "ModuleNotFoundError: No module named 'torch._six'", {"name": "torch", "part": "_six"}),
    ("module_part", "ImportError: No module named 'models.resnet_cifar'", {"name": "models", "part": "resnet_cifar"}),
    (
        "module_part",
        "ModuleNotFoundError: No module named 'utils.metrics'; 'utils' is not a package",
        {"name": "utils", "part": "metrics"},
    ),
    (
        "module_part",
        "[rank3]: ModuleNotFoundError: No module named 'transformers.models.qwen3_vl'",
        {"name": "transformers", "part": "models.qwen3_vl"},
    ),
    # Hydra 1.0 (config_loader_impl.py) and since 1.1 (defaults_list.py).
    ("hydra_choice", "In 'config': Could not find 'optimizer/adamx'", {"name": "optimizer/adamx"}),
    (
        "hydra_choice",
        "hydra.errors.MissingConfigException: In 'train.yaml': Could not find 'callbacks/ema.yaml'",
        {"name": "callbacks/ema.yaml"},
    ),
    (
        "hydra_choice",
        "hydra.errors.MissingConfigException: Could not load db/mysql, available options: ['postgresql']",
        {"name": "db/mysql"},
    ),
    (
        "hydra_choice",
        "Cannot find primary config 'pretrain'. Check that it's in your config search path.",
        {"name": "pretrain"},
    ),
    # tokenizers, bindings/python and src: the wrappers of its JSON, from 0.13 to 0.20.
    (
        "tokenizer_newer",
        "Exception: data did not match any variant of untagged enum PyPreTokenizerTypeWrapper at line 69 column 3",
        {},
    ),
    # transformers, trainer.py (compute_loss), from 4.12 on.
    (
        "without_labels",
        "ValueError: The model did not return a loss from the inputs, only the following keys: logits,past_key_values. For "
        "reference, the inputs it received are input_ids,attention_mask.",
        {"keys": "logits,past_key_values", "inputs": "input_ids,attention_mask"},
    ),
    (
        "without_labels",
        "[rank1]: ValueError: The model did not return a loss from the inputs, only the following keys: last_hidden_state. For "
        "reference, the inputs it received are pixel_values.",
        {"keys": "last_hidden_state", "inputs": "pixel_values"},
    ),
    (
        "ray_resources",
        "(autoscaler +14s) Error: No available node types can fulfill resource request defaultdict(<class 'float'>, "
        "{'CPU': 8.0, 'GPU': 2.0}). Add suitable node types to this cluster to resolve this issue.",
        {"want": "'CPU': 8.0, 'GPU': 2.0"},
    ),
    (
        "ray_resources",
        "(autoscaler +5s) Error: No available node types can fulfill resource requests {'GPU': 4.0}*2. Add suitable node types",
        {"want": "'GPU': 4.0"},
    ),
    (
        "nccl_cuda_oom",
        "n1:71:836 [6] include/alloc.h:224 NCCL WARN Failed to CUDA calloc async 10485760 bytes",
        {},
    ),
    ("nccl_cuda_oom", "Failed to CUDA malloc 268435456 bytes", {}),
    (
        "oom_xla",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 7406166528 bytes.",
        {"size": "7406166528 bytes"},
    ),
    (
        "oom_xla",
        "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 137438953472 bytes (allocation details)",
        {"size": "137438953472 bytes"},
    ),
    (
        "oom_xla",
        "ResourceExhaustedError: OOM when allocating tensor with shape[64,1024,56,56] and type float on "
        "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
        {},
    ),
    ("oom_tf", "ResourceExhaustedError: failed to allocate memory", {}),
    ("oom_tf", "tensorflow.python.framework.errors_impl.ResourceExhaustedError: failed to allocate memory [Op:Mul]", {}),
    ("ssh_failed", "pdsh@login1: gpu07: ssh exited with exit code 255", {"host": "gpu07"}),
    (
        "container_image",
        "slurmstepd: error: pyxis:     [ERROR] URL https://registry-1.docker.io/v2/x/y/manifests/1.2 returned error code: 404 "
        "Not Found",
        {"why": "URL https://registry-1.docker.io/v2/x/y/manifests/1.2 returned error code: 404 Not Found"},
    ),
    (
        "container_image",
        "docker: Error response from daemon: pull access denied for lab/train, repository does not exist or may require "
        "'docker login'",
        {},
    ),
    (
        "container_image",
        "docker: Error response from daemon: manifest for nvcr.io/nvidia/pytorch:25.99-py3 not found: manifest unknown.",
        {},
    ),
    ("container_image", "FATAL:   While making image from oci registry: error fetching image to cache: denied", {}),
    (
        "slurm_step_waits",
        "srun: Job 4410087 step creation temporarily disabled, retrying (Requested nodes are busy)",
        {"job": "4410087", "why": "Requested nodes are busy"},
    ),
    (
        "slurm_step_waits",
        "srun: Job 91 step creation still disabled, retrying (Required node not available (down, drained or reserved))",
        {"job": "91"},
    ),
    ("mpi_slots", "There are not enough slots available in the system to satisfy the 8", {"count": "8"}),
    (
        "mpi_launch",
        "mpirun was unable to find the specified executable file, and therefore did not launch the job.",
        {"program": "mpirun"},
    ),
    ("mpi_slots", "All nodes which are allocated for this job are already filled.", {}),
    ("mpi_launch", "but OMPI was not built with SLURM's PMI support and therefore cannot", {}),
    ("mpi_launch", "ORTE was unable to reliably start one or more daemons.", {"program": "ORTE"}),
    ("mpi_launch", "prterun was unable to launch the specified application as it could not access", {"program": "prterun"}),
    (
        "unused_params",
        "RuntimeError: It looks like your LightningModule has parameters that were not used in producing the loss returned by "
        "training_step. If this is intentional, you must enable the detection of unused parameters in DDP",
        {},
    ),
    ("sharded_parameter", "RuntimeError: 'weight' must be 2-D", {}),
    ("sharded_parameter", "RuntimeError: size mismatch, got input (8), mat (8x512), vec (0)", {}),
    ("sharded_parameter", "RuntimeError: weight should have at least three dimensions", {}),
    ("sharded_parameter", "RuntimeError: mat2 must be a matrix, got 1-D tensor", {}),
    (
        "sharded_parameter",
        "RuntimeError: The tensor has a non-zero number of elements, but its data is not allocated yet.",
        {},
    ),
    (
        "sharded_parameter",
        "RuntimeError: setStorage: sizes [8, 512], strides [512, 1], storage offset 0, and itemsize 4 requiring a storage "
        "size of 16384 are out of bounds for storage of size 0",
        {},
    ),
    ("sharded_parameter", "RuntimeError: shape '[8, -1]' is invalid for input of size 0", {}),
    (
        "nccl_rank_count",
        "n01:1180:1241 [0] bootstrap.cc:261 NCCL WARN Bootstrap Root : mismatch in rank count from procs 4 : 2",
        {"one": "4", "other": "2"},
    ),
    ("hydra_target", "Error locating target 'src.nets.Tiny', set env var HYDRA_FULL_ERROR=1 to see", {"name": "src.nets.Tiny"}),
    ("hydra_target", "hydra.errors.InstantiationException: Error locating target 'a.B'", {"name": "a.B"}),
    ("hydra_call", "Error in call to target 'torch.optim.adam.Adam':", {"name": "torch.optim.adam.Adam"}),
    ("hydra_call", "Error instantiating 'torch.optim.Adam' : __init__() got an unexpected", {"name": "torch.optim.Adam"}),
    ("extension_build", "RuntimeError: Error building extension 'fused_adam'", {"name": "fused_adam"}),
    (
        "toolchain",
        "/usr/local/cuda/include/crt/host_config.h:132:2: error: #error -- unsupported GNU version! gcc versions later than 11 "
        "are not supported!",
        {"newest": "11"},
    ),
    ("toolchain", "host_config.h:151:2: error: #error -- unsupported clang version! clang version must be less than 16", {}),
    ("toolchain", "/tmp/tmpq1/main.c:5:10: fatal error: Python.h: No such file or directory", {}),
    ("toolchain", "csrc/ops.cu:3:10: fatal error: cusparse.h: No such file or directory", {"file": "cusparse.h"}),
    ("toolchain", "main.c:4:10: fatal error: 'cuda.h' file not found", {"file": "cuda.h"}),
    ("toolchain", "/usr/bin/ld: cannot find -lcuda: No such file or directory", {"library": "cuda"}),
    ("toolchain", "/usr/bin/ld.gold: cannot find -lcudart", {"library": "cudart"}),
    ("toolchain", "g++: fatal error: Killed signal terminated program cc1plus", {"program": "cc1plus"}),
    ("toolchain", "nvcc fatal   : Unsupported gpu architecture 'compute_120'", {"program": "nvcc"}),
    ("toolchain", "csrc/k.cpp:12:5: error: 'at::Foo' was not declared", {"place": "csrc/k.cpp:12:5"}),
    ("toolchain", 'csrc/k.cu(40): error: identifier "AT_CHECK" is undefined', {"place": "csrc/k.cu(40)"}),
    # The store and the rendezvous.
    (
        "store_timeout",
        "torch.distributed.DistBackendError: [3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
        "key-value store by key '0', but store->get('0') got error: wait timeout after 600000ms, keys: /default_pg/0//cuda//0",
        {"rank": "3", "other": "0"},
    ),
    (
        "store_timeout",
        "RuntimeError: [7] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value "
        "store by key '0', but store->get('0') got error: Socket Timeout",
        {"rank": "7", "other": "0"},
    ),
    (
        "store_lost",
        "torch.distributed.DistBackendError: [3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
        "key-value store by key '0', but store->get('0') got error: Connection reset by peer",
        {"rank": "3", "other": "0"},
    ),
    (
        "rdzv_timeout",
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: "
        "store_based_barrier_key:1 (world_size=8, worker_count=1, timeout=0:30:00)",
        {"joined": "1", "world": "8"},
    ),
    (
        "rdzv_timeout",
        "torch.distributed.DistStoreError: Timed out initializing process group in store based barrier on rank 2, for key: "
        "store_based_barrier_key:2 (world_size=4, num_workers_joined=3, timeout=0:10:00 error=wait timeout)",
        {"joined": "3", "world": "4"},
    ),
    # REAL
    (
        "store_timeout",
        "torch.distributed.DistStoreError: wait timeout after 2000ms, keys: /never",
        {"ms": "2000", "keys": "/never"},
    ),
    ("store_timeout", "RuntimeError: Socket Timeout", {}),
    (
        "store_other_program",
        "[W1123 04:00:00.1 TCPStore.cpp:384] [c10d] TCP client failed to connect/validate to host 10.0.0.4:8080 - retrying "
        "(try=3, timeout=60000ms, delay=1000ms): Ping failed, invalid value returned from server. Expected: 30, Got: 1347",
        {"port": "8080"},
    ),
    (
        "rdzv_address",
        "torch.distributed.DistNetworkError: The IPv6 network addresses of (gpu-node-1, 29500) cannot be retrieved (gai error: "
        "-2 - Name or service not known).",
        {"host": "gpu-node-1", "why": "Name or service not known"},
    ),
    (
        "rdzv_address",
        "[E socket.cpp:860] [c10d] The IPv4 network addresses of (gpu-node-1, 29500) cannot be retrieved (gai error: -3 - "
        "Temporary failure in name resolution).",
        {"host": "gpu-node-1", "why": "Temporary failure in name resolution"},
    ),
    (
        "rdzv_address",
        "[W socket.cpp:601] [c10d] The IPv6 network addresses of (node7, 29500) cannot be retrieved (gai error: -2 - Name or "
        "service not known).",
        {"host": "node7"},
    ),
    ("rdzv_address", "socket.gaierror: [Errno -2] Name or service not known", {}),
    ("rdzv_closed", "torch.distributed.elastic.rendezvous.api.RendezvousClosedError", {}),
    (
        "rdzv_connection",
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. See "
        "inner exception for details.",
        {},
    ),
    (
        "store_lost",
        "torch.distributed.DistNetworkError: failed to recv, got 0 bytes",
        {},
    ),
    # REAL
    (
        "store_lost",
        "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server "
        "shutdown or crash?",
        {},
    ),
    ("store_lost", "RuntimeError: Broken pipe", {}),
    ("store_lost", "torch.distributed.DistNetworkError: Connection reset by peer", {}),
    (
        "store_lost",
        "[rank1]:[W1123 04:00:00.2 TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=67, addr=[a]:36214, "
        "remote=[b]:43145): Broken pipe",
        {},
    ),
    (
        "store_lost",
        '[PG ID 0 PG GUID 0 Rank 1] Failed to check the "should dump" flag on TCPStore, (maybe TCPStore server has shut down '
        "too early), with error: Broken pipe",
        {},
    ),
    # NCCL.
    ("nccl_no_interface", "n1:99:99 [0] net_socket.cc:46 NCCL WARN NET/Socket : no interface found", {}),
    ("nccl_no_interface", "n1:99:99 [0] NCCL WARN NET/Socket : No usable listening interface found", {}),
    (
        "nccl_no_interface",
        "ncclSocketInit: connecting to address  with family 59936 is neither AF_INET(2) nor AF_INET6(10)",
        {},
    ),
    (
        "nccl_connect",
        "socketStartConnect: Connect to 172.17.0.1<41231> failed : No route to host",
        {"peer": "172.17.0.1<41231>", "why": "No route to host"},
    ),
    (
        "nccl_connect",
        "n1:9:9 [0] misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to 10.1.0.2<45763> returned 113(No route to host) "
        "errno 115(Operation now in progress)",
        {"peer": "10.1.0.2<45763>", "why": "No route to host"},
    ),
    (
        "nccl_connect",
        "n1:9:9 [0] os/linux.cc:288 NCCL WARN socketStartConnect: connect to 10.1.0.2<45763> returned Connection timed out, "
        "exceeded error retry count after 35 attempts",
        {"peer": "10.1.0.2<45763>", "why": "Connection timed out"},
    ),
    (
        "nccl_connect",
        "n1:9:9 [0] misc/socket.cc:617 NCCL WARN socketPollConnect to 10.1.0.2<45763> failed with error No route to host",
        {"peer": "10.1.0.2<45763>", "why": "No route to host"},
    ),
    (
        "nccl_connect",
        "n1:9:9 [0] misc/socket.cc:467 NCCL WARN socketStartConnect: exceeded retries (20000)",
        {"why": "exceeded retries (20000)"},
    ),
    (
        "nccl_rank_twice",
        "n1:9:9 [0] bootstrap.cc:348 NCCL WARN Bootstrap Root : rank 1 of 4 ranks has already checked in",
        {"rank": "1", "world": "4"},
    ),
    # DataLoader and processes.
    ("worker_timeout", "RuntimeError: DataLoader timed out after 30 seconds", {"seconds": "30"}),
    ("pin_thread", "RuntimeError: Pin memory thread exited unexpectedly", {}),
    (
        "spawn_main_guard",
        "        An attempt has been made to start a new process before the current process has finished its "
        "bootstrapping phase.",
        {},
    ),
    ("spawn_main_guard", "        current process has finished its bootstrapping phase.", {}),
    ("worker_pickle", "AttributeError: Can't pickle local object 'main.<locals>.<lambda>'", {}),
    ("worker_pickle", "_pickle.PicklingError: Can't pickle <function <lambda> at 0x7f1>: attribute lookup <lambda> failed", {}),
    ("worker_pickle", "TypeError: cannot pickle '_thread.lock' object", {"what": "_thread.lock"}),
    # Checkpoints.
    (
        "weights_only",
        "\tWeightsUnpickler error: Unsupported global: GLOBAL argparse.Namespace was not an allowed global by default. Please "
        "use `torch.serialization.add_safe_globals([argparse.Namespace])`",
        {"name": "argparse.Namespace"},
    ),
    ("checkpoint_damaged", "_pickle.UnpicklingError: pickle data was truncated", {"why": "pickle data was truncated"}),
    (
        "checkpoint_damaged",
        "RuntimeError: unexpected EOF, expected 4718592 more bytes. The file might be corrupted.",
        {"more": "4718592"},
    ),
    (
        "checkpoint_damaged",
        "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
        {"why": "MetadataIncompleteBuffer"},
    ),
    ("checkpoint_damaged", "RuntimeError: Invalid magic number; corrupt file?", {}),
    ("checkpoint_not_one", "_pickle.UnpicklingError: invalid load key, '<'.", {"byte": "<"}),
    ("checkpoint_empty", "EOFError: Ran out of input", {}),
    (
        "checkpoint_write",
        "RuntimeError: [enforce fail at inline_container.cc:603] . PytorchStreamWriter failed writing file",
        {},
    ),
    (
        "optimizer_groups",
        "ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
        {},
    ),
    ("optimizer_groups", "ValueError: loaded state dict has a different number of parameter groups", {}),
    ("state_dict_names", "RuntimeError: Missing key in checkpoint state_dict: head.weight.", {"name": "head.weight"}),
    # cuDNN.
    ("cudnn_init", "RuntimeError: cuDNN error: CUDNN_STATUS_MAPPING_ERROR", {"status": "MAPPING_ERROR"}),
    (
        "cudnn_no_engine",
        "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-contiguous input.",
        {},
    ),
    ("cudnn_no_engine", "RuntimeError: cuDNN error: CUDNN_STATUS_BAD_PARAM", {}),
    ("cudnn_no_engine", "RuntimeError: GET was unable to find an engine to execute this computation", {"step": "GET"}),
    ("cudnn_no_engine", "RuntimeError: FIND was unable to find an engine to execute this computation", {"step": "FIND"}),
    (
        "cudnn_version",
        "RuntimeError: cuDNN version incompatibility: PyTorch was compiled  against (9, 1, 0) but found runtime version "
        "(8, 9, 7). PyTorch already comes bundled with cuDNN.",
        {"built": "9, 1, 0", "found": "8, 9, 7"},
    ),
    (
        "cudnn_version",
        "RuntimeError: cuDNN version 91100 is not compatible with devices with SM < 7.5. Please install",
        {"found": "91100", "built": "7.5"},
    ),
    # Autograd and shapes. REAL
    (
        "inplace_modified",
        "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: "
        "[torch.FloatTensor [4, 8]], which is output 0 of ReluBackward0, is at version 1; expected version 0 instead.",
        {"shape": "4, 8", "made": "ReluBackward0"},
    ),
    (
        "second_backward",
        "RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors after they have "
        "already been freed).",
        {},
    ),
    (
        "second_backward",
        "RuntimeError: Trying to backward through the graph a second time, but the saved intermediate results have already "
        "been freed. Specify retain_graph=True when calling backward the first time.",
        {},
    ),
    ("no_grad", "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn", {}),
    ("leaf_in_place", "RuntimeError: a leaf Variable that requires grad is being used in an in-place operation.", {}),
    ("leaf_in_place", "RuntimeError: a leaf Variable that requires grad has been used in an in-place operation.", {}),
    ("loss_no_scalar", "RuntimeError: grad can be implicitly created only for scalar outputs", {}),
    (
        "shapes",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x512 and 256x10)",
        {"one": "32x512", "other": "256x10"},
    ),
    (
        "shapes",
        "RuntimeError: The size of tensor a (7) must match the size of tensor b (8) at non-singleton dimension 1",
        {"one": "7", "other": "8"},
    ),
    (
        "shapes",
        "RuntimeError: Given groups=1, weight of size [64, 3, 7, 7], expected input[8, 1, 224, 224] to have 3 channels, "
        "but got 1 channels instead",
        {"one": "3", "other": "1"},
    ),
    # Packages and compilers.
    ("module_missing", "ModuleNotFoundError: No module named 'apex'", {"name": "apex"}),
    ("module_missing", "ModuleNotFoundError: No module named 'sklearn'", {"name": "sklearn"}),
    ("module_missing", "ImportError: No module named einops", {"name": "einops"}),
    ("module_missing", "/usr/bin/python3: No module named torch.distributed.run", {"name": "torch.distributed.run"}),
    (
        "import_name",
        "ImportError: cannot import name 'AdamW' from 'transformers' (/opt/site-packages/transformers/__init__.py)",
        {"what": "AdamW", "name": "transformers"},
    ),
    (
        "version_required",
        "ImportError: tokenizers>=0.21,<0.22 is required for a normal functioning of this module, but found "
        "tokenizers==0.20.3.",
        {"wanted": "tokenizers>=0.21,<0.22", "found": "tokenizers==0.20.3."},
    ),
    (
        "undefined_symbol",
        "ImportError: /opt/site-packages/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9Set",
        {"symbol": "_ZN3c104cuda9Set"},
    ),
    ("no_compiler", "RuntimeError: Failed to find C compiler. Please specify via CC environment variable.", {}),
    ("no_compiler", "torch._inductor.exc.InvalidCxxCompiler: No working C++ compiler found in the environment", {}),
    (
        "cuda_mismatch",
        "op_builder.builder.CUDAMismatchException: >- DeepSpeed Op Builder: Installed CUDA version 11.8 does not match the "
        "version torch was compiled with 12.1, unable to compile cuda/cpp extensions without a matching cuda version.",
        {"found": "11.8", "built": "12.1"},
    ),
    (
        "cuda_mismatch",
        "RuntimeError: The detected CUDA version (11.5) mismatches the version that was used to compile PyTorch (12.4).",
        {"found": "11.5", "built": "12.4"},
    ),
    ("cuda_home", "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.", {}),
    ("cuda_home", "op_builder.builder.MissingCUDAException: CUDA_HOME does not exist, unable to compile CUDA op(s)", {}),
    # DeepSpeed.
    (
        "ds_batch_sizes",
        "AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * "
        "gradient_acc_step * world_size 32 != 4 * 1 * 4",
        {"batch": "32", "micro": "4", "steps": "1", "world": "4"},
    ),
    ("ds_hosts", "ValueError: Hostname 'worker-9' not found in hostfile", {"why": "Hostname 'worker-9' not found in hostfile"}),
    ("ds_hosts", "ValueError: No slot '8' specified on host 'worker-1'", {}),
    ("ds_hosts", "ValueError: Hostfile is empty or not formatted correctly, unable to proceed with launching.", {}),
    ("ds_hosts", "ValueError: Cannot specify num_nodes/gpus with include/exclude", {}),
    ("ds_hosts", "ValueError: include_str and exclude_str are mutually exclusive.", {}),
    ("ds_hosts", "ValueError: Num nodes is >1 but no extra nodes available via hostfile", {}),
    ("ds_hosts", "RuntimeError: Unable to proceed, no GPU resources available", {}),
    ("ds_config", "AssertionError: DeepSpeed requires --deepspeed_config to specify configuration file", {}),
    (
        "ds_config",
        "ValueError: Expected a string path to an existing deepspeed config, or a dictionary or a valid base64. "
        "Received: ds.json",
        {},
    ),
    ("ds_config", "AssertionError: Either train_batch_size or train_micro_batch_size_per_gpu needs to be provided", {}),
    ("ds_config", "AssertionError: bfloat16 and fp16 modes cannot be simultaneously enabled", {}),
    (
        "ds_config",
        "ValueError: Please correct the following DeepSpeed config values that mismatch TrainingArguments values:",
        {"why": "DeepSpeed config values that mismatch TrainingArguments values"},
    ),
    ("ds_config", "AssertionError: You are using an untested ZeRO Optimizer. Please add <...> in the configuration file", {}),
    ("ds_config", "AssertionError: zero stage 2 requires an optimizer", {}),
    # Accelerate, Transformers, Lightning.
    (
        "accelerate_config",
        "ValueError: The config file at /home/ada/default_config.yaml had unknown keys (['fsdp_foo']), please try "
        "upgrading your `accelerate` version or fix (and potentially remove) these keys from your config file.",
        {"why": "unknown keys (['fsdp_foo'])"},
    ),
    (
        "accelerate_config",
        "FileNotFoundError: The passed configuration file `fsdp.yaml` does not exist. Please pass an existing file",
        {"file": "fsdp.yaml"},
    ),
    ("accelerate_config", "ValueError: You need to use at least 2 processes to use `--multi_gpu`.", {}),
    (
        "accelerate_config",
        "ValueError: You can only use one of `--cpu`, `--multi_gpu`, `--tpu`, `--use_deepspeed`, `--use_fsdp` at a time.",
        {},
    ),
    ("accelerate_config", "ValueError: Less than two GPU ids were configured and tried to run on multiple GPUs. ", {}),
    ("accelerate_config", "ValueError: You need to manually pass in `--num_processes` using this config yaml.", {}),
    ("accelerate_config", "ValueError: A `distributed_type` must be specified in the config file.", {}),
    (
        "accelerate_state",
        "ValueError: AcceleratorState has already been initialized and cannot be changed, restart your runtime completely and "
        "pass `mixed_precision='bf16'` to `Accelerator()`.",
        {"flag": "mixed_precision='bf16'"},
    ),
    (
        "precision_unsupported",
        "ValueError: FP16 Mixed precision training with AMP or APEX (`--fp16`) and FP16 half precision evaluation "
        "(`--fp16_full_eval`) can only be used on CUDA devices.",
        {"flag": "`--fp16`"},
    ),
    ("precision_unsupported", "ValueError: fp16 mixed precision requires a GPU (not 'cpu').", {"flag": "fp16"}),
    ("precision_unsupported", "ValueError: Your setup doesn't support bf16/gpu. You need torch>=1.10", {"flag": "bf16"}),
    (
        "precision_unsupported",
        "ValueError: --tf32 requires Ampere or a newer GPU arch, cuda>=11 and torch>=1.7",
        {"flag": "--tf32"},
    ),
    ("lightning_devices", "lightning.fabric.utilities.exceptions.MisconfigurationException: You requested gpu: [0, 4]", {}),
    (
        "lightning_devices",
        "MisconfigurationException: `CUDAAccelerator` can not run on your system since the accelerator is not available.",
        {"asked": "CUDAAccelerator"},
    ),
    ("lightning_devices", "MisconfigurationException: No supported gpu backend found!", {}),
    ("lightning_devices", "MisconfigurationException: GPUs requested but none are available.", {}),
    (
        "argument_unknown",
        "TypeError: TrainingArguments.__init__() got an unexpected keyword argument 'evaluation_strategy'",
        {"function": "TrainingArguments.__init__", "name": "evaluation_strategy"},
    ),
    (
        "optimizer_before_device",
        "ValueError: The model and the optimizer parameters are not on the same device, which probably means you created an "
        "optimizer around your model **before** putting on the device.",
        {},
    ),
    # vLLM.
    (
        "vllm_memory_taken",
        "ValueError: Free memory on device cuda:0 (12.18/23.56 GiB) on startup is less than desired GPU memory utilization "
        "(0.92, 21.67 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        {"free": "12.18", "wanted": "21.67"},
    ),
    (
        "vllm_context",
        "ValueError: To serve at least one request with the models's max seq len (32768), (2.00 GB KV cache is needed, "
        "which is larger than the available KV cache memory (0.78 GB). Try increasing `gpu_memory_utilization`",
        {"length": "32768", "wanted": "2.00", "free": "0.78"},
    ),
    (
        "vllm_context",
        "ValueError: To serve at least one request with the model's max seq len (131072), 48.01 GiB KV cache is needed, which "
        "is larger than the available KV cache memory (13.20 GiB). Based on the available memory, the estimated maximum model "
        "length is 36032.",
        {"length": "131072", "fits": "36032"},
    ),
    (
        "vllm_context",
        "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in "
        "KV cache (26064). Try increasing `gpu_memory_utilization`",
        {"length": "32768", "fits": "26064"},
    ),
    ("vllm_no_cache", "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`", {}),
    (
        "vllm_length",
        "ValueError: User-specified max_model_len (65536) is greater than the derived max_model_len "
        "(max_position_embeddings=32768 or model_max_length=None in model's config.json).",
        {"asked": "65536"},
    ),
    (
        "vllm_heads",
        "ValueError: Total number of attention heads (32) must be divisible by tensor parallel size (3).",
        {"heads": "32", "size": "3"},
    ),
    (
        "vllm_bfloat16",
        "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 GPU has compute "
        "capability 7.5. You can use float16 instead",
        {"gpu": "Tesla T4", "has": "7.5"},
    ),
    ("vllm_engine", "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}", {}),
)
NO_SOURCES: tuple[str, ...] = (
    "the simulated cuda runtime error (2) of the test is reported as out of memory tolerance",
    "NCCL: unhandled system errors are retried 3 times",
    "the check says that no GPU has fallen off the bus",
    "[  911.1] NVRM: The NVIDIA GPU driver is loaded; none has fallen off the bus",
    "MPI size 8 = TP size 4 * PP size 2",
    "Container rank 2 status running cmd ['/opt/bin/python3', '-u', 'train.py'] code None log logs/workerlog.2",
    "The actor is dead because its worker process has died. Worker exit type: INTENDED_USER_EXIT Worker exit detail: Worker "
    "exits by an user request. exit_actor() is called.",
    "job.sh: line 41: bus errors are counted by the monitor",
    "skipped: the request did not match any variant of untagged enum MessageContent",
    "epoch 3: error: 0.31",
    "model.weight must be 2-D or 3-D",
    "16 slots available in the replay buffer",
    "NCCL INFO Bootstrap Root : all 4 ranks have checked in",
    "shape '[8, 512]' is invalid for input of size 4000",
    "autoscaler: 2 node types can fulfill the request",
    "waiting for the store of artifacts, timeout after 60 s",
    "n1:9:9 [0] NCCL INFO socketPollConnect: connect to 10.1.0.2<45763> returned Connection refused, retrying (1/34) "
    "after sleep",
    "n1:9:9 [0] NCCL INFO NET/Socket : Using [0]eth0:10.1.0.2<0>",
    "NET/IB : No device found.",
    "rendezvous closed after 12 rounds, all nodes done",
    "the rank has checked in",
    "BrokenPipeError in the viewer: ignored",
    "lost connection to tensorboard: Broken pipe",
    "DataLoader: 8 workers, a batch timed out never",
    "skipped 3 samples with pickle errors",
    "loaded state dict of epoch 12",
    "loaded state dict has 161 keys",
    "invalid load keys: 0",
    "cuDNN version 91002, benchmark on",
    "unsupported class labels: 3",
    "Unsupported class names are dropped: ['cat', 'dog']",
    "frozen: 12 of 24 layers do not require grad",
    "backward pass 2 of 4",
    "the graph has 3 inplace operations",
    "optional dependency apex not found, using torch.amp",
    "No module named in the config is frozen",
    "WARNING: wandb: No module named pynvml, GPU metrics are off",
    "compiler: gcc 12.2",
    "CUDA_HOME=/usr/local/cuda-12.4",
    "train_batch_size: 32 = 4 * 2 * 4",
    "hostfile: 2 hosts, 16 slots",
    "--deepspeed_config ds_config.json",
    "bf16 mixed precision on, 8 GPUs",
    "config file at conf/base.yaml had 31 keys",
    "kwargs: ignored unexpected keyword arguments ['foo']",
    "Free memory on device: 71.2 GiB",
    "GPU KV cache size: 26064 tokens, max seq len (8192)",
)
"""Lines that resemble these and say nothing."""
