"""What /proc tells of real processes and of the machine: threads, disks, files, cores, DataLoader workers, control groups."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gputop.places import state_dir
from gputop.snapshot import DeviceUse, Process
from gputop.sources.host import evidence as host_evidence
from gputop.sources.host import procfs, procfs_activity
from gputop.sources.host import threads as host_threads
from gputop.sources.host import unlisted as host_unlisted
from gputop.sources.host.cgroup import Cgroup, parse_cgroup
from gputop.sources.host.machine import MachineReader, parse_pressure
from gputop.sources.host.process_cache import launch_environment
from gputop.sources.host.procfs_activity import parse_cpu_list, parse_io, read_open_files
from gputop.sources.host.reader import HostReader
from gputop.sources.host.settings import SETTINGS, VALUE_MAX_CHARACTERS
from tests.real_processes import BUSY, IDLE, Processes, as_nobody, eventually, see_only_own_processes

USE = (DeviceUse("GPU-1", 2**30, 50.0, "C"),)


@pytest.fixture(autouse=True)
def soon_and_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    see_only_own_processes(monkeypatch)
    monkeypatch.setattr(host_unlisted, "SCAN_S", 0.1)
    monkeypatch.setattr(host_evidence, "READ_S", 0.1)
    monkeypatch.setattr(host_threads, "SCAN_S", 0.1)
    monkeypatch.setattr(host_threads, "CORES_S", 0.3)


def read(reader: HostReader, pid: int) -> Process:
    return next(process for process in reader.read_processes({pid: USE}, {}) if process.pid == pid)


def until(pid: int, good: Callable[[Process], object], reader: HostReader | None = None) -> Process:
    reader = reader or HostReader()
    return eventually(lambda: read(reader, pid), good)


NAMED = """
def named(name):
    def body():
        with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as file:
            file.write(name)
        started.wait()
        idle()
    threading.Thread(target=body).start()
names = ["pt_nccl_watchdg", "pt_nccl_heartbt", "NCCL Service  0", "NCCL Service  1", "pt_data_pin", "pt_autograd_0", "pool-1"]
started = threading.Barrier(len(names) + 1)
for name in names:
    named(name)
started.wait()
say("ready")
idle()
"""


def test_telling_threads_are_counted_by_name(processes: Processes) -> None:
    child, _ = processes.ready(NAMED)
    process = until(child.pid, lambda process: len(process.threads) == 5)
    assert process.threads == (
        ("NCCL Service", 2),
        ("pt_autograd_0", 1),
        ("pt_data_pin", 1),
        ("pt_nccl_heartbt", 1),
        ("pt_nccl_watchdg", 1),
    )
    assert process.autograd_threads == ((0, 0.0),)


def test_a_pinned_process_shows_its_core_and_how_busy_its_main_thread_is(processes: Processes) -> None:
    core = max(os.sched_getaffinity(0))
    pinned, _ = processes.ready(f"os.sched_setaffinity(0, {{{core}}}); {BUSY}")
    process = until(pinned.pid, lambda process: process.cores_used and process.main_thread_cpu_percent)
    assert (process.cores_allowed, process.cores_used) == (1, (core,))
    assert process.main_thread_cpu_percent is not None
    assert 0 < process.main_thread_cpu_percent <= 150
    free, _ = processes.ready(IDLE)
    process = until(free.pid, lambda process: process.main_thread_cpu_percent is not None)
    assert process.cores_allowed == len(os.sched_getaffinity(0))
    assert process.cores_used == (), "an idle thread says nothing of where work is done"


def test_a_sleeping_process_shows_where_it_sleeps_and_a_running_one_does_not(processes: Processes) -> None:
    child, _ = processes.ready("say('ready'); time.sleep(100)")
    asleep = until(child.pid, lambda process: process.state == "S" and process.waits_in)
    assert asleep.waits_in == Path(f"/proc/{child.pid}/wchan").read_text()
    busy, _ = processes.ready(BUSY)
    running = until(busy.pid, lambda process: process.state == "R")
    assert running.waits_in is None or running.waits_in not in ("", "0")


def test_files_that_are_being_written_are_named(processes: Processes) -> None:
    folder = processes.folder
    (folder / "data").write_text("x")
    (state_dir() / "runs").mkdir(parents=True)
    code = f"""
