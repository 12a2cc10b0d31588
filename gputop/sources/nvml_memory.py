"""The host's memory, for GPUs that have none of their own."""

from __future__ import annotations

from pathlib import Path


def host_memory(meminfo: Path = Path("/proc/meminfo")) -> tuple[int | None, int | None]:
    """Return total and used bytes of the machine; used is what is not available to a new program."""
    sizes: dict[str, int] = {}
    try:
        text = meminfo.read_text()
    except OSError:
        return None, None
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name in ("MemTotal", "MemAvailable"):
            sizes[name] = int(rest.split()[0]) * 1024
    total, available = sizes.get("MemTotal"), sizes.get("MemAvailable")
    return total, None if total is None or available is None else total - available
