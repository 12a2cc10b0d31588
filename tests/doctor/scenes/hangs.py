"""Jobs that stand still (catalogue G) and those that only seem to: by stacks, by NCCL's counts, by the states of processes.

``FAULTS`` holds (rule, name, scene, seconds), ``HEALTHY`` (name, scene, seconds), as in the other rooms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gputop.snapshot import (
    Communicator,
    CommunicatorRank,
    LaunchEnvironment,
    Points,
    Process,
    ProcessRank,
    ProcessRun,
    Rank,
    Run,
    Snapshot,
    Workers,
)
from tests import samples
from tests.doctor.scenes.base import Scene, gpus, rank, use
from tests.doctor.scenes.pace import BACKWARD, stalled
from tests.doctor.tracked import ddp, one_process, single
from tests.samples import EPOCH, GIB

# ---- one process, by its stack


def stands(phase: str, *stack: str, facts: Mapping[str, Any] | None = None, **changes: Any) -> Scene:
    """A tracked run of one process that makes no step any more."""
    said = {"since": EPOCH, "at": EPOCH + 33, "step": 100, "phase": phase, "stack": list(stack)}

    def scene(second: int) -> Snapshot:
        process = replace(one_process(0, 0, visible=1), **changes)
        base = single(second, {"stalled": said, **(facts or {})}, process=process)
        (run,) = base.runs
        ranks = (replace(run.ranks[0], step=100, last_log_at=EPOCH),)
        return replace(base, runs=(replace(run, ranks=ranks),), points=())

    return scene


LOADS = ("threading.py:320 wait", "queue.py:171 get", "dataloader.py:1131 _try_get_data", "train.py:30 main")
EVENT_LOOP = ("selectors.py:468 select", "base_events.py:1909 _run_once", "kernelapp.py:739 start")
COMPILES = ("async_compile.py:300 wait", "compile_fx.py:800 compile_fx", "convert_frame.py:500 _compile", "train.py:31 main")
RUNS_COMPILED = ("compile_fx.py:900 run", "eval_frame.py:400 _fn", "train.py:31 main")

no_batch = stands("data", *LOADS, workers=Workers(4, 0.0, 0, 64, (5001, 5002, 5003, 5004)))
slow_batch = stands("data", *LOADS, workers=Workers(4, 390.0, 0, 64, (5001,)))
stuck_in_a_kernel = stands("backward", "graph.py:841 _engine_run_backward", "train.py:60 main")
hangs_in_compiled_code = stands("forward", *RUNS_COMPILED)
in_a_debugger = stands("other", "cmd.py:126 cmdloop", "pdb.py:389 interaction", "bdb.py:92 dispatch_line", "train.py:40 main")
compiles = stands("forward", *COMPILES)
between_cells = stands("other", *EVENT_LOOP, facts={"frameworks": ["ipykernel"]})
at_the_prompt = stands("other")
uploads = stands("other", "ssl.py:1100 read", "train.py:90 upload_weights", "train.py:95 main")
waits_for_a_person = stands("other", "train.py:77 serve_results", "train.py:90 main")
suspended_alone = stands("other", "train.py:77 main", state="T", cpu_percent=0.0)
limited_by_stops = stands("other", "train.py:77 main", state="T", cpu_percent=18.0)
"""cpulimit stops and continues a process ten times a second; most readings find it stopped."""

# ---- several ranks

AT_A_PROMPT = ("other", ["cmd.py:126 cmdloop", "pdb.py:389 interaction", "bdb.py:92 dispatch_line", "train.py:40 main"])
IN_A_BARRIER = ("evaluation", ["distributed_c10d.py:5356 barrier", "train.py:80 test", "train.py:99 main"])
breakpoint_on_one = stalled((BACKWARD, BACKWARD, AT_A_PROMPT, BACKWARD))
rank_0_tests = stalled((("evaluation", ["train.py:80 test"]), BACKWARD, BACKWARD, BACKWARD))
all_in_a_barrier = stalled((IN_A_BARRIER,) * 4)
C10D = ("distributed_c10d.py:2753 send", "c10d_logger.py:83 wrapper")
SENDS = ("other", [*C10D, "halos.py:16 trade", "halos.py:44 main"])
RECEIVES = ("other", ["distributed_c10d.py:2802 recv", "c10d_logger.py:83 wrapper", "halos.py:17 trade", "halos.py:44 main"])
all_send = stalled((SENDS, SENDS))
all_receive = stalled((RECEIVES,) * 3)
all_compile = stalled((("forward", list(COMPILES)),) * 4)


def silent_rank(second: int) -> Snapshot:
    """Three ranks wait in backward for a minute and more; the fourth holds Python's lock: not even its watcher speaks."""

    def each(number: int, step: int) -> dict[str, Any]:
        if number == 3:
            return {}
        phase, stack = BACKWARD
        return {"stalled": {"since": EPOCH, "at": EPOCH + 30, "step": step, "phase": phase, "stack": stack}}

    return ddp(second, each=each, frozen=True)