kept += [open("{folder}/epoch-3.pt", "wb"), open("{folder}/train.log", "a"), open("{folder}/data", "rb")]
kept += [open("{folder}/data", "r+b"), open("{state_dir()}/runs/rank-0", "wb"), open("/dev/null", "w")]
kept.append(open("{folder}/gone", "wb"))
os.remove("{folder}/gone")
sys.stdout.flush(); os.dup2(os.open("{folder}/output", os.O_WRONLY | os.O_CREAT), 2)
say("ready"); idle()
"""
    child, _ = processes.ready(code)
    process = until(child.pid, lambda process: process.files_written)
    assert process.files_written == (f"{folder}/epoch-3.pt",)


def test_a_checkpoint_of_a_moment_is_seen_by_what_was_written(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    path = processes.folder / "epoch-4.pt"
    child, _ = processes.ready(
        f"""
say("ready")
while alive() and not os.path.exists("{path}.go"):
    time.sleep(0.01)
file = open("{path}", "wb")
file.write(bytes(3 << 20)); file.flush()
idle()
"""
    )
    monkeypatch.setattr(host_evidence, "reread_after_s", lambda age_s: 1e9)  # a regular look will not come
    reader = HostReader()
    assert read(reader, child.pid).files_written == ()
    Path(f"{path}.go").touch()
    process = until(child.pid, lambda process: process.files_written, reader)
    assert process.files_written == (str(path),)
    assert process.written_bytes is not None
    assert process.read_bytes is not None


def test_what_is_read_from_the_page_cache_counts_in_large_units(processes: Processes) -> None:
    path = processes.folder / "samples.jsonl"
    path.write_bytes(bytes(40 << 20))
    child, _ = processes.ready(f'len(open("{path}", "rb").read()); len(open("{path}", "rb").read()); say("ready"); idle()')
    process = until(child.pid, lambda process: process.any_read_bytes)
    assert process.any_read_bytes in (80 << 20, 96 << 20), "and Python's own modules"
    quiet, _ = processes.ready('say("ready"); idle()')
    assert until(quiet.pid, lambda process: process.any_read_bytes is not None).any_read_bytes == 0


HELPER = """
import os, time
parent = os.getppid()
file = open({path!r}, "wb"); file.write(bytes(5 << 20)); file.flush()
while os.getppid() == parent:
    time.sleep(0.05)
"""


def test_what_a_helper_process_writes_counts_for_its_parent(processes: Processes) -> None:
    path = processes.folder / "backup.pt"
    helper = HELPER.format(path=str(path))
    child, _ = processes.ready(
        f'import subprocess; kept.append(subprocess.Popen([sys.executable, "-c", {helper!r}])); say("ready"); idle()'
    )
    eventually(lambda: path.exists() and path.stat().st_size == 5 << 20, bool)
    (started,) = procfs.read_children(child.pid)
    own, its = procfs_activity.read_io(child.pid), procfs_activity.read_io(started)
    assert own is not None
    assert its is not None  # nothing, where the folder is in memory
    process = until(child.pid, lambda process: process.written_bytes == own.written_bytes + its.written_bytes)
    assert started not in [other.pid for other in HostReader().read_processes({child.pid: USE}, {})]
    assert process.any_read_bytes is not None


def test_switches_and_disk_counters_grow(processes: Processes) -> None:
    child, _ = processes.ready(f"{{}}\n{BUSY}")
    process = until(child.pid, lambda process: process.involuntary_switches)
    status = Path(f"/proc/{child.pid}/status").read_text()
    assert 0 < (process.involuntary_switches or 0) <= int(status.rpartition("nonvoluntary_ctxt_switches:")[2].split()[0])


TRAINING = """
import torch, torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self):
        return 10**6
    def __getitem__(self, index):
        until = time.monotonic() + 0.02
        while time.monotonic() < until:
            pass
        return torch.zeros(2)
