"""What lies near to faults of launch and placement (catalogue A), of ghost contexts and of neighbors (H01, H03, H04).

``PAIRS`` holds each with the fault that it differs from in one thing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gputop.snapshot import Ancestor, DeviceUse, LaunchEnvironment, Process, Snapshot
from tests import samples
from tests.doctor import tracked
from tests.doctor.scenes import hardware, placement
from tests.doctor.scenes.base import Scene, gpus, journal, rank, scene, single, use, uuid
from tests.doctor.scenes.near.pairs import Pair, look_alikes
from tests.samples import EPOCH, GIB


def bob(index: int) -> Process:
    """Another user's training on a GPU."""
    return single(
        7000 + index, use(index), uid=1001, user="bob", environment=None, autograd_threads=(), hidden=("environment",)
    )


def beside(fault: Scene, *others: Process) -> Scene:
    """The same, and the other GPUs are not free: each of these processes has one of them."""

    def taken(second: int) -> Snapshot:
        shot = fault(second)
        used = {item.device_uuid for process in others for item in process.devices}
        devices = tuple(samples.device(d.index, name=d.name) if d.uuid in used else d for d in shot.devices)
        return replace(shot, devices=devices, processes=(*shot.processes, *others))

    return taken


def only(fault: Scene, count: int) -> Scene:
    """The same on a machine with fewer GPUs."""
    return lambda second: replace(fault(second), devices=fault(second).devices[:count])


def with_environment(fault: Scene, **environment: Any) -> Scene:
    """The same, its processes started with these variables."""

    def changed(second: int) -> Snapshot:
        shot = fault(second)
        processes = tuple(
            replace(process, environment=replace(process.environment or LaunchEnvironment(), **environment))
            for process in shot.processes
        )
        return replace(shot, processes=processes)

    return changed


# ---- A01, A02, A03

another_of_the_sweep = single(4001, use(1), visible=4, command=("python", "train.py", "--lr", "0.01"))


def wrapped_by_hand(second: int) -> Snapshot:
    """nn.DataParallel in the script: contexts on all GPUs."""
    process = single(4000, *(use(n, 20) for n in range(4)), second=second, visible=4)
    return scene(second, gpus(range(4), 4), (process,))


def wrapped(second: int, busy: tuple[int, ...], used: tuple[int, ...] = (0, 1, 2, 3), **facts: Any) -> Snapshot:
    """A tracked process in nn.DataParallel: the wrapper was seen, and no counts of its calls."""
    known = {"model": {"wrapper": "DataParallel", "wrappers": ["DataParallel"]}, "torch": {"device_count": 4}, **facts}
    return tracked.single(second, known, devices=gpus(busy, 4), process=tracked.one_process(second, *used))


def wrapped_and_alone(second: int) -> Snapshot:
    return wrapped(second, (0,), (0,))


def wrapped_and_one_busy(second: int) -> Snapshot:
    return wrapped(second, (0,))


def wrapped_and_all_busy(second: int) -> Snapshot:
    return wrapped(second, (0, 1, 2, 3))


def a_teacher_beside(second: int) -> Snapshot:
    """No wrapper: the memory on the other GPU belongs to a teacher that is asked now and then."""
    known = {"torch": {"device_count": 2}}
    return tracked.single(second, known, devices=gpus((0,), 2), process=tracked.one_process(second, 0, 1, visible=2))


def both_on_gpu_0(second: int) -> Snapshot:
    """Two ranks for eight GPUs, and these two do not choose theirs."""
    shot = placement.two_of_eight(second)
    processes = tuple(rank(n, use(0, 20), world=2, second=second) for n in range(2))
    return replace(shot, processes=processes, devices=gpus([0]))


def masked(second: int, own: bool) -> Snapshot:
    """Four ranks, each of which sees one GPU of four: all the same one, or each its own, as Slurm gives them to its tasks."""
    ranks = tuple(rank(n, use(n * own, 15), world=4, second=second, cuda_visible_devices=str(n * own)) for n in range(4))
    return scene(second, gpus(range(4) if own else [0], 4), ranks, (journal(4, second),))


def masked_alike(second: int) -> Snapshot:
    return masked(second, own=False)


def masked_apart(second: int) -> Snapshot:
    return masked(second, own=True)


def as_many_as_the_mask_has(second: int) -> Snapshot:
    """Each rank of the shell script has a virtual GPU of its own."""
    shot = placement.both_on_one_virtual(second)
    own = tuple(
        replace(p, devices=tuple(replace(d, device_uuid=f"virtual-{n}") for d in p.devices))
        for n, p in enumerate(shot.processes)
    )
    own = tuple(replace(p, environment=replace(p.environment, virtual_devices=str(n))) for n, p in enumerate(own))
    devices = tuple(replace(device, utilization_percent=95.0) for device in shot.devices)
    return replace(shot, processes=own, devices=devices)


