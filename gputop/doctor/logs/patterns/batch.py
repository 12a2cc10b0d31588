"""What batch systems, containers, the kernel and launchers say of a run that they refuse or end. Pure.

Sources: src/resmom/mom_main.c of OpenPBS ("=>> PBS: job killed: ..."); LSF's termination reasons (bjobs, bhist); slurmstepd's
jobacct_common.c ("exceeded memory limit", Slurm 14 to 20) and src/slurmd/slurmstepd/req.c; mm/oom_kill.c of Linux (2.6 to 6);
batch/v1 Jobs of Kubernetes (DeadlineExceeded) and pkg/kubelet/eviction/helpers.go;
torch/distributed/elastic/agent/server/api.py and multiprocessing/api.py (1.9 to 2.9);
lightning/pytorch/trainer/connectors/signal_connector.py (2.x). Refusals: src/common/slurm_errno.c of Slurm, and what sbatch,
salloc and srun print before it; Open MPI's help-rmaps-base.txt and help-orterun.txt (1.8 to 5.0); Ray's autoscaler (1.9 to
2.40); daemon/devices.go of moby; src/cli of libnvidia-container.
"""

from __future__ import annotations

from gputop.doctor.findings.finding import Confidence
from gputop.doctor.logs.patterns.pattern import Pattern, failure

_TIME = (
    ("=>> PBS: job killed:", r"=>> PBS: job killed: (?P<why>(?:walltime|cput) \d+ exceeded limit \d+)"),
    ("TERM_", r"^TERM_(?:RUNLIMIT|CPULIMIT|DEADLINE): (?P<why>job killed[^.]{0,200})"),
    ("exceeded job hard limit", r"(?P<why>exceeded job hard limit \"[hs]_(?:rt|cpu)\")"),  # Grid Engine
    ("Job has timed out", r"submitit .{0,60} - (?P<why>Job has timed out)"),
    # Kubernetes' events and conditions. gRPC and its users have an exception of this name: a request that took too long.
    (
        "DeadlineExceeded",
        r"(?<![\w.])DeadlineExceeded\b.{0,200}\b(?P<why>(?:Job|Pod) was active .{0,20}longer than (?:the )?specified deadline)",
    ),
    ("DeadlineExceeded", r"^\s*\"?[Rr]eason\"?: *\"?(?P<why>DeadlineExceeded)\"?,?\s*$"),
)
_MEMORY = (
    ("=>> PBS: job killed:", r"=>> PBS: job killed: (?P<why>[pv]{0,2}mem \w+ exceeded limit \w+)"),
    ("TERM_", r"^TERM_(?:MEMLIMIT|SWAP): (?P<why>job killed[^.]{0,200})"),
    ("exceeded job hard limit", r"(?P<why>exceeded job hard limit \"[hs]_(?:vmem|rss|data)\")"),
    # HTCondor.
    ("exceeded request_memory", r"(?P<why>memory usage exceeded request_memory)"),
    ("gone over memory limit", r"(?P<why>[Jj]ob has gone over memory limit of \d+ \w+)"),
    ("xceeded job memory limit", r"slurmstepd: error: (?P<why>Exceeded job memory limit)"),
    ("exceeded memory limit (", r"slurmstepd: error: (?P<why>(?:Step|Job) \S+ exceeded memory limit \(\d+ > \d+\))"),
)
_KERNEL: tuple[tuple[str, Confidence], ...] = (
    # A time, a host, the kernel's own clock; and a word or two from the program that quotes it.
    (r"^(?:.{0,60}\d:\d\d(?:[:.]\d\d)?\S{0,16} )?(?:\[ *\d+\.\d+\] ?)?(?:\S+ ){0,2}(?:\[ *\d+\.\d+\] ?)?", "certain"),
    # In a sentence of the script's own, it may be what the script reads or writes about.
    ("", "possible"),
)
_STOPPED = (
    ("death signal, shutting down", r"Received (?:Signals\.)?(?P<signal>SIG(?:TERM|HUP)|15|1) death signal, shutting down"),
    ("got signal: ", r"SignalException: Process \d+ got signal: (?P<signal>15|1)\b"),
    ("eceived SIGTERM", r"^(?:\[rank: \d+\] )?Received (?P<signal>SIGTERM): 15"),
    ("timeout: sending signal", r"^timeout: sending signal (?P<signal>\w+) to command"),
    ("Terminated", r"(?:^|: line \d+: +\d+ )(?P<signal>Terminated)(?:\s*$| {2,})"),
)
_EVICTED = (
    # pkg/kubelet/eviction of Kubernetes, 1.3 to today.
    ("The node was low on resource", r"(?P<why>The node was low on resource: [\w-]{1,60}(?:\.\w{1,60})?)"),
    ("Pod ephemeral local storage", r"(?P<why>Pod ephemeral local storage usage exceeds the total limit)"),
    ("exceeded its local ephemeral", r"(?P<why>Container \S{1,80} exceeded its local ephemeral storage limit)"),
    ("Usage of EmptyDir volume", r"(?P<why>Usage of EmptyDir volume \"[^\"]{1,80}\" exceeds the limit)"),
)
_IMAGE = (
    # enroot's log as pyxis prints it (enroot 3, src/docker.sh; pyxis 0.12 on), else pyxis itself.
    ("[ERROR] ", r"^(?:.{0,40}\bpyxis: {0,20})?\[ERROR\] (?P<why>URL \S{1,300} returned error code: \d{3}[\w ]{0,40})"),
    ("[ERROR] ", r"\bpyxis: {0,20}\[ERROR\] (?P<why>\S.{0,200})"),
    (
        "docker: Error response",
        r"docker: Error response from daemon: (?P<why>(?:manifest for|pull access denied|unauthorized).{1,200})",
    ),
    (
        "FATAL: ",
        r"^FATAL: {1,10}(?P<why>(?:While making image from oci registry|Unable to handle docker://).{1,300})",
    ),  # Apptainer
)
_SLURM = (
    ("Unable to create step", r"srun: error: Unable to create step for job \d+: (?P<why>.+)"),
    ("Batch job submission failed", r"sbatch: error: Batch job submission failed: (?P<why>.+)"),
    ("Job submit/allocate failed", r"salloc: error: Job submit/allocate failed: (?P<why>.+)"),
    ("Unable to allocate resources", r"srun: error: Unable to allocate resources: (?P<why>.+)"),
)
_CONTAINER = (
    (
        "could not select device driver",
        r"could not select device driver (?P<why>.{1,400}?)\.?$",
        "Docker has no driver for GPUs",
    ),
    (
        "nvidia-container-cli:",
        r"nvidia-container-cli: (?P<why>.{1,400} error: [^:,]+(?:: lib[^:,]+)?)",
        "The container cannot use the GPUs: {why}",
    ),
    ("runtime name: nvidia", r"(?P<why>unknown or invalid runtime name: nvidia)", "Docker does not know the runtime nvidia"),
)