dist.init_process_group("gloo", init_method=f"file://{sys.argv[-1]}", rank=0, world_size=1)
batches = iter(DataLoader(Slow(), batch_size=4, num_workers=2, multiprocessing_context="fork"))
next(batches)
say("ready")
while alive():
    next(batches)
"""


def test_a_real_dataloader_and_a_real_process_group(processes: Processes) -> None:
    script = processes.script("train.py", TRAINING)
    child = processes.start(argv=(script, str(processes.folder / "rendezvous")))
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    # Its workers never rest, but nobody knows what share of a busy machine they get between two readings.
    process = until(child.pid, lambda process: process.workers and process.workers.cpu_percent)
    workers = process.workers
    assert workers is not None
    assert (workers.count, len(workers.pids), workers.cores_allowed) == (2, 2, len(os.sched_getaffinity(0)))
    assert {int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in workers.pids} == {child.pid}
    assert 0 <= workers.blocked <= 2
    assert dict(process.threads)["pt_gloo_runloop"] >= 1


def test_no_workers_no_record(processes: Processes) -> None:
    child, _ = processes.ready("os.fork() or idle(); say('ready'); idle()")
    assert until(child.pid, lambda process: process.main_thread_cpu_percent is not None).workers is None


WORKER = """
if not os.fork():
    with open("/proc/self/comm", "w") as file:
        file.write("pt_data_worker")
    parent = os.getppid()
    idle()
    os._exit(0)
say("ready"); idle()
"""


SERVED = """
import multiprocessing
def load():
    with open("/proc/self/comm", "w") as file:
        file.write("pt_data_worker")
    time.sleep(120)
def rank(method):
    context = multiprocessing.get_context(method)
    context.Process(target=load, daemon=True).start()
    say(os.getpid()); time.sleep(120)
if __name__ == "__main__":
    if sys.argv[2:]:
        multiprocessing.get_context("forkserver").Process(target=rank, args=(sys.argv[1],)).start(); idle()
    rank(sys.argv[1])