def traced(second: int) -> Snapshot:
    """gdb holds rank 1."""
    base = ddp(second, frozen=True)
    return replace(base, processes=tuple(replace(p, state="t", cpu_percent=0.0) if p.rank == 1 else p for p in base.processes))


# ---- by first words, after a third of the time


def first_words(phases: tuple[tuple[str, list[str]], ...], early: bool = True, **changes: Any) -> Scene:
    """Ranks that have stood for 10 s; those that are not in backward sleep, and their GPUs idle, unless ``changes``."""

    def scene(second: int) -> Snapshot:
        def each(number: int, step: int) -> dict[str, Any]:
            phase, stack = phases[number]
            said = {"since": EPOCH, "at": EPOCH + 10, "step": step, "phase": phase, "stack": stack}
            return {"stalled": {**said, **({"early": True} if early else {})}}

        waits = [number for number, (phase, _) in enumerate(phases) if phase == "backward"]
        base = ddp(second, world=len(phases), each=each, frozen=True, devices=gpus(waits, len(phases)))
        quiet = {"cpu_percent": 1.0, "state": "S", "read_bytes": 10**9, "written_bytes": 0, **changes}
        processes = tuple(p if p.rank in waits else replace(p, **_at(quiet, second)) for p in base.processes)
        return replace(base, processes=processes)

    return scene


def _at(changes: Mapping[str, Any], second: int) -> dict[str, Any]:
    return {name: value(second) if callable(value) else value for name, value in changes.items()}


LOCKED = ("other", ["threading.py:320 wait", "train.py:44 report", "train.py:60 main"])
COMPUTES_METRICS = ("other", ["metrics.py:12 confusion", "train.py:44 report", "train.py:60 main"])
may_wait_for_rank_2 = first_words((BACKWARD, BACKWARD, LOCKED, BACKWARD), read_bytes=None, written_bytes=None)
surely_waits_for_rank_2 = first_words((BACKWARD, BACKWARD, LOCKED, BACKWARD), early=False)
may_differ = first_words((BACKWARD, ("other", ["distributed_c10d.py:5356 barrier", "train.py:32 report"])))
may_evaluate = first_words((BACKWARD, BACKWARD, ("other", ["train.py:80 validate", "train.py:99 main"]), BACKWARD))
may_compile = first_words((BACKWARD, BACKWARD, ("forward", list(COMPILES)), BACKWARD))
may_load = first_words((BACKWARD, BACKWARD, ("data", list(LOADS)), BACKWARD))
may_work = first_words((BACKWARD, BACKWARD, COMPUTES_METRICS, BACKWARD), cpu_percent=99.0, state="R")
may_all_wait = first_words((BACKWARD,) * 4)
may_write = first_words((BACKWARD, BACKWARD, COMPUTES_METRICS, BACKWARD), written_bytes=lambda second: second * 40_000_000)

# ---- by NCCL's counts


def _quiet(process: Process) -> Process:
    return replace(process, cpu_percent=1.0, state="S")


