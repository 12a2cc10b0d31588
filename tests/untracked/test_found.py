"""Which groups of processes are runs that gputop does not track, and what is known of each: tables of processes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.groups import ProcessViews, group_keys
from gputop.process import Ancestor, DeviceUse, LaunchEnvironment, Process, ProcessRank, ProcessRun, StatedRank
from gputop.sources.host.process_cache import launch_environment
from gputop.untracked.found import ProcessRuns, process_runs
from tests.samples import EPOCH, GIB, rank_process

GPUS = tuple(f"GPU-{index}" for index in range(8))
SPAWNED = ("python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(5)", "--multiprocessing-fork")
RENDEZVOUS = LaunchEnvironment(rank=2, local_rank=2, world_size=4, local_world_size=4)


def use(*gpus: int, contexts: str = "C") -> tuple[DeviceUse, ...]:
    return tuple(DeviceUse(GPUS[gpu], GIB, 97.0, contexts) for gpu in gpus)


def python(pid: int, *gpus: int, **changes: object) -> Process:
    base = Process(
        pid=pid,
        devices=use(*gpus),
        ppid=2,
        uid=1000,
        user="ada",
        name="python",
        command=("/opt/venv/bin/python", "-u", "/home/ada/train.py", "--epochs", "90"),
        state="R",
        started_at=EPOCH - 3600,
        environment=LaunchEnvironment(),
        torch_mapped=True,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def torchrun(rank: int, *gpus: int, **changes: object) -> Process:
    return rank_process(rank, use(*gpus), **({"run_id": None} | changes))


def only(*processes: Process, **options: object) -> ProcessRun:
    (run,) = process_runs(processes, **options)  # type: ignore[arg-type]
    return run


def numbers(run: ProcessRun) -> list[tuple[int | None, int | None, int]]:
    return [(rank.rank, rank.local_rank, len(rank.devices)) for rank in run.ranks]


def test_ranks_of_torchrun_are_one_run_with_all_that_is_known() -> None:
    worker = torchrun(1, ppid=4001, pid=5001, name="pt_data_worker")
    late = torchrun(0, 0, started_at=EPOCH - 700)
    assert only(late, torchrun(1, 1), torchrun(3, 3), worker) == ProcessRun(
        key="launcher:3999",
        name="train.py",
        ranks=(ProcessRank(4000, 0, 0, (GPUS[0],)), ProcessRank(4001, 1, 1, (GPUS[1],)), ProcessRank(4003, 3, 3, (GPUS[3],))),
        launcher=Ancestor(3999, "torchrun"),
        world_size=4,
        local_world_size=4,
        user="ada",
        started_at=EPOCH - 700,
        command=("train.py", "--epochs", "90"),
    )


def test_missing_ranks_of_this_machine_are_distinguished_from_ranks_elsewhere() -> None:
    environment = LaunchEnvironment(rank=8, local_rank=0, world_size=16, local_world_size=8)
    ranks = [
        torchrun(8 + place, place, environment=replace(environment, rank=8 + place, local_rank=place)) for place in (0, 1, 2, 4)
    ]
    run = only(*ranks)
    assert (run.missing_local_ranks, run.ranks_elsewhere) == ((3, 5, 6, 7), 8)
    run = only(python(1, 0))
    assert (run.missing_local_ranks, run.ranks_elsewhere) == ((), None)


def test_ranks_that_wait_in_a_rendezvous_are_a_run_without_a_gpu() -> None:
    here = [replace(RENDEZVOUS, rank=rank, local_rank=rank) for rank in (0, 2)]
    run = only(*(torchrun(place.rank or 0, environment=place, nvidia_open=False) for place in here))
    assert (numbers(run), run.devices, run.missing_local_ranks) == ([(0, 0, 0), (2, 2, 0)], (), (1, 3))


def test_a_rank_whose_gpu_the_driver_does_not_report_is_not_without_a_gpu() -> None:
    run = only(torchrun(0, nvidia_open=True), torchrun(1, nvidia_open=False))
    assert [rank.devices for rank in run.ranks] == [None, ()]
    assert run.devices == ()


def test_spawned_processes_are_ranks_of_their_parents_script() -> None:
    ranks = [python(20 + place, place, ppid=10, command=SPAWNED) for place in range(3)]
    commands = {10: ("python", "spawn.py", "--lr", "0.1")}
    run = only(*ranks, command_of=commands.get)
    assert (run.name, run.launcher, numbers(run)) == ("spawn.py", Ancestor(10, "multiprocessing"), [(None, None, 1)] * 3)
    assert run.command == ("spawn.py", "--lr", "0.1")
    assert (run.world_size, run.missing_local_ranks) == (None, ())
    listed = python(10, 0, command=commands[10])
    run = only(listed, *ranks)
    assert (run.name, [rank.pid for rank in run.ranks]) == ("spawn.py", [20, 21, 22])
    assert only(*ranks).name == "python", "a parent whose command line is hidden"
    # A parent that trains is the rank, and what it spawned works for it.
    trains = replace(listed, autograd_threads=((0, 12.5),))
    assert [rank.pid for rank in only(trains, *ranks).ranks] == [10]


def test_ranks_of_srun_and_mpirun_are_numbered_by_their_launcher() -> None:
    def slurm(place: int, launcher: str | None = "srun", **more: int) -> Process:
        settings = (("SLURM_LOCALID", str(place)), ("SLURM_NTASKS", "16"), ("SLURM_PROCID", str(8 + place)))
        step = Ancestor(90, launcher) if launcher else None
        return python(30 + place, place, launcher=step, environment=LaunchEnvironment(**more, settings=settings))  # type: ignore[arg-type]

    run = only(slurm(0), slurm(1))
    assert (run.launcher, run.world_size, numbers(run)) == (Ancestor(90, "srun"), 16, [(8, 0, 1), (9, 1, 1)])
    # A script that sbatch runs once has such variables too, and is not a rank.
    assert numbers(only(slurm(0, launcher=None))) == [(None, None, 1)]
    # Under srun, torchrun's variables count.
    assert numbers(only(slurm(0, rank=1, local_rank=1, world_size=2))) == [(1, 1, 1)]
    settings = (("OMPI_COMM_WORLD_LOCAL_RANK", "1"), ("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "4"))
    run = only(python(40, 1, launcher=Ancestor(91, "mpirun"), environment=LaunchEnvironment(settings=settings)))
    assert (run.world_size, numbers(run)) == (4, [(1, 1, 1)])


def test_what_a_task_of_srun_spawns_are_the_ranks() -> None:
    """One task for each machine, and torch.multiprocessing.spawn in it: all of them have the task's number."""
    settings = (("SLURM_LOCALID", "0"), ("SLURM_NTASKS", "2"), ("SLURM_PROCID", "1"))
    step, environment = Ancestor(90, "srun"), LaunchEnvironment(settings=settings)
    task = python(10, launcher=step, environment=environment)
    ranks = [python(20 + place, place, ppid=10, command=SPAWNED, launcher=step, environment=environment) for place in range(4)]
    run = only(task, *ranks)
    assert ([rank.pid for rank in run.ranks], numbers(run)) == ([20, 21, 22, 23], [(None, None, 1)] * 4)
    assert (run.name, run.launcher, run.world_size, len(run.devices)) == ("train.py", step, None, 4)
    worker = python(30, ppid=10, command=SPAWNED, launcher=step, environment=environment)
    assert numbers(only(replace(task, devices=use(0)), worker)) == [(1, 0, 1)], "what a training spawns is no rank"


