"""Virtual GPUs, measured on real processes and threads."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.errors import NoGpuError, UsageError
from gputop.sources import virtual
from gputop.sources.base import Claim, Reading, Source
from gputop.sources.host import procfs
from gputop.sources.host.process_cache import StatFiles
from gputop.sources.virtual import VirtualSource, visible_devices
from tests.real_processes import BUSY, IDLE, PRELUDE, Processes, eventually, see_only_own_processes

MIB = 2**20


@pytest.fixture(autouse=True)
def find_at_once_and_only_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual, "SEARCH_EVERY_S", 0.0)
    see_only_own_processes(monkeypatch)


def users(reading: Reading, *pids: int) -> dict[int, list[int]]:
    """Which of these processes work as which virtual GPU; others on the machine are left out."""
    index = {device.uuid: device.index for device in reading.devices}
    return {pid: [index[use.device_uuid] for use in of] for pid, of in reading.uses.items() if pid in pids}


def shares(reading: Reading, pid: int) -> list[float | None]:
    return [use.sm_utilization_percent for use in reading.uses.get(pid, ())]


def measured(source: VirtualSource, claims: Sequence[Claim], pid: int) -> Reading:
    """Read until the process's share of its first GPU is measured and above nothing."""
    return eventually(lambda: source.read(claims), lambda reading: any(share for share in shares(reading, pid)))


def test_it_is_a_source_of_labelled_devices() -> None:
    source: Source = VirtualSource(3)
    source.start(1.0)
    devices = source.read().devices
    boot = (procfs.read_boot_id() or "")[:8]
    assert [device.index for device in devices] == [0, 1, 2]
    assert [device.uuid for device in devices] == [f"VIRTUAL-{boot}-{index}" for index in range(3)]
    total = procfs.read_meminfo()["MemTotal"]
    for device in devices:
        assert (device.kind, device.name, device.state) == ("virtual", "Virtual GPU (CPU)", "ok")
        assert device.memory_total_bytes == total // 3
        assert (device.power_w, device.temperature_c, device.sm_clock_mhz, device.fan_percent) == (None,) * 4
    source.close()


@pytest.mark.parametrize(("cores", "count"), [(1, 2), (2, 2), (5, 5), (64, 8)])
def test_the_number_follows_the_cores(monkeypatch: pytest.MonkeyPatch, cores: int, count: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
    assert len(VirtualSource().read().devices) == count


def test_no_virtual_gpus_are_refused() -> None:
    with pytest.raises(UsageError, match="0 is not a valid number"):
        VirtualSource(0)


def test_without_proc_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procfs, "read_stat", lambda pid, thread=None: None)
    with pytest.raises(NoGpuError, match="/proc"):
        VirtualSource(2).start(1.0)


def test_the_first_reading_knows_no_utilisation_and_the_next_knows_what_idles(processes: Processes) -> None:
    source = VirtualSource(64)
    claims = [Claim(processes.ready(IDLE)[0].pid, 63)]
    first = source.read(claims).devices
    assert [device.utilization_percent for device in first] == [None] * 64
    last = eventually(lambda: source.read(claims).devices, lambda devices: devices[63].utilization_percent is not None)
    assert (last[62].utilization_percent, last[62].memory_used_bytes) == (0.0, 0)


def test_ranks_work_as_the_gpu_of_their_local_rank(processes: Processes) -> None:
    busy, _ = processes.ready(BUSY, LOCAL_RANK="40", RANK="0")
    idle, _ = processes.ready(IDLE, LOCAL_RANK="41", RANK="1")
    source = VirtualSource(64)
    assert users(source.read(), busy.pid, idle.pid) == {busy.pid: [40], idle.pid: [41]}

    def works_more(reading: Reading) -> bool:
        worked, rested = (reading.devices[index].utilization_percent for index in (40, 41))
        return worked is not None and rested is not None and worked > rested + 15

    reading = eventually(source.read, works_more)
    device = reading.devices[40]
    assert device.utilization_percent == shares(reading, busy.pid)[0] <= 100
    stat = procfs.read_stat(idle.pid)
    assert stat is not None
    assert device.memory_used_bytes == reading.uses[busy.pid][0].memory_used_bytes
    assert reading.devices[41].memory_used_bytes == stat.rss_bytes


