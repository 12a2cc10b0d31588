"""Preflight checks of GPUs, driver and torch. Pure."""

from __future__ import annotations

import re

from gputop.doctor.evidence.visible import devices_behind, parse_mask
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.findings.fixes import shell_join, shell_word
from gputop.doctor.preflight.record import Check
from gputop.preflight import Preflight
from gputop.snapshot import Device, Snapshot
from gputop.units import bytes_text

USED_BYTES = 2**30
"""A process of another user that holds less memory is a leftover or a display (docs/rules.md#h03)."""
_CU_NO_DEVICE = 100
_CU_NOT_READY = 802
_CU_MISMATCH = 803
"""CUresult: CUDA_ERROR_NO_DEVICE, CUDA_ERROR_SYSTEM_NOT_READY, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH."""


def _real(snapshot: Snapshot) -> list[Device]:
    return [device for device in snapshot.devices if device.kind == "gpu"]


def no_driver(snapshot: Snapshot) -> Finding | None:
    """Return the problem that keeps the driver from showing any GPU; None if the driver works or was not queried."""
    problem = snapshot.host.problem
    if problem is None or snapshot.host.source == "nvml":
        return None
    return Finding(
        id="I10" if problem.code in ("driver_mismatch", "no_permission", "hung") else "A12",
        severity="error",
        confidence="certain",
        title=problem.message.rstrip("."),
        evidence=(Fact(problem.message, problem.code, "NVML"),),
        cause="Without a working driver and a GPU, training runs on the CPU or not at all.",
        fix=f"# {problem.hint}",
        refuted_by="nvidia-smi, run from this shell (in this container), lists the GPUs.",
    )


def driver(record: Preflight, snapshot: Snapshot) -> list[Check]:
    """Check the driver, and whether CUDA itself starts."""
    problem = snapshot.host.problem
    if snapshot.host.source != "nvml":
        if problem is None:
            return [Check("driver", "unknown", "the NVIDIA driver was not queried")]
        return [Check("driver", "problem", problem.message, no_driver(snapshot))]
    supports = f", supports CUDA {snapshot.host.cuda_version}" if snapshot.host.cuda_version else ""
    rows = [Check("driver", "fine", f"{snapshot.host.driver_version or 'of an unknown version'}{supports}")]
    if record.cuda_status is None:
        return rows
    if record.cuda_status == 0:
        return [*rows, Check("CUDA", "fine", f"starts, and shows {words.count(record.cuda_count or 0, 'GPU')}")]
    if record.cuda_status == _CU_NO_DEVICE and record.mask is not None and not parse_mask(record.mask):
        return rows  # The mask is the reason, and has its own row.
    fixes = {
        _CU_NOT_READY: (
            "the fabric manager is not running",
            "sudo systemctl start nvidia-fabricmanager  # its version must match the driver's",
        ),
        _CU_MISMATCH: ("the CUDA library and the kernel module differ", "sudo reboot  # the driver was upgraded while in use"),
    }
    why, fix = fixes.get(record.cuda_status, ("the driver works, but CUDA does not", "nvidia-smi\nsudo modprobe nvidia_uvm"))
    finding = Finding(
        id="A12",
        severity="error",
        confidence="certain",
        title=f"CUDA does not start (error {record.cuda_status}): {why}",
        evidence=(Fact(f"cuInit returns {record.cuda_status}", record.cuda_status, "libcuda"),),
        cause="torch.cuda.is_available() is then False, and training runs on the CPU or stops.",
        fix=fix,
        refuted_by="torch.cuda.is_available() is True in the environment and shell from which the run starts.",
    )
    return [*rows, Check("CUDA", "problem", f"cuInit returns {record.cuda_status}", finding)]