"""


@pytest.mark.interpreter
@pytest.mark.parametrize("rank", [(), ("forked by the server",)], ids=["script", "forked"])
@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_workers_of_a_fork_server_are_those_of_the_process_that_started_it(
    processes: Processes, method: str, rank: tuple[str, ...]
) -> None:
    """From Python 3.14 on, multiprocessing has one by default."""
    child, (pid,) = processes.ready(argv=(processes.script("train.py", SERVED), method, *rank))
    process = until(int(pid), lambda process: process.workers)
    assert process.workers is not None
    assert process.workers.count == 1
    assert not rank or child.pid != int(pid)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look as somebody else")
def test_workers_of_another_user_s_fork_server_are_found(processes: Processes) -> None:
    _, (pid,) = processes.ready(argv=(processes.script("train.py", SERVED), "forkserver"))
    reader = HostReader()
    with as_nobody():
        process = until(int(pid), lambda process: process.workers, reader)
    assert process.workers is not None
    assert process.workers.count == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look as somebody else")
def test_of_another_users_process_the_public_part_is_read(processes: Processes) -> None:
    child, _ = processes.ready(WORKER)
    reader = HostReader()
    with as_nobody():
        process = until(child.pid, lambda process: process.workers, reader)
    assert (process.read_bytes, process.written_bytes, process.waits_in, process.files_written) == (None, None, None, ())
    assert {"read_bytes", "written_bytes", "waits_in", "files_written"} <= set(process.hidden)
    assert process.cores_allowed == len(os.sched_getaffinity(0))
    assert process.involuntary_switches is not None
    assert process.workers is not None
    assert process.workers.count == 1


def test_settings_are_those_of_the_list_and_no_others() -> None:
    values = {
        "OMP_NUM_THREADS": "1",
        "NCCL_P2P_DISABLE": "1",
        "MASTER_PORT": "29500",
        "WANDB_API_KEY": "secret",
        "PATH": "/bin",
    }
    found = launch_environment(values | {"TORCH_LOGS": "x" * 1000})
    assert found.settings == (("NCCL_P2P_DISABLE", "1"), ("OMP_NUM_THREADS", "1"), ("TORCH_LOGS", "x" * VALUE_MAX_CHARACTERS))
    assert found.master_port == 29500
    assert launch_environment({}).settings == ()
    assert not [name for name in SETTINGS if any(word in name for word in ("KEY", "TOKEN_", "SECRET", "PASS"))]


def test_the_mps_server_is_distinguished_from_its_control_daemon(processes: Processes) -> None:
    server = processes.folder / "nvidia-cuda-mps-server"
    control = processes.folder / "nvidia-cuda-mps-control"
    reader = HostReader()
    for path in (control, server):
        path.symlink_to(sys.executable)
    become = "import os; os.execv({0!r}, [{0!r}, '-c', 'import time; time.sleep(60)'])"
    children = [processes.start(argv=("-c", become.format(str(path)))) for path in (control, server)]
    uses = {child.pid: USE for child in children}

    def found() -> int | None:
        reader.read_processes(uses, {})
        return reader.read_host("nvml").mps_server_pid

    assert eventually(found, bool) == children[1].pid
    reader.read_processes({}, {})
    assert reader.read_host("nvml").mps_server_pid is None


def test_this_machine_is_read() -> None:
    found = HostReader().read_host("nvml")
    assert found.memory_available_bytes is not None
    assert found.memory_total_bytes is not None
    assert 0 < found.memory_available_bytes <= found.memory_total_bytes
    shm = os.statvfs("/dev/shm")
    assert found.shm_total_bytes == shm.f_blocks * shm.f_frsize
    assert found.shm_used_bytes is not None
    assert found.shm_used_bytes <= found.shm_total_bytes
    for value in (found.cpu_pressure_percent, found.io_pressure_percent, found.memory_pressure_percent):
        assert value is None or 0 <= value <= 100
    assert found.iommu_enabled in (True, False, None)


# -- made-up trees, of what this machine does not have -----------------------------------------------------------


class Tree:
    """A made-up "/" in which files can be written."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)

    def write(self, path: str, text: str) -> None:
        file = Path(self.root) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "root")


def v2(tree: Tree, path: str = "/user.slice/user-7.slice/session-3.scope") -> None:
    tree.write("proc/self/cgroup", f"0::{path}\n")
    tree.write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n")


def test_a_quota_of_version_2_and_how_often_it_is_hit(tree: Tree) -> None:
    v2(tree, "/job/step")
    tree.write("sys/fs/cgroup/job/cpu.max", "400000 100000\n")
    tree.write("sys/fs/cgroup/job/step/cpu.max", "max 100000\n")
    tree.write("sys/fs/cgroup/job/cpu.stat", "usage_usec 5\nnr_periods 100\nnr_throttled 10\n")
    reader = MachineReader(tree.root)
    first = reader.read(0.0)
    assert (first.cpu_quota, first.cpu_throttled_share) == (4.0, None)
    tree.write("sys/fs/cgroup/job/cpu.stat", "usage_usec 9\nnr_periods 120\nnr_throttled 25\n")
    assert reader.read(0.5).cpu_throttled_share is None, "too soon for another look"
    assert reader.read(10.0).cpu_throttled_share == 0.75
    assert reader.read(20.0).cpu_throttled_share is None, "no period passed"