def test_a_mask_maps_local_ranks_as_cuda_does(processes: Processes) -> None:
    source = VirtualSource(64)
    first, _ = processes.ready(IDLE, LOCAL_RANK="0", GPUTOP_VIRTUAL_DEVICES="50,51")
    second, _ = processes.ready(IDLE, LOCAL_RANK="1", GPUTOP_VIRTUAL_DEVICES=f"50,{source.uuids[52]}")
    alone, _ = processes.ready(IDLE, GPUTOP_VIRTUAL_DEVICES="53,54")
    none, _ = processes.ready(IDLE, LOCAL_RANK="0", GPUTOP_VIRTUAL_DEVICES="")
    pids = (first.pid, second.pid, alone.pid, none.pid)
    assert users(source.read(), *pids) == {first.pid: [50], second.pid: [52], alone.pid: [53]}


@pytest.mark.parametrize(
    ("mask", "visible"),
    [
        ("0,1", (0, 1)),
        ("3", (3,)),
        (" 2 , 0 ", (2, 0)),
        ("GPU-b,0", (1, 0)),
        ("1,9,0", (1,)),
        ("1,-1,0", (1,)),
        ("", ()),
        ("GPU-", ()),
        ("99999999999999999999", ()),
        ("²", ()),
    ],
)
def test_masks_end_at_the_first_invalid_entry(mask: str, visible: tuple[int, ...]) -> None:
    assert visible_devices(mask, ("GPU-a", "GPU-b", "GPU-c", "GPU-d")) == visible


@given(st.text())
def test_no_mask_gives_a_device_that_is_not_there(mask: str) -> None:
    assert set(visible_devices(mask, ("GPU-a", "GPU-b"))) <= {0, 1}


def test_ranks_beyond_the_last_gpu_are_reported(processes: Processes) -> None:
    far, _ = processes.ready(IDLE, LOCAL_RANK="7000")
    masked, _ = processes.ready(IDLE, LOCAL_RANK="5", GPUTOP_VIRTUAL_DEVICES="1")
    outside, _ = processes.ready(IDLE, GPUTOP_VIRTUAL_DEVICES="2")
    claims, _ = processes.ready(IDLE)
    reading = VirtualSource(2).read([Claim(claims.pid, 2), Claim(claims.pid, -1)])
    assert users(reading, far.pid, masked.pid, outside.pid, claims.pid) == {}
    told = " ".join(note.message for note in reading.notes)
    for words in (
        f"Process {far.pid} is local rank 7000",
        f"Process {masked.pid} is local rank 5 and has GPUTOP_VIRTUAL_DEVICES=1",
        f"Process {outside.pid} has GPUTOP_VIRTUAL_DEVICES=2",
        f"Process {claims.pid} reports that it works as virtual GPU 2",
        f"Process {claims.pid} reports that it works as virtual GPU -1",
    ):
        assert words in told


def test_a_process_without_pytorch_is_not_a_rank(processes: Processes) -> None:
    child, _ = processes.ready(IDLE, torch=False, LOCAL_RANK="0")
    assert users(VirtualSource(2).read(), child.pid) == {}


def test_workers_of_a_rank_are_not_ranks(processes: Processes) -> None:
    forks = """
child = os.fork()
if child:
    say(child)
else:
    parent = os.getppid()
    grandchild = os.fork()
    if grandchild:
        with open(os.environ["TEST_TELL"], "w") as file:
            file.write(str(grandchild))
    else:
        parent = os.getppid()
idle()
"""
    tell = processes.folder / "grandchild"
    rank, words = processes.ready(forks, LOCAL_RANK="0", TEST_TELL=str(tell))
    grandchild = int(eventually(lambda: tell.read_text() if tell.exists() else "", bool))
    pids = (rank.pid, int(words[0]), grandchild)
    assert users(VirtualSource(2).read(), *pids) == {rank.pid: [0]}
    assert users(VirtualSource(2).read([Claim(rank.pid, 1)]), *pids) == {rank.pid: [1]}


