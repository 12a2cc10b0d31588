"""Reads what ``gputop doctor --before`` checks and a snapshot does not contain: torch, limits, ports, device files.

A separate process with a timeout queries torch. It loads libcuda and calls cuInit, which creates no context on any GPU and
uses none of its memory.
"""

from __future__ import annotations

import glob
import os
import resource
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

from gputop.preflight import Preflight
from gputop.sources.host import procfs, procfs_activity
from gputop.wire import parse_json

TORCH_TIMEOUT_S = 30.0
"""Time limit for the probe: importing torch from a slow disk can take this long."""
PORT_DEFAULT = 29500
"""torch's default MASTER_PORT."""
_UNLIMITED = resource.RLIM_INFINITY

_PROBE = r"""
import ctypes, importlib.util, json, os, sys
def say(**what):
    print("\n" + json.dumps(what), flush=True)
try:
    cuda = ctypes.CDLL("libcuda.so.1")
    status, count, seen = cuda.cuInit(0), ctypes.c_int(0), []
    if status == 0:
        cuda.cuDeviceGetCount(ctypes.byref(count))
        for index in range(count.value):
            device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
            cuda.cuDeviceGet(ctypes.byref(device), index)
            cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, device)
            cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
            seen.append([major.value, minor.value])
    say(cuda_status=status, cuda_count=count.value, capabilities=seen)
except OSError:
    pass
found = importlib.util.find_spec("torch")
if found is None or not found.origin:
    say(torch_problem=f"{sys.executable} has no torch")
    sys.exit()
version = {}
try:
    with open(os.path.join(os.path.dirname(found.origin), "version.py")) as file:
        exec(file.read(), version)
    say(torch_version=str(version["__version__"]), torch_cuda=version.get("cuda"))
except Exception as error:
    say(torch_problem=f"torch of {sys.executable} does not report its version: {error}")
if version.get("cuda"):
    import torch
    say(torch_archs=torch._C._cuda_getArchFlags().split())
"""


def read_preflight(environment: Mapping[str, str] | None = None, *, ask_torch: bool = True) -> Preflight:
    """Return what is known about this machine; what cannot be read is None. Querying torch takes seconds."""
    environment = os.environ if environment is None else environment
    interpreter = _interpreter(environment)
    asked = _ask(interpreter, environment) if interpreter is not None and ask_torch else {}
    port = _master_port(environment)
    taken, pid, command = _listener(port)
    files = _device_files()
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    nofile = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    container = _in_container()
    return Preflight(
        interpreter=interpreter,
        torch_version=_text(asked.get("torch_version")),
        torch_cuda=_text(asked.get("torch_cuda")),
        torch_archs=tuple(str(item) for item in asked.get("torch_archs") or ()),
        torch_problem=_text(asked.get("torch_problem")),
        cuda_status=asked.get("cuda_status"),
        cuda_count=asked.get("cuda_count"),
        capabilities=tuple((int(major), int(minor)) for major, minor in asked.get("capabilities") or ()),
        mask=environment.get("CUDA_VISIBLE_DEVICES"),
        closed_files=tuple(path for path in files if not os.access(path, os.R_OK | os.W_OK)),
        device_files=files,
        container=container,
        master_port=port,
        port_taken=taken,
        port_pid=pid,
        port_command=command,
        files_limit=None if nofile == _UNLIMITED else nofile,
        locked_limit_bytes=None if locked == _UNLIMITED else locked,
        locked_unlimited=locked == _UNLIMITED,
        infiniband=bool(glob.glob("/sys/class/infiniband/*")),
        cores=tuple(sorted(os.sched_getaffinity(0))),
        numa_nodes=len(glob.glob("/sys/devices/system/node/node[0-9]*")) or None,
        nvswitch=bool(glob.glob("/dev/nvidia-nvswitch[0-9]*")),
        fabric_manager=_runs("nv-fabricmanager") or (None if container else False),
        uid=os.getuid(),
    )


def _interpreter(environment: Mapping[str, str]) -> str | None:
    for name in ("python", "python3"):
        found = shutil.which(name, path=environment.get("PATH"))
        if found is not None:
            return found
    return None


def _ask(interpreter: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what the probe reported, even if it hung or died on the way."""
    quiet = {**environment, "GPUTOP_AUTO": "0", "CUDA_MODULE_LOADING": "LAZY"}
    try:
        process = subprocess.Popen(
            [interpreter, "-c", _PROBE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=quiet,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        return {"torch_problem": f"{interpreter} cannot be started: {error.strerror}"}
    problem = None
    try:
        output, _ = process.communicate(timeout=TORCH_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        problem = f"{interpreter} did not answer within {TORCH_TIMEOUT_S:.0f} s"
        try:
            output, _ = process.communicate(timeout=1.0)
        except subprocess.TimeoutExpired:  # stuck in the driver: init will reap it
            output = b""
    answers: dict[str, Any] = {"torch_problem": problem} if problem else {}
    for line in output.splitlines():
        try:
            found = parse_json(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            answers.update(found)
    if "torch_version" not in answers and "torch_problem" not in answers:
        answers["torch_problem"] = f"{interpreter} ended with exit code {process.returncode} when asked for torch"
    return answers


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _master_port(environment: Mapping[str, str]) -> int:
    text = environment.get("MASTER_PORT", "")
    return int(text) if text.isdigit() and 0 < int(text) < 65536 else PORT_DEFAULT


def _listener(port: int) -> tuple[bool | None, int | None, str | None]:
    """Return whether a socket listens on the port, and its owner if this user may see it."""
    sockets = procfs_activity.read_listening()
    if sockets is None:
        return None, None, None
    wanted = {socket for socket, its_port in sockets.items() if its_port == port}
    if not wanted:
        return False, None, None
    for pid in procfs.list_pids():
        if not wanted.isdisjoint(procfs_activity.read_sockets(pid)):
            return True, pid, " ".join(procfs.read_command(pid) or ())[:80] or None
    return True, None, None


def _device_files() -> tuple[str, ...]:
    found = [
        path for path in glob.glob("/dev/nvidia*") if not os.path.isdir(path) and "caps" not in path and "nvswitch" not in path
    ]
    return tuple(sorted(found))


def _in_container() -> bool:
    return os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv") or bool(procfs.read_container(1))


def _runs(name: str) -> bool:
    for pid in procfs.list_pids():
        try:
            # The kernel keeps only 15 characters of a name.
            if procfs.read_line(f"/proc/{pid}/comm").decode(errors="replace").strip() == name[:15]:
                return True
        except OSError:
            continue
    return False