def test_a_quota_of_version_1(tree: Tree) -> None:
    tree.write("proc/self/cgroup", "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/\n")
    tree.write("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "150000\n")
    tree.write("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n")
    tree.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n")
    tree.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
    tree.write("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.stat", "nr_periods 10\nnr_throttled 4\nthrottled_time 9\n")
    tree.write("sys/fs/cgroup/memory/docker/abc/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert Cgroup(tree.root).read_cpu() == (1.5, 10, 4)
    assert Cgroup(tree.root).read_oom_kills() == 2


def test_inside_a_container_what_is_mounted_is_its_own(tree: Tree) -> None:
    tree.write("proc/self/cgroup", "5:cpu:/docker/of-the-host\n")
    tree.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n")
    tree.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert Cgroup(tree.root).read_cpu() == (2.0, None, None)
    tree.write("proc/self/cgroup", "0::/../../elsewhere\n")
    tree.write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
    tree.write("sys/fs/cgroup/cpu.max", "300000 100000\n")
    tree.write("sys/fs/cgroup/memory.events", "oom 1\noom_kill 1\n")
    assert Cgroup(tree.root).read_cpu() == (3.0, None, None)
    assert Cgroup(tree.root).read_oom_kills() == 1


def test_no_limit_means_no_quota(tree: Tree) -> None:
    v2(tree)
    tree.write("sys/fs/cgroup/user.slice/user-7.slice/session-3.scope/cpu.max", "max 100000\n")
    assert Cgroup(tree.root).read_cpu() is None
    assert MachineReader(tree.root).read(0.0).cpu_quota is None
    assert parse_cgroup("nonsense\n") == {}


def test_kills_of_the_user_count_in_every_session(tree: Tree) -> None:
    v2(tree)
    tree.write("sys/fs/cgroup/user.slice/user-7.slice/session-3.scope/memory.events", "oom_kill 0\n")
    tree.write("sys/fs/cgroup/user.slice/user-7.slice/memory.events", "low 0\noom_kill 3\noom_group_kill 0\n")
    assert MachineReader(tree.root).read(0.0).oom_kills == 3


def test_without_a_group_that_counts_kills_are_those_since_boot(tree: Tree) -> None:
    v2(tree, "/")
    tree.write("proc/vmstat", "nr_free_pages 5\noom_kill 6\noom_killer 9\n")
    assert MachineReader(tree.root).read(0.0).oom_kills == 6


def test_pressure_the_iommu_and_what_is_missing(tree: Tree) -> None:
    tree.write(
        "proc/pressure/cpu", "some avg10=12.50 avg60=1.00 avg300=0.10 total=99\nfull avg10=0.00 avg60=0 avg300=0 total=0\n"
    )
    tree.write("proc/pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n")
    tree.write("sys/class/iommu/dmar0/x", "")
    found = MachineReader(tree.root).read(0.0)
    assert (found.cpu_pressure_percent, found.io_pressure_percent, found.memory_pressure_percent) == (12.5, 0.0, None)
    assert found.iommu_enabled is True
    assert (found.shm_total_bytes, found.shm_used_bytes, found.oom_kills) == (None, None, None)
    assert parse_pressure("full avg10=3.00\n") is None
    other = Tree(Path(tree.root) / "other")
    assert MachineReader(other.root).read(0.0).iommu_enabled is None
    other.write("sys/class/net/x", "")
    assert MachineReader(other.root).read(0.0).iommu_enabled is False


def test_lists_of_cores_and_counters_as_the_kernel_writes_them() -> None:
    assert parse_cpu_list("0-3,8,10-11\n") == (0, 1, 2, 3, 8, 10, 11)
    assert parse_cpu_list("\n") == ()
    assert parse_cpu_list("all") == ()
    text = b"rchar: 9\nwchar: 7\nsyscr: 1\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n"
    assert parse_io(text) == (4096, 8192, 7, 9)
    own = read_open_files(os.getpid())
    assert own is not None
    assert own.nvidia in (True, False)
