"""Logs in which each rank prints its own numbers: one waits for its data, has fewer batches, or goes through everything."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs
from gputop.doctor.logs.numbers.line import Lines
from gputop.doctor.logs.numbers.ranks.each_rank import KEPT, LINES_MIN, EachRank
from gputop.units import count
from tests.doctor.logs.numbers.logs import found


def timed(data: dict[int, float], synced: bool = True, steps: int = LINES_MIN) -> list[str]:
    """Return lines of four ranks, of which each waits in the all-reduce for the slowest, if they are synchronized."""
    longest = max(data.values())
    return [
        f"[rank {rank}] step {step * 20:5d}  data {own:.3f}s  fwd 0.084s  bwd+allreduce {0.2 + (longest - own) * synced:.3f}s"
        for step in range(1, steps + 1)
        for rank, own in data.items()
    ]


SLOW = {0: 0.007, 1: 0.006, 2: 1.025, 3: 0.007}


def test_a_rank_that_waits_for_its_data_and_lets_the_others_wait(tmp_path: Path) -> None:
    finding = found(tmp_path, timed(SLOW), "F01")
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("warning", "likely")
    assert finding.title == "Rank 2 waits for its data, and the others wait for rank 2"
    assert "1.025 s of a step of 1.309 s on rank 2" in finding.evidence[0].text


@pytest.mark.parametrize(
    "lines",
    [
        timed(SLOW, steps=LINES_MIN - 1),
        timed(SLOW, synced=False),
        timed(dict.fromkeys(range(4), 1.0)),
        timed({0: 0.007, 1: 0.006, 2: 0.1, 3: 0.007}),
        timed({0: 0.5, 1: 0.5, 2: 1.2, 3: 0.5}),
        timed({2: 1.025}),
        [line.replace("[rank ", "[worker ") for line in timed(SLOW)],
        [line.replace("data", "words") for line in timed(SLOW)],
    ],
    ids=["few lines", "nobody waits", "all alike", "a small share", "hardly longer", "one rank", "no ranks", "no data"],
)
def test_other_times_say_nothing(tmp_path: Path, lines: list[str]) -> None:
    assert found(tmp_path, lines, "F01") is None


def counted(totals: dict[int, int], head: str = "[rank{rank}] 2024-03-08 02:10:00", lines: int = LINES_MIN) -> list[str]:
    return [
        f"{head.format(rank=rank)} epoch 0 batch {at * 10}/{total} loss 1.2"
        for at in range(1, lines + 1)
        for rank, total in totals.items()
    ]


@pytest.mark.parametrize(
    "head",
    ["[rank{rank}]", "[GPU{rank}]", "Rank {rank}:", "12:03:01 [rank {rank}]", "rank={rank} |", "rank {rank}"],
)
def test_ranks_with_different_numbers_of_batches(tmp_path: Path, head: str) -> None:
    finding = found(tmp_path, counted({0: 3126, 1: 3121}, head), "C07")
    assert finding is not None
    assert finding.confidence == "likely"
    assert finding.title == f"Rank 1 has {count(3121)} batches in an epoch, rank 0 has {count(3126)}"


def test_numbers_alone_may_be_those_of_folds(tmp_path: Path) -> None:
    finding = found(tmp_path, counted({0: 3126, 1: 3121}, "[{rank}]"), "C07")
    assert finding is not None
    assert finding.confidence == "possible"


@pytest.mark.parametrize(
    "lines",
    [
        counted({1: 3126, 2: 3121}),
        counted({0: 3126, 1: 3126}),
        counted({0: 3126, 1: 3121}, lines=LINES_MIN - 1),
        counted({0: 3126}),
        [*counted({0: 3126, 1: 3126}), *counted({0: 3121, 1: 3121})],
        counted({0: 3126, 1: 3121}, "{rank}"),
        sorted(counted({0: 3126, 1: 3121}, "[{rank}]")),
        [*sorted(counted({3: 3126, 4: 3121}, "[{rank}]")), *counted({0: 3126}, "[rank {rank}]")],
    ],
    ids=[
        "numbers from 1",
        "the same",
        "few lines",
        "one rank",
        "another epoch",
        "a number alone",
        "epochs",
        "epochs of a rank",
    ],
)
def test_other_counts_say_nothing(tmp_path: Path, lines: list[str]) -> None:
    assert found(tmp_path, lines, "C07") is None


def sets(samples: int, batches: int, ranks: int = 4) -> list[str]:
    return [
        f"[rank {rank}] dataset {samples} samples, batch size 128, len(loader) = {batches}, sampler = RandomSampler"
        for rank in range(ranks)
    ]


def test_ranks_that_each_go_through_all_of_the_data(tmp_path: Path) -> None:
    finding = found(tmp_path, sets(50000, 391), "C05")
    assert finding is not None
    assert finding.confidence == "possible"
    assert finding.title == f"Each of 4 ranks goes through all {count(50000)} samples in an epoch"
    assert found(tmp_path, [line.replace("len(loader) = 391", "390 batches") for line in sets(50000, 391)], "C05") is not None


@pytest.mark.parametrize(
    "lines",
    [sets(50000, 98), sets(50000, 391, 1), [*sets(50000, 391, 2), "[rank 1] 25000 samples, batch size 128, 196 batches"]],
)
def test_ranks_with_a_share_of_the_data(tmp_path: Path, lines: list[str]) -> None:
    assert found(tmp_path, lines, "C05") is None


def test_a_long_log_takes_no_more_memory() -> None:
    ranks = EachRank()
    for line in Lines().of(line for _ in range(3) for line in losses({0: 1.0, 1: 1.0}, KEPT)):
        ranks.read(line)
    assert all(KEPT / 2 <= len(rank.losses) <= KEPT for rank in ranks._named.values())


def test_what_torchrun_says_of_every_run_comes_last(tmp_path: Path) -> None:
    threads = "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid"
    log = tmp_path / "train.log"
    log.write_text("\n".join([threads, *sets(50000, 391)]) + "\n")
    assert [item.id for item in explain_logs([str(log)])[0]] == ["C05", "D04"]


def test_parts_of_steps_may_have_no_unit(tmp_path: Path) -> None:
    finding = found(tmp_path, [re.sub(r"(?<=\d)s\b", "", line) for line in timed(SLOW)], "F01")
    assert finding is not None
    assert "1.025 of a step of 1.309 on rank 2" in finding.evidence[0].text


def test_ranks_that_state_how_many_batches_their_samples_make(tmp_path: Path) -> None:
    line = "[pod/spk-0/trainer] 2025-06-03T07:09:58Z rank={rank} shard {rank}: {samples} utterances, {batches} batches of 52"
    lines = [line.format(rank=rank, samples=11310 - 51 * (rank == 2), batches=218 - (rank == 2)) for rank in range(4)]
    finding = found(tmp_path, lines, "C07")
    assert finding is not None
    assert finding.title == "Rank 2 has 217 batches in an epoch, rank 0 has 218"
    assert found(tmp_path, lines[:2], "C07") is None
    assert found(tmp_path, [*lines, "rank=4 step 20 loss 1.0"], "C07") is None, "one rank has not said it"


def losses(courses: dict[int, float], lines: int = 12) -> list[str]:
    return [f"[rank {rank}] step {at * 20:4d} loss {2.3 * by**at:.4f}" for at in range(lines) for rank, by in courses.items()]


FALL = {0: 0.95, 1: 0.95, 2: 1.03, 3: 0.95}


def test_a_rank_whose_loss_grows_while_those_of_the_others_fall(tmp_path: Path) -> None:
    finding = found(tmp_path, losses(FALL), "C11")
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("warning", "likely")
    assert finding.title == "The loss of rank 2 grows, and those of the others fall"


@pytest.mark.parametrize(
    "lines",
    [
        losses(FALL, 7),
        losses({**FALL, 2: 1.0}),
        losses({**FALL, 3: 1.03}),
        losses({**FALL, 3: 0.999}),
        losses({0: 0.95, 2: 1.03}),
        losses(dict.fromkeys(range(4), 1.03)),
    ],
    ids=["few", "stays", "two of them", "another stays", "two ranks", "all of them"],
)
def test_other_losses_say_nothing(tmp_path: Path, lines: list[str]) -> None:
    assert found(tmp_path, lines, "C11") is None


def test_ranks_that_each_say_that_they_went_through_everything(tmp_path: Path) -> None:
    lines = [f"[{rank}] epoch {epoch}: saw {{}} of 50 000 images in 91 s" for epoch in range(1, 4) for rank in (2, 0, 1)]
    finding = found(tmp_path, [line.format("50 000") for line in lines], "C05")
    assert finding is not None
    assert finding.evidence[0].text == f"each of them went through {count(50000)} of {count(50000)}"
    assert found(tmp_path, [line.format("16 667") for line in lines], "C05") is None
    assert found(tmp_path, [line.replace("images", "batches").format("50 000") for line in lines], "C05") is None


def parts(busy: dict[tuple[str, int], float]) -> list[str]:
    longest = max(busy.values())
    return [
        f"{host}: rank {rank} step {step * 100} get 0.002 busy {own:.3f} wait {longest - own + 0.02:.3f} total {longest:.3f}"
        for step in range(1, 8)
        for (host, rank), own in busy.items()
    ]


def test_a_host_whose_ranks_all_compute_longer(tmp_path: Path) -> None:
    hosts = {("curlew", 0): 0.19, ("curlew", 1): 0.2, ("dotterel", 2): 0.39, ("dotterel", 3): 0.4}
    finding = found(tmp_path, parts(hosts), "K01")
    assert finding is not None
    assert finding.title == "Host dotterel computes longer, and the others wait for host dotterel"
    assert found(tmp_path, parts(dict.fromkeys(hosts, 0.2)), "K01") is None


def test_a_rank_that_computes_longer_than_the_others(tmp_path: Path) -> None:
    busy = {("curlew", rank): 0.2 + 0.2 * (rank == 2) for rank in range(4)}
    finding = found(tmp_path, [line.removeprefix("curlew: ") for line in parts(busy)], "F02")
    assert finding is not None
    assert finding.title == "Rank 2 computes longer, and the others wait for rank 2"


def test_a_rank_that_does_more_than_the_others(tmp_path: Path) -> None:
    lines = [
        f"<r{rank}> it {step} psnr 15.5 compute 0.19 preview+log {0.8 * (rank == 0):.3f} allreduce {0.8 * (rank > 0):.3f}"
        for step in range(8)
        for rank in range(3)
    ]
    finding = found(tmp_path, lines, "F05")
    assert finding is not None
    assert finding.title == "Rank 0 does more than the others, and the others wait for rank 0"


def test_a_rank_that_takes_long_to_copy_its_batches(tmp_path: Path) -> None:
    lines = [line.replace("data", "h2d") for line in timed(SLOW)]
    finding = found(tmp_path, lines, "I03")
    assert finding is not None
    assert finding.confidence == "possible"
    assert finding.title == "Rank 2 takes longer to copy its batches to its GPU, and the others wait for rank 2"
    rows = [
        "index, pcie.link.width.current, pcie.link.width.max",
        *(f"{gpu}, {4 if gpu == 2 else 16}, 16" for gpu in range(4)),
    ]
    surer = found(tmp_path, [*lines, *rows], "I03")
    assert surer is not None
    assert surer.title == "GPU 2 has a PCIe link of 4 lanes; 16 are possible"


def test_ranks_behind_the_name_of_a_logger(tmp_path: Path) -> None:
    lines = [
        f"INFO:train:step {step} rank {rank} data {1.4 if rank == 2 else 0.01:.3f} fwd 0.13 bwd {0.3 if rank == 2 else 1.7:.3f}"
        for step in range(50, 400, 50)
        for rank in range(4)
    ]
    finding = found(tmp_path, lines, "F01")
    assert finding is not None
    assert finding.title.startswith("Rank 2 waits for its data")


def amounts(tokens: dict[int, int], works: dict[int, float]) -> list[str]:
    return [
        f"[rank {rank}] step {step} tokens/step {tokens[rank] + step} compute {works[rank]:.3f}s "
        f"wait {max(works.values()) - works[rank]:.3f}s"
        for step in range(8)
        for rank in tokens
    ]


TOKENS, WORKS = {0: 1671, 1: 4298, 2: 8173, 3: 16492}, {0: 0.18, 1: 0.41, 2: 0.71, 3: 1.39}


def test_a_rank_with_more_work(tmp_path: Path) -> None:
    finding = found(tmp_path, amounts(TOKENS, WORKS), "F03")
    assert finding is not None
    assert finding.title == "Rank 3 has more work in a step than the others, which wait for it"
    assert finding.evidence[0].text == "tokens in a step: 1 674 on rank 0, 16 496 on rank 3"
    assert found(tmp_path, amounts(dict.fromkeys(TOKENS, 8000), WORKS), "F03") is None, "as much of it"
    assert found(tmp_path, amounts(TOKENS, dict.fromkeys(WORKS, 0.7)), "F03") is None, "as long"
    assert found(tmp_path, amounts(TOKENS, {0: 1.39, 1: 0.4, 2: 0.4, 3: 0.41}), "F03") is None, "another rank"


def test_a_data_set_that_each_rank_has_seen(tmp_path: Path) -> None:
    loaders = [f'{{"event": "loader", "rank": {rank}, "dataset_len": 236544, "batches": 7392}}' for rank in range(4)]
    ends = [f'{{"event": "epoch_end", "rank": {rank}, "epoch": 0, "samples_seen": 236544}}' for rank in range(4)]
    finding = found(tmp_path, [*loaders, *ends], "C05")
    assert finding is not None
    assert finding.title == "Each of 4 ranks goes through all 236 544 samples in an epoch"
    assert found(tmp_path, [*loaders, *(line.replace("236544", "59136") for line in ends)], "C05") is None


def test_samples_of_all_ranks_that_each_loader_has(tmp_path: Path) -> None:
    def lines(batches: int) -> list[str]:
        ends = [f"[gpu{rank}] época 1: 48210 imágenes en 621.7 s" for rank in range(4)]
        loaders = [f"[gpu{rank}] len(train_loader) = {batches}" for rank in range(4)]
        return ["imágenes de entrenamiento: 48210, lote por GPU: 32", *loaders, *ends]

    finding = found(tmp_path, lines(1507), "C05")
    assert finding is not None
    assert finding.title == "Each of 4 ranks goes through all 48 210 samples in an epoch"
    assert found(tmp_path, lines(377), "C05") is None
    assert found(tmp_path, [lines(1507)[0].replace("por GPU", "total"), *lines(1507)[1:]], "C05") is None


def test_samples_and_batches_in_one_line_of_each_rank(tmp_path: Path) -> None:
    lines = [f"[rank{rank}/4] cuda:{rank} ready, train=9285 val=1031, len(train_loader)=581 (batch 16)" for rank in range(4)]
    steps = [f"[rank{rank}/4] ep 0 {at}/581 loss 4.5" for at in (0, 100, 200) for rank in range(4)]
    assert found(tmp_path, [*lines, *steps], "C05") is not None
    shared = [line.replace("581", "146") for line in (*lines, *steps)]
    assert found(tmp_path, shared, "C05") is None


def test_indented_lines_of_ranks(tmp_path: Path) -> None:
    def step(at: int, slow: float) -> list[str]:
        return [
            f"21:1{at}:43 step {at}00 loss 0.7 total 437 ms",
            *(
                f"    rank {rank}  load  3.{at} ms  forward+backward  {slow if rank == 2 else 204.6} ms  "
                f"allreduce wait  {1.4 if rank == 2 else 207.5} ms"
                for rank in range(4)
            ),
        ]

    finding = found(tmp_path, [line for at in range(9) for line in step(at, 410.7)], "F02")
    assert finding is not None
    assert finding.title == "Rank 2 computes longer, and the others wait for rank 2"
    assert found(tmp_path, [line for at in range(9) for line in step(at, 206.7)], "F02") is None


def test_runs_that_are_apart_are_not_compared(tmp_path: Path) -> None:
    lines = [
        f"[gpu{rank}] run 0{rank} epoch {at} train_loss {2 / at if rank != 2 else 2 + at:.3f}"
        for at in range(1, 12)
        for rank in range(4)
    ]
    assert found(tmp_path, lines, "C11") is not None
    assert found(tmp_path, ["[gpu0] run 00 start lr=0.1 world_size=1", *lines], "C11") is None
    assert found(tmp_path, ["4 workers, one run per GPU", *lines], "C11") is None


def test_the_ends_of_the_files_of_several_ranks(tmp_path: Path) -> None:
    def file(rank: int, batches: int) -> list[str]:
        steps = [f"04:11:4{at},624 ep 0 batch {batches - 9 + at}/{batches} loss 2.3" for at in range(9)]
        return [f"==> logs/rank_{rank}.log <==", *steps, ""]

    finding = found(tmp_path, [line for rank in range(4) for line in file(rank, 1251 - 2 * (rank == 3))], "C07")
    assert finding is not None
    assert finding.title == "Rank 3 has 1 249 batches in an epoch, rank 0 has 1 251"
    assert found(tmp_path, [line for rank in range(4) for line in file(rank, 1251)], "C07") is None


def test_a_rank_that_waits_outside_the_collective_while_the_others_wait_in_it(tmp_path: Path) -> None:
    def log(wait: float, reduce: float) -> list[str]:
        shards = [f"rank {rank}: shard /data/shard{rank}  (nvme)" for rank in range(4)]
        steps = [
            f"r{rank} wait  {wait if rank == 2 else 0.008:.3f}s | fwd+bwd 0.49{at}s | "
            f"allreduce {0.04 if rank == 2 else reduce:.3f}s | step 1.540s"
            for at in range(8)
            for rank in range(4)
        ]
        return [*shards, "--- step 100 loss 1.9361", *steps]

    finding = found(tmp_path, log(1.02, 1.05), "F01")
    assert finding is not None
    assert finding.title == "Rank 2 waits for its data, and the others wait for rank 2"
    assert found(tmp_path, log(1.02, 1.05), "E06") is None
    assert found(tmp_path, log(0.008, 0.04), "F01") is None
