"""Tables of nvidia-smi between the lines of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found

STEPS = [f"step {at} loss {2 / (at + 1):.3f}" for at in range(4)]
Processes = Sequence[tuple[int, int, str, str, int]]


def table(busy: Mapping[int, int], gpus: int = 4, processes: Processes = ()) -> list[str]:
    """Return what nvidia-smi prints. ``busy``: the MiB in use on GPUs that work; ``processes``: GPU, PID, type, name, MiB."""
    lines = ["| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |"]
    for gpu in range(gpus):
        used, percent = (busy[gpu], 98) if gpu in busy else (4, 0)
        lines += [
            f"|   {gpu}  NVIDIA A100-SXM4-40GB          On  |   00000000:07:00.0 Off |                    0 |",
            f"| N/A   61C    P0            331W /  400W |   {used:5d}MiB /  40960MiB |    {percent:3d}%      Default |",
            "|                                         |                        |             Disabled |",
        ]
    lines.append("|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |")
    return lines + [
        f"|    {gpu}   N/A  N/A {pid:9d}      {kind}   {name:38} {mib:8d}MiB |" for gpu, pid, kind, name, mib in processes
    ]


RANKS = ["torchrun --nproc_per_node=2 train.py", "[rank0] world_size=2"]
TWO_OF_FOUR = table({0: 35212, 1: 35188}, processes=[(0, 11, "C", "python", 35202), (1, 12, "C", "python", 35178)])
ALL_ON_ONE = table({0: 20890}, processes=[(0, 11, "C", "python", 10462), (0, 12, "C", "python", 10470)])


def test_fewer_ranks_than_gpus(tmp_path: Path) -> None:
    finding = found(tmp_path, [*RANKS, *STEPS, *TWO_OF_FOUR], "A02")
    assert finding is not None
    assert (finding.confidence, finding.title) == ("likely", "2 ranks on 4 GPUs: 2 GPUs idle")


def test_ranks_on_one_gpu(tmp_path: Path) -> None:
    finding = found(tmp_path, [*RANKS, *STEPS, *ALL_ON_ONE], "A07")
    assert finding is not None
    assert (finding.confidence, finding.title) == ("likely", "2 ranks share GPU 0 of 4, and nothing uses the rest")


@pytest.mark.parametrize(
    "lines",
    {
        "all work": [*RANKS, *STEPS, *table({0: 35212, 1: 35188}, gpus=2)],
        "others hold memory": [*RANKS, *STEPS, *table({0: 35212, 1: 35188, 2: 9000})],
        "another number of ranks": ["world_size=8", *STEPS, *TWO_OF_FOUR],
        "no training": [*RANKS, *table({0: 35212, 1: 35188})],
        "one process": [*STEPS, *table({0: 35212}, processes=[(0, 11, "C", "python", 35202)])],
    }.values(),
)
def test_gpus_that_are_used_as_they_should_be(lines: list[str], tmp_path: Path) -> None:
    for id_ in ("A02", "A07", "H03"):
        assert found(tmp_path, lines, id_) is None


def of_each(name: str, mib: int) -> list[str]:
    return table({0: mib + 10, 1: mib + 10}, processes=[(0, 11, "C", name, mib), (1, 12, "C", name, mib)])


def test_python_on_the_gpus_of_ranks_is_a_training(tmp_path: Path) -> None:
    fewer, shared = found(tmp_path, [*RANKS, *TWO_OF_FOUR], "A02"), found(tmp_path, [*RANKS, *ALL_ON_ONE], "A07")
    assert fewer is not None
    assert shared is not None
    assert (fewer.confidence, shared.confidence) == ("possible", "possible")


@pytest.mark.parametrize(
    "lines",
    {
        "a server": ["vLLM API server", *RANKS, *TWO_OF_FOUR],
        "one model": ["torchrun --nproc_per_node=2 chat.py --tensor_parallel_size 2", *TWO_OF_FOUR],
        "notebooks": TWO_OF_FOUR,
        "jobs on one GPU": ALL_ON_ONE,
        "little memory": [*RANKS, *of_each("python", 402)],
        "another program": [*RANKS, *of_each("./namd", 8990)],
    }.values(),
)
def test_programs_on_gpus_that_are_no_training(lines: list[str], tmp_path: Path) -> None:
    for id_ in ("A01", "A02", "A07", "H03"):
        assert found(tmp_path, lines, id_) is None


ONE_OF_TWO = table({0: 31_418}, gpus=2)


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("torchrun --nproc_per_node=2 fit.py", "2 ranks"),
        ("$ horovodrun -np 2 python fit.py", "2 ranks"),
        ("python fit.py --gpus 0,1 --bs 64", "2 GPUs"),
        ("python fit.py --num_gpus=2", "2 GPUs"),
        ("model = nn.DataParallel(model)", "nn.DataParallel"),
        ("encoder on cuda:0, decoder on cuda:1", "2 devices"),
    ],
)
def test_one_of_several_gpus_that_the_run_asks_for_works(said: str, asked: str, tmp_path: Path) -> None:
    finding = found(tmp_path, [said, *STEPS, *ONE_OF_TWO], "A02")
    assert finding is not None
    assert (finding.confidence, finding.title) == ("possible", f"Only GPU 0 of 2 works, and the log speaks of {asked}")


@pytest.mark.parametrize(
    "lines",
    {
        "a shared box": [*STEPS, *ONE_OF_TWO],
        "a table alone": ONE_OF_TWO,
        "before the run": ["torchrun --nproc_per_node=2 fit.py", *ONE_OF_TWO, *STEPS],
        "one GPU by its number": ["python fit.py --gpus 2", *STEPS, *table({2: 31_418})],
        "the second one by its name": ["device: cuda:1", *STEPS, *ONE_OF_TWO],
        "on two hosts": ["torchrun --nnodes=2 --nproc_per_node=1 fit.py", "world_size: 2", *STEPS, *ONE_OF_TWO],
        "ranks of more hosts": ["world_size: 8", *STEPS, *ONE_OF_TWO],
        "a mask": ["CUDA_VISIBLE_DEVICES=0 python fit.py --gpus 0,1", *STEPS, *ONE_OF_TWO],
        "one process that says so": ["n_gpu: 2", "distributed training: False", *STEPS, *table({0: 31_418}, gpus=3)],
        "the other holds memory": ["world_size: 2", *STEPS, *table({0: 31_418, 1: 9000}, gpus=2)],
        "without a wrapper": ["not using DataParallel", *STEPS, *ONE_OF_TWO],
    }.values(),
)
def test_one_gpu_that_works_as_it_should(lines: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, lines, "A02") is None


def contexts(second_mib: int, third: int = 2) -> list[str]:
    own = [(gpu, 70412 + gpu, "C", "python", 32868) for gpu in range(3)]
    return [*STEPS, *table({0: 33914, 1: 32886, third: 32886}, 3, [*own, (0, 70413, "C", "python", second_mib)])]


def test_a_second_context_on_the_first_gpu(tmp_path: Path) -> None:
    finding = found(tmp_path, contexts(514), "H01")
    assert finding is not None
    assert finding.title == "1 process of another GPU also holds memory on GPU 0"
    assert finding.evidence[0].text == "PID 70413: 32.1 GiB on GPU 1, 514.0 MiB on GPU 0"
    assert found(tmp_path, contexts(30000), "H01") is None, "a model on two GPUs"
    alone = [(1, 70413, "C", "python", 32868), (0, 70413, "C", "python", 514)]
    assert found(tmp_path, [*STEPS, *table({1: 32886}, 2, alone)], "H01") is None, "GPU 0 has no process of its own"


def test_a_process_that_came_to_the_gpu_of_the_run(tmp_path: Path) -> None:
    alone = (1, 60233, "C", "python", 9884)
    came = (1, 71890, "C", "...envs/tf2/bin/python", 12732)
    screen = (1, 1904, "G", "/usr/lib/xorg/Xorg", 4)
    first, second = table({1: 9895}, 2, [screen, alone]), table({1: 22627}, 2, [screen, alone, came])
    finding = found(tmp_path, [*first, *STEPS, *second], "H03")
    assert finding is not None
    assert finding.confidence == "likely"
    assert finding.title == "Another process has come to the run's GPU 1: PID 71890, with 12.4 GiB"
    assert found(tmp_path, [*first, *STEPS, *first], "H03") is None
    assert found(tmp_path, [*second, *STEPS, *second], "H03") is None, "it was there before"
    assert found(tmp_path, [*first, *STEPS, *table({1: 12732}, 2, [came])], "H03") is None, "the run is gone"
    assert found(tmp_path, [*RANKS, *first, *STEPS, *second], "H03") is None, "it may be a rank"


GPUSTAT = ["lab-box2  Thu Jun  6 15:12:51 2024  550.90.07", "[0] NVIDIA RTX A6000 | 83'C, 100 % | 35396 / 49140 MB |{}"]


def test_a_process_of_another_user_by_gpustat(tmp_path: Path) -> None:
    mine, other = " me:python/41877(14312M)", " user7:python/59021(21048M)"
    first, second = ([text.format(mine + also) for text in GPUSTAT] for also in ("", other))
    finding = found(tmp_path, [*first, *STEPS, *second], "H03")
    assert finding is not None
    assert finding.title == "Another process has come to the run's GPU 0: PID 59021, with 20.6 GiB"
    assert finding.evidence[0].text == "PID 59021 (python of user7) is in the last table of the GPUs, and not in the first"
    assert found(tmp_path, [*first, *STEPS, *first], "H03") is None


def test_one_process_that_says_so_beside_idle_gpus(tmp_path: Path) -> None:
    one = table({0: 31418}, gpus=8, processes=[(0, 883011, "C", "python", 31402)])
    said = ["Distributed environment: DistributedType.NO", "Num processes: 1"]
    finding = found(tmp_path, [*said, *STEPS, *one], "A01")
    assert finding is not None
    assert (finding.confidence, finding.title) == ("likely", "One process trains on 1 of 8 GPUs")
    assert found(tmp_path, [*said, "CUDA_VISIBLE_DEVICES=0", *STEPS, *one], "A01") is None, "on purpose"
    assert found(tmp_path, [*STEPS, *one], "A01") is None, "nothing says that there is one process"


@pytest.mark.parametrize("ranks", ["distributed: MEMBER: 1/2", "Starting with 2 processes", "mp.spawn(worker, nprocs=2)"])
def test_the_number_of_ranks_in_other_words(ranks: str, tmp_path: Path) -> None:
    assert found(tmp_path, [ranks, *STEPS, *TWO_OF_FOUR], "A02") is not None


def test_a_mask_that_hides_gpus(tmp_path: Path) -> None:
    lines = ["LOCAL_RANK: 0 - CUDA_VISIBLE_DEVICES: [0,1]", *RANKS, *STEPS, *TWO_OF_FOUR]
    finding = found(tmp_path, lines, "A03")
    assert finding is not None
    assert finding.title == "CUDA_VISIBLE_DEVICES shows 2 of 4 GPUs"
    assert found(tmp_path, lines, "A02") is None