PATTERNS: tuple[Pattern, ...] = (
    failure(
        "ray_resources",
        None,
        "can fulfill",
        # "request" until Ray 2.30 or so, "requests" since.
        r"No available node types can fulfill resource requests? (?:defaultdict\(<class 'float'>, )?\{(?P<want>[^}]{1,200})\}",
        "No node of the Ray cluster has {want}",
        "The job waits for resources that the cluster does not have and cannot add: the run does not start.",
        "ray status  # what the cluster has, and what waits\n"
        "ScalingConfig(num_workers=..., resources_per_worker=...)  # no more than that; or add nodes",
        confidence="likely",
        refuted_by="ray status lists a node with these resources, or the run starts later.",
    ),
    failure(
        "mpi_slots",
        None,
        "not enough slots available",
        r"There are not enough slots available in the system(?: to satisfy the (?P<count>\d+))?",
        "Open MPI has fewer slots than the command asks for ({count})",
        "mpirun counts one slot per core or hostfile entry, and in a batch job one per task of the job: fewer than the "
        "ranks of -np. It started nothing.",
        "mpirun --host node1:4,node2:4 -np 8 ...  # as many slots as ranks; or slots=4 behind each host of the hostfile\n"
        "#SBATCH --ntasks=8  # in a batch job; mpirun --map-by :OVERSUBSCRIBE shares the cores",
        refuted_by="The ranks started: mpirun lists them with --display-map.",
    ),
    failure(
        "mpi_slots",
        None,
        "allocated for this job are already filled",
        r"All nodes which are allocated for this job are already filled",
        "Open MPI has fewer slots than the command asks for",
        "mpirun counts one slot per core or hostfile entry: fewer than the ranks of -np. It started nothing.",
        "mpirun --host node1:4,node2:4 -np 8 ...  # as many slots as ranks; or slots=4 behind each host of the hostfile",
        refuted_by="The ranks started: mpirun lists them with --display-map.",
    ),
    failure(
        "mpi_launch",
        None,
        " was unable to ",
        r"^(?P<program>mpirun|mpiexec|orterun|prterun|prun|ORTE|PRTE) was unable to "
        r"(?P<why>(?:find|launch|start|access|reliably start) .{1,300})",
        "{program} was unable to {why}",
        "It started no rank.",
        "which python; ls -l train.py  # on every host of the hostfile, and executable there",
        refuted_by="The ranks started: they print their own lines.",
    ),
    failure(
        "mpi_launch",
        None,
        "OMPI was not built with",
        # Open MPI 3 to 5, orte/mca/ess or opal/mca/pmix: the help text "srun", "slurm:no_pmi" or similar.
        r"^but OMPI was not built with SLURM's PMI support",
        "srun started the ranks, but Open MPI was built without Slurm's PMI",
        "It needs PMI or PMIx to find out which ranks there are: without it, MPI_Init fails in each of them.",
        "srun --mpi=list  # pmix: srun --mpi=pmix ..., if this Open MPI has it: ompi_info | grep -i pmi\n"
        "mpirun python train.py  # inside the allocation, instead of srun",
        refuted_by="srun --mpi=pmix starts the same program.",
    ),
    *(
        failure(
            "slurm_refused",
            None,
            key,
            expression,
            "Slurm refused the job or step: {why}",
            "The request exceeds what the partition, the nodes or the job's own allocation have, or is misspelled.",
            "sinfo -o '%P %D %c %m %G %l'  # what the partitions have: nodes, cores, memory, GPUs, time\n"
            "scontrol show job $SLURM_JOB_ID | grep -E 'NumNodes|NumTasks|TRES'  # what this job was given",
        )
        for key, expression in _SLURM
    ),
    *(
        failure(
            "container_gpu",
            "I10",
            key,
            expression,
            title,
            "The container was not started: the NVIDIA Container Toolkit is missing on the host or not set up, or the host's "
            "driver does not load or is too old for the image.",
            "nvidia-smi  # on the host: the driver itself\n"
            "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker\n"
            "docker run --rm --gpus all ubuntu nvidia-smi",
        )
        for key, expression, title in _CONTAINER
    ),
    *(
        failure(
            "container_image",
            None,
            key,
            expression,
            "The container's image could not be fetched: {why}",
            "The registry does not have the image, refuses it to this user, or is not the one that was meant: without a host "
            "in its name, an image is looked for at Docker Hub.",
            "docker manifest inspect IMAGE  # does it exist, and may this user fetch it?\n"
            "# enroot and pyxis separate the registry by #: --container-image=registry.example.com#team/image:tag; credentials "
            "are in ~/.config/enroot/.credentials",
            refuted_by="The same user fetches the image by the same name on the same host.",
            raised=False,
        )
        for key, expression in _IMAGE
    ),
    *(
        failure(
            "time_limit",
            None,
            key,
            expression,
            "The batch system ended the job at its time limit: {why}",
            "The job used up its time. Everything trained since its last checkpoint is lost.",
            "# ask for more time, and save a checkpoint before the limit: qsub -l walltime=HH:MM:SS, bsub -W MINUTES,\n"
            "# activeDeadlineSeconds of a Kubernetes Job",
            refuted_by="The batch system's record of the job names another reason for its end.",
            raised=key != "DeadlineExceeded",
        )
        for key, expression in _TIME
    ),
    *(
        failure(
            "memory_limit",
            "H05",
            key,
            expression,
            "The batch system ended the job at its memory limit: {why}",
            "Together, the job's processes needed more memory than it had requested. Each DataLoader worker counts.",
            "# ask for more memory: qsub -l mem=64gb, bsub -M, sbatch --mem\n"
            "# fewer DataLoader workers, arrays instead of lists of Python objects",
            refuted_by="The batch system's record of the job shows a peak well below its limit.",
        )
        for key, expression in _MEMORY
    ),
    *(
        failure(
            "kernel_oom",
            "H05",
            "memory: Kill",
            rf"{before}(?P<whose>Out of memory|Memory cgroup out of memory): Kill(?:ed)? process (?P<pid>\d+) "
            r"\((?P<name>[^)]{1,40})\)",
            "The kernel killed process {pid} ({name}): out of memory",
            'No memory was left: on the machine ("Out of memory"), or in the container or job ("Memory cgroup out of memory").',
            "free -h; cat /sys/fs/cgroup/memory.max  # what there is\n"
            "# fewer DataLoader workers, arrays instead of lists of Python objects, more memory for the job",
            confidence=confidence,
            refuted_by="Process {pid} did not belong to the training run.",
        )
        for before, confidence in _KERNEL
    ),
    *(
        failure(
            "stopped",
            None,
            key,
            expression,
            "The run was stopped from outside ({signal})",
            "SIGTERM (15) comes from a batch system, from Kubernetes, or from a user's kill: a time limit, a preemption, a "
            "deleted pod. SIGHUP (1) means that the run's terminal or SSH session was closed.",
            "sacct -j JOB --format=JobID,State,ExitCode,Elapsed,Timelimit  # Kubernetes: kubectl describe pod POD\n"
            "tmux new -s train  # against SIGHUP: start the run in it, or under nohup",
            confidence="likely",
            refuted_by="Another rank or node failed earlier: then its log has the cause.",
        )
        for key, expression in _STOPPED
    ),
    *(
        failure(
            "pod_evicted",
            None,
            key,
            expression,
            "Kubernetes evicted the pod: {why}",
            "The node was short of memory or disk, and the kubelet ended the pods that used more than they had requested; or "
            "the pod wrote more than its own limit. /tmp, emptyDir volumes and the container's own files count as ephemeral "
            "storage.",
            "kubectl describe pod POD  # Message: which container used how much\n"
            "# write caches and checkpoints to a volume, or raise resources.requests (memory, ephemeral-storage) of the pod",
            refuted_by="kubectl get pod POD -o jsonpath='{{.status.reason}}' is not Evicted.",
        )
        for key, expression in _EVICTED
    ),
)
