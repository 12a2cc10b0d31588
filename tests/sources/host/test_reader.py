"""What the host reader says of real processes."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gputop.snapshot import Ancestor, DeviceUse, Process
from gputop.sources.host import pid_namespace, process_cache, procfs, procfs_activity, waiting_ranks
from gputop.sources.host import reader as host_reader
from gputop.sources.host import threads as host_threads
from gputop.sources.host import unlisted as host_unlisted
from gputop.sources.host.details import details_of
from gputop.sources.host.environ import MASK, environment_of, mask_secret
from gputop.sources.host.launchers import launcher_name
from gputop.sources.host.pid_namespace import namespace_note
from gputop.sources.host.process_cache import StatFiles
from gputop.sources.host.reader import HostReader
from gputop.sources.python_stacks import joining
from tests.real_processes import BUSY, IDLE, PRELUDE, Processes, as_nobody, eventually, see_only_own_processes

USE = (DeviceUse("GPU-1", 2**30, 50.0, "C"),)


@pytest.fixture(autouse=True)
def only_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    see_only_own_processes(monkeypatch)


def read(reader: HostReader, pid: int, run: tuple[str, int] | None = None) -> Process:
    """Read one process that uses a device."""
    found = {process.pid: process for process in reader.read_processes({pid: USE}, {pid: run} if run else {})}
    return found[pid]


def test_a_rank_is_described_in_full(processes: Processes) -> None:
    environment = {
        "RANK": "5",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "8",
        "LOCAL_WORLD_SIZE": "4",
        "CUDA_VISIBLE_DEVICES": "2,3",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "TORCHELASTIC_RUN_ID": "none",
        "GPUTOP_RUN_ID": "run-7",
        "GPUTOP_JOB_ID": "job-3",
        "GPUTOP_VIRTUAL_DEVICES": "0,1",
    }
    before = time.time()
    child, _ = processes.ready(IDLE, **environment)
    process = read(HostReader(), child.pid)
    assert process.devices == USE
    assert (process.ppid, process.uid, process.in_namespace, process.hidden) == (os.getpid(), os.getuid(), True, ())
    assert process.command == (sys.executable, "-c", PRELUDE + IDLE)
    assert process.name is not None
    assert process.name.startswith("python")
    assert process.state in ("S", "R")
    assert process.user
    assert process.memory_rss_bytes is not None
    assert process.memory_rss_bytes > 2**20
    assert process.started_at is not None
    assert before - 1 < process.started_at < time.time() + 1
    launched = process.environment
    assert launched is not None
    assert (launched.rank, launched.local_rank, launched.world_size, launched.local_world_size) == (5, 1, 8, 4)
    assert (launched.cuda_visible_devices, launched.cuda_device_order) == ("2,3", "PCI_BUS_ID")
    assert (launched.torchelastic_run_id, launched.gputop_run_id, launched.gputop_job_id) == ("none", "run-7", "job-3")
    assert launched.virtual_devices == "0,1"
    assert (process.torch_mapped, process.torch_cuda_mapped, process.nvidia_open) == (True, False, False)
    assert (process.run_id, process.rank) == ("run-7", 5)
    assert process.ancestors[0].pid == os.getpid()
    assert (process.launcher, process.cpu_percent) == (None, None)


def test_the_journal_decides_run_and_rank(processes: Processes) -> None:
    child, _ = processes.ready(IDLE, RANK="5", GPUTOP_RUN_ID="run-7")
    process = read(HostReader(), child.pid, ("run-8", 2))
    assert (process.run_id, process.rank) == ("run-8", 2)


def test_cpu_share_is_unknown_at_first_and_then_measured(processes: Processes) -> None:
    busy, _ = processes.ready(BUSY)
    idle, _ = processes.ready(IDLE)
    reader = HostReader()
    uses = {busy.pid: USE, idle.pid: USE}
    assert [process.cpu_percent for process in reader.read_processes(uses, {})] == [None, None]
    shares = eventually(
        lambda: {process.pid: process.cpu_percent for process in reader.read_processes(uses, {})},
        lambda found: (found[busy.pid] or 0) > (found[idle.pid] or 0) + 15,
    )
    assert shares[idle.pid] is not None


def test_readings_in_quick_succession_keep_the_share(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    child, _ = processes.ready(BUSY)
    reader = HostReader()
    read(reader, child.pid)
    share = eventually(lambda: read(reader, child.pid).cpu_percent, lambda found: found)
    monkeypatch.setattr(procfs, "MIN_PERIOD_S", 1e9)
    assert read(reader, child.pid).cpu_percent == share


def test_what_does_not_change_is_the_same_in_the_next_reading(processes: Processes) -> None:
    child, _ = processes.ready(IDLE)
    reader = HostReader()
    first, second = read(reader, child.pid), read(reader, child.pid)
    assert (first.started_at, first.environment, first.command) == (second.started_at, second.environment, second.command)


@pytest.mark.parametrize("name", ["torchrun", "deepspeed", "accelerate"])
def test_the_launcher_is_found_above_the_ranks(processes: Processes, name: str) -> None:
    spawn = """
