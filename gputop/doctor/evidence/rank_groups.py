"""Groups of ranks: processes joined with their run, which rank each is, and which device it mainly uses. Pure functions of a
snapshot. A group is what the doctor judges: the ranks of one run on this machine, however they were started.

Everything is joined by PID and UUID, never by index.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from gputop.doctor.evidence.visible import devices_behind, mask_of, same_uuid
from gputop.doctor.facts import model as model_facts
from gputop.doctor.facts import stated
from gputop.errors import reraise
from gputop.groups import GroupKeys, compute_uses, unnumbered_ranks
from gputop.process import DEAD_STATES, OUTPUT
from gputop.snapshot import LIVE_STATES, Ancestor, Device, DeviceUse, Process, Rank, Run, Snapshot


@dataclass(frozen=True, slots=True)
class Member:
    """One rank of a group. ``main`` is the UUID of the device with its largest context, None if unknown."""

    rank: int | None
    local_rank: int | None
    process: Process | None
    journal: Rank | None
    uses: tuple[DeviceUse, ...]
    main: str | None
    main_source: str

    @property
    def pid(self) -> int | None:
        """The rank's PID, from its process, else from its journal."""
        if self.process is not None:
            return self.process.pid
        return self.journal.local_pid if self.journal is not None else None


@dataclass(frozen=True, slots=True)
class RankGroup:
    """The ranks of one run that are on this machine.

    ``pool`` holds the machine's devices of the group's kind (GPUs or virtual GPUs); ``visible`` those that the masks of all
    its ranks leave, in the order of the masks; ``visible_count`` is the number of devices that the group really sees. None:
    unknown.
    """

    key: str
    run: Run | None
    members: tuple[Member, ...]
    processes: tuple[Process, ...]
    launcher: Ancestor | None
    virtual: bool
    pool: tuple[Device, ...]
    visible: tuple[Device, ...] | None
    visible_count: int | None
    visible_source: str
    masks: tuple[str, ...]
    used: frozenset[str]
    """UUIDs of every device that any process of the group computes on."""
    shown: Run | None = None
    """For a group without a journal: the metrics in its files or output. Nothing else: no facts that a rank reports."""

    printed: Run | None = None
    """For such a group, the metrics in its output, if ``shown`` are those in its files: often one of them is finer."""

    output_id: str | None = None
    """For such a group: the ``run_id`` of the texts in its output."""

    run_id: str | None = field(init=False, default=None)
    """The run's id; None for a group without a journal."""
    live_ranks: tuple[Rank, ...] = field(init=False, default=(), repr=False)
    """The live ranks that write a journal, including those on other machines. Nearly every rule asks for them."""
    pids: tuple[int, ...] = field(init=False, default=(), repr=False)
    """PIDs of the ranks."""
    world_size: int = field(init=False, default=0, repr=False)
    """The number of ranks: from the run, else from the launcher, else the number observed. Most rules ask for it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "pids", tuple([pid for member in self.members if (pid := member.pid) is not None]))
        if self.run is not None:
            object.__setattr__(self, "run_id", self.run.run_id)
            object.__setattr__(self, "live_ranks", tuple([rank for rank in self.run.ranks if rank.state in LIVE_STATES]))
        object.__setattr__(self, "world_size", _world_size(self))

    @property
    def local_world_size(self) -> int | None:
        """Number of ranks started on this machine: from the environment at launch, else those observed."""
        stated_sizes = [
            member.process.environment.local_world_size
            for member in self.members
            if member.process and member.process.environment and member.process.environment.local_world_size
        ]
        return max(stated_sizes) if stated_sizes else (len(self.members) or None)

    @property
    def main_process(self) -> Process | None:
        """The process of the lowest observed rank."""
        return next((member.process for member in self.members if member.process is not None), None)

    @property
    def uids(self) -> frozenset[int]:
        """The users that own these processes."""
        return frozenset(process.uid for process in self.processes if process.uid is not None)


def _world_size(group: RankGroup) -> int:
    if group.run is not None and group.run.world_size:
        return group.run.world_size
    sizes = [size for member in group.members if member.process is not None and (size := member.process.world_size)]
    return max(sizes, default=len(group.members))


def duplicate_ranks(group: RankGroup) -> list[Member]:
    """Return processes that claim a rank that another process already has: both have the same run id.

    They run the same command under the same parent, and compute; a DataLoader worker is its rank's child instead.
    """
    if len(group.members) != 1 or group.run is None or group.run.world_size != 1:
        return []
    member = group.members[0]
    known = member.process
    found = []
    for process in group.processes:
        if known is None or process.pid == known.pid or (process.ppid, process.command) != (known.ppid, known.command):
            continue
        uses = compute_uses(process)
        if uses and process.state not in DEAD_STATES:
            uuids = {use.device_uuid for use in uses}
            found.append(replace(member, process=process, uses=uses, main=min(uuids) if len(uuids) == 1 else None))
    return found


class RankGroups:
    """Groups the snapshots of one stream. A group whose processes and run are the same records is not formed again."""

    def __init__(self) -> None:
        self._keys = GroupKeys()
        self._known: dict[str, tuple[_Basis, RankGroup]] = {}

    def of(self, snapshot: Snapshot, lost: Callable[[Exception], None] = reraise) -> tuple[RankGroup, ...]:
        """Return the groups of a snapshot's processes and live runs; ``lost`` gets the error for each that fails."""
        runs = {run.run_id: run for run in snapshot.runs}
        listed: dict[str, list[Process]] = {}
        for position, key in self._keys.of(snapshot.processes).items():
            listed.setdefault(key, []).append(snapshot.processes[position])
        # Rules judge those by their processes and by the metrics that they log.
        untracked = snapshot.untracked_ids
        shown = {rank.pid: runs[item.run_id] for item in snapshot.process_runs if item.run_id in runs for rank in item.ranks}
        for run in snapshot.runs:
            if run.run_id in untracked:
                continue
            if run.state != "finished" and any(_here(rank, snapshot) for rank in run.ranks):
                listed.setdefault(f"run:{run.run_id}", [])
        printed = {
            rank.pid: runs[curve.run_id]
            for item in snapshot.process_runs
            for curve in item.curves
            if curve.source == OUTPUT and not curve.shared and curve.run_id != item.run_id and curve.run_id in runs
            for rank in item.ranks
        }
        outputs = {rank.pid: item.output_id for item in snapshot.process_runs if item.output_id for rank in item.ranks}
        real = tuple(sorted((d for d in snapshot.devices if d.kind == "gpu" and d.state != "lost"), key=lambda d: d.index))
        fake = tuple(sorted((d for d in snapshot.devices if d.kind == "virtual"), key=lambda d: d.index))
        machine = snapshot.host.hostname, [(d.uuid, d.index) for d in real], [(d.uuid, d.index) for d in fake]
        newest = {device.uuid: device for device in (*real, *fake)}
        before, self._known = self._known, {}
        groups = []
        for key, processes in listed.items():
            basis = _Basis(processes, runs.get(key.removeprefix("run:")), machine)
            try:
                known = before.get(key)
                if known is not None and known[0].is_that_of(basis):
                    group = _with_devices(known[1], fake if known[1].virtual else real, newest)
                else:
                    group = _group(key, processes, basis.run, snapshot, real, fake)
                self._known[key] = basis, group
                curve = next((shown[process.pid] for process in processes if process.pid in shown), None)
                output = next((outputs[process.pid] for process in processes if process.pid in outputs), None)
                beside = next((printed[process.pid] for process in processes if process.pid in printed), None)
                if group.run is None and (curve is not None or output is not None):
                    group = replace(group, shown=curve, printed=beside, output_id=output)
                groups.append(group)
            except Exception as error:  # noqa: BLE001 - one bad group must not stop the others
                lost(error)
        return tuple(group for group in groups if group.members)


