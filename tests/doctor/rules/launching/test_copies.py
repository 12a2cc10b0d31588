"""Processes of one command that do not know of each other, although each has a GPU of its own (A18)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.process import Repeated
from gputop.snapshot import Ancestor, DeviceUse, LaunchEnvironment, Points, ProcessRank, ProcessRun, Rank, Run, Snapshot
from gputop.whereabouts.records import Activity, Doing, HeldModels, Holdings
from tests.doctor.scenes.base import Scene, play, single, virtual
from tests.samples import EPOCH, GIB

MPIRUN = Ancestor(3999, "mpirun")
TWICE = Repeated(2, 64)
PLAIN = Holdings(HeldModels(("Net",)), calls_wrapper=False)
_STEP: tuple[Activity, ...] = ("forward", "backward", "optimizer", "other")
Numbers = tuple[tuple[str, str], ...]


def numbered(rank: str, world: str, size: int = 2) -> tuple[Numbers, ...]:
    """The variables of a launcher, for each process."""
    return tuple(((rank, str(number)), (world, str(size))) for number in range(size))


PMI = numbered("PMI_RANK", "PMI_SIZE")
OPEN_MPI = numbered("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
SRUN = numbered("SLURM_PROCID", "SLURM_NTASKS")
JSRUN = numbered("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE")
NONE: tuple[Numbers, ...] = ((), ())


def copies(
    numbers: tuple[Numbers, ...] = PMI,
    *,
    repeated: Repeated | None = None,
    held: Holdings | None = PLAIN,
    launcher: Ancestor | None = None,
    threads: tuple[tuple[str, int], ...] = (),
    losses: tuple[float, ...] | None = None,
    apart_s: float = 0.0,
) -> Scene:
    """Processes of one command on a virtual GPU each. They print to one output, or with ``losses`` to a file each."""

    def scene(second: int) -> Snapshot:
        processes = tuple(
            single(
                4000 + place,
                DeviceUse(f"virtual-{place}", GIB, 90.0, "C"),
                environment=LaunchEnvironment(virtual_devices=str(place), settings=values),
                doing=Doing(_STEP[second % 4], "train.py:81", "main"),
                held=held,
                threads=threads,
                launcher=launcher,
                ancestors=(launcher,) if launcher is not None else (),
                started_at=EPOCH - 90 + apart_s * place,
                nvidia_open=False,
                torch_cuda_mapped=False,
                autograd_threads=(),
            )
            for place, values in enumerate(numbers)
        )
        found = virtual(second, dict.fromkeys(range(len(numbers)), 90.0), processes, ())
        ranks = [ProcessRank(process.pid, None, None, (process.devices[0].device_uuid,)) for process in processes]
        if launcher is not None:
            runs = (ProcessRun("launcher:3999", "train.py", tuple(ranks), launcher, repeated=repeated, connected=False),)
            return replace(found, process_runs=runs)
        ids = [f"pid-{rank.pid}-1" for rank in ranks] if losses is not None else [None] * len(ranks)
        runs = tuple(
            ProcessRun(f"pid:{rank.pid}", "train.py", (rank,), run_id=name, repeated=repeated)
            for rank, name in zip(ranks, ids, strict=True)
        )
        return replace(found, process_runs=runs, **_curves(second, losses or ()))

    return scene


def _curves(second: int, losses: tuple[float, ...]) -> dict[str, tuple[Run, ...] | tuple[Points, ...]]:
    runs, points = [], []
    for place, loss in enumerate(losses):
        name = f"pid-{4000 + place}-1"
        rank = Rank(0, pid=4000 + place, state="running", step=second, last_log_at=EPOCH + second, metrics={"loss": loss})
        runs.append(Run(name, "train.py", state="running", ranks=(replace(rank, facts={"source": "log"}),)))
        points.append(Points(name, 0, "loss", (second,), (EPOCH + second,), (loss / (1 + second / 50),)))
    return {"runs": tuple(runs), "points": tuple(points)}


def found(scene: Scene, seconds: int = 40) -> Finding | None:
    return next((item for item in play(scene, seconds)[-1] if item.id == "A18"), None)


@pytest.mark.parametrize("numbers", [PMI, JSRUN, NONE], ids=["mpiexec", "jsrun", "a loop of the shell"])
def test_copies_that_print_each_loss_as_often_as_there_are_of_them_are_likely_one_training(
    numbers: tuple[Numbers, ...],
) -> None:
    first, *_ = play(copies(numbers, repeated=TWICE), 40)[-1]
    assert (first.id, first.confidence, first.pids) == ("A18", "likely", (4000, 4001))
    assert "each of the last 64 losses is printed 2 times, as often as there are processes" in [f.text for f in first.evidence]


def test_copies_that_log_equal_losses_to_files_of_their_own_are_likely_one_training() -> None:
    first, *_ = play(copies(NONE, losses=(1.0, 1.0)), 40)[-1]
    assert (first.id, first.confidence) == ("A18", "likely")
    assert any(fact.text.startswith("loss is the same of all processes, to the last digit") for fact in first.evidence)
    assert found(copies(NONE, losses=(1.0, 1.1))) is None, "two seeds"


@pytest.mark.parametrize("numbers", [PMI, OPEN_MPI, SRUN, JSRUN])
def test_a_number_that_torch_does_not_read_is_possible_where_variables_hold_no_wrapper(numbers: tuple[Numbers, ...]) -> None:
    finding = found(copies(numbers))
    assert finding is not None
    assert finding.confidence == "possible"
    rank, world = (name for name, _ in numbers[0])
    assert f"but {rank} is 0, 1, and {world} is 2" in [fact.text for fact in finding.evidence]
    assert f'os.environ["RANK"], os.environ["WORLD_SIZE"] = os.environ["{rank}"], os.environ["{world}"]' in finding.fix


def test_tasks_of_mpirun_on_a_gpu_each_that_print_equal_losses_are_likely_one_training() -> None:
    finding = found(copies(OPEN_MPI, launcher=MPIRUN, repeated=TWICE))
    assert finding is not None
    assert finding.confidence == "likely"
    assert any(fact.text.endswith("losses is printed 2 times, as often as there are ranks") for fact in finding.evidence)


@pytest.mark.parametrize(
    "scene",
    [
        copies(NONE),
        copies(held=None),
        copies(held=replace(PLAIN, models=HeldModels(("Net",), "Intracomm"))),
        copies(held=replace(PLAIN, models=HeldModels(("DistributedDataParallel",), "DistributedDataParallel"))),
        copies(held=replace(PLAIN, calls_wrapper=True)),
        copies(threads=(("pt_gloo_runloop", 2),), repeated=TWICE),
        copies(apart_s=30.0, repeated=TWICE),
        copies(NONE, repeated=Repeated(4, 64)),
        copies((PMI[0], PMI[0])),
        copies(((("PMI_RANK", "0"), ("PMI_SIZE", "2")), (("PMI_RANK", "1"), ("PMI_SIZE", "3")))),
        copies(((("PMI_RANK", "a"), ("PMI_SIZE", "2")), (("PMI_RANK", "b"), ("PMI_SIZE", "2")))),
    ],
    ids=[
        "a sweep",
        "whose variables cannot be read",
        "that average gradients by mpi4py",
        "in DDP",
        "that were seen in a wrapper",
        "that are connected",
        "that began later",
        "that print each line twice",
        "of two jobs",
        "of two jobs of unlike sizes",
        "numbered in words",
    ],
)
def test_copies_of_other_kinds_are_left_alone(scene: Scene) -> None:
    assert found(scene) is None
