"""What NCCL prints as "NCCL WARN" (sockets, InfiniBand, CUDA, NVLink SHARP), and what torch says about NCCL. Pure.

Sources: NCCL 2.14 to 2.29, src/misc/socket.cc (socketProgressOpt; "Net : Connect to" and "Net : Call to recv from" until 2.14,
"socketStartConnect: Connect to" and "exceeded retries" until 2.26, socketConnectCheck since) and src/os/linux.cc since 2.29,
src/bootstrap.cc, src/transport/net_socket.cc ("no interface found"), src/misc/ibvwrap.cc, src/transport/net_ib.cc ("with error"
until 2.17, "with status=" since), src/include/checks.h (CUDACHECK; with the number since 2.22), src/transport/nvls.cc ("Failed
to bind" since 2.19).
"""

from __future__ import annotations

from gputop.doctor.findings.finding import Confidence
from gputop.doctor.logs.patterns.pattern import Pattern, cascade, failure, hint

_INTERFACE = (
    "ip -brief address  # the interface of the network that all hosts share, on each host\n"
    "NCCL_SOCKET_IFNAME=eth0 torchrun ...  # that one; ^docker0,lo leaves some out"
)
_OWN_GPU = (
    'local_rank = int(os.environ["LOCAL_RANK"])  # of torchrun; mpirun: OMPI_COMM_WORLD_LOCAL_RANK, Horovod: hvd.local_rank()\n'
    "torch.cuda.set_device(local_rank)  # before any CUDA call\n"
    'dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))  # not with Horovod'
)
_FULL: tuple[tuple[str, str, Confidence], ...] = (
    ("NCCL WARN Cuda failure", r"NCCL WARN Cuda failure (?:2 )?'out of memory'", "certain"),
    # src/include/alloc.h, since 2.19: ncclCudaMalloc, ncclCudaCalloc and their asynchronous forms say only what they wanted.
    ("Failed to CUDA ", r"Failed to CUDA (?:malloc|calloc)(?: async)? \d+ bytes", "likely"),
)