def counted(*counts: int, moving: bool = False, tracked: bool = False, dead: int | None = None, cpu: bool = False) -> Scene:
    """Ranks whose calls of AllReduce are ``counts``; the one behind sleeps and its GPU idles, unless ``cpu``."""
    behind = [number for number, count in enumerate(counts) if count < max(counts)]

    def scene(second: int) -> Snapshot:
        more = second if moving else 0
        said = tuple(
            CommunicatorRank(n, 4000 + n, "node7", n, "dead" if n == dead else "running", None, {"AllReduce": count + more})
            for n, count in enumerate(counts)
        )
        world = len(counts)
        processes = tuple(
            process if cpu or n not in behind else _quiet(process)
            for n in range(world)
            if n != dead
            for process in [rank(n, use(n), world=world, second=second if moving else 0)]
        )
        devices = gpus([n for n in range(world) if cpu or (n not in behind and n != dead)], world)
        common = (Communicator("c", world, said, "2.28.9"),)
        if tracked:
            return ddp(second, world, devices=devices, processes=processes, communicators=common, frozen=not moving)
        alone = tuple(replace(process, run_id=None, rank=n) for n, process in enumerate(processes))
        return samples.snapshot(second, devices=devices, processes=alone, runs=(), points=(), communicators=common)

    return scene


one_not_entered = counted(500, 500, 499, 500)
one_not_entered_tracked = counted(500, 500, 499, 500, tracked=True)
one_computes_on = counted(500, 500, 499, 500, cpu=True)
counts_move = counted(500, 500, 499, 500, moving=True)
one_dead_by_nccl = counted(500, 500, 500, 500, dead=2)

# ---- by torch's counts, which ranks tell of themselves


def told(*counts: int, moving: bool = False, mute: bool = False, stack: tuple[str, ...] = (), **changes: Any) -> Scene:
    """Ranks that say where they are; those behind are in ``stack``, or say nothing any more if ``mute``."""
    most = max(counts)

    def scene(second: int) -> Snapshot:
        def each(number: int, step: int) -> dict[str, Any]:
            late = counts[number] < most
            since = EPOCH + (second if moving and late else 0)
            said = {
                "at": since + 1 if mute and late else EPOCH + second,
                "since": since,
                "line": "train.py:44" if late else "train.py:31",
                "function": "report" if late else "train_step",
                "phase": "other" if late else "backward",
                "operation": None,
                "begun": counts[number],
                "completed": counts[number] - (not late),
                "step": step,
                "stepped": EPOCH,
                "stack": list(stack or ("threading.py:320 wait", "train.py:44 report")) if late else ["train.py:31 train_step"],
                "groups": [],
            }
            stands = {"since": EPOCH, "at": EPOCH + 30, "step": step, "phase": "backward", "stack": ["train.py:31 train_step"]}
            return {"standing": said, **({} if late else {"stalled": stands})}

        late = [number for number, count in enumerate(counts) if count < most]
        busy = gpus([number for number in range(len(counts)) if number not in late], len(counts))
        base = ddp(second, world=len(counts), each=each, frozen=True, devices=busy)
        processes = tuple(replace(_quiet(p), **changes) if p.rank in late else p for p in base.processes)
        return replace(base, processes=processes)

    return scene


behind_by_torch = told(500, 500, 499, 500)
mute_by_torch = told(500, 500, 499, 500, mute=True)
validates_by_torch = told(500, 500, 499, 500, stack=("train.py:80 validate", "train.py:99 main"))
moves_by_torch = told(500, 500, 499, 500, moving=True)
computes_by_torch = told(500, 500, 499, 500, cpu_percent=99.0, state="R")

# ---- without a journal, by the GPUs