def test_a_launcher_is_not_a_rank(processes: Processes) -> None:
    spawn = """
import subprocess
child = subprocess.Popen([sys.executable, "-c", sys.argv[-1]], env=dict(os.environ, LOCAL_RANK="1"))
kept.append(child)
say(child.pid)
try:
    idle()
finally:
    child.kill()
"""
    launcher, words = processes.ready(
        argv=(processes.script("launch_it.py", spawn), PRELUDE + "idle()"), GPUTOP_VIRTUAL_DEVICES="0,1"
    )
    torchrun, _ = processes.ready(argv=(processes.script("torchrun", IDLE), "train.py"), GPUTOP_VIRTUAL_DEVICES="0,1")
    source = VirtualSource(2)
    rank = int(words[0])
    found = eventually(lambda: users(source.read(), launcher.pid, rank, torchrun.pid), lambda found: rank in found)
    assert found == {rank: [1]}


CONNECTED = """
import ctypes
def connected():
    ctypes.CDLL(None).prctl(15, b"pt_gloo_runloop", 0, 0, 0)  # PR_SET_NAME
    idle()
threading.Thread(target=connected, daemon=True).start()
"""


@pytest.mark.parametrize("connects", [True, False])
def test_ranks_that_a_process_has_started_are_told_from_its_workers(processes: Processes, connects: bool) -> None:
    """As torch.multiprocessing.spawn does: no rank has a number in its environment, and all have their parent's mask."""
    code = PRELUDE + (CONNECTED if connects else "") + "idle()"
    starts = """
import subprocess
children = [subprocess.Popen([sys.executable, "-c", os.environ["TEST_CODE"]]) for _ in range(2)]
say(*(child.pid for child in children))
try:
    idle()
finally:
    for child in children:
        child.kill()
"""
    parent, words = processes.ready(starts, GPUTOP_VIRTUAL_DEVICES="1,0", TEST_CODE=code)
    first, second = map(int, words)
    source = VirtualSource(2)
    expected = {first: [1], second: [0]} if connects else {parent.pid: [1]}
    for _ in range(3):
        found = eventually(lambda: users(source.read(), parent.pid, first, second), lambda found: found == expected)
        assert found == expected
    assert not connects or users(source.read([Claim(second, 1)]), parent.pid, first, second) == {first: [1], second: [1]}


WAITS_TO_CONNECT = """
go = os.environ["TEST_GO"] + sys.argv[1]
while not os.path.exists(go):
    threading.Event().wait(0.02)
"""


def test_ranks_take_the_mask_in_the_order_in_which_they_started(processes: Processes) -> None:
    """A search may fall between the moments at which two ranks are connected."""
    starts = """
import subprocess
code = os.environ["TEST_CODE"]
children = [subprocess.Popen([sys.executable, "-c", code, str(number)]) for number in range(2)]
say(*(child.pid for child in children))
try:
    idle()
finally:
    for child in children:
        child.kill()
"""
    go, code = processes.folder / "go", f"{PRELUDE}{WAITS_TO_CONNECT}{CONNECTED}idle()"
    _, words = processes.ready(starts, GPUTOP_VIRTUAL_DEVICES="0,1", TEST_CODE=code, TEST_GO=str(go))
    first, second = map(int, words)
    source = VirtualSource(2)
    (processes.folder / "go1").touch()
    found = eventually(lambda: users(source.read(), first, second), lambda found: second in found)
    assert found == {second: [0]}, "the first one is no rank yet"
    (processes.folder / "go0").touch()
    found = eventually(lambda: users(source.read(), first, second), lambda found: len(found) == 2)
    assert found == {first: [0], second: [1]}


def test_a_claim_comes_before_the_environment(processes: Processes) -> None:
    children = [processes.ready(IDLE, LOCAL_RANK=str(index))[0] for index in range(2)]
    claims = [Claim(child.pid, 0, memory_bytes=3 * MIB) for child in children]
    reading = VirtualSource(2).read(claims)
    assert users(reading, *(child.pid for child in children)) == {child.pid: [0] for child in children}
    assert [reading.uses[child.pid][0].memory_used_bytes for child in children] == [3 * MIB] * 2


def test_a_claim_that_ends_lets_the_environment_speak_again(processes: Processes) -> None:
    child, _ = processes.ready(IDLE, LOCAL_RANK="0")
    source = VirtualSource(2)
    assert users(source.read([Claim(child.pid, 1)]), child.pid) == {child.pid: [1]}
    assert users(source.read(), child.pid) == {child.pid: [0]}


