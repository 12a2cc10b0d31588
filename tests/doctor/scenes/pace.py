"""Faults of the input pipeline (catalogue D), stragglers (F) and hangs (G), their look-alikes, and runs that are in order.

The straggler's times are those measured in the catalogue (section 2): 50 ms of data on rank 1 give rank 0 a backward of
60.7 ms and rank 1 one of 10.5 ms, in steps of 63 ms.
"""

from __future__ import annotations

from dataclasses import replace

from gputop.snapshot import Communicator, CommunicatorRank, LogMatch, Workers
from tests import samples
from tests.doctor.scenes.base import gpus, rank, use
from tests.doctor.tracked import CALM, ddp, single
from tests.samples import EPOCH, GIB

MS = 1e-3


def timed(data, forward, backward, optimizer=lambda rank, step: 1 * MS, whole=lambda rank, step: 63 * MS):
    """Metrics of a step by rank and step, in seconds."""
    return {
        **CALM,
        "step_s": whole,
        "phase/data": data,
        "phase/forward": forward,
        "phase/backward": backward,
        "phase/optimizer": optimizer,
    }


def even(second):
    """Four ranks in step with each other."""
    return ddp(second, metrics=timed(lambda r, s: 1 * MS, lambda r, s: 20 * MS, lambda r, s: 40 * MS))


# ---- stragglers


def slow_data(second):
    late = timed(
        lambda r, s: 50.4 * MS if r == 1 else 0.2 * MS, lambda r, s: 1 * MS, lambda r, s: 10.5 * MS if r == 1 else 60.7 * MS
    )
    return ddp(second, world=2, metrics=late)


def slow_gpu(second):
    late = timed(
        lambda r, s: 0.2 * MS, lambda r, s: 40 * MS if r == 2 else 10 * MS, lambda r, s: 15 * MS if r == 2 else 45 * MS
    )
    return ddp(second, metrics=late)


