"""Error texts of launchers, rendezvous, NCCL and the frameworks. Pure."""

from __future__ import annotations

from gputop.doctor.logs.patterns.pattern import Pattern, cascade, failure, hint

PATTERNS: tuple[Pattern, ...] = (
    failure(
        "local_rank_dash",
        "A17",
        "unrecognized arguments:",
        r"unrecognized arguments:.{0,400}--local-rank=(?P<rank>\d+)",
        "The launcher passes --local-rank, which the script does not know",
        "torch.distributed.launch passes --local-rank with a dash since torch 2.0; the script expects --local_rank or nothing.",
        'torchrun --standalone --nproc-per-node=gpu train.py  # and in it: local_rank = int(os.environ["LOCAL_RANK"])\n'
        'parser.add_argument("--local-rank", "--local_rank", type=int, default=0)  # or take both spellings',
    ),
    failure(
        "local_rank_dash",
        "A17",
        "the following arguments are required",
        r"error: the following arguments are required: (?:.{0,200}, )?--local_rank\b",
        "The script requires --local_rank, which the launcher does not pass",
        "torch.distributed.launch passes --local-rank with a dash since torch 2.0, and torchrun passes nothing: the local rank "
        "is in the environment.",
        'torchrun --standalone --nproc-per-node=gpu train.py  # and in it: local_rank = int(os.environ["LOCAL_RANK"])\n'
        'parser.add_argument("--local-rank", "--local_rank", type=int, default=0)  # not required; both spellings',
    ),
    hint(
        "launch_deprecated",
        "A17",
        "torch.distributed.launch is deprecated",
        r"module torch\.distributed\.launch is deprecated",
        "torch.distributed.launch is deprecated",
        "torchrun is its successor; it passes the local rank in the environment, not as an argument.",
        'torchrun --standalone --nproc-per-node=gpu train.py  # local_rank = int(os.environ["LOCAL_RANK"])',
        severity="info",
    ),
    hint(
        "omp1",
        "D04",
        "OMP_NUM_THREADS environment variable",
        r"Setting OMP_NUM_THREADS environment variable for each process to be (?P<threads>\d+)",
        "Each rank uses {threads} CPU thread(s)",
        "torchrun sets OMP_NUM_THREADS={threads} where it is not set. Work on the CPU in the main process (collation, "
        "augmentation without workers) is slower for it.",
        "OMP_NUM_THREADS=$(( $(nproc) / RANKS )) torchrun --nproc-per-node=RANKS train.py  # RANKS: how many you start",
        severity="info",
    ),
    failure(
        "env_rdzv_missing",
        "A01",
        "env:// rendezvous",
        r"Error initializing torch\.distributed using env:// rendezvous: environment variable (?P<variable>\w+) expected",
        "The script was started without a launcher: {variable} is not set",
        "init_process_group reads rank and world size from the environment, which torchrun sets and plain python does not.",
        "torchrun --standalone --nproc-per-node=gpu train.py",
    ),
    failure(
        "pg_not_init",
        "A01",
        "process group has not been initialized",
        r"Default process group has not been initialized, please make sure to call init_process_group",
        "torch.distributed was used before init_process_group",
        "A rank, a world size, a DistributedSampler or DDP was asked for while there is no process group.",
        'dist.init_process_group("nccl")  # first; and start with torchrun --standalone --nproc-per-node=gpu train.py',
    ),
    failure(
        "addr_in_use",
        "G03",
        "EADDRINUSE",
        r"(?:port: (?P<port>\d+).{0,400})?EADDRINUSE",
        "The port for the rendezvous is taken ({port})",
        "Another job, or a process left over from an earlier job, listens on it.",
        "ss -ltnp 'sport = :{port}'  # who listens\ntorchrun --standalone --nproc-per-node=gpu train.py  # takes a free port",
    ),
    failure(
        "addr_in_use",
        "G03",
        "ddress already in use",
        r"[Aa]ddress already in use",
        "The port for the rendezvous is taken",
        "Another job, or a process left over from an earlier job, listens on it.",
        "ss -ltnp  # who listens\ntorchrun --standalone --nproc-per-node=gpu train.py  # takes a free port",
        confidence="likely",
    ),
    failure(
        "addr_in_use",
        "G03",
        "another process is utilizing it",
        r"launch distributed communication on port `?(?P<port>\d+)`?, but another process is utilizing it",
        "The port for the rendezvous is taken ({port})",
        "Another job, or a process left over from an earlier job, listens on it.",
        "ss -ltnp 'sport = :{port}'  # who listens\naccelerate launch --main_process_port 0 train.py  # takes a free port",
    ),
    failure(
        "rdzv_timeout",
        "G03",
        "imed out after",
        r"Timed out after (?P<seconds>\d+) seconds waiting for clients\. (?P<joined>\d+)/(?P<world>\d+) clients joined",
        "Only {joined} of {world} ranks came to the rendezvous",
        "The others were not started, ended before, or cannot reach this host and port.",
        "# start as many ranks as the world size says: torchrun --nnodes, --nproc-per-node\n"
        "# on several hosts: the same --rdzv-endpoint on each, the port open in the firewall",
    ),
    failure(
        "rdzv_timeout",
        "G03",
        "client socket has timed out",
        r"(?:Error|Exception)\b.{0,400}client socket has timed out after (?P<ms>\d+)ms while trying to connect to "
        r"\(?(?P<address>[^\s),]+, ?\d+|[^\s)]+)",
        "No process answered at {address}",
        "The first rank does not listen there: not started, ended before, another MASTER_ADDR or port, or a firewall.",
        "# rank 0 must run on MASTER_ADDR; single host: torchrun --standalone --nproc-per-node=gpu train.py",
    ),
    failure(
        "rdzv_timeout",
        "G03",
        "RendezvousTimeoutError",
        r"RendezvousTimeoutError",
        "The rendezvous failed: not all nodes joined in time",
        "Fewer nodes were started than --nnodes says, or they cannot reach the endpoint.",
        "torchrun --standalone --nproc-per-node=gpu train.py  # on one host\n"
        "# on several: the same --rdzv-id and --rdzv-endpoint on each",
    ),
    cascade(
        "child_failed",
        "G04",
        "ChildFailedError",
        r"ChildFailedError",
        "torchrun reports that a rank failed",
        "The launcher's summary; the root cause is in the log of the rank that it lists first.",
        "# read the log of the rank under Root Cause",
    ),
    failure(
        "sigkill",
        "H05",
        "exitcode: -9",
        r"failed \(exitcode: -9\) local_rank: (?P<local_rank>\d+) \(pid: (?P<pid>\d+)\)",
        "Local rank {local_rank} was killed from outside (SIGKILL)",
        "Process {pid} got SIGKILL: usually the kernel's or the batch system's memory limit, else somebody's kill -9.",
        "sudo dmesg --ctime | grep -i -E 'killed process|oom' | tail\n"
        "# fewer DataLoader workers, arrays instead of lists of Python objects, more memory for the job",
        confidence="likely",
        refuted_by="dmesg and the batch system know of no kill for memory at that time.",
    ),
    *(
        failure(
            "slurm_oom",
            "H05",
            key,
            expression,
            "Slurm's memory limit of the job was reached: {what} killed",
            "The processes of the job on one node needed more memory than was asked for with --mem or --mem-per-cpu. Each "
            "DataLoader worker counts, with its own copy of Python lists and dicts.",
            "sacct -j {job} --format=JobID,State,ReqMem,MaxRSS\n#SBATCH --mem=0  # all of the node's, or a number\n"
            "# fewer DataLoader workers, arrays instead of lists of Python objects",
            refuted_by="sacct shows no OUT_OF_MEMORY for the job, and MaxRSS well below ReqMem.",
            groups={"job": "JOB", **groups},
        )
        for key, expression, groups in (
            (
                "slurmstepd: error: Detected",
                r"slurmstepd: error: Detected (?P<kills>[1-9]\d*) oom[-_]kill events?(?:\(s\))? in (?:StepId=|step )"
                r"(?P<step>(?P<job>\d{1,20})[.\w+]{0,40}\w)",
                {"what": "processes were"},
            ),
            (
                ": Out Of Memory",
                r"srun: error: (?P<node>[\w.-]+): (?P<what>(?P<tasks>tasks? [\d,-]+)): Out Of Memory",
                {},
            ),
        )
    ),
    hint(
        "pl_notebook",
        "A11",
        "notebook environment",
        r"(?:Trainer|Fabric) will use only 1 of (?P<gpus>\d+) GPUs because it is running inside",
        "Lightning uses 1 of {gpus} GPUs because this is a notebook",
        "In an interactive environment Lightning does not start further processes by itself.",
        'Trainer(devices={gpus}, strategy="ddp_notebook")  # or a script: python train.py',
    ),
    hint(
        "pl_gpu_unused",
        "A12",
        "available but not used",
        r"GPU available but not used",
        "Lightning sees a GPU and does not use it",
        "The Trainer was told to use another accelerator.",
        'Trainer(accelerator="gpu", devices="auto")',
    ),
    failure(
        "pl_slurm_tasks",
        "A02",
        "ntasks-per-node=",
        r"You set `?(?:--?)?(?:devices|num_nodes)=(?P<devices>\d+).{0,200}?--ntasks-per-node=(?P<tasks>\d+)`? does not match",
        "Lightning wants {devices} devices, and Slurm starts {tasks} task(s) for each node",
        "Under Slurm, Lightning lets srun start the ranks: one task for each device.",
        "#SBATCH --ntasks-per-node={devices}\nsrun python train.py",
    ),
    failure(
        "pl_slurm_tasks",
        "A02",
        "--ntasks=",
        r"You set `--ntasks=(?P<tasks>\d+)` in your SLURM bash script, but this variable is not supported",
        "Slurm was given --ntasks={tasks}, which Lightning does not take",
        "Lightning needs the number of tasks for each node.",
        "#SBATCH --ntasks-per-node={tasks}",
    ),
    hint(
        "pl_workers",
        "D01",
        "does not have many workers",
        r"The '(?P<loader>\w+)' does not have many workers.{0,400}?num_workers=(?P<workers>\d+)",
        "{loader} has few or no workers",
        "The data are prepared in the training process itself, or by too few workers: GPUs wait for them.",
        "DataLoader(..., num_workers={workers}, persistent_workers=True, pin_memory=True)",
        severity="info",
        confidence="possible",
    ),
    hint(
        "ds_cvd_ignored",
        "A16",
        "VISIBLE_DEVICES=",
        r"Detected (?:CUDA_)?VISIBLE_DEVICES=(?P<mask>\S*) but ignoring it because",
        "DeepSpeed ignores CUDA_VISIBLE_DEVICES={mask}",
        "With --include, --exclude, --num_gpus or --num_nodes DeepSpeed chooses the GPUs by itself.",
        "deepspeed --include localhost:{mask} train.py",
    ),
    hint(
        "acc_p2p",
        "I03",
        "RTX 4000 series",
        r"RTX 4000 series (?:doesn't support faster communication|GPU\. These drivers have issues with P2P)",
        "The GPUs do not talk to each other directly",
        "Older drivers cannot do peer-to-peer between RTX 40 cards; accelerate goes through host memory.",
        "# driver 550.40.07 or newer; until then: NCCL_P2P_DISABLE=1 NCCL_IB_DISABLE=1 accelerate launch train.py",
    ),
    failure(
        "hf_devicemap_dist",
        "A10",
        "device_map='auto'",
        r"You can't train a model that has been loaded with `device_map='auto'` in any distributed mode",
        "device_map='auto' does not work with several ranks",
        "device_map spreads one model over all GPUs; every rank of a distributed run needs its model on its own GPU.",
        'AutoModel.from_pretrained(name, device_map={{"": int(os.environ["LOCAL_RANK"])}})  # or no device_map, with FSDP',
    ),
    failure(
        "hf_8bit_device",
        "A07",
        "8-bit or 4-bit precision on a different device",
        r"You can't train a model that has been loaded in 8-bit or 4-bit precision on a different device",
        "The quantized model was loaded on another GPU than its rank's",
        'Every rank loaded it on the same GPU (device_map with 0, or "auto").',
        'AutoModel.from_pretrained(name, device_map={{"": int(os.environ["LOCAL_RANK"])}}, ...)',
    ),
    failure(
        "nccl_dup_gpu",
        "A07",
        "Duplicate GPU detected",
        r"Duplicate GPU detected\s*: rank (?P<rank>\d+) and rank (?P<other>\d+) both on CUDA device (?P<device>\w+)",
        "Ranks {rank} and {other} are on the same GPU (bus id {device})",
        "The ranks did not choose their GPU: torch.cuda.set_device is missing, or takes a number that is the same in each.",
        'local_rank = int(os.environ["LOCAL_RANK"])\ntorch.cuda.set_device(local_rank)  # before any CUDA call\n'
        'dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))',
    ),
    failure(
        "nccl_dup_gpu",
        "A07",
        "Multiple Ranks are using the same GPU",
        r"Multiple Ranks are using the same GPU",
        "Several ranks are on the same GPU",
        "The ranks did not choose their GPU: torch.cuda.set_device is missing, or takes a number that is the same in each.",
        'local_rank = int(os.environ["LOCAL_RANK"])\ntorch.cuda.set_device(local_rank)  # before any CUDA call\n'
        'dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))',
    ),
    hint(
        "barrier_guess",
        "H01",
        "arrier()",
        r"barrier\(\)\s*: using the device under current context|using GPU (?P<device>\d+) (?:as device used by this process|"
        r"to perform barrier as devices used by this process are currently unknown)",
        "NCCL guesses which GPU a rank uses",
        "Without set_device or device_id the current device may be GPU 0 on every rank: an extra context there, or a hang.",
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
        "Without set_device or device_id the guess may be wrong: an extra context, or a hang.",
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
            rf"WorkNCCL\({number}OpType=(?P<op>\w+).{{0,400}}?Timeout\(ms\)=(?P<timeout>\d+)\) "
            r"ran for (?P<ran>\d+) milliseconds",
            f"A collective operation did not end: {which}, after {{timeout}} ms",
            f"At least one rank did not come to {which.replace(',', '')}: it died, is stuck elsewhere, or runs other code.",
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
        "A call of NCCL or CUDA does not return on this rank; often it follows a collective that another rank left.",
        "gputop doctor  # while it hangs: says which rank is behind, and where it is",
    ),
    cascade(
        "nccl_heartbeat",
        "G01",
        "watchdog got stuck",
        r"ProcessGroupNCCL's watchdog got stuck for (?P<seconds>\d+) seconds",
        "NCCL's watchdog was stuck for {seconds} s",
        "A call of NCCL or CUDA does not return on this rank; often it follows a collective that another rank left.",
        "gputop doctor  # while it hangs: says which rank is behind, and where it is",
    ),
    failure(
        "nccl_shm",
        "G05",
        "/dev/shm/nccl",
        r"(?:creating shared memory segment|failed to extend) (?P<file>/dev/shm/nccl-\w+) \(?(?:size |to )(?P<bytes>\d+)",
        "/dev/shm is too small for NCCL ({bytes} bytes for one segment)",
        "Ranks of one machine hand data over through /dev/shm; a container has 64 MB of it unless told otherwise.",
        "docker run --shm-size=8g --ulimit memlock=-1 ...  # or --ipc=host\ndf -h /dev/shm",
    ),
    cascade(
        "nccl_remote",
        "G04",
        "ncclRemoteError",
        r"ncclRemoteError",
        "NCCL reports that another rank is gone",
        "A rank ended or its network failed; what ended it is the cause.",
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
        "Shared memory, locked memory, sockets or the network interface; the line after it says which.",
        "NCCL_DEBUG=WARN torchrun ...  # prints the call that fails\ndocker run --shm-size=8g --ulimit memlock=-1 ...",
        confidence="likely",
        vague=True,
    ),
)