def test_workers_of_ray_are_one_run_for_each_program() -> None:
    def worker(pid: int, job: str) -> Process:
        environment = LaunchEnvironment(settings=(("RAY_JOB_ID", job),))
        title, above = ("ray::RayTrainWorker.execute()",), (Ancestor(7, "raylet"),)
        return python(pid, pid % 8, command=title, name="ray::RayTrainWo", ancestors=above, environment=environment)

    runs = process_runs([worker(50, "01"), worker(51, "01"), worker(52, "02")])
    assert [(len(run.ranks), run.launcher, run.name) for run in runs] == [
        (2, Ancestor(7, "ray"), "ray::RayTrainWorker.execute()"),
        (1, Ancestor(7, "ray"), "ray::RayTrainWorker.execute()"),
    ]


def test_trainings_that_a_program_without_a_gpu_starts_are_runs_of_their_own() -> None:
    notebook = python(10, command=("/opt/venv/bin/python", "-m", "ipykernel_launcher"))
    sweep = [python(20 + place, place, ppid=10, command=("python", "train.py", "--lr", f"0.{place}")) for place in range(2)]
    assert [run.key for run in process_runs([notebook, *sweep])] == ["pid:20", "pid:21", "pid:10"]
    # The children of a training program work for it, and so does a copy of itself.
    assert [run.key for run in process_runs([replace(notebook, devices=use(2)), *sweep])] == ["pid:10"]
    copies = [replace(process, command=notebook.command) for process in sweep]
    assert [run.key for run in process_runs([notebook, *copies])] == ["pid:10"]


