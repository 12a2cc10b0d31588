"""Driver errors by number (Xid): what each one means, its kind, and what to do about errors of that kind."""

from __future__ import annotations

from typing import NamedTuple

APPLICATION = "application"
MEMORY = "memory"
LINK = "link"
XIDS = {
    13: ("graphics engine exception: an illegal access or instruction in a kernel", APPLICATION),
    31: ("memory page fault: a kernel accessed an illegal address", APPLICATION),
    43: ("the GPU stopped processing: an error of the application", APPLICATION),
    48: ("double-bit ECC error: data in GPU memory was lost", MEMORY),
    61: ("internal micro-controller breakpoint", "driver"),
    62: ("internal micro-controller halt", "driver"),
    63: ("a row of memory was remapped, or its remapping recorded", MEMORY),
    64: ("a row of memory could not be remapped", MEMORY),
    74: ("NVLink error", LINK),
    79: ("the GPU has fallen off the bus", "bus"),
    92: ("many corrected ECC errors", MEMORY),
    94: ("contained uncorrected ECC error: the job on it is lost", MEMORY),
    95: ("uncontained uncorrected ECC error: the GPU must be reset", MEMORY),
    109: ("a context switch timed out", APPLICATION),
    119: ("the GPU's system processor (GSP) does not answer", "driver"),
    120: ("the GPU's system processor (GSP) failed", "driver"),
}
"""The Xids that training meets, from NVIDIA's documentation of Xid errors, in our words."""
QUIET = (45,)
"""Reports only that a context was torn down: every killed job leaves one."""

_DMESG = "sudo dmesg --ctime | grep -i -E 'xid|nvrm' | tail"
FIXES = {
    APPLICATION: "CUDA_LAUNCH_BLOCKING=1 {command}\ncompute-sanitizer {command}  # names the kernel that goes wrong",
    MEMORY: "nvidia-smi -q -d ECC,ROW_REMAPPER -i {index}\n"
    "# end the jobs on it, then; if the errors come again, the card is to be replaced:\nsudo nvidia-smi --gpu-reset -i {index}",
    LINK: "nvidia-smi nvlink --status -i {index}\nnvidia-smi nvlink --errorcounters -i {index}\n# then reseat bridge or card",
    "bus": f"{_DMESG}\n# reboot; then check power cables, seat of the card and temperature",
    "driver": f"{_DMESG}\nsudo nvidia-smi --gpu-reset -i {{index}}  # or reboot; update the driver",
}
"""``{index}`` is what ``nvidia-smi -i`` accepts: an index or a PCI address."""
_UNKNOWN_FIX = f"{_DMESG}\n# look Xid {{xid}} up in NVIDIA's catalog of Xid errors: it says reset, replace, or software"


class Meaning(NamedTuple):
    """The texts of a finding about one Xid."""

    short: str
    """"Xid 79, the GPU has fallen off the bus"."""
    cause: str
    fix: str
    refuted_by: str
    cause_id: str
    """Of the cause: I05 if the GPU is lost, else I04."""


def meaning_of(xid: int, index: object, command: str) -> Meaning:
    """Return what an Xid means and what to do; for an unknown one, where to look it up."""
    text, kind = XIDS.get(xid, ("", ""))
    if not kind:
        return Meaning(
            f"Xid {xid}",
            "The driver reported an error of the GPU, of its links, or of a kernel that ran on it.",
            _UNKNOWN_FIX.format(xid=xid),
            "NVIDIA's catalog says that this Xid is not an error.",
            "I04",
        )
    software = kind == APPLICATION
    return Meaning(
        f"Xid {xid}, {text.partition(':')[0]}",
        f"{text[0].upper()}{text[1:]}. "
        + (
            "A kernel of the job did something illegal; look at the software first."
            if software
            else "The GPU, its memory, its links or its driver failed; the jobs on it are lost or hang."
        ),
        FIXES[kind].format(index=index, command=command),
        "The error was reported for a job that was being killed."
        if software
        else "It was reported while somebody reset the GPU or restarted the driver on purpose, and none has come since.",
        "I05" if kind == "bus" else "I04",
    )


def pci_address(text: str) -> str:
    """Convert an address of the kernel's log ("PCI:0000:3b:00") to nvidia-smi's form ("0000:3b:00.0")."""
    address = text.removeprefix("PCI:")
    return address if "." in address else f"{address}.0"