def polls(idle: tuple[int, ...] = (), world: int = 4, **changes: Any) -> Scene:
    """Ranks whose GPUs poll at little power, but for those whose GPU idles; ``changes`` are to the processes of these."""
    quiet: dict[str, Any] = {"cpu_percent": 1.0, "state": "S", "read_bytes": 10**9, "written_bytes": 0, **changes}

    def scene(second: int) -> Snapshot:
        processes = [replace(rank(n, use(n), world=world), run_id=None, rank=n) for n in range(world)]
        processes = [replace(p, **_at(quiet, second)) if p.rank in idle else p for p in processes]
        devices = gpus([n for n in range(world) if n not in idle], world)
        spinning = {"utilization_percent": 100.0, "power_w": 160.0, "memory_activity_percent": 0.0}
        devices = tuple(replace(d, **spinning) if n not in idle and n < world else d for n, d in enumerate(devices))
        return samples.snapshot(second, devices=devices, processes=tuple(processes), runs=(), points=())

    return scene


all_poll = polls()
waits_for_an_idle_rank = polls((2,))


def with_processes(base: Scene, change: Callable[[Process, int], Process]) -> Scene:
    """The same, each process changed in the same way."""
    return lambda second: replace(base(second), processes=tuple(change(p, second) for p in base(second).processes))


one_rests_while_all_poll = with_processes(all_poll, lambda p, _: replace(p, cpu_percent=0.0) if p.rank == 2 else p)
small_kernels = with_processes(all_poll, lambda p, second: replace(p, autograd_threads=((0, 5.0 + second),)))
no_backward_threads = with_processes(all_poll, lambda p, _: replace(p, autograd_threads=()))
waits_for_one_of_two = polls((1,), world=2)
waits_for_a_save = polls((0,), written_bytes=lambda second: second * 40_000_000)
waits_for_the_cpu = polls((0,), cpu_percent=99.0, state="R")

by_its_cores = {"memory_activity_percent": 40.0, "sm_activity_percent": 3.0}
"""What a polling kernel is seen by where the driver tells how many of the SMs are at work."""


def with_devices(base: Scene, **changes: Any) -> Scene:
    """The same; the GPUs at full utilization have these readings."""

    def scene(second: int) -> Snapshot:
        shot = base(second)
        return replace(
            shot, devices=tuple(replace(d, **changes) if d.utilization_percent == 100.0 else d for d in shot.devices)
        )

    return scene


WORKS_S = 130
small = {"power_limit_w": 72.0, "power_default_limit_w": 72.0}
"""A card of which polling takes a large share."""


def stops_after_work(watts: float = 30.0, memory: float = 0.0, ranks: Sequence[int] = (0, 1, 2, 3)) -> Scene:
    """Small cards that draw 68 W at work, and after ``WORKS_S`` only poll; these ranks of four are on this machine."""

    def scene(second: int) -> Snapshot:
        works = second < WORKS_S
        base = (small_kernels if works else no_backward_threads)(second)
        said = {"power_w": 68.0 if works else watts, "memory_activity_percent": 45.0 if works else memory, **small}
        devices = tuple(replace(device, **said) if n in ranks else device for n, device in enumerate(base.devices))
        return replace(base, devices=devices, processes=tuple(p for p in base.processes if p.rank in ranks))

    return scene


def printing(base: Scene, until: int) -> Scene:
    """The same; it prints a loss every second until then."""

    def scene(second: int) -> Snapshot:
        shot, done = base(second), min(second, until)
        shown = Rank(0, 4000, state="running", step=done, last_log_at=EPOCH + done, metrics={"loss": 1.0})
        ranks = tuple(ProcessRank(p.pid, p.rank, p.rank, tuple(u.device_uuid for u in p.devices)) for p in shot.processes)
        points = (Points("pid-1", 0, "loss", (second,), (EPOCH + second,), (1.0,)),) if second <= until else ()
        return replace(
            shot,
            runs=(Run("pid-1", "train.py", state="running", ranks=(replace(shown, facts={"source": "log"}),)),),
            points=points,
            process_runs=(ProcessRun("launcher:3999", "train.py", ranks, run_id="pid-1"),),
        )

    return scene


waits_for_an_idle_rank_by_cores = with_devices(waits_for_an_idle_rank, **by_its_cores)
tiny_kernels = with_devices(all_poll, **by_its_cores)