def one_masked(second: int) -> Snapshot:
    """A mask of one GPU on a machine with four."""
    return placement.plain(
        second, environment=LaunchEnvironment(cuda_visible_devices="0"), autograd_threads=((0, 5.0 + second),)
    )


# ---- A04, A05, A06


def rewritten_by_a_launcher(second: int) -> Snapshot:
    """Ray, submitit: the mask differs from that at launch, and CUDA shows just the GPU that it names."""
    return placement.set_late(second, "2", (2,))


def in_a_container(second: int) -> Snapshot:
    """The mask counts the host's GPUs, of which the container was given four."""
    shot = placement.malformed(second, "0,5")
    return replace(shot, processes=tuple(replace(process, container="docker") for process in shot.processes))


def equal_cards(second: int) -> Snapshot:
    shot = placement.other_order(second)
    return replace(shot, devices=tuple(replace(device, name="NVIDIA RTX A6000") for device in shot.devices))


def mask_of_a_uuid(second: int) -> Snapshot:
    return with_environment(placement.other_order, cuda_visible_devices=uuid(2))(second)


# ---- A07


def local_rank_0_in_each(second: int) -> Snapshot:
    """torchrun --virtual-local-rank: LOCAL_RANK 0 and cuda:0 in each rank, and a GPU of its own behind it."""
    ranks = tuple(rank(n, use(n, 15), world=4, second=second, local_rank=0, cuda_visible_devices=str(n)) for n in range(4))
    return scene(second, gpus(range(4)), ranks, (journal(4, second),))


def an_instance_for_each(second: int) -> Snapshot:
    """A GPU in four MIG instances, beside idle ones."""
    uses = [DeviceUse(f"MIG-{n}", 15 * GIB, None, "C") for n in range(4)]
    ranks = tuple(rank(n, uses[n], world=4, second=second, cuda_visible_devices=f"MIG-{n}") for n in range(4))
    return scene(second, placement.mig_devices(), ranks, (journal(4, second),))


def packed_on_purpose(second: int) -> Snapshot:
    """Four runs of a sweep that share a GPU: no ranks, and other arguments in each."""
    runs = tuple(
        single(4000 + n, use(0, 15, 24), second=second, visible=8, command=("python", "train.py", "--seed", str(n)))
        for n in range(4)
    )
    return scene(second, gpus([0]), runs)


# ---- A09, A10, A11, A16


def wraps_it_itself(second: int) -> Snapshot:
    """nn.DataParallel in a script that has nothing of Hugging Face."""
    return placement.trainer(second, ())


def takes_a_model_alone(second: int) -> Snapshot:
    """A model of transformers, in a training loop and an nn.DataParallel of the script's own: no Trainer is known of."""
    return placement.trainer(second, ("accelerate", "transformers"))


def on_one_place(second: int) -> Snapshot:
    """device_map={"": 0}: the whole model on one GPU, which works alone."""
    facts = {"model": {"hf_device_map": 1, "parameter_device": "cuda:0"}, "frameworks": ["transformers", "accelerate"]}
    process = single(4000, use(0, 60), second=second, visible=1, mask="0")
    return placement.tracked(second, facts, process, gpus([0], 1))


def in_phase(second: int) -> Snapshot:
    """Two GPUs as busy together as one, and at the same moments: replicas that wait for data."""
    value = 95.0 if second // 3 % 2 else 5.0
    devices = tuple(samples.device(n, utilization_percent=value) if n < 2 else samples.idle_device(n) for n in range(4))
    return replace(placement.turns_seen_from_outside(second), devices=devices)


def with_its_ranks(second: int) -> Snapshot:
    """notebook_launcher: the kernel has started four ranks."""
    shot = placement.notebook(second)
    ranks = tuple(
        replace(rank(n, use(n), world=4, second=second), ppid=4000, launcher=Ancestor(3999, "jupyter")) for n in range(4)
    )
    return scene(
        second,
        gpus(range(4), 4),
        (replace(shot.processes[0], devices=(), run_id=None, rank=None), *ranks),
        (journal(4, second),),
    )


def the_gpus_that_the_mask_names(second: int) -> Snapshot:
    """DeepSpeed passes over the mask, and --include names the same GPUs."""
    shot = placement.deepspeed_ignores(second)
    processes = tuple(replace(process, devices=(use(2 + n),)) for n, process in enumerate(shot.processes))
    return replace(shot, processes=processes, devices=gpus([2, 3], 4))