import subprocess
child = subprocess.Popen([sys.executable, "-c", sys.argv[-1]], stdout=subprocess.DEVNULL)
say(child.pid)
try:
    idle()
finally:
    child.kill()
"""
    script = processes.script(name, spawn)
    launcher, words = processes.ready(argv=(script, "launch", "--nproc-per-node=1", PRELUDE + IDLE))
    process = read(HostReader(), int(words[0]))
    assert process.launcher == Ancestor(launcher.pid, name)
    assert process.ancestors[:2] == (Ancestor(launcher.pid, name), Ancestor(os.getpid(), process.ancestors[1].name))
    assert process.ancestors[-1].pid == 1


@pytest.mark.parametrize(
    ("command", "launcher"),
    [
        (("/opt/venv/bin/python", "/opt/venv/bin/torchrun", "--nproc-per-node=4", "train.py"), "torchrun"),
        (("python3.11", "-m", "torch.distributed.run", "train.py"), "torchrun"),
        (("python", "-um", "torch.distributed.launch", "train.py"), "torchrun"),
        (("python", "-u", "-X", "dev", "-m", "torch.distributed.run", "train.py"), "torchrun"),
        (("python", "-Werror", "-m", "torch.distributed.run"), "torchrun"),
        (("python", "/usr/lib/python3/dist-packages/torch/distributed/run.py", "train.py"), "torchrun"),
        (("/opt/venv/bin/python", "/opt/venv/bin/accelerate", "launch", "train.py"), "accelerate"),
        (("/opt/venv/bin/python", "/opt/venv/bin/accelerate", "config"), None),
        (("/opt/venv/bin/python", "/opt/venv/bin/accelerate-launch", "train.py"), "accelerate"),
        (("python", "-m", "accelerate.commands.launch", "train.py"), "accelerate"),
        (("python", "-m", "accelerate.commands.accelerate_cli", "launch", "train.py"), "accelerate"),
        (("python", "-u", "-m", "deepspeed.launcher.launch", "--world_info=e30=", "train.py"), "deepspeed"),
        (("python", "/opt/venv/bin/deepspeed", "train.py"), "deepspeed"),
        (("srun", "-n", "8", "python", "train.py"), "srun"),
        (("slurmstepd: [4242.0]",), "srun"),
        (("slurmstepd: [4242.batch]",), None),
        (("/usr/bin/mpirun", "-np", "4", "python", "train.py"), "mpirun"),
        (("orted", "--hnp"), "mpirun"),
        (("python", "train.py", "torchrun"), None),
        (("python", "-c", "import x", "-m", "torch.distributed.run"), None),
        (("python", "-m"), None),
        (("vim", "torchrun"), None),
        (("bash",), None),
        (("",), None),
        ((), None),
        (None, None),
    ],
)
def test_launchers_are_recognized_by_their_command(command: tuple[str, ...] | None, launcher: str | None) -> None:
    assert launcher_name(command) == launcher


def test_a_rank_that_ends_is_no_longer_listed(processes: Processes) -> None:
    child, _ = processes.ready(IDLE)
    reader = HostReader()
    assert [process.pid for process in reader.read_processes({}, {child.pid: ("run", 0)})] == [child.pid]
    child.kill()
    child.wait()
    assert reader.read_processes({}, {child.pid: ("run", 0)}) == ()


def test_what_the_driver_still_lists_after_its_end_keeps_its_name(processes: Processes) -> None:
    child, _ = processes.ready(IDLE)
    reader = HostReader()
    alive = read(reader, child.pid)
    child.kill()
    child.wait()
    gone = read(reader, child.pid)
    assert (gone.state, gone.in_namespace, gone.devices) == ("X", True, USE)
    assert (gone.user, gone.command, gone.started_at) == (alive.user, alive.command, alive.started_at)
    assert (gone.cpu_percent, gone.memory_rss_bytes) == (None, None)


def test_a_zombie_keeps_what_was_known_of_its_life(processes: Processes) -> None:
    child, _ = processes.ready(IDLE, RANK="3")
    reader = HostReader()
    alive = read(reader, child.pid)
    child.kill()
    zombie = eventually(lambda: read(reader, child.pid), lambda process: process.state == "Z")
    assert (zombie.environment, zombie.command, zombie.rank) == (alive.environment, alive.command, 3)
    assert zombie.hidden == ()


def test_a_zombie_at_first_sight_has_a_user_and_no_more(processes: Processes) -> None:
    child, _ = processes.ready(IDLE)
    child.kill()
    zombie = eventually(lambda: read(HostReader(), child.pid), lambda process: process.state == "Z")
    assert zombie.uid == os.getuid()
    assert (zombie.environment, zombie.command, zombie.torch_mapped, zombie.hidden) == (None, None, None, ())


def test_a_pid_of_another_namespace_has_only_its_devices() -> None:
    foreign = 2**22 + 7  # above the kernel's largest PID
    process = read(HostReader(), foreign)
    assert process == Process(pid=foreign, devices=USE, in_namespace=False)


def test_the_namespace_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = Process(pid=1)
    outside = [Process(pid=pid, in_namespace=False) for pid in range(100, 106)]
    assert namespace_note([inside]) is None
    monkeypatch.setattr(pid_namespace, "pid_namespace_is_initial", lambda: False)
    note = namespace_note([inside, *outside])
    assert note is not None
    assert note.code == "no_permission"
    assert "6 processes (PIDs 100, 101, 102, 103 …)" in note.message
    assert "--pid=host" in note.hint
    monkeypatch.setattr(pid_namespace, "pid_namespace_is_initial", lambda: True)
    note = namespace_note(outside[:1])
    assert note is not None
    assert note.code == "other"
    assert "--pid=host" not in note.hint


def test_another_users_process_says_what_it_hides(processes: Processes) -> None:
    if os.geteuid() == 0:
        child, _ = processes.ready(IDLE, RANK="1")
        with as_nobody():
            # Of a process that runs at this moment, nobody asks what it waits for.
            process = eventually(lambda: read(HostReader(), child.pid), lambda process: process.state == "S")
        assert process.uid == 0
        assert process.command == (sys.executable, "-c", PRELUDE + IDLE)
    else:
        if os.stat("/proc/1").st_uid == os.geteuid():
            pytest.skip("no other user's process here")
        process = read(HostReader(), 1)
    assert process.hidden == (
        *(
            "any_read_bytes",
            "environment",
            "files_written",
            "nvidia_open",
            "read_bytes",
            "torch_cuda_mapped",
            "torch_mapped",
            "waits_for",
        ),
        *("waits_in", "written_bytes"),
    )
    assert not [name for name in process.hidden if getattr(process, name)]
    assert [getattr(process, name) for name in ("nvidia_open", "read_bytes", "waits_for", "waits_in")] == [None] * 4
    assert process.in_namespace
    assert process.memory_rss_bytes is not None
    assert process.user is not None


def test_where_proc_is_closed_all_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(pid: int, thread_id: int | None = None) -> None:
        raise PermissionError

    monkeypatch.setattr(procfs, "read_stat_line", closed)
    process = read(HostReader(), 4242, ("run", 1))
    assert process.in_namespace
    assert (process.run_id, process.rank) == ("run", 1)
    unknown = {"devices", "pid", "hidden", "in_namespace", "ancestors", "launcher", "autograd_threads", "run_id", "rank"}
    assert set(process.hidden) == set(Process.__dataclass_fields__) - unknown


def test_an_exec_brings_a_new_environment_and_command(processes: Processes) -> None:
    become = f"""