THREADS = """
ids = {}
def named(name, run):
    def body():
        ids[name] = threading.get_native_id()
        started.wait()
        run()
    threading.Thread(target=body, daemon=True).start()
started = threading.Barrier(3)
named("busy", work)
named("idle", idle)
started.wait()
say(ids["busy"], ids["idle"])
idle()
"""


def test_threads_are_measured_one_by_one(processes: Processes) -> None:
    child, words = processes.ready(THREADS, torch=False)
    busy, idle = map(int, words)
    claims = [Claim(child.pid, 0, busy, 5 * MIB), Claim(child.pid, 1, idle, 7 * MIB)]
    source = VirtualSource(2)

    def works_more(reading: Reading) -> bool:
        worked, rested = shares(reading, child.pid)
        return worked is not None and rested is not None and 100 >= worked > rested + 15

    reading = eventually(lambda: source.read(claims), works_more)
    assert [device.memory_used_bytes for device in reading.devices] == [5 * MIB, 7 * MIB]
    assert reading.devices[0].utilization_percent == shares(reading, child.pid)[0]


def test_a_process_as_a_whole_beside_its_threads_has_the_rest(processes: Processes) -> None:
    child, words = processes.ready(THREADS, torch=False)
    busy = int(words[0])
    claims = [Claim(child.pid, 0), Claim(child.pid, 1, busy)]
    source = VirtualSource(2)

    def thread_has_all(reading: Reading) -> bool:
        rest, thread = shares(reading, child.pid)
        return rest is not None and thread is not None and thread > rest + 15

    eventually(lambda: source.read(claims), thread_has_all)


def test_a_process_as_a_whole_on_several_is_unknown(processes: Processes) -> None:
    child, _ = processes.ready(BUSY)
    claims = [Claim(child.pid, 0), Claim(child.pid, 1, memory_bytes=MIB)]
    source = VirtualSource(3)
    source.read(claims)
    reading = eventually(lambda: source.read(claims), lambda reading: reading.devices[2].utilization_percent is not None)
    assert shares(reading, child.pid) == [None, None]
    assert [device.utilization_percent for device in reading.devices[:2]] == [None, None]
    assert [device.memory_used_bytes for device in reading.devices[:2]] == [None, MIB]


def test_resident_memory_counts_once(processes: Processes) -> None:
    child, words = processes.ready(THREADS, torch=False)
    busy, idle = map(int, words)
    one = VirtualSource(2).read([Claim(child.pid, 0, busy), Claim(child.pid, 0, idle)])
    stat = procfs.read_stat(child.pid)
    assert stat is not None
    assert one.devices[0].memory_used_bytes == stat.rss_bytes
    several = VirtualSource(2).read([Claim(child.pid, 0, busy), Claim(child.pid, 1, idle)])
    assert [device.memory_used_bytes for device in several.devices] == [None, None]


def test_two_that_share_one_gpu_add_up_to_a_hundred_at_the_most(processes: Processes) -> None:
    children = [processes.ready(BUSY)[0] for _ in range(3)]
    claims = [Claim(child.pid, 0) for child in children]
    source = VirtualSource(2)
    source.read(claims)

    def read() -> list[float]:
        reading = source.read(claims)
        assert reading.devices[0].utilization_percent is None or reading.devices[0].utilization_percent <= 100
        return [share for child in children for share in shares(reading, child.pid) if share]

    found = eventually(read, lambda found: len(found) == 3)
    assert sum(found) <= 100.001


keys = st.tuples(st.integers(1, 5), st.integers(0, 2))


@given(st.dictionaries(keys, st.none() | st.floats(0, 1600, allow_nan=False)))
def test_scaling_keeps_proportions_and_never_passes_a_hundred(found: dict[tuple[int, int], float | None]) -> None:
    scaled = virtual._scale(found)
    assert {key for key, share in scaled.items() if share is None} == {key for key, share in found.items() if share is None}
    for index in range(3):
        mine = [(found[key] or 0.0, scaled[key] or 0.0) for key in found if key[1] == index]
        total = sum(before for before, _ in mine)
        assert sum(after for _, after in mine) == pytest.approx(min(100.0, total))
        assert all(after * max(100.0, total) == pytest.approx(before * 100) for before, after in mine)