PATTERNS: tuple[Pattern, ...] = (
    *(
        failure(
            "nccl_no_interface",
            None,
            key,
            expression,
            "NCCL finds no network interface",
            "NCCL_SOCKET_IFNAME names an interface that this host does not have, or excludes all of its interfaces.",
            _INTERFACE,
        )
        for key, expression in (
            (
                " interface found",
                r"no socket interface found|NET/Socket : (?:no|No usable listening) interface found|NET/IB : No IP "
                r"interface found",
            ),
            # Since 2.24 NCCL continues with the address that it did not fill in.
            ("ncclSocketInit: connecting to address", r"connecting to address\s+with family \d+ is neither AF_INET"),
        )
    ),
    *(
        failure(
            "nccl_connect",
            None,
            key,
            expression,
            "NCCL cannot reach {peer}: {why}",
            "The ranks found each other, but NCCL's own connections between the hosts fail: the wrong interface (172.17.0.1 is "
            "Docker's own, the same on every host), or a firewall.",
            f"{_INTERFACE}\n# NCCL uses any free port: the firewall between the hosts must let them all through",
            groups={"peer": "another rank"},
        )
        for key, expression in (
            (
                "onnect to ",
                # Behind NCCL WARN, or as the "Last error" that torch repeats.
                r"^(?!.*NCCL INFO).*?(?:NCCL WARN .{0,400}?|[sS]ocket\w{0,40}: |Net : )[Cc]onnect to (?P<peer>\S{1,200}<\d+>) "
                r"(?:returned|failed :|failed with error)(?: -?\d+\()? ?(?P<why>No route to host|Connection refused|Connection "
                r"timed out|Network is unreachable|Software caused connection abort|Operation not permitted)",
            ),
            ("PollConnect to ", r"PollConnect to (?P<peer>\S+) failed with error (?P<why>.+)"),
            ("Connect: exceeded ", r"socket(?:Start|Poll)Connect: (?P<why>exceeded (?:retries|timeouts) \(\d+\))"),
        )
    ),
    failure(
        "nccl_rank_twice",
        "G03",
        "has already checked in",
        r"Bootstrap Root : rank (?P<rank>\d+) of (?P<world>\d+) ranks has already checked in",
        "Two processes have rank {rank} of {world}",
        "Both have the same RANK: two hosts were started with the same --node-rank, or a process of an earlier start is "
        "still running.",
        "torchrun --nnodes=2 --node-rank=0 ...  # 0 on the first host, 1 on the second; or --rdzv-backend=c10d without a rank\n"
        "ps aux | grep train.py  # no process of an earlier start is left on any host",
        refuted_by="Every process prints a different RANK.",
    ),
    failure(
        "nccl_rank_count",
        "G03",
        "mismatch in rank count",
        r"Bootstrap Root : mismatch in rank count from procs (?P<one>\d+) : (?P<other>\d+)",
        "The ranks have different world sizes: {one} and {other}",
        "WORLD_SIZE, or the number that the launcher passes, is not the same for all ranks: --nnodes or --nproc-per-node "
        "differs on one host, or the script counts the ranks itself.",
        "env | grep -E '^(WORLD_SIZE|RANK|NNODES|SLURM_NTASKS|OMPI_COMM_WORLD_SIZE)'  # in every process: the same world size",
        refuted_by="Every process prints the same WORLD_SIZE.",
    ),
    cascade(
        "nccl_peer_closed",
        "G04",
        "NCCL WARN ",
        r"NCCL WARN .{0,400}?(?:Connection closed by remote peer (?P<peer>\S+)|Call to (?:recv|send)\w* (?:from |to )?"
        r"(?P<other>\S+) "
        r"failed : (?:Connection reset by peer|Broken pipe))",
        "NCCL reports that another rank closed its connection",
        "The process at the other end is gone; whatever ended it is the cause.",
        "# read the log of the rank that failed first",
    ),
    failure(
        "nccl_ib",
        None,
        "Got completion from peer",
        r"NCCL WARN .{0,400}?Got completion from peer (?P<peer>\S+) with (?:status=|error )(?P<status>1[23])\b",
        "InfiniBand or RoCE packets to {peer} are not acknowledged (status {status})",
        "The network card gave up after several attempts: no route between these ports, a wrong GID index, or a failing link.",
        "ibv_devinfo -v  # ports up on every host; show_gids: the index of RoCE v2\n"
        "NCCL_IB_HCA=mlx5_0,mlx5_1 NCCL_IB_GID_INDEX=3 torchrun ...  # ports that reach each other, and that index\n"
        "NCCL_IB_DISABLE=1 torchrun ...  # over TCP, to see whether the rest works",
        confidence="likely",
    ),
    failure(
        "nccl_ib_memory",
        None,
        "ibv_reg_mr",
        r"NCCL WARN .{0,400}?Call to (?P<call>ibv_reg_mr\w*) failed(?: with error (?P<why>[^,\n]+))?",
        "The network card may not lock enough memory ({call})",
        "InfiniBand needs locked memory, and the limit of this shell, container or batch system is too low.",
        "ulimit -l  # unlimited is what NCCL needs\n"
        "docker run --ulimit memlock=-1 ...  # Slurm: PropagateResourceLimitsExcept=MEMLOCK in slurm.conf",
        confidence="likely",
    ),
    failure(
        "nccl_ib_call",
        None,
        "Call to ibv_",
        r"NCCL WARN .{0,400}?Call to (?P<call>ibv_(?!reg_mr)\w+) failed(?: with error (?P<why>[^,\n]+))?",
        "A call to the InfiniBand library failed: {call}",
        "{why}. The port, its GID or the route to the other host is not what NCCL assumed.",
        "ibv_devinfo -v; show_gids\nNCCL_IB_HCA=mlx5_0,mlx5_1 NCCL_IB_GID_INDEX=3 torchrun ...\n"
        "NCCL_IB_DISABLE=1 torchrun ...  # over TCP, to see whether the rest works",
        confidence="likely",
    ),
    *(
        failure(
            "nccl_cuda_oom",
            "H02",
            key,
            expression,
            "NCCL cannot allocate its buffers: the GPU's memory is full",
            "NCCL allocates memory outside torch's cache, at the first collective of each group; the rest is already in use.",
            "# make the batch smaller, or keep torch from taking all: torch.cuda.set_per_process_memory_fraction(0.9)\n"
            "NCCL_BUFFSIZE=1048576 torchrun ...  # smaller buffers, slower",
            confidence=confidence,
        )
        for key, expression, confidence in _FULL
    ),
    failure(
        "nccl_cuda",
        None,
        "NCCL WARN Cuda failure",
        r"NCCL WARN Cuda failure (?P<number>\d+ )?'(?P<why>(?!out of memory)[^']+)'",
        "A CUDA call failed inside NCCL: {why}",
        "An earlier kernel failed, two processes may not share this GPU, or the driver is too old for this NCCL.",
        "CUDA_LAUNCH_BLOCKING=1 python train.py  # on one GPU: an error of a kernel shows at its line\n"
        'nvidia-smi; python -c "import torch; print(torch.version.cuda, torch.cuda.nccl.version())"',
        confidence="possible",
    ),
    failure(
        "nccl_dup_gpu",
        "A07",
        "Duplicate GPU detected",
        r"Duplicate GPU detected\s*: rank (?P<rank>\d+) and rank (?P<other>\d+) both on CUDA device (?P<device>\w+)",
        "Ranks {rank} and {other} are on the same GPU (bus id {device})",
        "The ranks did not choose their GPUs: torch.cuda.set_device is missing, or gets the same number on every rank.",
        _OWN_GPU,
    ),
    failure(
        "nccl_dup_gpu",
        "A07",
        "Multiple Ranks are using the same GPU",
        r"Multiple Ranks are using the same GPU",
        "Several ranks are on the same GPU",
        "The ranks did not choose their GPUs: torch.cuda.set_device is missing, or gets the same number on every rank.",
        _OWN_GPU,
    ),
    hint(
        "barrier_guess",
        "H01",
        "arrier()",
        r"barrier\(\)\s*: using the device under current context|using GPU (?P<device>\d+) (?:as device used by this process|"
        r"to perform barrier as devices used by this process are currently unknown)",
        "NCCL guesses which GPU a rank uses",
        "Without set_device or device_id, the current device may be GPU 0 on every rank, which causes an extra context "
        "there, or a hang.",
        'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\n'
        'dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))',
        confidence="possible",
    ),
    hint(
        "barrier_guess",
        "H01",
        "are currently unknown",
        r"using GPU (?P<device>\d+) (?:as device used by this process|to perform barrier as devices used by "
        r"this process) (?:is|are) currently unknown",
        "NCCL guesses that a rank uses GPU {device}",
        "Without set_device or device_id, the guess may be wrong, which causes an extra context or a hang.",
        'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\n'
        'dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))',
        confidence="possible",
    ),
    *(
        cascade(
            "nccl_watchdog",
            "G01",
            "Watchdog caught collective operation timeout",
            r"(?:\[Rank (?P<rank>\d+)\] )?Watchdog caught collective operation timeout: "
            rf"WorkNCCL\({number}OpType=(?P<op>\w+)(?:, NumelIn=(?P<elements>\d+))?.{{0,400}}?Timeout\(ms\)=(?P<timeout>\d+)\) "
            r"ran for (?P<ran>\d+) milliseconds",
            f"A collective operation did not end: {which}, after {{timeout}} ms",
            f"At least one rank did not reach {which.replace(',', '')}: it died, is stuck elsewhere, or runs other code.",
            "TORCH_FR_BUFFER_SIZE=2000 TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun ...  # torchfrtrace names the missing rank\n"
            "gputop doctor  # while it hangs: says which rank is behind, and where it is",
        )
        for number, which in (
            (r"SeqNum=(?P<sequence>\d+), ", "{op}, number {sequence}"),
            ("", "{op}"),  # torch 1.8 to 1.12
        )
    ),
    cascade(
        "nccl_heartbeat",
        "G01",
        "eartbeat monitor timed out",
        r"[Hh]eartbeat monitor timed out",
        "NCCL's watchdog itself is stuck",
        "A call to NCCL or CUDA does not return on this rank, often after another rank left a collective.",
        "gputop doctor  # while it hangs: says which rank is behind, and where it is",
    ),
    cascade(
        "nccl_heartbeat",
        "G01",
        "watchdog got stuck",
        r"ProcessGroupNCCL's watchdog got stuck for (?P<seconds>\d+) seconds",
        "NCCL's watchdog was stuck for {seconds} s",
        "A call to NCCL or CUDA does not return on this rank, often after another rank left a collective.",
        "gputop doctor  # while it hangs: says which rank is behind, and where it is",
    ),
    failure(
        "nccl_shm",
        "G05",
        "/dev/shm/nccl",
        r"(?:creating shared memory segment|failed to extend) (?P<file>/dev/shm/nccl-\w+) \(?(?:size |to )(?P<bytes>\d+)",
        "/dev/shm is too small for NCCL ({bytes} bytes for one segment)",
        "Ranks on one machine exchange data through /dev/shm; a container gets only 64 MB of it by default.",
        "docker run --shm-size=8g --ulimit memlock=-1 ...  # or --ipc=host\ndf -h /dev/shm",
    ),
    cascade(
        "nccl_remote",
        "G04",
        "ncclRemoteError",
        r"ncclRemoteError",
        "NCCL reports that another rank is gone",
        "A rank ended or its network failed; whatever ended it is the cause.",
        "# read the log of the rank that failed first",
    ),
    failure(
        "nccl_version",
        "G03",
        "Mismatched NCCL version",
        r"Mismatched NCCL version detected\s*: rank (?P<rank>\d+) version (?P<version>\d+) rank (?P<other>\d+) "
        r"version (?P<other_version>\d+)",
        "Rank {rank} has NCCL {version}, rank {other} has {other_version}",
        "The ranks run in different environments or images.",
        'python -c "import torch; print(torch.__version__, torch.cuda.nccl.version())"  # on every host; use one image',
    ),
    failure(
        "nccl_sys",
        "G05",
        "ncclSystemError",
        r"ncclSystemError",
        "A system call failed inside NCCL",
        "Shared memory, locked memory, sockets or the network interface: the next line says which.",
        "NCCL_DEBUG=WARN torchrun ...  # prints the call that fails\ndocker run --shm-size=8g --ulimit memlock=-1 ...",
        confidence="likely",
        vague=True,
    ),
    failure(
        "nccl_sys",
        "G05",
        "unhandled system error",
        # TensorFlow, Horovod, and torch until 1.7; later versions of torch also print ncclSystemError.
        r"\bNCCL: unhandled system error\b|\bnccl\w{1,40} failed: unhandled system error\b"
        r"|\bNCCL error in: .{0,300}\bunhandled system error\b",
        "A system call failed inside NCCL",
        "Shared memory, locked memory, sockets or the network interface. NCCL says which only if NCCL_DEBUG is set.",
        "NCCL_DEBUG=WARN python train.py  # or with the launcher: prints the call that fails\n"
        "docker run --shm-size=8g --ulimit memlock=-1 ...",
        confidence="likely",
        vague=True,
    ),
    failure(
        "nvls",
        None,
        "NVLink SHARP (NVLS)",
        r"Failed to (?P<what>\w+) NVLink SHARP \(NVLS\) Multicast memory.{0,200}?: CUDA error (?P<error>\d+)",
        "NCCL cannot use NVLink SHARP: its memory cannot be shared by the switches (CUDA error {error})",
        "The Fabric Manager of this host, or an NVSwitch, is not in order; in a container, it may not be reachable.",
        "NCCL_NVLS_ENABLE=0 torchrun ...  # continues without it, a little slower\n"
        "systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A3 Fabric  # for the host's administrators",
        refuted_by="It fails in the same way with NCCL_NVLS_ENABLE=0.",
    ),
)