class _Basis(NamedTuple):
    """The records that a group is formed from, apart from the readings of its devices."""

    processes: list[Process]
    run: Run | None
    machine: tuple[object, ...]

    def is_that_of(self, other: _Basis) -> bool:
        """Return whether these are the same records."""
        same = len(self.processes) == len(other.processes) and all(map(operator.is_, self.processes, other.processes))
        return same and self.run is other.run and self.machine == other.machine


def _with_devices(group: RankGroup, pool: tuple[Device, ...], newest: Mapping[str, Device]) -> RankGroup:
    """Return a group with the newest readings of its devices, which are the same devices as before."""
    found = object.__new__(RankGroup)
    for write, value in zip(_WRITERS, _values_of(group), strict=True):
        write(found, value)
    _write_pool(found, pool)
    if group.visible is not None:
        _write_visible(found, tuple([newest[device.uuid] for device in group.visible]))
    return found


# ``replace`` would derive the other fields again, for hundreds of groups in each snapshot.
_SLOTS: Any = RankGroup
_WRITERS = [getattr(_SLOTS, each.name).__set__ for each in fields(RankGroup)]
_values_of = operator.attrgetter(*(each.name for each in fields(RankGroup)))
_write_pool, _write_visible = _SLOTS.pool.__set__, _SLOTS.visible.__set__