say("ready")
sys.stdin
time.sleep(0.5)
os.execve(sys.executable, [sys.executable, "-c", {PRELUDE + IDLE!r}, "second"], dict(os.environ, RANK="9"))
"""
    child, _ = processes.ready(become, RANK="4")
    reader = HostReader()
    assert read(reader, child.pid).rank == 4
    process = eventually(lambda: read(reader, child.pid), lambda process: process.rank == 9)
    assert process.command is not None
    assert process.command[-1] == "second"


def test_a_pid_that_comes_round_again_inherits_nothing(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = processes.ready(BUSY, RANK="4")
    second, _ = processes.ready(IDLE, RANK="6", torch=False)
    reader = HostReader()
    read(reader, first.pid)
    eventually(lambda: read(reader, first.pid), lambda process: process.cpu_percent)
    true_line = procfs.read_stat_line(second.pid)
    assert true_line is not None
    rest = true_line.removeprefix(b"%d " % second.pid)
    for name in ("read_environ", "read_command", "read_torch_maps"):
        reads = getattr(procfs, name)
        monkeypatch.setattr(procfs, name, lambda pid, reads=reads: reads(second.pid))
    monkeypatch.setattr(StatFiles, "read_line", lambda files, pid, *, again: b"%d " % pid + rest)
    process = read(reader, first.pid)
    assert (process.rank, process.torch_mapped, process.cpu_percent) == (6, False, None)


def test_pytorch_is_seen_when_it_comes_later(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_cache, "reread_after_s", lambda age_s: 0.0)
    processes.library("libtorch_cuda.so")
    go_on = processes.folder / "go on"
    late = f"""
