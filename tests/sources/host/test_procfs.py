"""The parsers of /proc, on text that the kernel writes and on text that a process makes it write."""

from __future__ import annotations

import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.sources.host import procfs, procfs_activity
from gputop.sources.host.process_cache import launch_environment, reread_after_s

ID = "28dec95b48532d4fd510ab9912acc8e0aa3d28dec95b48532d4fd510ab9912ac"
AFTER_NAME = (
    b" S 17 5901 2373 0 -1 4194304 97 0 0 0 250 50 0 0 20 0 7 0 95852 3133440 381 18446744073709551615 1 2 140724"
    b" 0 0 0 0 0 0 0 0 0 17 5 0 0 0 0 0\n"
)


def test_a_stat_line_gives_times_memory_and_parent() -> None:
    stat = procfs.parse_stat(b"5903 (python)" + AFTER_NAME)
    assert stat == procfs.Stat(5903, "python", "S", 17, 300, 7, 95852, 381 * procfs.PAGE_BYTES, 140724, 5)


@given(st.binary(max_size=40))
def test_no_name_of_a_process_breaks_the_line(name: bytes) -> None:
    stat = procfs.parse_stat(b"12 (" + name + b")" + AFTER_NAME)
    assert stat.comm == name.decode(errors="replace")
    assert (stat.state, stat.ppid, stat.cpu_ticks, stat.start_ticks) == ("S", 17, 300, 95852)


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_or_raise_value_error(data: bytes) -> None:
    for parse in (procfs.parse_stat, procfs.parse_cpu_ticks):
        try:
            parse(data)
        except ValueError:
            continue
    procfs.parse_environ(data)
    procfs.parse_command(data)
    procfs.parse_container(data.decode(errors="replace"))
    procfs.parse_meminfo(data)


names = st.text(st.characters(exclude_characters="=\0", exclude_categories=["Cs"]), min_size=1)
values = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(st.dictionaries(names, values))
def test_an_environment_comes_back_as_it_was(environment: dict[str, str]) -> None:
    data = b"".join(f"{name}={value}".encode() + b"\0" for name, value in environment.items())
    assert procfs.parse_environ(data) == environment


def test_an_environment_with_rubbish_in_it() -> None:
    assert procfs.parse_environ(b"A=1\0no equals\0=no name\0A=2\0B=x=y\0\0") == {"A": "1", "B": "x=y"}


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1), max_size=6))
def test_a_command_comes_back_as_it_was(arguments: list[str]) -> None:
    assert procfs.parse_command(b"".join(part.encode() + b"\0" for part in arguments)) == tuple(arguments)


def test_empty_arguments_stay_and_a_title_written_over_them_is_one() -> None:
    assert procfs.parse_command(b"sh\0-c\0\0x\0") == ("sh", "-c", "", "x")
    assert procfs.parse_command(b"slurmstepd: [12.0]\0\0\0\0") == ("slurmstepd: [12.0]",)