def torch_build(record: Preflight, snapshot: Snapshot) -> list[Check]:
    """Check the torch of the interpreter on PATH against the driver and the GPUs."""
    if record.torch_version is None:
        return [Check("torch", "unknown", record.torch_problem or "there is no Python on PATH")]
    where = f"torch {record.torch_version} of {record.interpreter}"
    if record.torch_cuda is None:
        if not _real(snapshot):
            return [Check("torch", "fine", f"{where}: a CPU build")]
        title, cause = "This torch is a CPU build", "It contains no CUDA, so it cannot use a GPU."
        return [_torch_problem(record, title, cause, f"{where}: a CPU build", snapshot)]
    text = f"{where}, for CUDA {record.torch_cuda}"
    supported = snapshot.host.cuda_version
    if supported and _major(record.torch_cuda) > _major(supported):
        title = f"torch is built for CUDA {record.torch_cuda}, but the driver supports {supported}"
        cause = "A driver runs CUDA up to its own major version; torch would report that the driver is too old."
        return [_torch_problem(record, title, cause, text, snapshot)]
    missing = sorted({one for one in record.capabilities if not has_code_for(one, record.torch_archs)})
    if record.torch_archs and missing:
        names = ", ".join(f"sm_{major}{minor}" for major, minor in missing)
        title = f"torch has no code for a GPU here ({names})"
        cause = f"It was built for {', '.join(record.torch_archs)}, so no kernel image is available for this GPU."
        return [_torch_problem(record, title, cause, text, snapshot)]
    return [Check("torch", "fine", text)]


def _torch_problem(record: Preflight, title: str, cause: str, text: str, snapshot: Snapshot) -> Check:
    driver_text = f" and driver {snapshot.host.driver_version}" if snapshot.host.driver_version else ""
    supports = snapshot.host.cuda_version
    finding = Finding(
        id="A12",
        severity="error",
        confidence="certain",
        title=title,
        evidence=(Fact(text, record.torch_version, record.interpreter or "python"),),
        cause=cause,
        fix=f"{shell_word(record.interpreter or 'python')} -m pip uninstall torch\n"
        "# install the build that the selector on pytorch.org gives"
        + (f" for CUDA {supports} or older{driver_text}" if supports else ""),
        refuted_by="The training uses a different Python.",
    )
    return Check("torch", "problem", text, finding)


def has_code_for(capability: tuple[int, int], archs: tuple[str, ...]) -> bool:
    """Return whether a build has kernels for a GPU: same major version and no newer minor, or PTX that is no newer."""
    for arch in archs:
        found = re.fullmatch(r"(sm|compute)_(\d+)(\d)[af]?", arch)
        if found is None:
            continue
        major, minor = int(found[2]), int(found[3])
        if found[1] == "sm" and major == capability[0] and minor <= capability[1]:
            return True
        if found[1] == "compute" and (major, minor) <= capability:
            return True
    return False


def visible(record: Preflight, snapshot: Snapshot) -> list[Check]:
    """Check which GPUs a process started here sees, and why."""
    pool = _real(snapshot)
    rows = []
    if record.closed_files:
        names = ", ".join(record.closed_files)
        finding = Finding(
            id="A12",
            severity="error",
            confidence="certain",
            title=f"This user may not open {names}",
            evidence=(Fact(f"no permission to read and write {names}", list(record.closed_files), "/dev"),),
            cause="CUDA opens these files; without them it shows no GPU. In a container, the device rules may omit them.",
            fix=f"ls -l {shell_join(record.closed_files)}\n"
            "sudo usermod -aG video $USER  # if the files belong to the group video; then log in again",
            refuted_by="The run starts as another user, who may open them.",
        )
        rows.append(Check("/dev/nvidia*", "problem", f"no permission for {names}", finding))
    elif record.device_files:
        rows.append(Check("/dev/nvidia*", "fine", words.count(len(record.device_files), "file")))
    if not pool:
        return rows
    if record.mask is None:
        return [*rows, Check("visibility", "fine", f"CUDA_VISIBLE_DEVICES is not set: {words.gpus(pool)}")]
    seen = devices_behind(record.mask, pool)
    text = f"CUDA_VISIBLE_DEVICES={record.mask}"
    migs = any(entry.startswith("MIG-") for entry in parse_mask(record.mask))
    if seen or migs:
        return [*rows, Check("visibility", "fine", f"{text}: {words.gpus(seen) if seen else 'a MIG instance'}")]
    finding = Finding(
        id="A05",
        severity="error",
        confidence="certain",
        title=f"{text} hides every GPU",
        evidence=(Fact(f"{text} leaves none of {words.gpus(pool)}", record.mask, "environment"),),
        cause="An empty, repeated or unknown entry ends or empties the list. Training then runs on the CPU.",
        fix="unset CUDA_VISIBLE_DEVICES",
        refuted_by="The GPUs are hidden on purpose.",
    )
    return [*rows, Check("visibility", "problem", f"{text}: no GPU", finding)]


