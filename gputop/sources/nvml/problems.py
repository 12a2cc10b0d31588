"""NVML's errors in words for the user: one sentence on what is wrong, one on what to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gputop import units
from gputop.errors import NoGpuError
from gputop.snapshot import Problem

START: dict[int, tuple[str, str, str]] = {
    4: (
        "no_permission",
        "The NVIDIA driver refuses this user.",
        "Check the permissions of /dev/nvidia*, or start the container with its GPUs (docker run --gpus all).",
    ),
    9: (
        "no_driver",
        "The NVIDIA driver is not loaded.",
        "Load it with sudo modprobe nvidia; if that fails, install the driver that fits this kernel and reboot.",
    ),
    13: (
        "library_unusable",
        "libnvidia-ml.so.1 has none of NVML's functions: it is a stand-in, not NVIDIA's library.",
        "Remove it (see ldconfig -p and LD_LIBRARY_PATH), then install the driver, or start the container with GPUs.",
    ),
    15: ("gpu_lost", "The GPU has fallen off the bus.", "Look for Xid 79 in dmesg, check power and seating, then reboot."),
    17: (
        "no_permission",
        "The operating system blocks the NVIDIA driver for this process.",
        "Check the container's device rules (cgroup): /dev/nvidiactl and /dev/nvidia* must be allowed.",
    ),
    18: (
        "driver_mismatch",
        "The NVIDIA library and the loaded kernel module have different versions.",
        "The driver was upgraded while it was loaded: reboot, or unload and load the nvidia modules when no job uses them.",
    ),
}
"""NVML's return code -> a Problem's code, message and hint, for an unusable driver."""


def cannot_start(code: int) -> NoGpuError:
    """Return the error for a driver whose initialization returned ``code``."""
    name, message, hint = START.get(
        code, ("no_driver", f"The NVIDIA driver answers with error {code}.", "Try nvidia-smi; if it fails too, reboot.")
    )
    return NoGpuError(message, hint, name)


def driver_hangs(seconds: float) -> NoGpuError:
    """Return the error for a driver whose initialization does not return."""
    return NoGpuError(
        f"The NVIDIA driver does not answer: it has not started within {seconds:.0f} s.",
        "Look for Xid and NVRM lines in dmesg; a driver in this state usually needs a reboot.",
        "hung",
    )


def no_device() -> NoGpuError:
    """Return the error for a working driver that has no GPU."""
    return NoGpuError(
        "The NVIDIA driver is loaded, but it sees no GPU.",
        "Check lspci for the card; in a container, start it with its GPUs (docker run --gpus all).",
        "no_gpu",
    )


def gone(index: int, code: int) -> Problem:
    """Return the problem of a GPU that is lost (15) or needs a reset (16)."""
    if code == 16:
        return Problem(
            "reset_required",
            f"GPU {index} needs a reset before it can be used again.",
            f"End its jobs, then: sudo nvidia-smi --gpu-reset -i {index}; if that is refused, reboot.",
        )
    return Problem(
        "gpu_lost",
        f"GPU {index} is lost: it has fallen off the bus, or the driver cannot reach it.",
        "Jobs on it cannot continue. Look for Xid 79 in dmesg, check power, cooling and seating; then reboot.",
    )


def refused(index: int, code: int) -> Problem:
    """Return the problem of a GPU whose handle the driver refuses."""
    if code in (4, 17):
        return Problem(
            "no_permission",
            f"The driver does not let this user open GPU {index}.",
            "Check the permissions of /dev/nvidia* and the container's device rules.",
        )
    if code == 8:
        return Problem("other", f"GPU {index} has no external power.", "Attach its power cables, then reboot.")
    return Problem("other", f"GPU {index} cannot be opened (NVML error {code}).", f"Compare nvidia-smi -i {index}, and dmesg.")


def failing(index: int, code: int) -> Problem:
    """Return the problem of a GPU whose readings all currently fail."""
    return Problem(
        "other",
        f"GPU {index} fails every reading (NVML error {code}).",
        f"gputop tries again at every interval; compare with nvidia-smi -i {index}, and look for Xid lines in dmesg.",
    )


def hung(index: int, seconds: float) -> Problem:
    """Return the problem of a GPU whose driver call has not returned for ``seconds``."""
    return Problem(
        "hung",
        f"GPU {index} has not answered for {seconds:.0f} s: a driver call hangs. Its values are old.",
        "The other GPUs continue. Look for Xid lines in dmesg; nvidia-smi would hang as well.",
    )


def stopped(index: int) -> Problem:
    """Return the problem of a GPU whose reader in gputop ended because of a bug."""
    return Problem(
        "other",
        f"gputop no longer reads GPU {index}: the reader failed.",
        "Start gputop again, and report the error that it wrote.",
    )


def unified() -> Problem:
    """Return the note on a GPU without memory of its own."""
    return Problem(
        "unified_memory",
        "This GPU shares the machine's memory: total and used are the host's.",
        "Used memory counts all programs on this machine, not only those on the GPU.",
    )


def only_instances(indices: Sequence[int]) -> Problem:
    """Return the note on GPUs of which this user sees only MIG instances, as in a container with one instance."""
    return Problem(
        "mig_only",
        f"Only MIG instances of {_gpus(indices)} are open here: the memory of the whole GPU cannot be read.",
        "Each instance is measured separately; to see the whole GPU, run gputop outside the container.",
    )


def virtual(indices: Sequence[int]) -> Problem:
    """Return the note on NVIDIA's virtual GPUs in a guest."""
    a = "is a virtual GPU" if len(indices) == 1 else "are virtual GPUs"
    return Problem(
        "vgpu",
        f"{_gpus(indices)} {a} (NVIDIA vGPU): power, temperature and PCIe belong to the host.",
        "One without a license becomes slow after a while: nvidia-smi -q | grep License.",
    )


def unlicensed(indices: Sequence[int]) -> Problem:
    """Return the note on virtual GPUs whose license is missing or has expired.

    From NVIDIA's vGPU licensing guide: 20 minutes after a start without a license, such a GPU runs as slowly as an
    idle one until it gets a license.
    """
    alone = len(indices) == 1
    has, a, it = ("has", "a virtual GPU", "it") if alone else ("have", "virtual GPUs", "them")
    return Problem(
        "unlicensed",
        f"{_gpus(indices)} {has} no license ({a}, NVIDIA vGPU): the driver slows work on {it} down to an idle pace, 20 minutes"
        " after the start or when a license expires.",
        "Check nvidia-smi -q | grep License and journalctl -u nvidia-gridd; the host's administrator grants licenses.",
    )


def _gpus(indices: Sequence[int]) -> str:
    return f"GPU{'s' if len(indices) > 1 else ''} {units.ranges(indices)}"


def processes_refused(indices: Sequence[int]) -> Problem:
    """Return the note on process lists that this user may not see."""
    return Problem(
        "no_permission",
        f"The driver does not let this user list the processes on {_gpus(indices)}.",
        "They may be in use although no process is shown; root can list them.",
    )


def processes_unsupported(indices: Sequence[int]) -> Problem:
    """Return the note on GPUs that have no process list."""
    return Problem(
        "other",
        f"The driver has no process list for {_gpus(indices)}.",
        "They may be in use although no process is shown (as on some virtual GPUs and under WSL).",
    )


NOTES: dict[str, Callable[[Sequence[int]], Problem]] = {
    "processes refused": processes_refused,
    "processes unsupported": processes_unsupported,
    "only instances": only_instances,
    "virtual": virtual,
    "virtual unlicensed": unlicensed,
}
"""What a reader can say about a whole GPU -> the note on all GPUs to which it applies."""