say("ready")
while not os.path.exists({str(go_on)!r}):
    time.sleep(0.01)
with open({str(processes.folder / "libtorch_cuda.so")!r}, "rb") as file:
    kept.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
idle()
"""
    child, _ = processes.ready(late, torch=False)
    reader = HostReader()
    assert read(reader, child.pid).torch_mapped is False
    go_on.touch()
    process = eventually(lambda: read(reader, child.pid), lambda process: process.torch_mapped)
    assert process.torch_cuda_mapped is True


def test_open_driver_files_are_seen(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    file = processes.folder / "nvidia0"
    file.write_text("")
    child, _ = processes.ready(f"kept.append(open({str(file)!r})); {IDLE}")
    other, _ = processes.ready(IDLE)
    monkeypatch.setattr(procfs_activity, "NVIDIA_FILES", str(processes.folder / "nvidia"))
    reader = HostReader()
    assert (read(reader, child.pid).nvidia_open, read(reader, other.pid).nvidia_open) == (True, False)


def test_autograd_threads_show_the_devices_that_backward_runs_on(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_threads, "SCAN_S", 0.0)
    threads = """
def named(name, run):
    def body():
        with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as file:
            file.write(name)
        started.wait()
        run()
    threading.Thread(target=body).start()
started = threading.Barrier(4)
named("pt_autograd_0", work)
named("pt_autograd_1", idle)
named("pt_data_pin", idle)
started.wait()
say("ready")
idle()
"""
    child, _ = processes.ready(threads)
    reader = HostReader()
    found = eventually(
        lambda: read(reader, child.pid).autograd_threads,
        lambda threads: len(threads) == 2 and threads[0][1] > threads[1][1] + 0.1,
    )
    assert [index for index, _ in found] == [0, 1]


@pytest.mark.parametrize(
    ("name", "index"), [("pt_autograd_12", 12), ("pt_autograd_", None), ("python", None), ("pt_autograd_x", None)]
)
def test_autograd_threads_are_recognized_by_name(name: str, index: int | None) -> None:
    assert host_threads.autograd_index(name) == index


def watch_training(monkeypatch: pytest.MonkeyPatch) -> HostReader:
    """Return a reader that has seen all processes once, and now takes little for training: other tests run beside this one."""
    monkeypatch.setattr(host_unlisted, "SCAN_S", 0.0)
    monkeypatch.setattr(host_unlisted, "TRAINING_AGE_S", 0.0)
    monkeypatch.setattr(host_unlisted, "TRAINING_CPU_PERCENT", 1e9)
    reader = HostReader()
    reader.read_processes({}, {})
    monkeypatch.setattr(host_unlisted, "TRAINING_CPU_PERCENT", 8.0)
    return reader


def listed(reader: HostReader) -> set[int]:
    return {process.pid for process in reader.read_processes({}, {})}


def test_training_on_the_cpu_is_listed_and_other_work_is_not(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    fork = "child = os.fork()\nif child: say(child)\nparent = os.getppid()\nwork()"
    training, words = processes.ready(fork)
    busy, _ = processes.ready(BUSY, torch=False)
    idle, _ = processes.ready(IDLE)
    reader = watch_training(monkeypatch)
    # On a busy machine, the worker may get a share of the CPU before its parent does, and counts as training until it has.
    monkeypatch.setattr(host_unlisted, "TRAINING_LINGER_S", 0.5)
    monkeypatch.setattr(host_unlisted, "TRAINING_LINGER_MAX_S", 0.5)
    time.sleep(0.3)
    worker = int(words[0])
    found = eventually(lambda: listed(reader), lambda found: training.pid in found and worker not in found)
    assert not {busy.pid, idle.pid} & found
    training.kill()
    training.wait()
    assert training.pid not in listed(reader)


def test_training_on_a_crowded_core_is_listed(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four processes on one core use a quarter of it each, less than one alone must use to look like training."""
    pin = f"os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})\n"
    crowd = {processes.ready(pin + BUSY)[0].pid for _ in range(4)}
    idle, _ = processes.ready(pin + IDLE)
    reader = watch_training(monkeypatch)
    monkeypatch.setattr(host_unlisted, "TRAINING_CPU_PERCENT", 50.0)
    monkeypatch.setattr(host_unlisted, "CROWDED_CPU_PERCENT", 2.0)
    monkeypatch.setattr(host_unlisted, "SCAN_S", 1.0)
    assert idle.pid not in eventually(lambda: listed(reader), lambda found: crowd <= found)


