"""Logs whose printed pace falls over hours, or that evaluate longer than they train; and those that only look so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs
from gputop.tracking.printed.rates import paces, whole_times
from gputop.tracking.printed.transcript import Transcript
from tests.doctor.scenes.base import play
from tests.doctor.scenes.near import saves as near_saves

LINES = 400
Line = Callable[[int, float], str]
"""A line of a log by its number and by how much slower the run has become: 1 at the beginning."""


def loss(number: int) -> str:
    return f"{3 - number * 0.001:.4f}"


def bar(number: int, rate: str, more: str = "", name: str = "") -> str:
    done = f"{name}{number * 100 // LINES:3d}%|███▌      | {number}/{LINES}"
    return f"{done} [{number // 60:02d}:{number % 60:02d}<10:00, {rate}{more}]"


PRINTED: dict[str, Line] = {
    "a bar": lambda n, slow: bar(n, f"{4 / slow:.2f}it/s", f", loss={loss(n)}"),
    "a bar of slow steps": lambda n, slow: bar(n, f"{1.2 * slow:.2f}s/it", f", loss={loss(n)}"),
    "a bar without a loss": lambda n, slow: bar(n, f"{1.2 * slow:.2f}s/it"),
    "a bar per epoch": lambda n, slow: bar(n, f"{4 / slow:.2f}it/s", f", v_num=0, train_loss={loss(n)}", "Epoch 0: "),
    "dt and tok/sec": lambda n, slow: (
        f"step {n * 10} | loss {loss(n)} | dt: {300 * slow:.2f}ms | tok/sec: {170_000 / slow:.2f}"
    ),
    "a cell of milliseconds": lambda n, slow: f"step {n} | loss {loss(n)} | norm 0.34 | {745 * slow:.0f} ms |",
    "thousands of tokens": lambda n, slow: f"iter {n}: loss {loss(n)}, {170.2 / slow:.1f}K tok/s",
    "with commas": lambda n, slow: f"step {n} loss {loss(n)} {round(170_000 / slow):,} tokens/s",
    "time and data": lambda n, slow: f"Train: 3 [{n}/{LINES}] Loss: {loss(n)} Time: {0.3 * slow:.3f}s Data: 0.010 (0.011)",
    "samples/sec": lambda n, slow: f"INFO:root:Epoch 1 step {n} loss={loss(n)} samples/sec={1700 / slow:.1f}",
    "a benchmark": lambda n, slow: f"Iter #{n}: {1700 / slow:.1f} img/sec per GPU",
    "time of a step": lambda n, slow: f"iter {n * 10}: loss {loss(n)}, time {120 * slow:.2f}ms, mfu 31.20%",
    "a dictionary": lambda n, slow: str({"loss": float(loss(n)), "train_samples_per_second": round(170 / slow, 2)}),
    "Megatron": lambda n, slow: (
        f" iteration {n * 10:8d}/ 60000 | elapsed time per iteration (ms): {1000 * slow:.1f} | lm loss: {loss(n)}E+00 |"
    ),
    "DeepSpeed": lambda n, slow: f"[timer.py:199:stop] global_step={n * 10}, CurrSamplesPerSec={90 / slow:.3f}, Mem=3.2GB",
}
LONGER: dict[str, Line] = {
    "tokens stay": lambda n, slow: f"step {n} | loss {loss(n)} | dt: {300 * slow:.2f}ms | tok/sec: 170000.00",
    "episodes get longer": lambda n, slow: bar(n, f"{9 / slow:.2f}it/s", f", reward={n * 0.5:.1f}, loss=0.1"),
    "rollouts get longer": lambda n, slow: (
        f"step {n * 10}  rollout {1 << n // 100}  wmse {loss(n)}  {0.31 * (1 << n // 100):.3f} s/step"
    ),
    "sequences get longer": lambda n, slow: f"step {n} seq_len {1 << 7 + n // 100} | {300 << n // 100} ms |",
    "a download": lambda n, slow: bar(n, f"{9 / slow:.2f}MB/s", name="model.safetensors: "),
    "data is prepared": lambda n, slow: bar(n, f"{4000 / slow:.2f} examples/s", name="Map: "),
    "validation": lambda n, slow: bar(n, f"{4 / slow:.2f}it/s", ", loss=1.0", "Validation: "),
}


def told(tmp_path: Path, lines: Iterable[str]) -> list[str]:
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines) + "\n")
    return [finding.id for finding in explain_logs([str(path)])[0]]


def falling(line: Line) -> list[str]:
    return [line(number, 1 + 2 * number / LINES) for number in range(LINES)]


@pytest.mark.parametrize("name", PRINTED)
def test_a_falling_pace_is_reported_and_a_steady_one_is_not(tmp_path: Path, name: str) -> None:
    line = PRINTED[name]
    assert told(tmp_path, falling(line)) == ["E10"]
    assert told(tmp_path, [line(number, 1 + number % 3 * 0.1) for number in range(LINES)]) == []


@pytest.mark.parametrize("name", LONGER)
def test_steps_that_are_longer_on_purpose_are_not_reported(tmp_path: Path, name: str) -> None:
    assert told(tmp_path, falling(LONGER[name])) == []


def test_evaluation_that_takes_longer_than_training_is_reported(tmp_path: Path) -> None:
    def script(evaluation_s: float) -> list[str]:
        return [
            line
            for epoch in range(6)
            for line in (
                f"Epoch {epoch}: loss {3 - epoch * 0.1:.3f}",
                "Training time: 40.1s",
                f"Validation took {evaluation_s:.1f} s",
            )
        ]

    def trainer(evaluation_s: float) -> list[str]:
        each = [str({"eval_loss": 2.5 - epoch * 0.1, "eval_runtime": evaluation_s, "epoch": epoch}) for epoch in range(6)]
        return [*each, str({"train_runtime": 6 * (40 + evaluation_s), "train_loss": 2.0, "epoch": 6})]

    def clock(evaluation_s: float) -> list[str]:
        minutes, seconds = divmod(int(evaluation_s), 60)
        return ["INFO epoch took 0:00:40", f"INFO evaluation took 0:{minutes:02d}:{seconds:02d}"] * 6

    for log in (script, trainer, clock):
        assert told(tmp_path, log(90.0)) == ["E07"], log.__name__
        assert told(tmp_path, log(12.0)) == [], log.__name__
    assert told(tmp_path, ["Validation took 90.0 s"] * 6) == []  # it only evaluates


def epochs(seconds: Callable[[int], float], number: int = 30) -> list[str]:
    return [f"INFO epoch {at:3d} train_loss {3 - at * 0.1:.3f} time {seconds(at):.1f}s mem 2411MiB" for at in range(number)]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (epochs(lambda at: 41 + 4.5 * at), ["E10"]),
        (epochs(lambda at: 41 + 4.5 * at, 7), []),
        (epochs(lambda at: 41 + 0.5 * at), []),
        (epochs(lambda at: 41 + 30 * (at % 3)), []),
        (epochs(lambda at: 41 * (at + 1)), []),
        ([line.replace("time", "step 5/90 time") for line in epochs(lambda at: 41 + 4.5 * at)], []),
    ],
    ids=["longer and longer", "few", "hardly longer", "up and down", "since the start", "the time of a step"],
)
def test_epochs_that_take_longer_and_longer_by_their_own_times(tmp_path: Path, lines: list[str], found: list[str]) -> None:
    assert told(tmp_path, lines) == found


@pytest.mark.parametrize(
    ("number", "by", "slow", "found"),
    [
        (24, 0.4, 0.0, ["E10"]),
        (24, 0.05, 0.0, []),
        (12, 0.4, 0.0, []),
        (24, 0.08, 0.0, ["E10"]),
        (24, 0.08, 0.3, []),
        (24, 0.4, 2.2, ["E10"]),
    ],
)
def test_few_times_of_steps_are_enough_if_they_grow_much(
    tmp_path: Path, number: int, by: float, slow: float, found: list[str]
) -> None:
    """``slow``: how much longer some steps in the middle take; from a threefold growth on, that does not matter."""
    times = [212 * (1 + by * at + slow * (12 <= at < 15)) for at in range(number)]
    lines = [f"iter {200 * at:5d}  loss {2.8 - at * 0.02:.4f}  {time:.1f} ms/iter" for at, time in enumerate(times)]
    assert told(tmp_path, lines) == found


@pytest.mark.parametrize(
    ("line", "took"),
    [
        ("epoch 1 train_loss 0.7 time 41.3s gpu_mem 2411MiB", 41.3),
        ("Epoch 3 loss 0.4 time 2:03", 123.0),
        ("epoch 3: loss 0.2, took 3.2 min", 192.0),
        ("\ttime this epoch= 2.204719", 2.204719),
        ("time for this epoch: 1:05", 65.0),
        ("time this epoch was good", None),
        ("time this epoch= 12 of 30", None),
        ("Epoch 3 step 20 loss 0.2 time 0.3s", None),
        ("epoch 3 loss 0.2 time 0.3", None),
        ("epoch 3 loss 0.2 elapsed 30s", None),
        ("epoch 3 loss 0.2 time 10:21:33", None),
    ],
)
def test_a_line_about_an_epoch_says_how_long_it_took(line: str, took: float | None) -> None:
    assert whole_times(line).get("epoch_s") == took


def test_waits_for_batches_in_other_words(tmp_path: Path) -> None:
    line = "iter {at:3d}: waited for batch {wait:.3f} s, forward+backward 0.115 s, total {total:.3f} s"
    slow = [line.format(at=at, wait=wait, total=wait + 0.115) for at in range(48) for wait in [0.01 if at % 8 else 4.1]]
    assert paces(slow[8])["data_time"] == 4.1
    assert "data_time" not in paces(slow[0]), "the workers start"
    assert "data_time" not in paces(f"{slow[8]} (overlapped with compute)"), "nothing waits for it"
    assert told(tmp_path, slow) == ["D01"]
    assert told(tmp_path, [text.replace("4.1", "0.1").replace("4.2", "0.2") for text in slow]) == []


def test_the_output_of_an_untracked_run_also_shows_its_pace() -> None:
    line = PRINTED["a bar"](7, 2.0).encode() + b"\n"
    ((_, metrics),) = Transcript(with_pace=True).feed(line)
    assert metrics["it_per_sec"] == 2.0
    ((_, plain),) = Transcript().feed(line)
    assert "it_per_sec" not in plain


def test_two_times_side_by_side_are_read_as_training_and_evaluation() -> None:
    for line in (
        "step 20 val_acc 0.2 train 12.0s eval 250 ms",
        "epoch 3 | train: 12 sec | val: 0.25s",
        "train=0.2m, valid=0.25s",
    ):
        assert whole_times(line) == {"training_s": 12.0, "evaluation_s": 0.25}, line
    for line in ("train 12 val 3", "train 12.1s", "pretrain 3s eval 4s", "train/loss 3 s eval 3s", "train loss 0.3 eval 3s"):
        assert whole_times(line) == {}, line
    ((_, metrics),) = Transcript(with_pace=True).feed(b"step 20 loss 2.0 train 1.0s eval 4.0s\n")
    assert (metrics["training_s"], metrics["evaluation_s"]) == (1.0, 4.0)
    bars = "".join(drawn(count, 2.0).replace("]", ", train 1s val 4s]") for count in range(100, 104))
    told = [metrics for _, metrics in Transcript(with_pace=True, with_bars=True).feed(f"{bars}\r".encode())]
    assert sum("evaluation_s" in metrics for metrics in told) == sum("loss" in metrics for metrics in told) < len(told)


def test_other_numbers_are_no_pace() -> None:
    for line in ("max mem: 3 GB time: 2026", "step 3 time 12:03:44 loss 3.0", "2 samples, 3 s", "val_samples/s: 3", "epoch 3"):
        assert paces(line) == {}, line
    for line in (
        "step 3 | loss 2.1 | data 3 shards | time 4.25",
        "loaded data: 50000 samples, time: 12.3",
        "train data: 3 millions, time: 0.5",
        "data 5 steps time 0.3",
        "data_time 12 segments, time 3.5",
    ):
        assert {"data_time", "time"}.isdisjoint(paces(line)), line
    for line in ("data 3 s | time 4.25", "data: 3 sec, time: 4.25", "data 3 s, dt 4.25 s", "(data 3s) (time 4.25s)"):
        assert (paces(line)["data_time"], paces(line)["time"]) == (3.0, 4.25), line
    for line in ("time 3", "an epoch of training, in 2026", "eval in 3 steps", "trained for 3 epochs"):
        assert whole_times(line) == {}, line


@pytest.mark.parametrize("name", ["lr", "learning_rate", "train/learning_rate"])
@pytest.mark.parametrize("rate", [0.0, 3e-5])
def test_a_printed_learning_rate_of_0_is_recognized_by_each_of_its_names(tmp_path: Path, name: str, rate: float) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"{ {'loss': 2.3 + (at * 7 % 11) / 100, name: rate, 'epoch': at / 100} }\n" for at in range(130)))
    found, _ = explain_logs([str(log)])
    assert [finding.id for finding in found] == (["J03"] if rate == 0 else [])


def drawn(count: int, value: float, rate: str = "4.00it/s") -> str:
    return f"\r{count * 100 // 999:3d}%|███▌      | {count}/999 [01:40<10:00, {rate}, loss={value:.3f}]"


REDRAWN = {
    "slow steps, set once": lambda at: drawn(at, 2.303),
    "slow steps, set every 200": lambda at: drawn(at, 2.303 - at // 200 * 0.1),
    "fast steps, set every 3000": lambda at: drawn(3 * at, 2.303, "30.0it/s"),
}
SET_ANEW = {
    "slow steps": lambda at: drawn(at, 2.303) + drawn(at, 2.303),
    "fast steps": lambda at: drawn(at, 2.303, "120.00it/s"),
}


@pytest.mark.parametrize("name", REDRAWN)
def test_a_bar_that_is_drawn_again_says_nothing_new_of_its_loss(tmp_path: Path, name: str) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(map(REDRAWN[name], range(330))) + "\n")
    assert explain_logs([str(log)])[0] == ()


@pytest.mark.parametrize("name", SET_ANEW)
def test_a_loss_that_is_logged_in_each_step_and_never_changes_is_reported(tmp_path: Path, name: str) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(map(SET_ANEW[name], range(330))) + "\n")
    assert [finding.id for finding in explain_logs([str(log)])[0]] == ["J03"]


WAITS = {
    "fetch": "iter {n}: loss {loss}, fetch 812 ms, fwd/bwd 140 ms",
    "DataLoad and Compute": "Epoch 1 | Batch {n}/900 | Loss {loss} | DataLoad 0.92s | Compute 0.11s",
    "dt": "step: {n} loss: {loss} dt: 1.21s data: 1.02s",
    "time/iter": "step {n} loss {loss} time/iter 1.2 time/data 1.0",
    "milliseconds without decimals": "step {n} loss {loss} time 1200ms data_time 1010ms",
}
WORKS = {
    "little of it": "iter {n}: loss {loss}, fetch 12 ms, fwd/bwd 940 ms",
    "units that differ": "iter {n}: loss {loss}, fetch 812 ms, fwd/bwd 14.2 s",
    "a count": "step {n} loss {loss} data 900 time 1000",
    "the data set's name": "step {n} loss {loss} time 1.21 data/coco 0.92",
}


@pytest.mark.parametrize("name", WAITS)
def test_the_wait_for_data_is_read_in_each_of_its_forms(tmp_path: Path, name: str) -> None:
    assert "D01" in told(tmp_path, (WAITS[name].format(n=n, loss=loss(n)) for n in range(60)))


@pytest.mark.parametrize("name", WORKS)
def test_a_step_that_works_waits_for_no_data(tmp_path: Path, name: str) -> None:
    assert "D01" not in told(tmp_path, (WORKS[name].format(n=n, loss=loss(n)) for n in range(60)))


def test_losses_that_pause_while_the_process_writes_show_its_checkpoints() -> None:
    [*_, (found, *_)] = play(near_saves.saves, 90)
    assert (found.id, found.severity, found.confidence) == ("E07", "warning", "likely")
    assert found.title == "Every 20 steps the training stops to write a file: 50% of the time"
    assert "in 4 of these pauses process 4000 wrote to disk, 2.3 GiB in all" in [fact.text for fact in found.evidence]


@pytest.mark.parametrize(("last", "found"), [(9, True), (7, False)])
def test_a_pause_needs_not_be_long_beside_slow_steps(last: int, found: bool) -> None:
    assert ("E07" in {item.id for item in play(near_saves.slow_steps(last), 110)[-1]}) is found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("ep 1 300/2226 nll 4.9 ppl 135.0 tok/s 61311", {"tokens_per_sec": 61311.0}),
        ("loss 2.1 61311 tok/s 4.2 it/s", {"tokens_per_sec": 61311.0, "it_per_sec": 4.2}),
        ("speed 61311 tok/s 4.2 it/s", {"tokens_per_sec": 61311.0, "it_per_sec": 4.2}),
        ("loss 0.41 it/s 12.3", {"it_per_sec": 12.3}),
        ("loss 2.1 ppl 8.2 s/it 0.5", {"it_per_sec": 2.0}),
        ("throughput 12.3K tok/s 41% mfu", {"tokens_per_sec": 12300.0}),
        ("12.3 it/s 4 GPUs", {"it_per_sec": 12.3}),
        ("auc: 0.61, avg_samples: 32.00000, ips: 2560.5 ins/s", {"samples_per_sec": 2560.5}),
        ("epoch 2 loss 0.4 ips: 16.25 instance/sec", {"samples_per_sec": 16.25}),
        (
            "reader_cost: 0.25 s, batch_cost: 0.50 s, samples: 640, ips: 64.25",
            {"samples_per_sec": 64.25, "data_time": 0.25, "time": 0.5, "it_per_sec": 2.0},
        ),
        ("loss 0.4 ips: 64.25", {}),
        ("loss 0.4 batch_cost: 0.50 cost 0.3", {}),
    ],
)
def test_a_unit_belongs_to_one_number(line: str, found: dict[str, float]) -> None:
    assert paces(line) == found


TIMM = (
    "Train: {epoch} [{at:4d}/389 ({share:3.0f}%)]  Loss: 4.79 (4.79)  Time: {time:.3f}s ({mean_time:.3f}s)  "
    "Data: {data:.3f} ({mean:.3f})"
)


def test_the_first_batch_of_an_epoch_says_nothing_of_the_others(tmp_path: Path) -> None:
    def line(epoch: int, at: int, data: float) -> str:
        mean, this = (1.5 + data * at) / (at + 1), data if at else 1.5
        times = {"time": 0.313 + this, "mean_time": 0.313 + mean, "data": this, "mean": mean}
        return TIMM.format(epoch=epoch, at=at, share=at / 3.89, **times)

    def lines(data: float) -> list[str]:
        return [line(epoch, at, data) for epoch in range(9) for at in range(0, 389, 50)]

    assert told(tmp_path, lines(0.007)).count("D01") == 0
    assert told(tmp_path, lines(0.6))[0] == "D01"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("epoch   1  loss 2.0369  val_per 61.21%    31.3 s   1960.1 win/s  elapsed 00:31", {"epoch_s": 31.3}),
        ("epoch 01/80  train loss 0.9368  val 1.0299  dice 0.4529  lr 0.00300  96.8s  *saved", {"epoch_s": 96.8}),
        ("Epoch 3/60 train loss 0.9140 val dice 0.0880 (11.2s)", {"epoch_s": 11.2}),
        ("epoch 3 [10/20] loss 0.3 5.1s", {}),
        ("epoch 3 step 20 loss 0.3 5.1s", {}),
        ("epoch 3 loss 0.3 eta 5.1s", {}),
        ("epoch 3 loss 0.3 | 4.1 s | 3.2 s", {}),
    ],
)
def test_the_only_time_in_the_line_of_an_epoch(line: str, found: dict[str, float]) -> None:
    assert whole_times(line) == found


def test_the_time_of_a_bar_about_data_is_none_of_the_training(tmp_path: Path) -> None:
    def text(bar: str) -> list[str]:
        steps = [f"{{'loss': {0.5 - at / 100:.4f}, 'epoch': {at / 10}}}" for at in range(1, 20)]
        evaluated = [f"{{'eval_loss': 0.27, 'eval_runtime': 38.1104, 'epoch': {at}}}" for at in (1.0, 2.0)]
        return [f"{bar}100%|██████████| 812/812 [00:31<00:00,  8.87it/s]", *steps, *evaluated]

    assert told(tmp_path, text("")) == ["E07"]
    assert told(tmp_path, text("Skipping the first 812 batches: ")) == []


def test_milliseconds_of_a_step_in_json() -> None:
    line = '{"asctime": "2025-08-03 00:00:31", "step": 200, "loss": 0.8046, "step_ms": 125.0, "ex_per_s": 31701}'
    assert paces(line) == {"it_per_sec": 8.0, "samples_per_sec": 31701.0}


def test_a_rate_of_other_units_is_one_of_samples() -> None:
    assert paces("epoch 1 loss 2.0 1960.1 win/s") == {"samples_per_sec": 1960.1}
    assert paces("step 1 loss 2.0 4.5 steps/s") == {"it_per_sec": 4.5}