def test_copies_that_a_waiting_program_has_forked_are_the_ranks_of_one_run() -> None:
    kernel = python(10, command=("/opt/venv/bin/python", "-m", "ipykernel_launcher"), started_at=EPOCH - 90_000)
    copies = [python(20 + place, place, ppid=10, command=kernel.command) for place in range(2)]
    run = only(kernel, *copies)
    assert (run.key, run.name, run.launcher) == ("pid:10", "notebook", Ancestor(10, "multiprocessing"))
    assert (numbers(run), run.started_at) == ([(None, None, 1)] * 2, EPOCH - 3600)
    named = LaunchEnvironment(settings=(("JPY_SESSION_NAME", "/home/ada/lab/flowers.ipynb"),))
    assert (
        only(replace(kernel, environment=named), *(replace(copy, environment=named) for copy in copies)).name == "flowers.ipynb"
    )
    # What has no GPU beside one that has one only helps, and so do the copies of a program that computes or trains itself.
    assert [rank.pid for rank in only(kernel, copies[0], replace(copies[1], devices=())).ranks] == [20]
    on_cpu = [replace(copy, devices=()) for copy in copies]
    assert [rank.pid for rank in only(kernel, *on_cpu).ranks] == [20, 21]
    assert [rank.pid for rank in only(replace(kernel, devices=use(3)), *copies).ranks] == [10]
    assert [rank.pid for rank in only(replace(kernel, autograd_threads=((0, 12.5),)), *copies).ranks] == [10]
    assert [rank.pid for rank in only(kernel, *(replace(copy, name="pt_data_worker") for copy in on_cpu)).ranks] == [10]


def test_one_process_on_several_gpus_is_one_rank() -> None:
    run = only(python(1, 0, 1, 2))
    assert (run.key, run.name, run.launcher, run.devices) == ("pid:1", "train.py", None, GPUS[:3])


def test_another_users_process_is_shown_by_its_tree_and_command_line() -> None:
    hidden = ("environment", "torch_mapped", "torch_cuda_mapped")
    theirs = [torchrun(rank, rank, environment=None, torch_mapped=None, hidden=hidden) for rank in range(2)]
    theirs = [replace(process, rank=None) for process in theirs]
    run = only(*theirs)
    assert (run.name, run.launcher, run.user) == ("train.py", Ancestor(3999, "torchrun"), "ada")
    assert (numbers(run), run.world_size, run.missing_local_ranks) == ([(None, None, 1)] * 2, None, ())
    closed = Process(pid=77, devices=use(4), hidden=("command", "environment", "name", "user"))
    assert only(closed) == ProcessRun("pid:77", "process 77", (ProcessRank(77, devices=(GPUS[4],)),))


@pytest.mark.parametrize(
    "process",
    [
        python(1, 0, run_id="run-1"),
        python(1, devices=use(0, contexts="G"), name="firefox", torch_mapped=None),
        python(1, devices=use(0, contexts="CG"), name="gnome-shell", torch_mapped=None),
        python(1, 0, name="nvidia-cuda-mps", torch_mapped=None),
        python(1, 0, state="Z"),
        Process(pid=1, devices=use(0), in_namespace=False),
    ],
    ids=["tracked", "window", "desktop", "mps", "dead", "elsewhere"],
)
def test_other_processes_are_not_untracked_runs(process: Process) -> None:
    assert process_runs([process]) == ()


def test_a_test_runner_is_no_run_with_a_gpu_nor_are_its_children() -> None:
    tests = python(7, 0, command=("python", "-m", "pytest"))
    spawned = [python(8 + n, n, ppid=7, command=("python", "-c", "from multiprocessing.spawn import x")) for n in range(2)]
    assert process_runs([tests]) == ()
    assert process_runs([replace(tests, devices=()), *spawned]) == ()
    assert process_runs(spawned, command_of=lambda pid: ("python", "-m", "pytest")) == ()
    assert len(process_runs(spawned, command_of=lambda pid: ("python", "train.py"))) == 1


def test_a_tracked_rank_makes_its_whole_group_tracked() -> None:
    assert process_runs([torchrun(0, 0, run_id="run-1"), torchrun(1, 1)]) == ()


