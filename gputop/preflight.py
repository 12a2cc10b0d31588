"""What is read of a machine before a run: a plain record. ``sources.preflight`` fills it, the doctor judges it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Preflight:
    """What a snapshot does not hold and a run depends on. None: not known."""

    interpreter: str | None = None
    """The Python of PATH, which a training would be started with."""
    torch_version: str | None = None
    torch_cuda: str | None = None
    """The CUDA version that this torch was built for; None with a ``torch_version``: a CPU build."""
    torch_archs: tuple[str, ...] = ()
    """What it has code for: "sm_90", "compute_90"."""
    torch_problem: str | None = None
    """Why torch could not be asked."""
    cuda_status: int | None = None
    """What cuInit answered: 0 works, 100 no device, 802 not ready (fabric manager), 803 driver and library differ."""
    cuda_count: int | None = None
    capabilities: tuple[tuple[int, int], ...] = ()
    """Compute capability of each GPU that CUDA shows."""
    mask: str | None = None
    """CUDA_VISIBLE_DEVICES here; None: not set."""
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
    """Whether nv-fabricmanager runs; None where it cannot be seen (in a container)."""
    uid: int | None = None

    @property
    def cores_allowed(self) -> int | None:
        """Number of cores that a process started here may run on."""
        return len(self.cores) or None
