"""What is checked before a run: each trouble named with its fix, a machine in order silent, the real machine readable."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gputop.doctor.preflight.checks import check
from gputop.doctor.preflight.gpu_checks import has_code_for
from gputop.preflight import Preflight
from gputop.snapshot import DeviceUse, Host, Problem, Snapshot
from gputop.sources.preflight import read_preflight
from tests import samples
from tests.samples import GIB

HOST = Host(
    "node7",
    source="nvml",
    driver_version="580.95",
    cuda_version="13.0",
    cpu_count=64,
    shm_total_bytes=64 * GIB,
    shm_used_bytes=GIB,
)
RECORD = Preflight(
    interpreter="/usr/bin/python",
    torch_version="2.13.0",
    torch_cuda="12.8",
    torch_archs=("sm_80", "sm_90", "compute_90"),
    cuda_status=0,
    cuda_count=4,
    capabilities=((9, 0),) * 4,
    device_files=("/dev/nvidia0", "/dev/nvidiactl"),
    container=False,
    port_taken=False,
    files_limit=65536,
    locked_unlimited=True,
    cores=tuple(range(64)),
    numa_nodes=2,
    uid=1000,
)


def machine(**changes: object) -> Snapshot:
    devices = tuple(samples.idle_device(index, compute_mode="default", persistence_enabled=True) for index in range(4))
    base = samples.snapshot(host=HOST, devices=devices, processes=(), runs=(), points=())
    return replace(base, **changes)  # type: ignore[arg-type]


def host(**changes: object) -> Snapshot:
    return machine(host=replace(HOST, **changes))  # type: ignore[arg-type]


def device(**changes: object) -> Snapshot:
    return machine(devices=(samples.idle_device(0, **changes), samples.idle_device(1)))


def record(**changes: object) -> Preflight:
    return replace(RECORD, **changes)  # type: ignore[arg-type]


def test_a_healthy_machine_has_no_finding_and_says_what_was_checked() -> None:
    report = check(RECORD, machine())
    assert report.findings == ()
    names = [item.name for item in report.checks]
    assert {"driver", "CUDA", "torch", "visibility", "MIG", "compute mode", "/dev/shm", "port 29500", "CPU"} <= set(names)
    assert {item.state for item in report.checks} == {"fine"}


NO_DRIVER = Problem("no_driver", "There is no NVIDIA driver here.", "Install it.")
MISMATCH = Problem("driver_mismatch", "Driver and library differ.", "Reboot.")
FAR = samples.idle_device(0, cpu_affinity=(90, 91))
TROUBLES = (
    ("no driver", RECORD, machine(host=Host("x", problem=NO_DRIVER), devices=()), "A12", "Install it"),
    ("driver upgraded", RECORD, machine(host=Host("x", problem=MISMATCH), devices=()), "I10", "Reboot"),
    ("fabric manager", record(cuda_status=802), machine(), "A12", "nvidia-fabricmanager"),
    ("library differs", record(cuda_status=803), machine(), "A12", "reboot"),
    ("CPU build", record(torch_version="2.13.0+cpu", torch_cuda=None), machine(), "A12", "pip uninstall torch"),
    ("driver too old", record(torch_cuda="14.1"), machine(), "A12", "CUDA 13.0 or older"),
    ("no code for the GPU", record(capabilities=((7, 0),)), machine(), "A12", "pytorch.org"),
    ("files closed", record(closed_files=("/dev/nvidia0",)), machine(), "A12", "usermod"),
    ("mask hides all", record(mask="-1", cuda_status=100), machine(), "A05", "unset CUDA_VISIBLE_DEVICES"),
    ("MIG", RECORD, device(mig_enabled=True), "A14", "MIG-"),
    ("exclusive", RECORD, device(compute_mode="exclusive_process"), "A15", "nvidia-smi -c DEFAULT"),
    ("narrow link", RECORD, device(pcie_width=4, pcie_width_max=16), "I03", "lspci"),
    ("small shm", RECORD, host(shm_total_bytes=64 * 2**20, shm_used_bytes=0), "D08", "--shm-size"),
    ("full shm", RECORD, host(shm_used_bytes=60 * GIB), "D08", "ls -lS /dev/shm"),
    ("port", record(port_taken=True, port_pid=77, port_command="python old.py"), machine(), "G03", "--standalone"),
    ("one core", record(cores=(3,)), machine(), "D03", "taskset"),
    ("quota", RECORD, host(cpu_quota=1.5), "D02", "--cpus"),
    ("files", record(files_limit=1024), machine(), "D08", "ulimit -n"),
    ("locked", record(infiniband=True, locked_unlimited=False, locked_limit_bytes=65536), machine(), "G05", "ulimit -l"),
    ("far cores", record(numa_nodes=2), machine(devices=(FAR,)), "D10", "numa"),
    ("fabric", record(nvswitch=True, fabric_manager=False), machine(), "A12", "fabricmanager"),
)


@pytest.mark.parametrize(("what", "known", "seen", "rule", "fix"), TROUBLES, ids=[row[0] for row in TROUBLES])
def test_each_trouble_is_named_with_its_fix(what: str, known: Preflight, seen: Snapshot, rule: str, fix: str) -> None:
    report = check(known, seen)
    assert [finding.id for finding in report.findings] == [rule]
    (finding,) = report.findings
    assert fix in finding.fix
    assert finding.evidence
    assert finding.refuted_by
    assert [item.state for item in report.checks].count("problem") == 1


def test_another_user_s_process_is_named_and_a_freer_gpu_proposed() -> None:
    busy = samples.idle_device(0, memory_used_bytes=30 * GIB)
    use = DeviceUse(busy.uuid, 20 * GIB, 50.0, "C")
    process = replace(samples.rank_process(0, (use,)), uid=2000, user="grace", pid=555)
    seen = machine(devices=(busy, samples.idle_device(1)), processes=(process,))
    (finding,) = check(RECORD, seen).findings
    assert (finding.id, finding.pids) == ("H03", (555,))
    assert "grace (PID 555, 20.0 GiB)" in finding.title
    assert "CUDA_VISIBLE_DEVICES=1" in finding.fix
    assert check(replace(RECORD, uid=2000), seen).findings == ()


def test_an_unreadable_value_is_unknown_and_not_a_finding() -> None:
    report = check(Preflight(), machine(host=Host("x", source="nvml"), devices=()))
    assert report.findings == ()
    assert {item.state for item in report.checks if item.name not in ("driver",)} <= {"unknown", "fine"}
    assert "unknown" in {item.state for item in report.checks}


@pytest.mark.parametrize(
    ("capability", "archs", "runs"),
    [
        ((9, 0), ("sm_90",), True),
        ((8, 6), ("sm_80",), True),
        ((8, 0), ("sm_86",), False),
        ((12, 0), ("sm_90",), False),
        ((12, 0), ("sm_90", "compute_90"), True),
        ((7, 0), ("compute_90",), False),
        ((9, 0), ("sm_90a",), True),
    ],
)
def test_which_builds_run_where(capability: tuple[int, int], archs: tuple[str, ...], runs: bool) -> None:
    assert has_code_for(capability, archs) is runs


def test_this_machine_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python").symlink_to(sys.executable)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        environment = {"PATH": str(folder), "MASTER_PORT": str(port), "CUDA_VISIBLE_DEVICES": "0"}
        found = read_preflight(environment)
    assert (found.port_taken, found.port_pid) == (True, os.getpid())
    assert found.mask == "0"
    assert found.cores_allowed == len(os.sched_getaffinity(0))
    assert (found.torch_version is None) != (found.torch_problem is None)
    assert read_preflight({"PATH": str(tmp_path)}, ask_torch=False).interpreter is None


def test_a_python_that_hangs_or_dies_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.sources.preflight.TORCH_TIMEOUT_S", 0.5)
    program = tmp_path / "python"
    for body, words in (("sleep 60", "did not answer"), ("exit 3", "exit code 3")):
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
        found = read_preflight({"PATH": f"{tmp_path}:/usr/bin:/bin"})
        assert found.torch_problem is not None
        assert words in found.torch_problem


def test_the_command_prints_findings_and_what_was_fine(tmp_path: Path) -> None:
    run = [sys.executable, "-m", "gputop", "doctor", "--before"]
    environment = {**os.environ, "GPUTOP_DIR": str(tmp_path), "HOME": str(tmp_path)}
    text = subprocess.run(run, capture_output=True, text=True, env=environment, timeout=100, check=False)
    assert "Checked before a run:" in text.stdout, text.stderr
    assert text.returncode in (0, 1, 3)
    told = subprocess.run([*run, "--json"], capture_output=True, text=True, env=environment, timeout=100, check=False)
    assert told.returncode == text.returncode
    assert {"findings", "schema_version"} <= json.loads(told.stdout).keys()
