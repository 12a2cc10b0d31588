"""Lines that torch, NCCL, launchers and frameworks print: for each known text what matches, and its values; and what must not.

Those marked REAL were printed by torch 2.13 on a CPU with gloo; the others stand in the sources that print them.
"""

from __future__ import annotations

from tests.doctor.logs.samples_ends import ENDS, NO_ENDS
from tests.doctor.logs.samples_limits import LIMITS, NO_LIMITS
from tests.doctor.logs.samples_posts import NO_POSTS, POSTS
from tests.doctor.logs.samples_sources import NO_SOURCES, SOURCES

MATCHING: tuple[tuple[str, str, dict[str, str]], ...] = (
    *ENDS,
    *SOURCES,
    *POSTS,
    *LIMITS,
    # REAL
    (
        "cuda_deser_unavailable",
        "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are "
        "running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map "
        "your storages to the CPU.",
        {},
    ),
    (
        "cuda_deser_ordinal",
        "RuntimeError: Attempting to deserialize object on CUDA device 3 but torch.cuda.device_count() is 1. "
        "Please use torch.load",
        {"device": "3", "count": "1"},
    ),
    ("not_compiled_cuda", "AssertionError: Torch not compiled with CUDA enabled", {}),
    ("no_driver", "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU", {}),
    (
        "driver_too_old",
        "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040). Please update",
        {"version": "11040"},
    ),
    (
        "arch_unsupported",
        "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
        {},
    ),
    (
        "arch_unsupported",
        "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.",
        {"name": "NVIDIA GeForce RTX 5090", "arch": "sm_120"},
    ),
    ("err802", "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized", {}),
    (
        "cuda_unknown_env",
        "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable "
        "CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero.",
        {},
    ),
    (
        "bad_device_string",
        "RuntimeError: Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, "
        "vulkan, mps, meta, hpu, mtia, privateuseone device type at start of device string: gpu",
        {"device": "gpu"},
    ),
    ("bad_device_string", "RuntimeError: Invalid device string: 'cuda:x'", {"device": "cuda:x"}),
    ("invalid_ordinal", "torch.AcceleratorError: CUDA error: invalid device ordinal", {}),
    ("devices_busy", "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable", {}),
    ("devices_busy", "torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable", {}),
    ("nvml_mismatch", "Failed to initialize NVML: Driver/library version mismatch", {}),
    ("nvml_unknown", "Failed to initialize NVML: Unknown Error", {}),
    (
        "two_devices",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! (when "
        "checking argument for argument mat1 in method wrapper_CUDA_addmm)",
        {"one": "cuda:0", "other": "cpu"},
    ),
    (
        "two_devices",
        "RuntimeError: Expected all tensors to be on the same device, but got mat1 is on cpu, different from other tensors on "
        "cuda:0 (when checking argument in method wrapper_CUDA_addmm)",
        {"what": "mat1", "one": "cpu", "other": "cuda:0"},
    ),
    (
        "two_devices",
        "RuntimeError: Input type (torch.cuda.FloatTensor) and bias type (torch.FloatTensor) should be the same",
        {"one": "cuda.FloatTensor", "other": "FloatTensor"},
    ),
    (
        "two_dtypes",
        "RuntimeError: Input type (torch.cuda.HalfTensor) and weight type (torch.cuda.FloatTensor) should be the same",
        {"one": "torch.cuda.HalfTensor", "other": "torch.cuda.FloatTensor"},
    ),
    ("two_dtypes", "RuntimeError: Input type (c10::Half) and bias type (float) should be the same", {"one": "c10::Half"}),
    (
        "two_dtypes",
        "RuntimeError: mat1 and mat2 must have the same dtype, but got Half and Float",
        {"one": "Half", "other": "Float"},
    ),
    ("two_dtypes", "RuntimeError: expected scalar type Double but found Float", {"one": "Double", "other": "Float"}),
    (
        "two_devices",
        "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the "
        "same or input should",
        {"one": "FloatTensor", "other": "cuda.FloatTensor"},
    ),
    ("illegal", "torch.AcceleratorError: CUDA error: an illegal memory access was encountered", {}),
    ("illegal", "RuntimeError: CUDA error: device-side assert triggered", {}),
    (
        "illegal",
        "/pytorch/aten/src/ATen/native/cuda/Loss.cu:92: operator(): block: [11,0,0], thread: [32,0,0] Assertion "
        "`input_val >= zero && input_val <= one` failed.",
        {},
    ),
    ("ecc", "RuntimeError: CUDA error: uncorrectable ECC error encountered", {}),
    (
        "xid",
        "[ 812.1] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        {"pci": "PCI:0000:3b:00", "xid": "79"},
    ),
    (
        "oom",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total "
        "capacity of 79.15 GiB of which "
        "14.75 MiB is free. Including non-PyTorch memory, this process has 79.11 GiB memory in use. Of "
        "the allocated memory 70.1 "
        "GiB is allocated by PyTorch, and 8.20 GiB is reserved by PyTorch but unallocated.",
        {"size": "2.00 GiB", "gpu": "3", "total": "79.15 GiB", "free": "14.75 MiB", "reserved": "8.20 GiB"},
    ),
    (
        "oom",
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 23.69 GiB total capacity; 22.12 GiB already "
        "allocated; 9.00 MiB free; 22.40 GiB reserved in total by PyTorch)",
        {"size": "20.00 MiB", "gpu": "0", "total": "23.69 GiB"},
    ),
    (
        "oom",
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 63.98 GiB of "
        "which 1.00 GiB is free.",
        {"size": "2.00 GiB", "free": "1.00 GiB"},
    ),
    ("oom", "RuntimeError: CUDA error: out of memory", {}),
    (
        "oom",  # torch 2.1 and 2.2 misspell the word
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 344.00 MiB. GPU 0 has a total capacty of 23.69 GiB "
        "of which 211.81 MiB is free.",
        {"size": "344.00 MiB", "total": "23.69 GiB", "free": "211.81 MiB"},
    ),
    (
        "oom_other_proc",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total "
        "capacity of 79.15 GiB of which "
        "510.75 MiB is free. Process 812 has 60.10 GiB memory in use. Including non-PyTorch memory, this process has 18.5 GiB",
        {"gpu": "0", "pid": "812", "other": "60.10 GiB"},
    ),
    (
        "oom_other_proc",  # torch 2.1 and 2.2 misspell the word
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 344.00 MiB. GPU 0 has a total capacty of 23.69 GiB "
        "of which 211.81 MiB is free. Process 1284 has 20.37 GiB memory in use. Including non-PyTorch memory, this process has "
        "3.10 GiB memory in use.",
        {"gpu": "0", "pid": "1284", "other": "20.37 GiB"},
    ),
    ("nan_loss", "epoch 3 step 120 loss: nan lr 0.1", {}),
    ("nan_loss", "{'loss': nan, 'grad_norm': nan, 'epoch': 0.5}", {}),
    ("nan_loss", "Loss is nan, stopping training", {}),
    ("nan_loss", "step 12 train_loss=NaN", {}),
    ("nan_loss", "epoch 3 loss nan", {}),
    ("nan_loss", "epoch 3 step 120 loss nan lr 0.1 acc 0.1", {}),
    ("nan_loss", "[12/100] train loss NaN, val loss 0.4", {}),
    ("nan_loss", "loss tensor(nan, device='cuda:0', grad_fn=<NllLossBackward0>)", {}),
    (
        "nan_loss",
        "RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.",
        {"function": "SqrtBackward0", "output": "0"},
    ),
    (
        "anomaly_mode",
        "train.py:71: UserWarning: Anomaly Detection has been enabled. This mode will increase the runtime and should only be "
        "enabled for debugging.",
        {},
    ),
    (
        "anomaly_mode",
        "/opt/torch/autograd/anomaly_mode.py:70: UserWarning: Anomaly Detection has been enabled. This mode will increase the "
        "runtime.",
        {},
    ),
    (
        "anomaly_mode",
        "You have turned on `Trainer(detect_anomaly=True)`. This will significantly slow down compute speed and is recommended "
        "only for model debugging.",
        {},
    ),
    (
        "target_size",
        "torch/nn/modules/loss.py:538: UserWarning: Using a target size (torch.Size([100])) that is different to the input "
        "size (torch.Size([100, 1])). This will likely lead to incorrect results due to broadcasting. Please ensure they have "
        "the same size.",
        {"target": "100", "input": "100, 1"},
    ),
    (
        "worker_bus",
        "RuntimeError: DataLoader worker (pid 7807) is killed by signal: Bus error. It is possible that "
        "dataloader's workers are "
        "out of shared memory. Please try to raise your shared memory limit.",
        {"pid": "7807"},
    ),
    (
        "worker_bus",
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
        {},
    ),
    (
        "worker_killed",
        "RuntimeError: DataLoader worker (pid 7805) is killed by signal: Killed. ",
        {"pid": "7805", "signal": "Killed"},
    ),
    (
        "worker_crashed",
        "RuntimeError: DataLoader worker (pid 7805) is killed by signal: Segmentation fault. ",
        {"pid": "7805", "signal": "Segmentation fault"},
    ),
    # torch/lib/THC until 1.5; thrust/system/cuda/detail/bulk/detail/cuda_launcher of CUDA 8 and 9.
    ("oom", "RuntimeError: cuda runtime error (2) : out of memory at /tmp/build/aten/src/THC/generic/THCStorage.cu:58", {}),
    ("oom", "RuntimeError: after cudaLaunch in triple_chevron_launcher::launch(): out of memory", {}),
    ("worker_killed", "RuntimeError: DataLoader worker (pid(s) 7805) exited unexpectedly", {"pid": "7805"}),
    ("fd_limit", "OSError: [Errno 24] Too many open files", {}),
    ("fd_limit", "RuntimeError: received 0 items of ancdata", {}),
    (
        "too_many_workers",
        "UserWarning: This DataLoader will create 64 worker processes in total. Our suggested max number of worker in current "
        "system is 2, which is smaller than what this DataLoader is going to create.",
        {"workers": "64", "cores": "2"},
    ),
    (
        "fork_cuda",
        "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you "
        "must use the 'spawn'",
        {},
    ),
    (
        "pin_no_accel",
        "UserWarning: 'pin_memory' argument is set as true but no accelerator is found, then device pinned "
        "memory won't be used.",
        {},
    ),
    (
        "dp_replica_error",
        "RuntimeError: Caught RuntimeError in replica 1 on device 1.",
        {"type": "RuntimeError", "replica": "1"},
    ),
    (
        "dp_not_on_dev0",
        "RuntimeError: module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on "
        "device: cpu",
        {"first": "cuda:0", "found": "cpu"},
    ),
    (
        "dp_kwargs_mismatch",
        "AssertionError: The number of modules 4 is not equal to the number of kwargs_tup 1",
        {"modules": "4", "count": "1"},
    ),
    ("dp_scatter_scalar", "RuntimeError: chunk expects at least a 1-dimensional tensor", {}),
    (
        "dp_gather_scalar",
        "UserWarning: Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze",
        {},
    ),
    ("hf_n_gpu", "  Training with DataParallel so batch size has been adjusted to: 1,024", {"batch": "1,024"}),
    ("dp_imbalance", "    There is an imbalance between your GPUs. You may want to exclude GPU 1 which", {"gpu": "1"}),
    (
        "ddp_devids_cpu",
        "ValueError: DistributedDataParallel device_ids and output_device arguments only work with "
        "single-device/multiple-device "
        "GPU modules or CPU modules, but got device_ids [1], output_device None, and module parameters {device(type='cpu')}.",
        {"ids": "1", "devices": "device(type='cpu')"},
    ),
    (
        "ddp_devids_spread",
        "ValueError: DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-"
        "device GPU modules or CPU modules, but got device_ids [0], output_device 0, and module parameters "
        "{device(type='cuda', index=0), device(type='cuda', index=1)}.",
        {"ids": "0", "devices": "device(type='cuda', index=0), device(type='cuda', index=1)"},
    ),
    (
        "ddp_not_needed",
        "RuntimeError: DistributedDataParallel is not needed when a module doesn't have any parameter that "
        "requires a gradient.",
        {},
    ),
    (
        "unused_params",
        "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new "
        "one. This error indicates "
        "that your module has parameters that were not used in producing loss.",
        {},
    ),
    ("unused_idx", "Parameter indices which did not receive grad for rank 0: 2 3", {"rank": "0", "parameters": "2 3"}),
    ("unused_idx", "Parameters which did not receive grad for rank 1: b.weight, b.bias", {"parameters": "b.weight, b.bias"}),
    (
        "ready_twice",
        "RuntimeError: Expected to mark a variable ready only once. This error is caused by one of the following",
        {},
    ),
    (
        "fup_useless",
        "[W1121 04:24:45.270227961 reducer.cpp:1529] Warning: find_unused_parameters=True was specified "
        "in DDP constructor, but "
        "did not find any unused parameters in the forward pass.",
        {},
    ),
    (
        "module_prefix",
        '\tMissing key(s) in state_dict: "module.0.weight", "module.0.bias". ',
        {"which": "Missing", "name": "0.weight"},
    ),
    ("module_prefix", '\tUnexpected key(s) in state_dict: "module.0.weight". ', {"which": "Unexpected"}),
    ("state_dict_names", '\tUnexpected key(s) in state_dict: "fc.weight". ', {"which": "Unexpected", "name": "fc.weight"}),
    ("sampler_excl", "ValueError: sampler option is mutually exclusive with shuffle", {}),
    (
        "coll_mismatch",
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: CollectiveFingerPrint("
        "SequenceNumber=0, OpType=ALLREDUCE, TensorShape=[5], TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float "
        "(default))), but Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=0, "
        "OpType=BROADCAST, TensorShape=[4]",
        {"rank": "1", "op": "ALLREDUCE", "other": "0", "other_op": "BROADCAST"},
    ),
    (
        "coll_mismatch",
        "  what():  [enforce fail at gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 4004 vs 4. Received data "
        "size doesn't match expected size. Is there a distributed collective mismatch in your code?",
        {"got": "4004", "expected": "4"},
    ),
    (
        "param_shape",
        "RuntimeError: [1]: params[0] in this process with sizes [5, 4] appears not to match sizes of the "
        "same param in process 0.",
        {"rank": "1", "index": "0", "sizes": "5, 4", "other": "0"},
    ),
    (
        "param_shape",
        "RuntimeError: DDP expects same model across all ranks, but Rank 1 has 2 params, while rank 0 has "
        "inconsistent 4 params.",
        {"rank": "1", "count": "2", "other_count": "4"},
    ),
    (
        "gloo_peer",
        "RuntimeError: [third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:38826. This is "
        "typically caused by a remote worker crashing.",
        {},
    ),
    (
        "gloo_peer",
        "RuntimeError: [third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:151: Connection reset by peer.",
        {},
    ),
    (
        "gloo_timeout",
        "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation to complete",
        {"ms": "8000"},
    ),
    (
        "monitored_barrier",
        "RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 3000 ms",
        {"ranks": "1", "ms": "3000"},
    ),
    (
        "rnn_flat",
        "UserWarning: RNN module weights are not part of single contiguous chunk of memory. This means they "
        "need to be compacted",
        {},
    ),
    ("local_rank_dash", "arg.py: error: unrecognized arguments: --local-rank=1", {"rank": "1"}),
    ("launch_deprecated", "FutureWarning: The module torch.distributed.launch is deprecated", {}),
    (
        "launcher_no_cuda",
        '    raise ValueError("Cuda is not available.") from e\nValueError: Cuda is not available.\n'
        "srun: error: n1: task 0: Exited with exit code 1",
        {},
    ),
    (
        "omp1",
        "W1121 04:24:31.124000 7792 torch/distributed/run.py:874] Setting OMP_NUM_THREADS environment "
        "variable for each process "
        "to be 1 in default, to avoid your system being overloaded",
        {"threads": "1"},
    ),
    (
        "env_rdzv_missing",
        "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK "
        "expected, but not set",
        {"variable": "RANK"},
    ),
    (
        "pg_not_init",
        "ValueError: Default process group has not been initialized, please make sure to call init_process_group.",
        {},
    ),
    (
        "addr_in_use",
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29533, "
        "useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        {"port": "29533"},
    ),
    ("addr_in_use", "OSError: [Errno 98] Address already in use", {}),
    ("oom", "[Error] [carb.gym.plugin] Gym cuda error: out of memory: ../../../source/GymPhysX.cpp: 1721", {}),
    (
        "rdzv_timeout",
        "torch.distributed.DistStoreError: Timed out after 3 seconds waiting for clients. 1/2 clients joined.",
        {"joined": "1", "world": "2"},
    ),
    (
        "rdzv_timeout",
        "torch.distributed.DistNetworkError: The client socket has timed out after 4000ms while trying "
        "to connect to (127.0.0.1, "
        "29578).",
        {"after": "4000ms", "address": "127.0.0.1, 29578"},
    ),
    (
        "rdzv_timeout",
        "torch.distributed.DistNetworkError: The client socket has timed out after 600s while trying to connect to (a, 1).",
        {"after": "600s", "address": "a, 1"},
    ),
    ("rdzv_timeout", "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError", {}),
    ("child_failed", "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", {}),
    (
        "sigkill",
        "E1121 04:25:59.539000 8451 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) local_rank: 1 "
        "(pid: 8515) of binary: /usr/bin/python3",
        {"local_rank": "1", "pid": "8515"},
    ),
    (
        "slurm_oom",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have been OOM Killed.",
        {"step": "4711.0"},
    ),
    (
        "slurm_oom",
        "slurmstepd: error: Detected 3 oom-kill event(s) in StepId=4711.batch. Some of your processes may have been killed by "
        "the cgroup out-of-memory handler.",
        {"step": "4711.batch"},
    ),
    ("slurm_oom", "srun: error: node1: task 3: Out Of Memory", {"tasks": "task 3"}),
    ("slurm_oom", "srun: error: gpu-07: tasks 0-3: Out Of Memory", {"tasks": "tasks 0-3"}),
    # From the frameworks' sources.
    (
        "pl_notebook",
        "Trainer will use only 1 of 4 GPUs because it is running inside an interactive / notebook "
        "environment. You may try to set",
        {"gpus": "4"},
    ),
    ("pl_gpu_unused", "GPU available but not used. You can set it by doing `Trainer(accelerator='gpu')`.", {}),
    (
        "pl_slurm_tasks",
        "ValueError: You set `--ntasks=8` in your SLURM bash script, but this variable is not supported. HINT: Use",
        {"tasks": "8"},
    ),
    (
        "pl_workers",
        "UserWarning: The 'train_dataloader' does not have many workers which may be a bottleneck. "
        "Consider increasing the value of "
        "the `num_workers` argument` to `num_workers=7` in the `DataLoader` to improve performance.",
        {"loader": "train_dataloader", "workers": "7"},
    ),
    (
        "ds_cvd_ignored",
        "Detected CUDA_VISIBLE_DEVICES=2,3 but ignoring it because one or several of "
        "--include/--exclude/--num_gpus/--num_nodes cl "
        "args were used.",
        {"mask": "2,3"},
    ),
    (
        "acc_p2p",
        "NotImplementedError: Using RTX 4000 series doesn't support faster communication broadband via P2P or IB. Please set",
        {},
    ),
    (
        "hf_devicemap_dist",
        "ValueError: You can't train a model that has been loaded with `device_map='auto'` in any "
        "distributed mode. Please rerun",
        {},
    ),
    (
        "hf_8bit_device",
        "ValueError: You can't train a model that has been loaded in 8-bit or 4-bit precision on a "
        "different device than the one "
        "you're training on.",
        {},
    ),
    (
        "nccl_dup_gpu",
        "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000",
        {"rank": "1", "other": "0", "device": "1000"},
    ),
    (
        "nccl_dup_gpu",
        "NCCL WARN Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1",
        {},
    ),
    (
        "barrier_guess",
        "UserWarning: barrier(): using the device under current context. You can specify `device_id` in `init_process_group`",
        {},
    ),
    (
        "barrier_guess",
        "[rank1]:[W ProcessGroupNCCL.cpp:4115] [PG ID 0 Rank 1]  using GPU 1 to perform barrier as "
        "devices used by this process "
        "are currently unknown. This can potentially cause a hang",
        {"device": "1"},
    ),
    (
        "nccl_watchdog",
        "[rank0]:[E1121 12:00:00.1 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL("
        "SeqNum=1234, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 "
        "milliseconds before timing out.",
        {"sequence": "1234", "op": "ALLREDUCE", "timeout": "600000", "ran": "600012"},
    ),
    # torch 1.8 to 1.12
    (
        "nccl_watchdog",
        "  what():  [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(OpType=BROADCAST, Timeout(ms)=1800000) ran "
        "for 1803977 milliseconds before timing out.",
        {"rank": "3", "op": "BROADCAST", "timeout": "1800000"},
    ),
    ("nccl_heartbeat", "[Rank 0] Heartbeat monitor timed out! Process will be terminated after dumping debug info.", {}),
    (
        "nccl_heartbeat",
        "[PG ID 0 Rank 1] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring",
        {"seconds": "480"},
    ),
    (
        "nccl_shm",
        "misc/shmutils.cc:113 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-UbzKZ9 (size 9637888)",
        {"file": "/dev/shm/nccl-UbzKZ9", "bytes": "9637888"},
    ),
    ("nccl_shm", "NCCL WARN Error: failed to extend /dev/shm/nccl-UbzKZ9 to 9637892 bytes", {"bytes": "9637892"}),
    (
        "nccl_no_interface",
        "gpu-a:811:811 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found",
        {},
    ),
    (
        "nccl_connect",
        "gpu-a:811:902 [1] misc/socket.cc:456 NCCL WARN Net : Connect to 172.17.0.2<40537> failed : Connection refused",
        {"peer": "172.17.0.2<40537>", "why": "Connection refused"},
    ),
    (
        "nccl_connect",
        "[2026-11-22 10:15:02] gpu-a:811:902 [1] misc/socket.cc:518 NCCL WARN socketPollConnect: connect to 10.9.0.4<51331> "
        "returned Connection timed out, exceeded error retry count after 35 attempts",
        {"peer": "10.9.0.4<51331>", "why": "Connection timed out"},
    ),
    (
        "nccl_peer_closed",
        "[1] misc/socket.cc:71 NCCL WARN socketProgress: Connection closed by remote peer gpu-b<42830>",
        {"peer": "gpu-b<42830>"},
    ),
    (
        "nccl_peer_closed",
        "gpu-a:460:869 [0] misc/socket.cc:30 NCCL WARN socketProgressOpt: Call to recv from 11.1.8.2<52035> failed : "
        "Connection reset by peer",
        {"other": "11.1.8.2<52035>"},
    ),
    (
        "nccl_peer_closed",
        "[2] misc/socket.cc:518 NCCL WARN Net : Call to recv from 172.17.0.2<40537> failed : Connection reset by peer",
        {"other": "172.17.0.2<40537>"},
    ),
    (
        "nccl_ib",
        "gpu-a:9:13 [4] transport/net_ib.cc:1615 NCCL WARN NET/IB : Got completion from peer 172.36.1.5<44206> with status=12 "
        "opcode=129 len=65536 vendor err 129 (Recv) localGid ::ffff:29.87.4.1 remoteGids::ffff:29.87.4.2",
        {"peer": "172.36.1.5<44206>", "status": "12"},
    ),
    (
        "nccl_ib",
        "gpu-a:9:13 [4] transport/net_ib.cc:835 NCCL WARN NET/IB : Got completion from peer 10.0.35.1<49189> with error 12, "
        "opcode 1, len 0, vendor err 129 (Send)",
        {"status": "12"},
    ),
    (
        "nccl_ib_memory",
        "gpu-a:9:13 [0] misc/ibvwrap.cc:111 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory",
        {"call": "ibv_reg_mr", "why": "Cannot allocate memory"},
    ),
    (
        "nccl_ib_memory",
        "gpu-a:9:13 [0] misc/ibvwrap.cc:92 NCCL WARN Call to ibv_reg_mr_iova2 failed",
        {"call": "ibv_reg_mr_iova2"},
    ),
    (
        "nccl_ib_call",
        "gpu-a:9:13 [0] misc/ibvwrap.cc:187 NCCL WARN Call to ibv_modify_qp failed with error Network is unreachable",
        {"call": "ibv_modify_qp", "why": "Network is unreachable"},
    ),
    ("nccl_cuda_oom", "gpu-a:9:13 [0] include/alloc.h:40 NCCL WARN Cuda failure 'out of memory'", {}),
    ("nccl_cuda_oom", "gpu-a:9:13 [0] include/alloc.h:246 NCCL WARN Cuda failure 2 'out of memory'", {}),
    ("nccl_cuda", "gpu-a:9:13 [0] transport.cc:154 NCCL WARN Cuda failure 'invalid argument'", {"why": "invalid argument"}),
    (
        "nccl_cuda",
        "gpu-a:9:13 [0] enqueue.cc:1591 NCCL WARN Cuda failure 700 'an illegal memory access was encountered'",
        {"why": "an illegal memory access was encountered"},
    ),
    ("nccl_sys", "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.", {}),
    (
        "nccl_remote",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        {},
    ),
    (
        "nccl_version",
        "NCCL WARN Mismatched NCCL version detected : rank 1 version 21805 rank 0 version 22005",
        {"rank": "1", "version": "21805", "other_version": "22005"},
    ),
)

NOT_MATCHING: tuple[str, ...] = (
    "Installed CUDA version 12.2 does not match the version torch was compiled with 12.1 but since the APIs are compatible, "
    "accepting this combination",
    "_IncompatibleKeys(missing_keys=['fc.weight'], unexpected_keys=[])",
    "_IncompatibleKeys(missing_keys=['head.weight'], unexpected_keys=['old_head.weight'])",
    *NO_ENDS,
    *NO_SOURCES,
    *NO_POSTS,
    *NO_LIMITS,
    "Epoch 3: 100%|██████████| 469/469 [00:12<00:00, 37.9it/s, loss=0.431]",
    "step 120 loss 0.4312 lr 0.1 nanoseconds 12",
    "finance_loss: 0.31, tenant: a",
    "loss_nan_count: 0",
    "loss nan_to_num is on",
    "step 12 loss nanoseconds 12",
    "step 12 loss nan count 0",
    "loss nan check 1 of 3 passed",
    "looking out for a loss nan from epoch 3 on",
    "replaced loss nan values by 0",
    "glossnan 3 closs nan",
    "slurmstepd: info: Detected 0 oom_kill events so far",
    "policy on Out Of Memory: retry task 3",
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.",
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    "It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.",
    "consider passing CUDA_LAUNCH_BLOCKING=1 against invalid device ordinal",
    "Using device: cuda:0, 4 devices found",
    "Trainer already configured with device_map; loading model to cuda:0",
    "model.module.layer1.weight torch.Size([64, 3, 7, 7])",
    "connection to the metrics server was closed by peer",
    "http://localhost:6006 already in use by TensorBoard, choosing 6007",
    "saving checkpoint to /dev/shm/cache/nccl.txt",
    "NCCL INFO Channel 00/02 : 0 1 2 3",
    "NCCL version 2.27.5+cuda12.9",
    "INFO: exitcode: 0",
    "all 8 ranks joined the rendezvous",
    "DataLoader worker 3 ready",
    "GPU available: True (cuda), used: True",
    "replica 1 of the parameter server is up",
    "RuntimeWarning: Mean of empty slice",
    "the number of modules in the registry is 14",
    "watchdog started",
    "out of memory budget? no: 12 GiB of 80 GiB",
)
