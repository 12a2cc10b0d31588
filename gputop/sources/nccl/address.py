"""Which processes use NCCL, and where the RAS service of each listens. Pure: a process in, its address out."""

from __future__ import annotations

from gputop.process import Process

DEFAULT_ADDRESS = ("localhost", 28028)
THREADS = ("pt_nccl_", "NCCL ")
"""Thread name prefixes of a process that uses NCCL: torch's watchdog, and NCCL's own with NCCL_SET_THREAD_NAME=1."""

Address = tuple[str, int]


def nccl_threads(process: Process) -> int:
    """Return how many threads of a process show by their names that it uses NCCL."""
    return sum(number for name, number in process.threads if name.startswith(THREADS))


def ras_address(process: Process) -> Address | None:
    """Return where the RAS service of a process listens; None if it does not use NCCL, or has turned the service off."""
    if not (process.torch_cuda_mapped or nccl_threads(process)):
        return None
    settings = dict(process.environment.settings) if process.environment else {}
    if settings.get("NCCL_RAS_ENABLE") == "0":
        return None
    return address_of(settings.get("NCCL_RAS_ADDR"))


def address_of(text: str | None) -> Address:
    """Parse NCCL_RAS_ADDR, "host:port" or "[IPv6]:port"; return the default for anything else."""
    host, _, port = (text or "").rpartition(":")
    return (host.strip("[]"), int(port)) if host and port.isdigit() and int(port) < 2**16 else DEFAULT_ADDRESS