def _here(rank: Rank, snapshot: Snapshot) -> bool:
    return rank.state in LIVE_STATES and rank.hostname in (None, snapshot.host.hostname)


def _group(
    key: str,
    processes: list[Process],
    run: Run | None,
    snapshot: Snapshot,
    real: tuple[Device, ...],
    fake: tuple[Device, ...],
) -> RankGroup:
    virtual = bool(fake) and (not real or _works_on(processes, run, fake))
    pool = fake if virtual else real
    members = _members(processes, run, snapshot, pool, virtual)
    visible, count, source, masks = _visible(members, pool, virtual)
    launcher = next((process.launcher for process in processes if process.launcher is not None), None)
    used = {use.device_uuid for process in processes for use in compute_uses(process)}
    used.update(member.main for member in members if member.main is not None)
    return RankGroup(
        key, run, members, tuple(processes), launcher, virtual, pool, visible, count, source, masks, frozenset(used)
    )


def _works_on(processes: Iterable[Process], run: Run | None, devices: Sequence[Device]) -> bool:
    uuids = {device.uuid for device in devices}
    if any(use.device_uuid in uuids for process in processes for use in process.devices):
        return True
    return run is not None and any(index is not None for rank in run.ranks for _, index in stated.stated_devices(rank))


def _members(
    processes: list[Process], run: Run | None, snapshot: Snapshot, pool: tuple[Device, ...], virtual: bool
) -> tuple[Member, ...]:
    by_rank: dict[int, list[Process]] = {}
    pids = {process.pid for process in processes}
    for process in processes:
        rank = _rank_of(process)
        if rank is not None and process.state not in DEAD_STATES:
            by_rank.setdefault(rank, []).append(process)
    journals = {rank.rank: rank for rank in run.ranks} if run is not None else {}
    members = []
    for number in sorted(by_rank.keys() | journals.keys()):
        journal = journals.get(number)
        chief = _rank_process(by_rank.get(number, ()), journal, pids)
        if journal is not None and journal.state not in LIVE_STATES:
            continue
        if chief is None and (journal is None or not _here(journal, snapshot)):
            continue
        members.append(_member(number, chief, journal, pool, virtual))
    if not members:
        unranked = [process for process in unnumbered_ranks(processes) if _rank_of(process) is None]
        members = [_member(None, process, None, pool, virtual) for process in unranked]
    return tuple(members)


def _rank_of(process: Process) -> int | None:
    return process.rank if process.rank is not None else (process.environment.rank if process.environment else None)