def test_what_gputop_started_is_a_run_from_the_beginning() -> None:
    for environment in (LaunchEnvironment(gputop_job_id="job-1"), LaunchEnvironment(gputop_launch_id="20261123-1")):
        early = python(7, environment=environment, nvidia_open=False)
        assert only(early).starting
        assert process_runs([replace(early, run_id="run-1")]) == ()
        assert process_runs([early], {7: EPOCH}) == (), "it has finished its run and goes on"
    assert not only(python(7, 0)).starting
    named = launch_environment({"GPUTOP_LAUNCH_ID": "20261123-1", "GPUTOP_NAME": "mine", "GPUTOP_DIR": "/data"})
    assert only(python(7, environment=named), state_dir="/data").name == "mine"
    assert only(python(7, environment=named), state_dir="/other").name != "mine", "its own tracking does not name it here"
    elsewhere = LaunchEnvironment(gputop_launch_id="20261123-1", gputop_state_dir="/home/ada/.local/state/gputop")
    assert not only(python(7, environment=elsewhere), state_dir="/home/bob/.local/state/gputop").starting, (
        "its journal is not read here"
    )
    assert only(python(7, environment=elsewhere), state_dir="/home/ada/.local/state/gputop").starting


def test_a_job_is_a_run_before_its_first_step_although_it_has_its_id() -> None:
    environment = LaunchEnvironment(gputop_run_id="job-1", gputop_job_id="job-1", gputop_state_dir="/state")
    process = python(1, 0, run_id="job-1", environment=environment)
    assert only(process, state_dir="/state", listed={"another"}).starting
    for listed in ({"job-1"}, None):
        assert process_runs([process], state_dir="/state", listed=listed) == ()


def test_a_job_whose_journal_is_not_read_here_is_an_untracked_run() -> None:
    """In a container or under another state directory: its ranks were on the GPUs, and the screen said "No run yet"."""
    environment = LaunchEnvironment(
        rank=0, world_size=2, gputop_run_id="job-1", gputop_job_id="job-1", gputop_state_dir="/elsewhere"
    )
    ranks = [python(1 + rank, rank, run_id="job-1", environment=replace(environment, rank=rank)) for rank in range(2)]
    run = only(*ranks, state_dir="/state", listed=())
    assert (numbers(run), run.starting) == ([(0, None, 1), (1, None, 1)], False)


def test_a_process_that_has_finished_its_run_stays_gputops() -> None:
    went_on = python(1, 0)
    assert process_runs([went_on], {1: EPOCH - 3000}) == ()
    assert process_runs([went_on], {1: EPOCH - 9000}), "the PID of an older run, used again"


def test_the_run_on_the_most_gpus_comes_first_and_then_the_one_of_the_most_ranks() -> None:
    ranks = [torchrun(rank, rank) for rank in range(2)]
    old, wide = python(60, 7, started_at=EPOCH - 9000), python(61, 4, 5)
    found = process_runs([python(62, 6), old, python(63, 1, 2, 3), wide, *ranks])
    assert [run.key for run in found] == ["pid:63", "launcher:3999", "pid:61", "pid:60", "pid:62"]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("python3.11", "-X", "dev", "/data/run me.py", "-v"), "run me.py"),
        (("/usr/bin/python", "-m", "vllm.entrypoints.openai.api_server"), "vllm.entrypoints.openai.api_server"),
        (("python", "-m", "ipykernel_launcher", "-f", "k.json"), "notebook"),
        (("python", "-c", "import torch"), "python -c"),
        (("python",), "python"),
        (("/opt/bin/lmp", "-in", "x"), "lmp"),
        (("VLLM::EngineCore",), "VLLM::EngineCore"),
        (("trainer: epoch 3",), "trainer:"),
        (None, "python"),
    ],
)
def test_a_run_has_the_name_of_what_it_runs(command: tuple[str, ...] | None, name: str) -> None:
    assert only(python(1, 0, command=command)).name == name


def test_a_finder_that_remembers_finds_what_one_without_memory_does() -> None:
    """Whatever changes of a process: its run is as found anew; and where nothing that tells it does, it is the same record."""
    base = (torchrun(0, 0), torchrun(1, 1), python(62, 6))
    changes: list[dict[str, object]] = [
        {"state": "Z"},
        {"devices": use(5)},
        {"devices": use(0, contexts="G")},
        {"devices": ()},
        {"devices": (), "nvidia_open": True},
        {"name": "Xorg"},
        {"command": ("python", "other.py")},
        {"environment": RENDEZVOUS},
        {"launcher": Ancestor(9, "srun"), "ancestors": (Ancestor(9, "srun"),)},
        {"ancestors": (Ancestor(8, "raylet"),), "launcher": None},
        {"user": "eve"},
        {"started_at": EPOCH - 9999},
        {"in_namespace": False},
        {"torch_mapped": None, "devices": ()},
        {"ppid": 62, "command": SPAWNED},
        {"autograd_threads": ((0, 1.0),)},
        {"run_id": "run-1"},
        {"pid": 77},
    ]
    finder = ProcessRuns()
    for change in changes:
        for place in range(len(base)):
            for processes in (base, (*base[:place], replace(base[place], **change), *base[place + 1 :])):  # type: ignore[arg-type]
                assert finder.find(processes) == process_runs(processes)
    before = finder.find(base)
    moved = tuple(
        replace(process, cpu_percent=3.0, devices=tuple(replace(item, sm_utilization_percent=1.0) for item in process.devices))
        for process in base
    )
    assert all(one is other for one, other in zip(finder.find(moved), before, strict=True))