def with_a_journal(base: Scene, moves: bool = False) -> Scene:
    """The same under ``gputop run``; the steps stand, or move."""

    def scene(second: int) -> Snapshot:
        shot, runs = base(second), ddp(second, 4, frozen=not moves).runs
        return replace(shot, runs=runs, processes=tuple(replace(p, run_id=runs[0].run_id) for p in shot.processes))

    return scene


tracked_waits_for_an_idle_rank = with_a_journal(waits_for_an_idle_rank_by_cores)
tracked_and_steps_come = with_a_journal(waits_for_an_idle_rank_by_cores, moves=True)
tracked_waits_for_the_cpu = with_a_journal(waits_for_the_cpu)

# ---- before the first step


def waiting(**changes: Any) -> Scene:
    """Four ranks that do nothing yet; their contexts take half a GiB."""
    base: dict[str, Any] = {"cpu_percent": 1.0, "state": "S", "autograd_threads": (), "read_bytes": 10**8, "written_bytes": 0}

    def scene(second: int) -> Snapshot:
        processes = tuple(replace(rank(n, use(n, 0.5), world=4), run_id=None, rank=n, **base) for n in range(4))
        first = replace(processes[0], **{k: v(second) if callable(v) else v for k, v in changes.items()})
        return samples.snapshot(second, devices=gpus([], 4), processes=(first, *processes[1:]), runs=(), points=())

    return scene


none_begins = waiting()
rank_0_downloads = waiting(written_bytes=lambda second: second * 40_000_000)


def young(**changes: Any) -> Scene:
    """The same four ranks, that began as the observation did."""
    base = waiting(**changes)

    def scene(second: int) -> Snapshot:
        shot = base(second)
        return replace(shot, processes=tuple(replace(process, started_at=EPOCH) for process in shot.processes))

    return scene


young_and_waiting = young()
young_and_reading = young(read_bytes=lambda second: second * 40_000_000)


def idle_server(second: int) -> Snapshot:
    """Four ranks of an inference server, started by torchrun, with nothing to do at night."""
    processes = tuple(
        replace(
            rank(n, use(n, 40.0), world=4),
            run_id=None,
            rank=n,
            cpu_percent=1.0,
            state="S",
            autograd_threads=(),
            read_bytes=10**9,
        )
        for n in range(4)
    )
    return samples.snapshot(second, devices=gpus([], 4), processes=processes, runs=(), points=())


def met_over_gloo(worked_s: int, *, rank_0_cpu_percent: float = 1.0, backward_s: float = 0.0) -> Scene:
    """Four young ranks that are connected to one another, work for this long, and rest; rank 0 may go on."""
    base = young()

    def scene(second: int) -> Snapshot:
        shot = base(second)
        ranks = []
        for number, process in enumerate(shot.processes):
            percent = 100.0 if second < worked_s else rank_0_cpu_percent if number == 0 else 1.0
            ranks.append(
                replace(
                    process,
                    devices=process.devices if backward_s else (),
                    threads=(("pt_gloo_runloop", 2),),
                    autograd_threads=((number, backward_s),) if backward_s else (),
                    cpu_percent=percent,
                    state="R" if percent > 50 else "S",
                )
            )
        return replace(shot, processes=tuple(ranks))

    return scene


def learns_in_turns(learns_s: int, waits_s: int, until_s: int | None = None, server: bool = False) -> Scene:
    """Two learners that nobody tracks: they train, and wait for new rollouts, again and again, the last time for good.

    ``server``: another process of the same user makes the rollouts on another GPU.
    """

    def scene(second: int) -> Snapshot:
        rounds, within = divmod(min(second, until_s or second), learns_s + waits_s)
        works = within < learns_s and not (until_s is not None and second >= until_s)
        done = rounds * learns_s + min(within, learns_s)
        state: dict[str, Any] = {"cpu_percent": 101.0, "state": "R"} if works else {"cpu_percent": 0.5, "state": "S"}
        processes = [replace(rank(n, use(n), world=2, second=done), run_id=None, rank=n, **state) for n in range(2)]
        if server:
            apart = {"environment": None, "launcher": None, "ancestors": (), "ppid": 3000, "autograd_threads": ()}
            processes.append(replace(rank(2, use(2)), run_id=None, rank=None, **apart))
        busy = [*((0, 1) if works else ()), *((2,) if server else ())]
        return samples.snapshot(second, devices=gpus(busy, 2 + server), processes=tuple(processes), runs=(), points=())

    return scene