def _rank_process(processes: Sequence[Process], journal: Rank | None, pids: set[int]) -> Process | None:
    """Return the rank itself among the processes that carry its environment: DataLoader workers inherit RANK."""
    if journal is not None:
        for process in processes:
            if process.pid == journal.local_pid:
                return process
    roots = [process for process in processes if process.ppid not in pids]
    return next(iter(roots or processes), None)


def _member(
    number: int | None, process: Process | None, journal: Rank | None, pool: tuple[Device, ...], virtual: bool
) -> Member:
    environment = process.environment if process is not None else None
    local = environment.local_rank if environment is not None else None
    if local is None and process is not None and process.stated is not None:
        local = process.stated.local_rank
    if local is None and journal is not None:
        local = journal.local_rank
    uses = compute_uses(process) if process is not None else ()
    main, source = _main_device(uses, journal, pool, virtual)
    return Member(number, local, process, journal, uses, main, source)


def _main_device(
    uses: tuple[DeviceUse, ...], journal: Rank | None, pool: tuple[Device, ...], virtual: bool
) -> tuple[str | None, str]:
    source = "virtual GPU readings" if virtual else "NVML"
    uuids = {use.device_uuid for use in uses}
    if len(uuids) == 1:
        return next(iter(uuids)), source
    if uuids:
        sizes = [(use.memory_used_bytes, use.device_uuid) for use in uses if use.memory_used_bytes is not None]
        if len(sizes) == len(uses):
            return max(sizes)[1], source
    found = set()
    for uuid, index in stated.stated_devices(journal):
        for device in pool:
            if (virtual and index == device.index) or (not virtual and uuid is not None and same_uuid(uuid, device.uuid)):
                found.add(device.uuid)
    return (next(iter(found)), "journal") if len(found) == 1 else (None, "")


def _visible(
    members: Sequence[Member], pool: tuple[Device, ...], virtual: bool
) -> tuple[tuple[Device, ...] | None, int | None, str, tuple[str, ...]]:
    """Return the devices that the members' masks leave together, their number, the source of that number, and the masks."""
    masks: Counter[str] = Counter()
    seen: dict[str, Device] = {}
    known = bool(members)
    for member in members:
        process = member.process
        if process is None or process.environment is None:
            known = False
            continue
        mask = mask_of(process, virtual)
        if mask is not None:
            masks[mask] += 1
        elif process.container is not None and not virtual:
            # A container may have fewer devices than the driver shows us.
            known = False
            continue
        seen.update((device.uuid, device) for device in devices_behind(mask, pool))
    visible = tuple(seen.values()) if known else None
    count = len(visible) if visible is not None else None
    source = ("GPUTOP_VIRTUAL_DEVICES" if virtual else "CUDA_VISIBLE_DEVICES") + " at launch (/proc/<pid>/environ)"
    if virtual and len(members) == 1 and count is not None:
        now = model_facts.mask_now(members[0].journal, virtual)
        left = devices_behind(now, pool)
        if now not in (None, *masks) and 0 < len(left) < count:
            return left, len(left), "GPUTOP_VIRTUAL_DEVICES in os.environ now (journal)", tuple(masks)
    inside = {_seen_inside(member) for member in members} if not virtual and (visible is None or len(members) == 1) else set()
    if len(inside) == 1:
        # Only the process itself knows which devices a later mask or a container leaves.
        number, said = inside.pop()
        if number is not None and (count is None or number < count):
            count, source, visible = number, said, pool if number == len(pool) else None
    return visible, count, source, tuple(masks)


def _seen_inside(member: Member) -> tuple[int | None, str]:
    count = stated.device_count(member.journal)
    if count is not None:
        return count, "torch.cuda.device_count() (journal)"
    threads = member.process.autograd_threads if member.process is not None else ()
    if threads and member.uses:
        return max(index for index, _ in threads) + 1, "pt_autograd threads (/proc/<pid>/task)"
    return None, ""