# ---- A12


def on_the_gpu_soon(second: int) -> Snapshot:
    """A data set is prepared for 90 s before CUDA is touched."""
    shot = computes_on_the_cpu(second)
    if second < 90:
        return shot
    process = replace(shot.processes[0], devices=(use(0),), nvidia_open=True, torch_cuda_mapped=True)
    return replace(shot, processes=(process,), devices=gpus([0], 8))


def computes_on_the_cpu(second: int) -> Snapshot:
    return placement.on_cpu(second)


def computes_on_many_cores(second: int) -> Snapshot:
    return placement.on_cpu(second, cpu_percent=1540.0)


def prepares_on_one_core(second: int) -> Snapshot:
    """The same build of torch, and one core, as when data are prepared: that is watched for longer."""
    return placement.on_cpu(second, cpu_percent=99.0)


def no_torch(second: int) -> Snapshot:
    """scikit-learn."""
    return placement.on_cpu(second, torch_mapped=False)


def on_a_machine_without(second: int) -> Snapshot:
    return replace(placement.tracked_on_cpu(second), devices=())


def context_on_a_gpu(second: int) -> Snapshot:
    """Parameters on the CPU in a process that holds a GPU: something was moved."""
    shot = placement.on_cpu(second, {"model": {"parameter_device": "cpu"}, "torch": {"cuda_available": True}})
    return replace(shot, processes=tuple(replace(process, devices=(use(0, 0.4, 0),)) for process in shot.processes))


# ---- A18


def each(fault: Scene, **changes: Any) -> Scene:
    """The same, with something in each process that its number makes."""

    def changed(second: int) -> Snapshot:
        shot = fault(second)
        processes = tuple(
            replace(process, **{name: value(n) for name, value in changes.items()}) for n, process in enumerate(shot.processes)
        )
        return replace(shot, processes=processes)

    return changed


def told_what_each_trains(second: int) -> Snapshot:
    """A sweep whose wrapper numbers the GPUs in the same way."""
    shot = placement.told_that_it_is_alone(second)
    commands = (("python", "train.py", "--lr", rate) for rate in ("0.1", "0.01"))
    return replace(shot, processes=tuple(replace(p, command=c) for p, c in zip(shot.processes, commands, strict=True)))


# ---- H01


def ghosts_of_others(second: int) -> Snapshot:
    """As much on GPU 0 as the ghosts hold, by processes that are no ranks."""
    shot = placement.ghosts(second)
    ranks = tuple(replace(process, devices=process.devices[:1]) for process in shot.processes)
    small = tuple(replace(bob(0), pid=7000 + n, devices=(use(0, 0.5, 0),)) for n in range(3))
    return replace(shot, processes=(*ranks, *small))


def ghosts_for_a_moment(second: int) -> Snapshot:
    """Contexts that are closed again within seconds."""
    shot = placement.ghosts(second)
    if second % 10 < 4:
        return shot
    return replace(shot, processes=tuple(replace(process, devices=process.devices[:1]) for process in shot.processes))


# ---- H03, H04


def a_dead_neighbor(second: int) -> Snapshot:
    """The driver lists a process that has ended and that nobody has waited for."""
    return hardware.neighbour(second, state="Z")


def a_child_beside(second: int) -> Snapshot:
    """The process on GPU 1 is a worker of the run's own."""
    shot = hardware.neighbour(second)
    own = replace(shot.processes[-1], uid=1000, user="ada", ppid=4001, ancestors=(Ancestor(4001, "python"),), run_id="run-1")
    return replace(shot, processes=(*shot.processes[:-1], own))


def a_twin_beside(second: int) -> Snapshot:
    """The process on GPU 1 is another run of the same script, by the same user."""
    shot = hardware.neighbour(second)
    command = ("/opt/venv/bin/python", "-u", "train.py", "--epochs", "30")
    own = replace(shot.processes[-1], uid=1000, user="ada", command=command)
    return replace(shot, processes=(*shot.processes[:-1], own))


def another_gpu(second: int) -> Snapshot:
    shot = hardware.neighbour(second)
    other = replace(shot.processes[-1], devices=(use(4, 20, 45),))
    return replace(shot, processes=(*shot.processes[:-1], other), devices=(*shot.devices, samples.device(4)))


def its_launcher_lives(second: int) -> Snapshot:
    shot = hardware.orphan(second)
    (left,) = shot.processes
    parent = Ancestor(3999, "torchrun")
    return replace(shot, processes=(replace(left, ppid=3999, launcher=parent, ancestors=(parent,)),))