def test_death_between_two_readings_is_not_an_error(processes: Processes) -> None:
    claimed, _ = processes.ready(IDLE)
    found, _ = processes.ready(IDLE, LOCAL_RANK="1")
    source = VirtualSource(2)
    claims = [Claim(claimed.pid, 0), Claim(2**22 + 9, 1)]
    assert users(source.read(claims), claimed.pid, found.pid) == {claimed.pid: [0], found.pid: [1]}
    claimed.kill()
    found.kill()
    eventually(lambda: procfs.read_stat(claimed.pid), lambda stat: stat is not None and stat.state == "Z")
    eventually(lambda: procfs.read_stat(found.pid), lambda stat: stat is not None and stat.state == "Z")
    assert users(source.read(claims), claimed.pid, found.pid) == {}  # zombies
    claimed.wait()
    found.wait()
    assert users(source.read(claims), claimed.pid, found.pid) == {}


def test_a_rank_found_a_moment_ago_is_forgotten_when_its_pid_is_anothers(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    child, _ = processes.ready(IDLE, LOCAL_RANK="0")
    source = VirtualSource(2)
    assert users(source.read(), child.pid) == {child.pid: [0]}
    monkeypatch.setattr(virtual, "SEARCH_EVERY_S", 1e9)
    assert users(source.read(), child.pid) == {child.pid: [0]}

    def later(files: StatFiles, pid: int, *, again: bool) -> bytes | None:
        line = procfs.read_stat_line(pid)
        if line is None:
            return None
        ticks = b" %d " % procfs.parse_stat(line).start_ticks
        return line.replace(ticks, b" %d " % (int(ticks) + 1))

    monkeypatch.setattr(StatFiles, "read_line", later)
    assert users(source.read(), child.pid) == {}


def test_a_thread_that_ended_works_no_more(processes: Processes) -> None:
    ends = """
told = threading.Event()
def body():
    say(threading.get_native_id())
    told.wait(1)
threading.Thread(target=body).start()
idle()
"""
    child, words = processes.ready(ends, torch=False)
    source = VirtualSource(2)
    claims = [Claim(child.pid, 0, int(words[0]))]
    reading = eventually(lambda: source.read(claims), lambda reading: child.pid not in reading.uses)
    assert reading.devices[0].memory_used_bytes == 0


def test_what_started_since_the_reading_before_is_measured_at_once(processes: Processes) -> None:
    source = VirtualSource(2)
    source.read()
    time.sleep(0.03)  # start times count in 10 ms
    child, _ = processes.ready(BUSY)
    time.sleep(0.2)
    reading = source.read([Claim(child.pid, 0)])
    assert shares(reading, child.pid)[0] is not None
    assert reading.devices[0].utilization_percent is not None


def test_what_was_alive_unmeasured_before_is_unknown_once(processes: Processes) -> None:
    child, _ = processes.ready(BUSY)
    source = VirtualSource(2)
    source.read()
    time.sleep(0.2)
    reading = source.read([Claim(child.pid, 0)])
    assert shares(reading, child.pid) == [None]
    assert [device.utilization_percent for device in reading.devices] == [None, 0.0]


def test_readings_in_quick_succession_keep_the_values(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    child, _ = processes.ready(BUSY)
    source = VirtualSource(2)
    claims = [Claim(child.pid, 0)]
    first = measured(source, claims, child.pid)
    monkeypatch.setattr(virtual, "MIN_PERIOD_S", 1e9)
    again = source.read(claims)
    assert shares(again, child.pid) == shares(first, child.pid)
    assert again.devices[0].utilization_percent == first.devices[0].utilization_percent


def test_ranks_are_searched_for_rarely(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual, "SEARCH_EVERY_S", 1e9)
    source = VirtualSource(2)
    source.read()
    child, _ = processes.ready(IDLE, LOCAL_RANK="0")
    assert users(source.read(), child.pid) == {}
    monkeypatch.setattr(virtual, "SEARCH_EVERY_S", 0.0)
    assert users(source.read(), child.pid) == {child.pid: [0]}