@pytest.mark.parametrize(
    ("cgroup", "container"),
    [
        (f"12:memory:/docker/{ID}\n1:name=systemd:/docker/{ID}\n", ID[:12]),
        (f"0::/system.slice/docker-{ID}.scope\n", ID[:12]),
        (f"0::/system.slice/docker-{ID}.scope/train/rank0\n", ID[:12]),
        (f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container\n", ID[:12]),
        (f"11:cpu:/kubepods/burstable/pod31e8/{ID}\n", ID[:12]),
        (f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod31e8.slice/cri-containerd-{ID}.scope\n", ID[:12]),
        (f"0::/kubepods.slice/kubepods-pod31e8.slice/crio-{ID}.scope\n", ID[:12]),
        (f"0::/system.slice/containerd.service/kubepods-burstable-pod3.slice:cri-containerd:{ID}\n", ID[:12]),
        ("0::/lxc.payload.trainer/user.slice\n", "trainer"),
        ("4:devices:/lxc/trainer\n", "trainer"),
        (f"0::/user.slice/libpod-conmon-{ID}.scope\n", None),
        ("0::/\n", None),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", None),
        ("4:memory:/process_api/28dec95b48532d4fd510ab9912acc8e0\n", None),
        ("", None),
    ],
)
def test_the_container_is_in_the_cgroup(cgroup: str, container: str | None) -> None:
    assert procfs.parse_container(cgroup) == container


@pytest.mark.parametrize(
    ("maps", "found"),
    [
        (b"7f00-7f01 r-xp 0 fe:00 12 /opt/torch/lib/libtorch_cpu.so\n", (True, False)),
        (b"7f00-7f01 r-xp 0 fe:00 12 /opt/torch/lib/libtorch_cuda.so\n", (True, True)),
        (b"7f00-7f01 r-xp 0 fe:00 12 /opt/torch/lib/libtorch_cpu.so (deleted)\n", (True, False)),
        (b"7f00-7f01 r-xp 0 fe:00 12 /usr/lib/libc.so.6\n", (False, False)),
    ],
)
def test_pytorch_is_in_the_maps(maps: bytes, found: tuple[bool, bool]) -> None:
    assert procfs.find_torch(maps) == found


def test_meminfo_and_cpu_time() -> None:
    assert procfs.parse_meminfo(b"MemTotal:  24682416 kB\nHugePages_Total:  0\nMemAvailable: 1 kB\n") == {
        "MemTotal": 24682416 * 1024,
        "MemAvailable": 1024,
    }
    ticks = procfs.parse_cpu_ticks(b"cpu  100 5 50 800 40 1 2 2 30 0\ncpu0 1 1 1 1\n")
    assert ticks == (160, 1000)  # guest time is in user time already; waiting for I/O is idle


def test_this_process_reads_itself() -> None:
    stat = procfs.read_stat(os.getpid())
    assert stat is not None
    assert (stat.pid, stat.ppid) == (os.getpid(), os.getppid())
    assert stat.rss_bytes > 2**20
    thread = procfs.read_stat(os.getpid(), threading.get_native_id())
    assert thread is not None
    assert procfs.read_uid(os.getpid()) == os.getuid()
    command = procfs.read_command(os.getpid())
    assert command is not None
    assert "python" in command[0]
    assert os.getpid() in procfs.list_pids()
    assert threading.get_native_id() in procfs.list_threads(os.getpid())


def test_an_unused_pid_has_no_readings() -> None:
    nobody = 2**22 + 1  # above the kernel's largest PID
    readers = (
        procfs.read_stat,
        procfs.read_environ,
        procfs.read_command,
        procfs.read_container,
        procfs.read_uid,
        procfs.read_torch_maps,
        procfs_activity.read_open_files,
        procfs_activity.read_io,
        procfs_activity.read_involuntary_switches,
        procfs_activity.read_waits_in,
    )
    assert [read(nobody) for read in readers] == [None] * len(readers)
    assert procfs.list_threads(nobody) == []
    assert procfs.read_thread_name(nobody, 1) is None


@given(st.dictionaries(st.sampled_from(["RANK", "LOCAL_RANK", "WORLD_SIZE"]), st.text(max_size=8000)))
def test_ranks_are_numbers_or_unknown(environment: dict[str, str]) -> None:
    found = launch_environment(environment)
    for value, text in ((found.rank, environment.get("RANK")), (found.local_rank, environment.get("LOCAL_RANK"))):
        assert value is None or (text is not None and value == int(text) and value >= 0)


def test_where_a_run_lives_is_known_of_what_gputop_started_and_tracks() -> None:
    started = {"GPUTOP_LAUNCH_ID": "20261123-1", "GPUTOP_DIR": "/data/gputop"}
    assert launch_environment(started).gputop_state_dir == "/data/gputop"
    assert launch_environment({"HOME": "/home/ada", "GPUTOP_JOB_ID": "job-1"}).gputop_state_dir == (
        "/home/ada/.local/state/gputop"
    )
    for other in ({"GPUTOP": "0"}, {"GPUTOP_AUTO": "0"}, {"GPUTOP_MODE": "disabled"}):
        assert launch_environment(started | other).gputop_state_dir is None
    assert launch_environment({"GPUTOP_DIR": "/data/gputop"}).gputop_state_dir is None


def test_a_local_rank_of_minus_one_means_not_distributed() -> None:
    assert launch_environment({"LOCAL_RANK": "-1", "RANK": " 3 "}).local_rank is None
    assert launch_environment({"LOCAL_RANK": "-1", "RANK": " 3 "}).rank == 3


def test_young_processes_are_looked_at_more_often() -> None:
    waits = [reread_after_s(age_s) for age_s in (0, 2, 6, 30, 3600)]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (1.0, 10.0)