def old_server(second: int) -> Snapshot:
    """The same on the CPU, since yesterday."""
    base = idle_server(second)
    environment = LaunchEnvironment(rank=0, local_rank=0, world_size=1, local_world_size=1)
    process = replace(
        base.processes[0], devices=(), environment=environment, memory_rss_bytes=GIB, started_at=EPOCH - 86_400, rank=0
    )
    return replace(base, processes=(process,))


FAULTS: tuple[tuple[str, str, Scene, int], ...] = (
    ("G01", "a batch that does not come", no_batch, 20),
    ("G01", "a kernel that does not end", stuck_in_a_kernel, 20),
    ("G01", "a hang in compiled code", hangs_in_compiled_code, 20),
    ("G01", "a breakpoint on one rank", breakpoint_on_one, 20),
    ("G01", "all in a barrier of the test", all_in_a_barrier, 60),
    ("G01", "a rank that holds Python's lock", silent_rank, 90),
    ("G01", "a rank under gdb", traced, 20),
    ("G01", "stopped with Ctrl-Z", suspended_alone, 20),
    ("G01", "one rank behind, by NCCL's counts", one_not_entered, 50),
    ("G01", "one rank behind, tracked", one_not_entered_tracked, 50),
    ("G01", "one rank behind, by torch's counts", behind_by_torch, 40),
    ("G01", "one rank behind that is mute, by torch's counts", mute_by_torch, 40),
    ("G01", "others poll for a rank whose GPU idles, from outside", waits_for_an_idle_rank, 110),
    ("G01", "one of two polls for the other, from outside", waits_for_one_of_two, 110),
    ("G01", "others keep a few SMs for a rank whose GPU idles", waits_for_an_idle_rank_by_cores, 110),
    ("G01", "no step comes, and others poll for a rank whose GPU idles", tracked_waits_for_an_idle_rank, 80),
    ("G04", "a rank that NCCL calls dead", one_dead_by_nccl, 30),
    ("G03", "none begins", none_begins, 60),
)
HEALTHY: tuple[tuple[str, Scene, int], ...] = (
    ("torch.compile at work", compiles, 60),
    ("torch.compile on all ranks", all_compile, 60),
    ("a notebook between two cells", between_cells, 60),
    ("an interpreter at its prompt", at_the_prompt, 60),
    ("weights go up after the training", uploads, 60),
    ("a script that waits for a person", waits_for_a_person, 60),
    ("a batch that takes its workers long", slow_batch, 60),
    ("a process that cpulimit holds back", limited_by_stops, 60),
    ("rank 0 tests, the others wait", rank_0_tests, 60),
    ("one rank works on while the others wait", one_computes_on, 60),
    ("one rank validates, by torch's counts", validates_by_torch, 60),
    ("one rank moves on, by torch's counts", moves_by_torch, 55),
    ("one rank computes while the others wait, by torch's counts", computes_by_torch, 60),
    ("counts that differ and move", counts_move, 60),
    ("rank 0 downloads the data", rank_0_downloads, 60),
    ("the others poll while rank 0 saves", waits_for_a_save, 110),
    ("tiny kernels on all GPUs", tiny_kernels, 110),
    ("one GPU idles, and steps come", tracked_and_steps_come, 110),
    ("no step comes while rank 0 works on the CPU", tracked_waits_for_the_cpu, 110),
    ("the others poll while rank 0 works on the CPU", waits_for_the_cpu, 110),
    ("an inference server of four ranks", idle_server, 60),
    ("a server since yesterday", old_server, 60),
)