def started_by_hand(second: int) -> Snapshot:
    """nohup python train.py, and the shell is gone: init is the parent, and it is no rank."""
    shot = hardware.orphan(second)
    (left,) = shot.processes
    return replace(shot, processes=(replace(left, environment=LaunchEnvironment(), rank=None),))


def drivers_reserve(second: int) -> Snapshot:
    """What an idle data-center GPU shows as used."""
    return scene(second, (samples.idle_device(0, memory_used_bytes=int(0.9 * GIB)), samples.idle_device(1)))


def drivers_share(second: int) -> Snapshot:
    """An idle server's GPU: the driver needs page tables, and rounds, in proportion to what the server holds."""
    devices = (samples.idle_device(0, memory_used_bytes=int(61.4 * GIB)), samples.idle_device(1))
    return scene(second, devices, (single(4000, use(0, 60.0, 0.0), visible=1, cpu_percent=1.0, state="S"),))


def of_mps(second: int) -> Snapshot:
    """With MPS the clients' memory is that of its server, which is not listed here."""
    return hardware.host(hardware.unexplained(second), mps_server_pid=812)


def of_a_virtual_machine(second: int) -> Snapshot:
    """Processes of another container are not shown, and their memory is."""
    return hardware.hidden_in_a_container(second)


PAIRS: tuple[Pair, ...] = (
    Pair("A01", "a sweep of single runs", beside(placement.plain, another_of_the_sweep), placement.plain, 40),
    Pair("A01", "the others are taken", beside(placement.plain, *map(bob, (1, 2, 3))), placement.plain, 40),
    Pair("A01", "one GPU in the machine", only(placement.plain, 1), placement.plain, 40),
    Pair("A01", "one GPU in the mask", one_masked, placement.plain, 40, verdict="A03"),
    Pair("A01", "a wrapper around it", wrapped_by_hand, placement.plain, 40),
    Pair("A01", "a wrapper that reaches all GPUs", wrapped_and_all_busy, wrapped_and_alone, 40),
    Pair("A01", "memory for a teacher on another GPU", a_teacher_beside, wrapped_and_one_busy, 40),
    Pair("A02", "the others are taken", beside(placement.two_of_eight, *map(bob, range(2, 8))), placement.two_of_eight, 40),
    Pair("A02", "ranks on one GPU", both_on_gpu_0, placement.two_of_eight, 40, verdict="A07"),
    Pair("A02", "as many GPUs as ranks", only(placement.two_of_eight, 2), placement.two_of_eight, 40),
    Pair("A03", "a mask for each rank", masked_apart, masked_alike, 30),
    Pair("A03", "the others are taken", beside(one_masked, *map(bob, (1, 2, 3))), one_masked, 40),
    Pair("A03", "as many ranks as GPUs in the mask", as_many_as_the_mask_has, placement.both_on_one_virtual, 30),
    Pair("A03", "chosen in gputop", with_environment(one_masked, gputop_job_id="job-1"), one_masked, 40),
    Pair("A04", "assigned in time", rewritten_by_a_launcher, placement.set_late, 20),
    Pair("A04", "the GPU that is used anyway", lambda s: placement.set_late(s, "0"), placement.set_late, 20),
    Pair("A05", "a space after the comma", lambda s: placement.malformed(s, "0, 1"), placement.malformed, 20),
    Pair("A05", "a comma at the end", lambda s: placement.malformed(s, "0,1,"), placement.malformed, 20),
    Pair("A05", "hidden on purpose", lambda s: placement.malformed(s, "-1"), lambda s: placement.malformed(s, "0,0"), 20),
    Pair("A05", "numbers of the host", in_a_container, lambda s: placement.malformed(s, "0,5"), 20),
    Pair("A06", "PCI order", lambda s: placement.other_order(s, "PCI_BUS_ID", 0), placement.other_order, 20),
    Pair("A06", "equal cards", equal_cards, placement.other_order, 20),
    Pair("A06", "a mask of a UUID", mask_of_a_uuid, placement.other_order, 20),
    Pair("A07", "one GPU in the machine", only(placement.ranks_on_gpu_0, 1), placement.ranks_on_gpu_0, 30),
    Pair("A07", "LOCAL_RANK 0 and another GPU in each", local_rank_0_in_each, placement.ranks_on_gpu_0, 30),
    Pair("A07", "an instance for each", an_instance_for_each, placement.ranks_on_gpu_0, 30),
    Pair("A07", "a sweep that shares a GPU", packed_on_purpose, placement.ranks_on_gpu_0, 30),
    Pair("A07", "one GPU is all they see", placement.four_on_one, placement.ranks_on_gpu_0, 30, verdict="A03"),
    Pair("A09", "a wrapper of the script's own", wraps_it_itself, placement.trainer, 30),
    Pair("A09", "a model of transformers in a loop of its own", takes_a_model_alone, placement.trainer, 30),
    Pair("A10", "one place", on_one_place, placement.device_map, 30),
    Pair("A10", "in phase", in_phase, placement.turns_seen_from_outside, 90),
    Pair("A10", "micro-batches", placement.pipeline, placement.turns_seen_from_outside, 90),
    Pair("A11", "the others are taken", beside(placement.notebook, *map(bob, (1, 2, 3))), placement.notebook, 40),
    Pair("A11", "a script", placement.plain, placement.notebook, 40, verdict="A01"),
    Pair("A11", "its ranks are started", with_its_ranks, placement.notebook, 40),
    Pair("A12", "preparing the data", on_the_gpu_soon, computes_on_the_cpu, 130),
    Pair("A12", "a build for the CPU, on one core", prepares_on_one_core, computes_on_many_cores, 80),
    Pair("A12", "no torch", no_torch, computes_on_the_cpu, 130),
    Pair("A12", "no GPU in the machine", on_a_machine_without, placement.tracked_on_cpu, 30),
    Pair(
        "A12",
        "the CPU on purpose",
        with_environment(placement.tracked_on_cpu, cuda_visible_devices=""),
        placement.tracked_on_cpu,
        30,
        at_most="info",
    ),
    Pair("A12", "a context on a GPU", context_on_a_gpu, placement.tracked_on_cpu, 30, verdict="A13"),
    Pair("A13", "offloaded by DeepSpeed", placement.offloaded, placement.model_left_on_cpu, 30),
    Pair("A16", "two GPUs in its command", placement.yolo_on_two, placement.yolo, 40),
    Pair("A16", "the others are taken", beside(placement.yolo, *map(bob, (1, 2, 3))), placement.yolo, 40),
    Pair("A16", "the GPUs that the mask names", the_gpus_that_the_mask_names, placement.deepspeed_ignores, 30),
    Pair(
        "A18",
        "a sweep",
        each(placement.independent, command=lambda n: ("python", "train.py", "--seed", str(n))),
        placement.independent,
        30,
    ),
    Pair(
        "A18",
        "started by and by",
        each(placement.independent, started_at=lambda n: EPOCH - 600 + 60 * n),
        placement.independent,
        30,
    ),
    Pair("A18", "a sweep on numbered GPUs", told_what_each_trains, placement.told_that_it_is_alone, 30),
    Pair("A18", "they have met", placement.srun_that_meets, placement.independent, 30),
    Pair("H01", "contexts of others", ghosts_of_others, placement.ghosts, 20),
    Pair("H01", "closed again", ghosts_for_a_moment, placement.ghosts, 30),
    Pair("H01", "a share of the work", lambda s: placement.ghosts(s, 10, 12), placement.ghosts, 20),
    Pair("H03", "a desktop", hardware.desktop_beside, hardware.neighbour, 20),
    Pair("H03", "a dead process", a_dead_neighbor, hardware.neighbour, 20),
    Pair("H03", "a worker of its own", a_child_beside, hardware.neighbour, 20),
    Pair("H03", "a sweep that shares its GPUs", a_twin_beside, hardware.neighbour, 20, at_most="info"),
    Pair("H03", "a sweep on one card on purpose", lambda s: hardware.two_seeds(s, "0"), hardware.two_seeds, 40, at_most="info"),
    Pair(
        "H03",
        "a sweep on the only free card",
        lambda s: hardware.two_seeds(s, free=False),
        hardware.two_seeds,
        40,
        at_most="info",
    ),
    Pair("H03", "another GPU", another_gpu, hardware.neighbour, 20),
    Pair("H04", "its launcher lives", its_launcher_lives, hardware.orphan, 20),
    Pair("H04", "started by hand, the shell is gone", started_by_hand, hardware.orphan, 20),
    Pair("H04", "the driver's own", drivers_reserve, hardware.unexplained, 30),
    Pair("H04", "the driver's own, in proportion", drivers_share, hardware.unexplained, 30),
    Pair("H04", "of MPS", of_mps, hardware.unexplained, 30),
    Pair("H04", "of a container", of_a_virtual_machine, hardware.unexplained, 30),
)
LOOK_ALIKES = look_alikes(PAIRS)