def interrupted(scene, second, per_s, number):
    """The main thread of this rank has been stopped this often by now; its value is read every five seconds."""
    processes = tuple(
        replace(p, involuntary_switches=round((per_s if p.rank == number else 2) * (second // 5 * 5))) for p in scene.processes
    )
    return replace(scene, processes=processes)


def crowded_rank(second):
    return interrupted(slow_gpu(second), second, 120, 2)


def calm_rank(second):
    return interrupted(slow_gpu(second), second, 3, 2)


def crowded_rank_that_does_more(second):
    return interrupted(rank_3_reads_by_hand(second), second, 120, 3)


def crowded_rank_with_slow_kernels(second):
    late = timed(
        lambda r, s: 0.2 * MS, lambda r, s: 40 * MS if r == 2 else 10 * MS, lambda r, s: 15 * MS if r == 2 else 45 * MS
    )
    kernels = {"cuda/forward_s": late["phase/forward"], "cuda/backward_s": lambda r, s: 14 * MS}
    return interrupted(ddp(second, metrics={**late, **kernels}), second, 120, 2)


def slow_virtual_gpu(second):
    return on_virtual_gpus(slow_gpu(second))


def on_virtual_gpus(base):
    devices = tuple(replace(d, uuid=f"virtual-{d.index}", kind="virtual") for d in base.devices)
    processes = tuple(
        replace(
            p,
            devices=tuple(replace(u, device_uuid=f"virtual-{p.rank}") for u in p.devices),
            environment=replace(p.environment, virtual_devices="0,1,2,3", cuda_visible_devices=None),
        )
        for p in base.processes
    )
    return replace(base, devices=devices, processes=processes)


def slow_virtual_gpu_under_pressure(second):
    return with_host(slow_virtual_gpu(second), cpu_pressure_percent=85.0)


def turn(step):
    return (step * 7 // 3) % 4


def by_turns(second):
    """Another rank has a long forward at each step, as with sentences of different length."""
    late = timed(
        lambda r, s: 0.2 * MS,
        lambda r, s: 40 * MS if r == turn(s) else 10 * MS,
        lambda r, s: 15 * MS if r == turn(s) else 45 * MS,
    )
    return ddp(second, metrics=late)


def unequal_tokens(second):
    late = by_turns(second)
    return replace(
        late,
        points=(
            *late.points,
            *(
                replace(p, metric="tokens_per_s", values=tuple(40_000.0 if p.rank == turn(s) else 10_000.0 for s in p.steps))
                for p in late.points
                if p.metric == "step_s"
            ),
        ),
    )


def jitter(second):
    """Another rank is held up at each step, outside of data, forward and backward."""
    late = timed(lambda r, s: 0.2 * MS, lambda r, s: 10 * MS, lambda r, s: 10 * MS if r == turn(s) else 40 * MS)
    return ddp(second, metrics=late)


def jitter_under_pressure(second):
    return with_host(jitter(second), cpu_pressure_percent=85.0)


def virtual_jitter(second, pressure=3.0):
    return with_host(on_virtual_gpus(jitter(second)), cpu_pressure_percent=pressure)


def rank_0_draws(second):
    late = timed(lambda r, s: 0.2 * MS, lambda r, s: 10 * MS, lambda r, s: 10 * MS if r == 0 else 45 * MS)
    return ddp(second, metrics=late)


def rank_0_draws_before_it_sends_buffers(second):
    """DDP sends rank 0's BatchNorm buffers before each forward pass: there the others wait."""
    late = timed(lambda r, s: 0.2 * MS, lambda r, s: 10 * MS if r == 0 else 45 * MS, lambda r, s: 10 * MS)
    return ddp(second, metrics=late)


def rank_3_reads_by_hand(second):
    return ddp(second, metrics=timed(lambda r, s: None, lambda r, s: 10 * MS, lambda r, s: 10 * MS if r == 3 else 45 * MS))


def one_odd_step(second):
    late = timed(
        lambda r, s: 400 * MS if r == 1 and s == 150 else 1 * MS,
        lambda r, s: 20 * MS,
        lambda r, s: 439 * MS if r != 1 and s == 150 else 40 * MS,
        whole=lambda r, s: 462 * MS if s == 150 else 63 * MS,
    )
    return ddp(second, metrics=late)


# ---- data


def loader(**changes):
    return lambda number, step: {"loader": changes}


def loader_bound(second):
    waits = timed(lambda r, s: 30 * MS, lambda r, s: 10 * MS, lambda r, s: 20 * MS)
    return ddp(second, each=loader(num_workers=0), metrics=waits)


def loads_while_the_gpu_works(second):
    """The host runs ahead of the GPU: half of its time goes into data, and the GPU never idles."""
    waits = timed(lambda r, s: 30 * MS, lambda r, s: 10 * MS, lambda r, s: 20 * MS)
    works = {f"cuda/{part}_s": lambda r, s: 19 * MS for part in ("forward", "backward", "optimizer")}
    return ddp(second, each=loader(num_workers=0), metrics={**waits, **works})


def spiky_loader(second):
    """Four workers: three batches are there, the fourth is waited for. The median sees nothing of it."""
    waits = timed(lambda r, s: 80 * MS if s % 4 == 0 else 0.5 * MS, lambda r, s: 10 * MS, lambda r, s: 25 * MS)
    return ddp(second, each=loader(num_workers=4), metrics=waits)


def small_wait(second):
    """A share of 20%, of steps of 2 ms: nobody waits for 0.4 ms."""
    tiny = timed(lambda r, s: 0.4 * MS, lambda r, s: 0.5 * MS, lambda r, s: 1 * MS, whole=lambda r, s: 2 * MS)
    return ddp(second, metrics=tiny)


def copies(second):
    fact = {"per_step": 240.0, "bytes_per_step": 3e6, "pageable_per_step": 240.0, "blocking_per_step": 240.0}
    return single(second, {"transfers": {**fact, "seconds_per_step": 0.06, "where": "train.py:31"}})


def pinned_copies(second):
    fact = {"per_step": 2.0, "bytes_per_step": 3e7, "pageable_per_step": 0.0, "blocking_per_step": 0.0}
    return single(second, {"transfers": {**fact, "seconds_per_step": 0.002, "where": None}})


def _epochs(first):
    """Epochs of 9 steps and 3 s, as a scene has three steps a second; their first batches take ``first`` seconds."""

    def data(rank, step):
        return first if step % 9 == 0 else 0.2 * MS

    step_s = (3.0 - first) / 9
    return {
        **timed(data, lambda r, s: step_s / 3, lambda r, s: step_s / 2),
        "step_s": lambda r, s: step_s + data(r, s),
        "epoch": lambda r, s: float(s // 9),
        "first_batch_s": lambda r, s: first if s % 9 == 0 else None,
    }


def workers_restart(second):
    return single(second, {"loader": {"num_workers": 4, "persistent_workers": False}}, metrics=_epochs(2.1))


def workers_persist(second):
    return single(second, {"loader": {"num_workers": 4, "persistent_workers": True}}, metrics=_epochs(2.1))


def with_host(snapshot, **changes):
    return replace(snapshot, host=replace(snapshot.host, **changes))


def slow_disk(second):
    """Half of the loader's workers are in state D."""
    return with_host(with_workers(loader_bound(second), blocked=4, cpu_percent=40.0), io_pressure_percent=45.0)


def busy_disk_and_no_wait(second):
    return with_host(even(second), io_pressure_percent=45.0)


# ---- cores


def with_workers(snapshot, **changes):
    """The ranks have eight loader workers each."""
    base = {"count": 8, "cpu_percent": 300.0, "blocked": 0, "cores_allowed": 64}
    workers = Workers(**{**base, **changes})
    return replace(snapshot, processes=tuple(replace(process, workers=workers) for process in snapshot.processes))


def one_core(second):
    return with_host(with_workers(loader_bound(second), cores_allowed=1, cpu_percent=97.0), cpu_count=64)


def one_core_for_all_ranks(second):
    """Two ranks' workers share the very same core: each rank's get half of it."""
    two = ddp(
        second,
        world=2,
        each=loader(num_workers=4),
        metrics=timed(lambda r, s: 30 * MS, lambda r, s: 10 * MS, lambda r, s: 20 * MS),
    )
    return with_host(with_workers(two, count=4, cores_allowed=1, cpu_percent=48.0), cpu_count=64)


def ranks_on_one_core(second, cores=(3, 3), cpu_percent=49.0, busy=50.0):
    """A wrapper pinned both ranks to the same core, of 64: their GPUs wait for what the other one has to queue."""
    devices = tuple(replace(device, utilization_percent=busy) for device in gpus(range(2), 2))
    two = with_host(ddp(second, world=2, devices=devices), cpu_count=64)
    own = tuple(
        replace(process, cores_allowed=1, cores_used=(core,), cpu_percent=cpu_percent)
        for process, core in zip(two.processes, cores, strict=True)
    )
    return replace(two, processes=own)


def ranks_on_one_core_that_keep_up(second):
    return ranks_on_one_core(second, busy=97.0)


def ranks_on_cores_of_their_own(second):
    return ranks_on_one_core(second, cores=(3, 4), cpu_percent=97.0)


def ranks_on_one_core_idle(second):
    return ranks_on_one_core(second, cpu_percent=8.0)


def one_core_idle(second):
    return with_host(with_workers(even(second), cores_allowed=1, cpu_percent=4.0), cpu_count=64)


def too_many_workers(second):
    few = with_host(with_workers(loader_bound(second), cores_allowed=16), cpu_count=16, cpu_pressure_percent=70.0)
    return replace(few, processes=tuple(replace(process, cores_allowed=16) for process in few.processes))


def many_workers_calm(second):
    few = with_host(with_workers(even(second), cores_allowed=16, cpu_percent=20.0), cpu_count=16, cpu_pressure_percent=3.0)
    return replace(few, processes=tuple(replace(process, cores_allowed=16) for process in few.processes))


def quota(second):
    return with_host(even(second), cpu_quota=4.0, cpu_throttled_share=0.6)


def quota_unused(second):
    return with_host(even(second), cpu_quota=16.0, cpu_throttled_share=0.01)


def small_shm(second):
    return with_host(with_workers(even(second)), shm_total_bytes=64 * GIB, shm_used_bytes=60 * GIB)


def large_shm(second):
    return with_host(with_workers(even(second)), shm_total_bytes=64 * GIB, shm_used_bytes=GIB)


# ---- hangs


def stalled(phases, stopped=()):
    def scene(second):
        def each(number, step):
            phase, stack = phases[number]
            return {"stalled": {"since": EPOCH, "step": step, "phase": phase, "stack": stack, "at": EPOCH + 30}}

        base = ddp(second, world=len(phases), each=each, frozen=True)
        processes = tuple(replace(p, state="T", cpu_percent=0.0) if p.rank in stopped else p for p in base.processes)
        return replace(base, processes=processes)

    return scene


BACKWARD = ("backward", ["graph.py:841 _engine_run_backward", "train.py:60 main"])
READS = ("data", ["train.py:41 read_line", "train.py:58 main"])
one_waits = stalled((BACKWARD, READS, BACKWARD, BACKWARD))
of_two_one_waits = stalled((BACKWARD, READS))
all_wait = stalled((BACKWARD,) * 4)
evaluates = stalled((("evaluation", ["train.py:80 test"]),) * 4)
writes = stalled((("checkpoint", ["serialization.py:9 save"]),) * 4)
suspended = stalled((BACKWARD, BACKWARD), stopped=(1,))


def first_hangs(second):
    counts = {"AllReduce": 1}
    ranks = tuple(CommunicatorRank(n, 4000 + n, "node7", n, "running", None, counts) for n in range(4))
    devices = tuple(samples.device(n, power_w=120.0, memory_activity_percent=0.0, nvlinks_active=0) for n in range(4))
    processes = tuple(rank(n, use(n), world=4) for n in range(4))
    return samples.snapshot(
        second, devices=devices, processes=processes, runs=(), points=(), communicators=(Communicator("c", 4, ranks),)
    )


def never_come(second):
    """Three of four ranks were started, and sleep."""
    processes = tuple(replace(rank(n, world=4), devices=(), cpu_percent=0.5, state="S", autograd_threads=()) for n in range(3))
    return samples.snapshot(second, devices=gpus([], 4), processes=processes, runs=(), points=())


def reads_its_data(second):
    processes = tuple(replace(rank(n, world=4), devices=(), cpu_percent=99.0, state="R", autograd_threads=()) for n in range(4))
    return samples.snapshot(second, devices=gpus([], 4), processes=processes, runs=(), points=())


def one_dead(second):
    base = ddp(second, frozen=True)
    (run,) = base.runs
    ranks = tuple(replace(r, state="killed", exit_code=-9) if r.rank == 2 else r for r in run.ranks)
    processes = tuple(p for p in base.processes if p.rank != 2)
    return replace(base, runs=(replace(run, ranks=ranks),), processes=processes)


def all_dead(second):
    base = one_dead(second)
    (run,) = base.runs
    ranks = tuple(r if r.rank == 2 else replace(r, state="failed", exit_code=1) for r in run.ranks)
    return replace(base, runs=(replace(run, state="failed", ranks=ranks),), processes=(), devices=gpus([], 4))


def all_dead_and_torchrun_says_so(second):
    """As the demo's end was seen: torchrun names the rank and its signal, and the others what followed."""
    lines = (
        ("sigkill", "failed (exitcode: -9) local_rank: 2 (pid: 4002) of binary: python", 2, False),
        ("gloo_peer", "RuntimeError: Connection closed by peer [127.0.0.1]:22467", 0, True),
        ("child_failed", "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:", None, True),
    )
    logs = tuple(
        LogMatch(pattern, "H05" if pattern == "sigkill" else None, line, "run-1", None, number, "out.log", 9, cascade=cascade)
        for pattern, line, number, cascade in lines
    )
    return replace(all_dead(second), logs=logs)


def stopped_by_its_owner(second):
    base = one_dead(second)
    (run,) = base.runs
    return replace(base, runs=(replace(run, state="stopped"),), processes=(), devices=gpus([], 4))


def small_shm_for_nccl(second):
    base = with_host(ddp(second, frozen=True), shm_total_bytes=64 * 2**20, shm_used_bytes=0)
    return replace(base, processes=tuple(replace(p, threads=(("pt_nccl_watchdg", 1),)) for p in base.processes))


def shared_core(second, per_s=120, others=2):
    """Everything takes rank 2 longer: its forward pass, and what the script does between the steps."""
    late = timed(lambda r, s: 0.2 * MS, lambda r, s: (20 if r == 2 else 10) * MS, lambda r, s: (25 if r == 2 else 45) * MS)
    scene = interrupted(ddp(second, metrics=late), second, per_s, 2)
    counts = {p.rank: round((per_s if p.rank == 2 else others) * (second // 5 * 5)) for p in scene.processes}
    return replace(scene, processes=tuple(replace(p, involuntary_switches=counts[p.rank]) for p in scene.processes))


def own_core(second):
    return shared_core(second, per_s=3)


def all_cores_shared(second):
    return shared_core(second, others=100)


FAULTS = (
    ("F02", "another program on the core of one rank", shared_core, 60),
    ("F01", "one rank waits for its data", slow_data, 60),
    ("F02", "one rank computes longer", slow_gpu, 60),
    ("F03", "work of chance", by_turns, 60),
    ("F03", "tokens of chance", unequal_tokens, 60),
    ("F04", "slow in turn", jitter, 60),
    ("F05", "rank 0 draws", rank_0_draws, 60),
    ("F05", "rank 0 draws before it sends buffers", rank_0_draws_before_it_sends_buffers, 60),
    ("F05", "rank 3 reads without a DataLoader", rank_3_reads_by_hand, 60),
    ("D01", "no workers", loader_bound, 40),
    ("D01", "a wait every four steps", spiky_loader, 40),
    ("D05", "many small copies", copies, 30),
    ("D06", "workers start again", workers_restart, 60),
    ("D07", "a slow disk", slow_disk, 40),
    ("D03", "all on one core", one_core, 40),
    ("D03", "those of two ranks on one core", one_core_for_all_ranks, 40),
    ("D03", "two ranks on one core", ranks_on_one_core, 40),
    ("D02", "more workers than cores", too_many_workers, 50),
    ("D02", "a quota", quota, 30),
    ("D08", "shared memory fills up", small_shm, 20),
    ("G01", "one rank stands elsewhere", one_waits, 20),
    ("G01", "one of two", of_two_one_waits, 20),
    ("G01", "all at one place", all_wait, 20),
    ("G01", "stopped by a signal", suspended, 20),
    ("G02", "the first collective", first_hangs, 150),
    ("G03", "ranks that never came", never_come, 60),
    ("G04", "a rank was killed", one_dead, 20),
    ("G04", "the run went with it", all_dead, 20),
    ("G04", "and torchrun says so", all_dead_and_torchrun_says_so, 20),
    ("G05", "small shared memory", small_shm_for_nccl, 20),
)
LOOK_ALIKES = (
    ("F01", "one odd step", one_odd_step, 80),
    ("F02", "even", even, 60),
    ("F02", "longer parts on a core of its own", own_core, 60),
    ("F02", "longer parts where all ranks share their cores", all_cores_shared, 60),
    ("F03", "even", even, 60),
    ("D01", "a wait that nobody feels", small_wait, 40),
    ("D01", "a GPU that works meanwhile", loads_while_the_gpu_works, 40),
    ("D05", "few pinned copies", pinned_copies, 30),
    ("D06", "persistent workers", workers_persist, 60),
    ("D07", "the disk is busy, nobody waits", busy_disk_and_no_wait, 40),
    ("D03", "one core, idle", one_core_idle, 40),
    ("D03", "ranks pinned to a core each", ranks_on_cores_of_their_own, 40),
    ("D03", "ranks on one core, idle", ranks_on_one_core_idle, 40),
    ("D03", "ranks on one core whose GPUs are busy", ranks_on_one_core_that_keep_up, 40),
    ("D02", "many calm workers", many_workers_calm, 50),
    ("D02", "a quota that is not used up", quota_unused, 30),
    ("D08", "room in shared memory", large_shm, 20),
    ("G01", "evaluation", evaluates, 30),
    ("G01", "a checkpoint", writes, 30),
    ("G03", "data is read", reads_its_data, 60),
    ("G04", "stopped by its owner", stopped_by_its_owner, 20),
)
HEALTHY = (
    ("four ranks in step", even, 90),
    ("one odd step", one_odd_step, 90),
    ("a busy disk and nobody waits", busy_disk_and_no_wait, 60),
    ("evaluation of a minute", evaluates, 60),
    ("a long checkpoint", writes, 60),
    ("ranks that read their data", reads_its_data, 60),
    ("many calm workers", many_workers_calm, 60),
)