def test_ranks_that_wait_are_listed_and_what_they_start_is_not(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environment = {"RANK": "0", "WORLD_SIZE": "2"}
    child = "child = os.fork()\nif child: say(child)\nparent = os.getppid()\nidle()"
    waiting, words = processes.ready(child, **environment)
    without_torch, _ = processes.ready(IDLE, torch=False, **environment)
    alone, _ = processes.ready(IDLE)
    starts = f"import subprocess\nsubprocess.Popen([sys.executable, '-c', {PRELUDE + IDLE!r}])\nidle()"
    script = processes.script("mpirun", starts)
    launcher, _ = processes.ready(argv=(script,), **environment)
    # Before the reader begins: a process that has just started counts as busy, and would be listed for that.
    started_by_us, _ = processes.ready(IDLE, GPUTOP_LAUNCH_ID="20261123-1", GPUTOP_DIR=os.environ["GPUTOP_DIR"])
    started_elsewhere, _ = processes.ready(IDLE, GPUTOP_LAUNCH_ID="20261123-1", GPUTOP_DIR=str(tmp_path / "elsewhere"))
    reader = watch_training(monkeypatch)
    below = int(Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()[0])
    found = eventually(lambda: listed(reader), lambda found: {waiting.pid, below, started_by_us.pid} <= found)
    assert not {int(words[0]), without_torch.pid, alone.pid, started_elsewhere.pid, launcher.pid} & found
    # A rank on a GPU that is not shown does not wait.
    shown = {process.pid for process in reader.read_processes({}, {}, elsewhere={waiting.pid})}
    assert (waiting.pid in shown, below in shown) == (False, True)


def test_siblings_of_a_spawned_rank_are_listed_although_they_wait(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawned = f"# multiprocessing.spawn\n{PRELUDE}{IDLE}"
    code = f"import subprocess\nsay(*[subprocess.Popen([sys.executable, '-c', {spawned!r}]).pid for _ in 'ab'])\nidle()"
    parent, words = processes.ready(code)
    on_gpu, waits = map(int, words)
    reader = watch_training(monkeypatch)
    found = eventually(lambda: {p.pid for p in reader.read_processes({on_gpu: USE}, {})}, lambda found: waits in found)
    assert parent.pid not in found
    # A process that has just started counts as busy, and would be listed for that.
    monkeypatch.setattr(host_unlisted, "TRAINING_CPU_PERCENT", 1e9)
    assert listed(HostReader()).isdisjoint({on_gpu, waits, parent.pid})


OF_ITS_OWN = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); "
"""A child's own listening socket, as torch's store on rank 0 has one."""


@pytest.mark.parametrize(
    ("first", "second", "parent_listens", "meet"),
    [
        (OF_ITS_OWN, "", False, True),
        ("", "", False, False),
        (OF_ITS_OWN, OF_ITS_OWN, False, False),
        ("", "", True, False),
    ],
    ids=["one listens", "a pool", "two servers", "workers of a server"],
)
def test_spawned_processes_wait_for_each_other_if_just_one_listens(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, first: str, second: str, parent_listens: bool, meet: bool
) -> None:
    """The script itself sets RANK and WORLD_SIZE, as that of torch's tutorial does."""
    monkeypatch.setattr(waiting_ranks, "MEETING_AGE_MIN_S", 0.0)
    children = [f"# multiprocessing.spawn\n{PRELUDE}{own}\n{IDLE}" for own in (first, second)]
    starts = "; ".join(
        f"{name} = subprocess.Popen([sys.executable, '-c', {code!r}], stdout=subprocess.PIPE, close_fds=False)"
        for name, code in zip("ab", children, strict=True)
    )
    shared = f"{OF_ITS_OWN}s.set_inheritable(True)\n" if parent_listens else ""
    ready = "a.stdout.readline(); b.stdout.readline(); say(a.pid, b.pid)"
    _, words = processes.ready(f"import subprocess\n{shared}{starts}\n{ready}\nidle()")
    pids = set(map(int, words))
    monkeypatch.setattr(host_unlisted, "TRAINING_CPU_PERCENT", 1e9)
    monkeypatch.setattr(host_unlisted, "SCAN_S", 0.0)
    reader = HostReader()
    shown = {process.pid: process for process in reader.read_processes({}, {}) if process.pid in pids}
    assert set(shown) == (pids if meet else set())
    assert all(process.in_rendezvous for process in shown.values())
    # A listed parent, as on virtual GPUs, does not hide them.
    parent = int(Path(f"/proc/{min(pids)}/stat").read_text().split()[3])
    assert pids <= {process.pid for process in reader.read_processes({parent: USE}, {})} or not meet
    # What computes is listed for that, and has met the others as well.
    [on_gpu] = [process for process in reader.read_processes({min(pids): USE}, {}) if process.pid == min(pids)]
    assert on_gpu.in_rendezvous is meet


JOINS = "exec(compile('def {}(): {}', '/x/torch/distributed/distributed_c10d.py', 'exec')); {}()"


@pytest.mark.parametrize(
    ("second", "meet"),
    [
        ("init_process_group", True),
        ("destroy_process_group", False),
        ("barrier", False),
    ],
)
def test_spawned_processes_wait_for_each_other_if_the_stacks_of_all_show_it(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, second: str, meet: bool
) -> None:
    """Ranks that look for each other in files have no sockets, and with gloo all of them listen."""
    monkeypatch.setattr(waiting_ranks, "MEETING_AGE_MIN_S", 0.0)
    monkeypatch.setattr(joining, "FIRST_AGAIN_S", 0.0)
    children = [
        f"# multiprocessing.spawn\n{PRELUDE}{OF_ITS_OWN}\n{JOINS.format(name, IDLE.replace(chr(39), chr(34)), name)}"
        for name in ("init_process_group", second)
    ]
    starts = "; ".join(
        f"{name} = subprocess.Popen([sys.executable, '-c', {code!r}], stdout=subprocess.PIPE)"
        for name, code in zip("ab", children, strict=True)
    )
    ready = "a.stdout.readline(); b.stdout.readline(); say(a.pid, b.pid)"
    _, words = processes.ready(f"import subprocess\n{starts}\n{ready}\nidle()")
    pids = set(map(int, words))
    monkeypatch.setattr(host_unlisted, "TRAINING_CPU_PERCENT", 1e9)
    monkeypatch.setattr(host_unlisted, "SCAN_S", 0.0)
    reader = HostReader()

    def shown() -> set[int]:
        return {item.pid for item in reader.read_processes({}, {}) if item.pid in pids and item.in_rendezvous}

    if meet:
        assert eventually(shown, lambda found: found == pids) == pids
    else:
        assert not any(shown() for _ in range(5))


def test_stacks_of_spawned_processes_are_read_ever_more_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def reads(pid: int) -> bool:
        read.append(pid)
        return False

    monkeypatch.setattr(joining, "_joins", reads)
    looks = joining.Joining()
    times: list[int] = []
    for now in range(100):
        looks.all_join(1, [7], now)
        times += [now] * (len(read) - len(times))
    assert times == [0, 5, 15, 35, 75]
    looks.forget_all_but(())
    looks.all_join(1, [7], 100.0)
    assert len(read) == len(times) + 1


def test_training_on_the_cpu_stays_listed_while_it_pauses(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    child, _ = processes.ready(BUSY)
    reader = watch_training(monkeypatch)
    eventually(lambda: listed(reader), lambda found: child.pid in found)
    monkeypatch.setattr(host_unlisted, "TRAINING_CPU_PERCENT", 1e9)
    assert child.pid in listed(reader)


def test_training_on_the_cpu_leaves_the_list_when_it_rests_long(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    child, _ = processes.ready(BUSY)
    monkeypatch.setattr(host_unlisted, "TRAINING_LINGER_MAX_S", 0.0)
    reader = watch_training(monkeypatch)
    eventually(lambda: listed(reader), lambda found: child.pid in found)
    monkeypatch.setattr(host_unlisted, "TRAINING_CPU_PERCENT", 1e9)
    assert child.pid not in listed(reader)


def test_a_training_on_the_cpu_that_a_signal_stopped_is_listed(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped, _ = processes.ready(BUSY)
    idle, _ = processes.ready(IDLE)
    idle.send_signal(signal.SIGSTOP)
    stat = procfs.read_stat(idle.pid)
    assert stat is not None
    eventually(lambda: procfs.read_stat(stopped.pid), lambda busy: busy is not None and busy.cpu_ticks > stat.cpu_ticks + 10)
    stopped.send_signal(signal.SIGSTOP)  # takes effect once the process is given a core
    eventually(lambda: procfs.read_stat(stopped.pid), lambda now: now is not None and now.state == "T")
    monkeypatch.setattr(host_unlisted, "TRAINING_CPU_PERCENT", 1e9)
    monkeypatch.setattr(host_unlisted, "TRAINING_AGE_S", (stat.cpu_ticks + 5) / procfs.TICKS_PER_S)
    assert listed(HostReader()) & {stopped.pid, idle.pid} == {stopped.pid}


def test_a_tool_is_no_training(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    training, _ = processes.ready(BUSY)
    tests, _ = processes.ready(argv=(processes.script("pytest", BUSY),))
    reader = watch_training(monkeypatch)
    assert tests.pid not in eventually(lambda: listed(reader), lambda found: training.pid in found)
    time.sleep(0.3)
    assert tests.pid not in listed(reader)


def test_the_machine() -> None:
    reader = HostReader()
    first = reader.read_host("nvml")
    assert (first.source, first.cpu_percent, first.cpu_count) == ("nvml", None, os.cpu_count())
    assert first.hostname == os.uname().nodename
    assert first.memory_total_bytes is not None
    assert first.memory_used_bytes is not None
    assert 0 < first.memory_used_bytes < first.memory_total_bytes
    assert first.load_1m is not None
    assert first.boot_id is not None
    assert len(first.boot_id) == 36
    percent = eventually(lambda: reader.read_host("nvml").cpu_percent, lambda found: found is not None)
    assert percent is not None
    assert 0 <= percent <= 100
    own = reader.own_memory_bytes()
    assert own is not None
    assert own > 2**20


def test_secrets_in_an_environment_are_masked(processes: Processes) -> None:
    child, _ = processes.ready(
        IDLE,
        WANDB_API_KEY="abc123",
        HF_TOKEN="hf_x",
        DB_PASSWORD="x",
        AWS_SECRET_ACCESS_KEY="x",
        HTTPS_PROXY="http://ada:swordfish@proxy:3128",
        RANK="0",
        EMPTY_TOKEN="",
    )
    found = environment_of(child.pid)
    assert found is not None
    assert [found[name] for name in ("WANDB_API_KEY", "HF_TOKEN", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY")] == [MASK] * 4
    assert found["HTTPS_PROXY"] == f"http://ada:{MASK}@proxy:3128"
    assert (found["RANK"], found["EMPTY_TOKEN"]) == ("0", "")
    assert list(found) == sorted(found)
    child.kill()
    child.wait()
    assert environment_of(child.pid) is None


@pytest.mark.parametrize("name", ["PWD", "PATH", "CUDA_VISIBLE_DEVICES", "MASTER_ADDR", "SSH_AUTH_SOCK", "TORCHELASTIC_RUN_ID"])
def test_variables_that_are_not_secret_stay(name: str) -> None:
    assert mask_secret(name, "/some/value") == "/some/value"


def test_details_are_read_on_demand() -> None:
    code = "import os, sys, threading, time; os.chdir('/'); os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    code += "threading.Thread(target=time.sleep, args=(600,), daemon=True).start(); print(flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        found = details_of(process.pid)
        assert found is not None
        assert found.threads == 2
        assert found.cpu_affinity == (min(os.sched_getaffinity(0)),)
        assert found.working_directory == "/"
        assert found.read_bytes is not None
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert details_of(process.pid) is None


def test_of_very_many_processes_what_takes_long_is_read_in_turns(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tracked run's ranks keep their pace."""
    monkeypatch.setattr(host_reader, "CROWD", 1)
    pids = [processes.ready(IDLE)[0].pid for _ in range(3)]
    reads: list[tuple[str, int]] = []

    def counted(what: str, read: Callable[[int], Any]) -> Callable[[int], Any]:
        return lambda pid: (reads.append((what, pid)), read(pid))[1]

    monkeypatch.setattr(procfs_activity, "read_io", counted("io", procfs_activity.read_io))
    monkeypatch.setattr(procfs, "list_threads", counted("threads", procfs.list_threads))
    clock = itertools.count(1000.0)
    # The reader's clock alone: another thread of the test process would move it on.
    monkeypatch.setattr(host_reader, "time", SimpleNamespace(**{**vars(time), "monotonic": lambda: next(clock)}))
    reader = HostReader()
    for _ in range(12):
        found = reader.read_processes(dict.fromkeys(pids, USE), {pids[0]: ("run", 0)})
    monkeypatch.undo()
    assert {process.state for process in found} <= {"S", "R"}, "they wake 20 times a second"
    assert [Counter(reads)["io", pid] for pid in pids] == [6, 2, 2], "every 2 s, and every 6 s"
    assert [Counter(reads)["threads", pid] for pid in pids] == [6, 2, 2]
