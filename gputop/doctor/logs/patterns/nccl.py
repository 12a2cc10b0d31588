"""What NCCL itself prints as "NCCL WARN": sockets, InfiniBand, CUDA. Pure.

Sources: NCCL 2.14 to 2.29, src/misc/socket.cc (socketProgressOpt; "Net : Connect to" and "Net : Call to recv from" until 2.14,
"socketStartConnect: Connect to" and "exceeded retries" until 2.26, socketConnectCheck since) and src/os/linux.cc since 2.29,
src/bootstrap.cc, src/transport/net_socket.cc ("no interface found"), src/misc/ibvwrap.cc, src/transport/net_ib.cc ("with
error" until 2.17, "with status=" since), src/include/checks.h (CUDACHECK; with the number since 2.22).
"""

from __future__ import annotations

from gputop.doctor.logs.patterns.pattern import Pattern, cascade, failure

_INTERFACE = (
    "ip -brief address  # the interface of the network that all hosts share, on each host\n"
    "NCCL_SOCKET_IFNAME=eth0 torchrun ...  # that one; ^docker0,lo leaves some out"
)

PATTERNS: tuple[Pattern, ...] = (
    *(
        failure(
            "nccl_no_interface",
            None,
            key,
            expression,
            "NCCL finds no network interface",
            "NCCL_SOCKET_IFNAME names an interface that this host does not have, or only excluded ones are left.",
            _INTERFACE,
        )
        for key, expression in (
            (
                " interface found",
                r"no socket interface found|NET/Socket : (?:no|No usable listening) interface found|NET/IB : No IP "
                r"interface found",
            ),
            # Since 2.24 NCCL goes on with the address that it did not fill in.
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
        "RANK is the same in both: the start of one host was repeated on another (--node-rank), or a process of an "
        "earlier start still runs.",
        "torchrun --nnodes=2 --node-rank=0 ...  # 0 on the first host, 1 on the second; or --rdzv-backend=c10d without a rank\n"
        "ps aux | grep train.py  # nothing is left of an earlier start, on any host",
        refuted_by="Every process prints another RANK.",
    ),
    failure(
        "nccl_rank_count",
        "G03",
        "mismatch in rank count",
        r"Bootstrap Root : mismatch in rank count from procs (?P<one>\d+) : (?P<other>\d+)",
        "The ranks were given different world sizes: {one} and {other}",
        "WORLD_SIZE, or the number that the launcher passes, is not the same for all of them: another --nnodes or "
        "--nproc-per-node on one host, or a script that counts the ranks itself.",
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
        "The process at the other end is gone; what ended it is the cause.",
        "# read the log of the rank that failed first",
    ),
    failure(
        "nccl_ib",
        None,
        "Got completion from peer",
        r"NCCL WARN .{0,400}?Got completion from peer (?P<peer>\S+) with (?:status=|error )(?P<status>1[23])\b",
        "InfiniBand or RoCE packets to {peer} are not acknowledged (status {status})",
        "The network card gave up after some tries: no route between these ports, a wrong GID index, a link that fails.",
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
        "InfiniBand needs memory that is not swapped, and the limit of this shell, container or batch system is too low.",
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
        "{why}. The port, its GID or the route to the other host is not what NCCL took it for.",
        "ibv_devinfo -v; show_gids\nNCCL_IB_HCA=mlx5_0,mlx5_1 NCCL_IB_GID_INDEX=3 torchrun ...\n"
        "NCCL_IB_DISABLE=1 torchrun ...  # over TCP, to see whether the rest works",
        confidence="likely",
    ),
    failure(
        "nccl_cuda_oom",
        "H02",
        "NCCL WARN Cuda failure",
        r"NCCL WARN Cuda failure (?:2 )?'out of memory'",
        "NCCL cannot allocate its buffers: the GPU's memory is full",
        "NCCL allocates outside of torch's cache, at the first collective of each group; others hold the rest.",
        "# make the batch smaller, or keep torch from taking all: torch.cuda.set_per_process_memory_fraction(0.9)\n"
        "NCCL_BUFFSIZE=1048576 torchrun ...  # smaller buffers, slower",
    ),
    failure(
        "nccl_cuda",
        None,
        "NCCL WARN Cuda failure",
        r"NCCL WARN Cuda failure (?P<number>\d+ )?'(?P<why>(?!out of memory)[^']+)'",
        "A CUDA call failed inside NCCL: {why}",
        "An error of a kernel before it, a GPU that two processes may not share, or a driver that is too old for this NCCL.",
        "CUDA_LAUNCH_BLOCKING=1 python train.py  # on one GPU: an error of a kernel shows at its line\n"
        'nvidia-smi; python -c "import torch; print(torch.version.cuda, torch.cuda.nccl.version())"',
        confidence="possible",
    ),
)
