"""What the doctor checks on a machine before a run, as a plain record that ``sources.preflight`` fills."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Preflight:
    """What a run depends on and a snapshot does not contain. None means unknown."""

    interpreter: str | None = None
    """The first Python on PATH, which would start a training run."""
    torch_version: str | None = None
    torch_cuda: str | None = None
    """The CUDA version that this torch was built for; None with a ``torch_version`` means a CPU build."""
    torch_archs: tuple[str, ...] = ()
    """The architectures that torch has code for: "sm_90", "compute_90"."""
    torch_problem: str | None = None
    """Why torch could not be queried."""
    cuda_status: int | None = None
    """The result of cuInit: 0 works, 100 no device, 802 not ready (fabric manager), 803 driver and library differ."""
    cuda_count: int | None = None
    capabilities: tuple[tuple[int, int], ...] = ()
    """Compute capability of each GPU that CUDA lists."""
    mask: str | None = None
    """CUDA_VISIBLE_DEVICES in this environment; None if it is not set."""
    closed_files: tuple[str, ...] = ()
    """/dev/nvidia* files that this user may not open for reading and writing."""
    device_files: tuple[str, ...] = ()
    container: bool | None = None
    master_port: int = 29500
    port_taken: bool | None = None
    port_pid: int | None = None
    port_command: str | None = None
    files_limit: int | None = None
    locked_limit_bytes: int | None = None
    locked_unlimited: bool = False
    infiniband: bool = False
    cores: tuple[int, ...] = ()
    numa_nodes: int | None = None
    nvswitch: bool = False
    fabric_manager: bool | None = None
    """Whether nv-fabricmanager is running; None in a container, where it cannot be seen."""
    uid: int | None = None

    @property
    def cores_allowed(self) -> int | None:
        """Number of cores that a process started here may run on."""
        return len(self.cores) or None