def modes(record: Preflight, snapshot: Snapshot) -> list[Check]:
    """Check MIG, compute mode and persistence mode of each GPU."""
    pool = _real(snapshot)
    rows = []
    mig = [device for device in pool if device.mig_enabled]
    if mig:
        finding = Finding(
            id="A14",
            severity="info",
            confidence="certain",
            title=f"{words.gpus(mig)}: MIG is on",
            evidence=(Fact(f"MIG is on at {words.gpus(mig)}", len(mig), "NVML"),),
            cause="A process sees only one MIG instance, and several instances cannot form one communicator.",
            fix="# one process per instance: CUDA_VISIBLE_DEVICES=MIG-<uuid>\nnvidia-smi -L",
            refuted_by="The run needs only one instance.",
            devices=tuple(device.uuid for device in mig),
        )
        rows.append(Check("MIG", "problem", f"on at {words.gpus(mig)}", finding))
    elif pool:
        rows.append(Check("MIG", "fine", "off"))
    exclusive = [device for device in pool if (device.compute_mode or "default") != "default"]
    if exclusive:
        prohibited = [device for device in exclusive if "prohibited" in (device.compute_mode or "")]
        names = ", ".join(sorted({device.compute_mode or "" for device in exclusive}))
        finding = Finding(
            id="A15",
            severity="error" if prohibited else "info",
            confidence="certain",
            title=f"{words.gpus(exclusive)}: compute mode {names}",
            evidence=(Fact(f"compute mode {names} at {words.gpus(exclusive)}", names, "NVML"),),
            cause="No CUDA process may start there."
            if prohibited
            else "Only one process may use such a GPU: a second context, even by mistake, fails with 'busy or unavailable'.",
            fix="sudo nvidia-smi -c DEFAULT\ntorch.cuda.set_device(local_rank)  # before the first CUDA call",
            refuted_by="The run uses other GPUs."
            if prohibited
            else "The run has only one process on each GPU, which this mode is meant for.",
            devices=tuple(device.uuid for device in exclusive),
        )
        rows.append(Check("compute mode", "problem", f"{names} at {words.gpus(exclusive)}", finding))
    elif pool:
        known = all(device.compute_mode is not None for device in pool)
        rows.append(Check("compute mode", "fine" if known else "unknown", "default" if known else "unreadable"))
    lazy = [device for device in pool if device.persistence_enabled is False]
    if pool:
        text = f"off at {words.gpus(lazy)}: the first CUDA call takes seconds longer" if lazy else "on"
        known = bool(lazy) or any(device.persistence_enabled for device in pool)
        rows.append(Check("persistence", "fine" if known else "unknown", text if known else "unreadable"))
    return rows


def links(record: Preflight, snapshot: Snapshot) -> list[Check]:
    """Check for PCIe links with fewer lanes than card and slot have. Ignore the generation, which drops on idle GPUs."""
    pool = [device for device in _real(snapshot) if device.pcie_width and device.pcie_width_max]
    if not pool:
        return []
    narrow = [device for device in pool if (device.pcie_width or 0) < (device.pcie_width_max or 0)]
    if not narrow:
        return [Check("PCIe links", "fine", f"x{min(device.pcie_width or 0 for device in pool)}")]
    text = ", ".join(f"{words.gpu(device)} x{device.pcie_width} of x{device.pcie_width_max}" for device in narrow)
    # Many boards, clouds and laptops give a card fewer lanes than it supports, and some links narrow while the GPU idles.
    worse_than_peers = any(
        peer.name == device.name and (peer.pcie_width or 0) > (device.pcie_width or 0) for device in narrow for peer in pool
    )
    finding = Finding(
        id="I03",
        severity="warning" if worse_than_peers else "info",
        confidence="likely" if worse_than_peers else "possible",
        title=f"A PCIe link is narrower than its card: {text}",
        evidence=tuple(Fact(f"{words.gpu(d)}: x{d.pcie_width} of x{d.pcie_width_max}", d.pcie_width, "NVML") for d in narrow),
        cause="The slot has fewer lanes, the card is not seated well, a riser is faulty, or the slot shares lanes with "
        "another slot.",
        fix="sudo lspci -vv | grep -E 'NVIDIA|LnkCap:|LnkSta:'\n"
        "# reseat the card, try another slot, check bifurcation in the BIOS",
        refuted_by="The slot is wired with fewer lanes, as lspci shows for the port above it.",
        devices=tuple(device.uuid for device in narrow),
    )
    return [Check("PCIe links", "problem" if worse_than_peers else "fine", text, finding)]


