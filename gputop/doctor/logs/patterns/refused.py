"""A start that a batch system or a container runtime refuses: nothing of the training has run. Pure.

Sources: src/common/slurm_errno.c of Slurm, and what sbatch, salloc and srun print before it; daemon/devices.go of moby;
src/cli of libnvidia-container.
"""

from __future__ import annotations

from gputop.doctor.logs.patterns.pattern import Pattern, failure

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
        "The container gets no GPU: {why}",
    ),
    ("runtime name: nvidia", r"(?P<why>unknown or invalid runtime name: nvidia)", "Docker does not know the runtime nvidia"),
)

PATTERNS: tuple[Pattern, ...] = (
    *(
        failure(
            "slurm_refused",
            None,
            key,
            expression,
            "Slurm refused to start it: {why}",
            "What was asked for is more than the partition, the nodes or the job's own allocation have, or is written wrongly.",
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
)
