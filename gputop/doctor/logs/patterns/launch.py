"""Error texts of launchers, of rendezvous, and of frameworks about how they were launched. Pure."""

from __future__ import annotations

from gputop.doctor.logs.patterns.pattern import Pattern, cascade, failure, hint, reason

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
        "unrecognized arguments:",
        r"unrecognized arguments:.{0,400}--local_rank=(?P<rank>\d+)",
        "The launcher passes --local_rank, which the script does not know",
        "Nobody typed it: torch.distributed.launch before torch 2.0 and DeepSpeed's launcher pass --local_rank to each rank. "
        "The script expects no such argument, or --local-rank.",
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
        "torchrun sets OMP_NUM_THREADS={threads} if it is not set. This slows down work on the CPU in the main process "
        "(collation, augmentation without workers).",
        "OMP_NUM_THREADS=$(( $(nproc) / RANKS )) torchrun --nproc-per-node=RANKS train.py  # RANKS: how many you start",
        severity="info",
    ),
    *(
        hint(
            "all_in_eval",
            "J07",
            key,
            expression,
            title,
            "Since 2.2, Lightning leaves each module in the mode that it finds: dropout drops nothing, and BatchNorm keeps old "
            "statistics. from_pretrained returns a model in evaluation mode, or a script has called eval().",
            "model.train()  # before fit, or in on_train_start; what is frozen on purpose may stay in eval()",
            confidence="likely",
        )
        for key, expression, title in (
            (
                "Modules in train mode",
                r"^\s{0,20}0\s{1,20}Modules in train mode",
                "All modules are in evaluation mode when the training starts",
            ),
            (
                "module(s) in eval mode at the start of training",
                r"Found (?P<number>\d{2,6}) module\(s\) in eval mode at the start of training",
                "{number} modules are in evaluation mode when the training starts",
            ),
        )
    ),
    hint(
        "pl_no_gpu",
        "A12",
        "GPU available: False",
        r"^(?:.{0,40}\s)?GPU available: False, (?:used|using): False",
        "Lightning sees no GPU, and trains on the CPU",
        "torch finds no GPU in this process: a build without CUDA, a driver that is too old, or a container, job or mask "
        "without one.",
        "gputop doctor --before  # on that machine: says why torch sees none",
        confidence="possible",
    ),
    hint(
        "old_kernel",
        None,
        "below the recommended minimum of 5.5.0",
        r"Detected kernel version (?P<version>[\d.]{1,20}), which is below the recommended minimum",
        "The Linux kernel {version} is older than 5.5, with which multi-GPU runs have hung",
        "Accelerate warns of it: on older kernels, processes have been seen to hang in their first collective operation.",
        "uname -r  # if the run stands: a newer kernel; until then NCCL_P2P_DISABLE=1 accelerate launch ...",
        confidence="possible",
    ),
    failure(
        "launcher_no_cuda",
        "A12",
        "Cuda is not available",
        r"ValueError: Cuda is not available\.",
        "torchrun was to start a rank for each GPU, but torch sees no GPU there",
        "--nproc-per-node=gpu counts the GPUs that torch can use: a node or container without one, a Slurm job that requested "
        "none, CUDA_VISIBLE_DEVICES without a GPU, or a torch without CUDA.",
        "gputop doctor --before  # on that machine: says why torch sees none\n"
        "# a Slurm job has only the GPUs that it requests: sbatch --gpus-per-node=8",
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
        "The script uses a rank, a world size, a DistributedSampler or DDP although there is no process group yet.",
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
        # torch/csrc/distributed/c10d/socket.cpp, since 1.11.
        r"server socket has failed to (?:bind to|listen on) (?:\[[\da-fA-F:]{0,45}\]|[\w.?-]{1,200}):(?P<port>\d{1,5})\b"
        r".{0,40}ddress already in use",
        "The port for the rendezvous is taken ({port})",
        "Another job, or a process left over from an earlier job, listens on it.",
        "ss -ltnp 'sport = :{port}'  # who listens\ntorchrun --standalone --nproc-per-node=gpu train.py  # takes a free port",
        confidence="likely",
    ),
    *(
        failure(
            "addr_in_use",
            "G03",
            "ddress already in use",
            expression,
            title,
            "Another job, or a process left over from an earlier start, listens on it.",
            fix,
            confidence="likely",
        )
        for expression, title, fix in (
            # Python's OSError of a server that names its address (asyncio, as uvicorn and aiohttp use it), and Go's.
            (
                r"(?i)(?:bind on address \('[^']{0,200}', |listen (?:tcp|udp)\S{0,4} \S{0,100}?:)(?P<port>\d{1,5})\b"
                r".{0,60}address already in use",
                "The port on which a server wants to listen is taken ({port})",
                "ss -ltnp 'sport = :{port}'  # who listens\n# end that process, or give the server another port",
            ),
            # The words of other languages' libraries: Rust's and Go's. torch never uses these.
            (
                r"[Aa]ddress already in use \(os error \d+\)|bind: address already in use",
                "The port on which a server wants to listen is taken",
                "ss -ltnp  # who listens\n# end that process, or give the server another port",
            ),
        )
    ),
    failure(
        "addr_in_use",
        "G03",
        "ddress already in use",
        r"[Aa]ddress already in use",
        "The port for the rendezvous, or that of another server, is taken",
        "Another job, or a process left over from an earlier job, listens on it. The traceback shows what wanted the port.",
        "ss -ltnp  # who listens\ntorchrun --standalone --nproc-per-node=gpu train.py  # takes a free port for the rendezvous",
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
        "Only {joined} of {world} ranks joined the rendezvous",
        "The others were not started, have already ended, or cannot reach this host and port.",
        "# start as many ranks as the world size says: torchrun --nnodes, --nproc-per-node\n"
        "# on several hosts: the same --rdzv-endpoint on each, the port open in the firewall",
    ),
    failure(
        "rdzv_timeout",
        "G03",
        "client socket has timed out",
        r"(?:Error|Exception)\b.{0,400}client socket has timed out after (?P<after>\d+m?s) while trying to connect to "
        r"\(?(?P<address>[^\s),]+, ?\d+|[^\s)]+)",
        "No process answered at {address}",
        "The first rank does not listen there: it was not started or has already ended, MASTER_ADDR or the port is wrong, "
        "or a firewall blocks it.",
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
        "Process {pid} got SIGKILL: usually from the memory limit of the kernel or the batch system, otherwise from "
        "somebody's kill -9.",
        "sudo dmesg --ctime | grep -i -E 'killed process|oom' | tail\n"
        "# fewer DataLoader workers, arrays instead of lists of Python objects, more memory for the job",
        confidence="likely",
        refuted_by="dmesg and the batch system record no out-of-memory kill at that time.",
    ),
    *(
        failure(
            "slurm_oom",
            "H05",
            key,
            expression,
            "The job reached its memory limit in Slurm: {what} killed",
            "The processes of the job on one node needed more memory than was asked for with --mem or --mem-per-cpu. Each "
            "DataLoader worker counts, with its own copy of Python lists and dicts.",
            "sacct -j {job} --format=JobID,State,ReqMem,MaxRSS\n#SBATCH --mem=0  # all of the node's, or a number\n"
            "# fewer DataLoader workers, arrays instead of lists of Python objects",
            refuted_by="sacct shows no OUT_OF_MEMORY for the job, and MaxRSS well below ReqMem.",
            groups={"job": "JOB", **groups},
        )
        for key, expression, groups in (
            (
                ": error: Detected ",
                # Newer versions add the node's name.
                r"slurmstepd(?:-[\w.-]{1,100})?: error: Detected (?P<kills>[1-9]\d*) oom[-_]kill events?(?:\(s\))? in "
                r"(?:StepId=|step )"
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
    failure(
        "ssh_failed",
        "G03",
        "ssh exited with exit code 255",
        r"pdsh@\S{1,200}: (?P<host>\S{1,200}): ssh exited with exit code 255",
        "The launcher could not log in to {host} over ssh",
        "Its ranks were never started, and the other hosts wait for them. ssh's reason is above that line: a host key that has "
        "changed, a key that is not accepted, or a host that does not answer.",
        "ssh {host} hostname  # must work without a question, from the host that launches\n"
        "ssh-keygen -R {host}  # if it was reinstalled: then accept its new host key",
        confidence="likely",
        refuted_by="ssh {host} hostname works from the host that launches, without a question.",
    ),
    failure(
        "ssh_failed",
        "G03",
        "returned non-zero exit status 255",
        # deepspeed/launcher/runner.py tries each host, without ssh's own words. ssh itself fails with 255 (ssh(1)).
        r"CalledProcessError: Command 'ssh (?:-[op] \S{1,100} |-\w{1,4} ){0,8}(?P<host>[\w.@-]{1,200}) [^']{1,200}' "
        r"returned non-zero exit status 255",
        "The launcher could not log in to {host} over ssh",
        "Nothing was started. A host key that is not known, a key that is not accepted, a wrong name or port, or a host that "
        "does not answer.",
        "ssh {host} hostname  # must work without a question, from the host that launches: it says what is missing\n"
        "ssh-copy-id {host}  # if it asks for a password",
        confidence="likely",
        refuted_by="ssh {host} hostname works from the host that launches, without a question.",
    ),
    reason(
        "slurm_step_waits",
        ": Job ",
        r"srun: Job (?P<job>\d+) step creation (?:temporarily|still) disabled, retrying \((?P<why>[^)]{1,100})\)",
        "The job step never started, because the job's own resources were in use ({why})",
        "Another step of job {job} holds its nodes, cores or GPUs: often a shell that srun started, or an srun inside another "
        "one. srun waits until that step ends.",
        "squeue --steps --job {job}  # which step holds them\n"
        "srun --overlap --ntasks=4 python train.py  # or run the script without a second srun",
        "The steps of sacct -j {job} include one that ran the script.",
    ),
    hint(
        "pl_notebook",
        "A11",
        "notebook environment",
        r"(?:Trainer|Fabric) will use only 1 of (?P<gpus>\d+) GPUs because it is running inside",
        "Lightning uses 1 of {gpus} GPUs because this is a notebook",
        "In an interactive environment, Lightning does not start more processes by default.",
        'Trainer(devices={gpus}, strategy="ddp_notebook")  # or a script: python train.py',
    ),
    hint(
        "pl_gpu_unused",
        "A12",
        "available but not used",
        r"GPU available but not used",
        "Lightning sees a GPU but does not use it",
        "The Trainer is configured to use a different accelerator.",
        'Trainer(accelerator="gpu", devices="auto")',
    ),
    failure(
        "pl_slurm_tasks",
        "A02",
        "ntasks-per-node=",
        r"You set `?(?:--?)?(?:devices|num_nodes)=(?P<devices>\d+).{0,200}?--ntasks-per-node=(?P<tasks>\d+)`? does not match",
        "Lightning needs {devices} devices, but Slurm starts {tasks} task(s) per node",
        "Under Slurm, srun starts Lightning's ranks: one task per device.",
        "#SBATCH --ntasks-per-node={devices}\nsrun python train.py",
    ),
    failure(
        "pl_slurm_tasks",
        "A02",
        "--ntasks=",
        r"You set `--ntasks=(?P<tasks>\d+)` in your SLURM bash script, but this variable is not supported",
        "Slurm got --ntasks={tasks}, which Lightning does not accept",
        "Lightning needs the number of tasks per node.",
        "#SBATCH --ntasks-per-node={tasks}",
    ),
    hint(
        "pl_workers",
        "D01",
        "does not have many workers",
        r"The '(?P<loader>\w+)' does not have many workers.{0,400}?num_workers=(?P<workers>\d+)",
        "{loader} has few or no workers",
        "The training process itself, or too few workers, prepare the data, and the GPUs wait for it.",
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
        "With --include, --exclude, --num_gpus or --num_nodes, DeepSpeed chooses the GPUs itself.",
        "deepspeed --include localhost:{mask} train.py",
    ),
    hint(
        "acc_p2p",
        "I03",
        "RTX 4000 series",
        r"RTX 4000 series (?:doesn't support faster communication|GPU\. These drivers have issues with P2P)",
        "The GPUs do not communicate directly",
        "Older drivers do not support peer-to-peer transfers between RTX 40 cards; accelerate copies through host memory.",
        "# driver 550.40.07 or newer; until then: NCCL_P2P_DISABLE=1 NCCL_IB_DISABLE=1 accelerate launch train.py",
    ),
    failure(
        "hf_devicemap_dist",
        "A10",
        "device_map='auto'",
        r"You can't train a model that has been loaded with `device_map='auto'` in any distributed mode",
        "device_map='auto' does not work with several ranks",
        "device_map spreads one model over all GPUs, but every rank of a distributed run needs its own copy on its own GPU.",
        'AutoModel.from_pretrained(name, device_map={{"": int(os.environ["LOCAL_RANK"])}})  # or no device_map, with FSDP',
    ),
    failure(
        "hf_8bit_device",
        "A07",
        "8-bit or 4-bit precision on a different device",
        r"You can't train a model that has been loaded in 8-bit or 4-bit precision on a different device",
        "The quantized model was loaded on a GPU other than its rank's",
        'Every rank loaded it on the same GPU (device_map with 0, or "auto").',
        'AutoModel.from_pretrained(name, device_map={{"": int(os.environ["LOCAL_RANK"])}}, ...)',
    ),
)