def occupied(record: Preflight, snapshot: Snapshot) -> list[Check]:
    """Check the free memory of each GPU, and which users' processes use it."""
    rows = []
    for device in _real(snapshot):
        name = words.gpu(device)
        if device.memory_total_bytes is None or device.memory_used_bytes is None:
            rows.append(Check(name, "unknown", f"{device.name or 'GPU'}: its memory is unreadable"))
            continue
        free = device.memory_total_bytes - device.memory_used_bytes
        text = f"{device.name or 'GPU'}, {bytes_text(free)} of {bytes_text(device.memory_total_bytes)} free"
        others = []
        for process in snapshot.processes:
            used = sum(use.memory_used_bytes or 0 for use in process.devices if use.device_uuid == device.uuid)
            if used >= USED_BYTES and process.uid is not None and process.uid != record.uid:
                others.append((process, used))
        if not others:
            rows.append(Check(name, "fine", text))
            continue
        who = ", ".join(
            f"{process.user or f'uid {process.uid}'} (PID {process.pid}, {bytes_text(used)})" for process, used in others
        )
        better = sorted(
            (other for other in _real(snapshot) if other.memory_total_bytes and other.uuid != device.uuid),
            key=lambda other: (other.memory_used_bytes or 0) / (other.memory_total_bytes or 1),
        )
        finding = Finding(
            id="H03",
            severity="warning",
            confidence="certain",
            title=f"{name} is used by {who}",
            evidence=tuple(
                Fact(f"PID {p.pid} of {p.user or p.uid} has {bytes_text(used)}", p.pid, "NVML") for p, used in others
            ),
            cause="Your run would share its memory and its time with the other user's job.",
            fix=f"CUDA_VISIBLE_DEVICES={better[0].index} python train.py  # the freest GPU; for several: gputop pick -n 2"
            if better
            else "gputop pick -n 1",
            refuted_by="The run uses other GPUs, or both share the GPU on purpose.",
            devices=(device.uuid,),
            pids=tuple(process.pid for process, _ in others),
        )
        rows.append(Check(name, "problem", f"{text}; {who}", finding))
    return rows


def fabric(record: Preflight, snapshot: Snapshot) -> list[Check]:
    """Check the fabric manager on machines with NVSwitch."""
    if not record.nvswitch:
        return []
    if record.fabric_manager is None:
        return [
            Check("fabric manager", "unknown", "this machine has NVSwitch, but its service is not visible from this container")
        ]
    if record.fabric_manager:
        return [Check("fabric manager", "fine", "runs")]
    finding = Finding(
        id="A12",
        severity="error",
        confidence="likely",
        title="NVSwitch without its fabric manager",
        evidence=(Fact("no nv-fabricmanager process is running", False, "/proc"),),
        cause="GPUs behind NVSwitch are unusable until it runs: CUDA returns error 802.",
        fix="sudo systemctl start nvidia-fabricmanager  # with the same version as the driver",
        refuted_by="torch.cuda.is_available() is True.",
    )
    return [Check("fabric manager", "problem", "not running", finding)]


def _major(version: str) -> int:
    found = re.match(r"\d+", version)
    return int(found[0]) if found else 0