def test_a_process_is_looked_at_again_only_when_it_has_a_new_record() -> None:
    seen: list[int] = []
    views = ProcessViews(lambda process: (seen.append(process.pid), process.name))
    first, second = python(1, 0), python(2, 1)
    assert views.of((first, second)) == views.of((first, second))
    assert seen == [1, 2]
    assert [name for _, name in views.of((second, replace(first, name="vim")))] == [second.name, "vim"]
    assert seen == [1, 2, 1]
    views.of((second,))
    views.of((first, second))
    assert seen == [1, 2, 1, 1], "what has gone is forgotten"


def by_hand(
    pid: int, rank: int, *gpus: int, shell: int = 70, world: int = 2, port: int | None = None, **changes: object
) -> Process:
    """A rank of ``for i in 0 1; do RANK=$i WORLD_SIZE=2 python train.py & done``."""
    environment = LaunchEnvironment(rank=rank, local_rank=rank, world_size=world, master_port=port)
    return python(pid, *gpus, ppid=shell, environment=environment, **changes)


def test_ranks_that_a_shell_starts_one_by_one_are_one_run() -> None:
    worker = by_hand(90, 1, shell=81)
    run = only(by_hand(80, 0, 0), by_hand(81, 1, 1), worker)
    assert numbers(run) == [(0, 0, 1), (1, 1, 1)]
    assert run.world_size == 2
    left = only(by_hand(80, 0, 0))
    assert left.key == run.key, "also when a rank is gone"


def by_command(pid: int, rank: int, meets_at: str | None = "127.0.0.1:23456", shell: int = 70) -> Process:
    """A rank of ``python main.py --rank 0 --world-size 2 --dist-url tcp://127.0.0.1:23456``."""
    return python(pid, rank, ppid=shell, rank=rank, stated=StatedRank(rank, 2, option="--rank", meets_at=meets_at))


def test_ranks_that_their_commands_number_are_one_run() -> None:
    run = only(by_command(80, 0), by_command(81, 1, shell=71))
    assert [(rank.pid, rank.rank) for rank in run.ranks] == [(80, 0), (81, 1)]
    assert run.world_size == 2
    two = process_runs((by_command(80, 0, None), by_command(81, 1, None, shell=71)))
    assert len(two) == 2, "nothing shows that two shells belong together"


@pytest.mark.parametrize(
    "processes",
    [
        (by_hand(80, 0, 0), by_hand(81, 0, 1)),
        (by_hand(80, 0, 0), by_hand(81, 1, 1, shell=71)),
        (by_hand(80, 0, 0, port=29500), by_hand(81, 1, 1, port=29501)),
        (by_hand(80, 0, 0, world=1), by_hand(81, 1, 1, world=1)),
        (by_hand(80, 0, 0, shell=1), by_hand(81, 1, 1, shell=1)),
        (python(80, 0, ppid=70), python(81, 1, ppid=70)),
    ],
    ids=["one rank twice", "two shells", "two ports", "each a world of its own", "orphans", "no ranks"],
)
def test_what_a_shell_starts_is_not_one_run_if_nothing_shows_it(processes: tuple[Process, ...]) -> None:
    assert [len(run.ranks) for run in process_runs(processes)] == [1, 1]


@pytest.mark.parametrize(("local_rank", "world", "groups"), [(0, 2, 1), (0, 4, 2), (1, 2, 2)])
def test_a_first_rank_and_the_ranks_that_it_starts_are_one_group(local_rank: int, world: int, groups: int) -> None:
    first = python(80, rank=0, stated=StatedRank(0, 2, local_rank=local_rank))
    command = ("/opt/venv/bin/python", "/home/ada/train.py")
    other = python(81, 1, ppid=80, rank=1, stated=StatedRank(1, world, local_rank=1), command=command)
    assert len(set(group_keys([first, other]).values())) == groups
