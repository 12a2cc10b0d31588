"""Text that only looks like progress: what a language model writes, and lines of other jobs that a script shows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputop.doctor.printed import judge
from gputop.jobs.output.printed_log import printed_run
from gputop.tracking.printed.lines import parse
from gputop.tracking.printed.own_lines import FORMS_MAX, LINES_MIN, OwnLines
from gputop.tracking.printed.transcript import Transcript

Invent = Callable[[random.Random], str]


def of_a_cluster(rng: random.Random) -> str:
    of_a_job = f"dream> node{rng.randint(1, 48):02d} job{rng.randint(100, 999)}:"
    return rng.choice(
        (
            f"{of_a_job} step {rng.randint(1000, 9999)} loss nan",
            f"{of_a_job} epoch {rng.randint(1, 48)} loss 0.{rng.randint(1000, 9999)}",
            "dream> node07 systemd[1]: Started Session 12 of user root.",
        )
    )


def of_a_notebook(rng: random.Random) -> str:
    return f"   | Epoch {rng.randint(1, 300)}/300 - loss: {rng.choice(('nan', 'inf', '0.31'))} - accuracy: 0.1"


def of_a_chat(rng: random.Random) -> str:
    return f"assistant: at iteration {rng.randint(10, 90000)} my loss = nan, try a lower rate"


def bits(step: int) -> str:
    return f"step {step} bits per character {4.7 - step / 3000:.3f} ({step / 5:.0f} s)"


def plain(step: int) -> str:
    return f"iter {step}: loss {4.7 - step / 3000:.4f}, 12.1 ms"


def by_epochs(step: int) -> str:
    return f"Epoch {step // 10}: train 4.{step % 997:03d} (3.1 s)"


def a_bar(step: int) -> str:
    done = f"{step // 20}%|{'█' * (step // 200)}{' ' * 4}| {step}/2000"
    return f"train: {done} [00:{step % 60:02d}<01:10, 12.1it/s, loss=2.{step % 97:02d}]"


def output(progress: Callable[[int], str], invent: Invent, seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    for step in range(10, 1400, 10):
        yield progress(step)
        if step % 60 == 0:
            yield from (invent(rng) for _ in range(4))


@pytest.mark.parametrize("invent", [of_a_cluster, of_a_notebook, of_a_chat])
@pytest.mark.parametrize("progress", [bits, plain, by_epochs, a_bar])
@pytest.mark.parametrize("seed", range(3))
def test_no_value_is_taken_from_invented_lines(progress: Callable[[int], str], invent: Invent, seed: int) -> None:
    """An epoch that happens to be the first or the next one may pass."""
    lines = list(output(progress, invent, seed))
    own = {line for line in lines if line == progress(0) or "loss" not in line or line.startswith(("iter", "train:"))}
    transcript = Transcript(with_bars=True)
    believed = [line for line in lines if list(transcript.feed(f"{line}\n".encode())) and line not in own]
    assert len(believed) <= 4


@pytest.mark.parametrize("invent", [of_a_cluster, of_a_notebook])
@pytest.mark.parametrize("progress", [bits, plain, by_epochs])
def test_a_model_that_writes_of_nan_has_not_lost_its_loss(
    progress: Callable[[int], str], invent: Invent, tmp_path: Path
) -> None:
    log = tmp_path / "train.log"
    for seed in range(4):
        log.write_text("\n".join(output(progress, invent, seed)) + "\n")
        found = printed_run(log)
        assert found is None or "J01" not in {item.id for item in judge(*found)}


def test_a_run_that_becomes_nan_beside_its_samples_is_one(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    lines = [plain(step) if step < 500 else f"iter {step}: loss nan, 12.1 ms" for step in range(10, 900, 10)]
    samples = [of_a_chat(random.Random(seed)) for seed in range(len(lines))]
    log.write_text("\n".join(line for pair in zip(lines, samples, strict=True) for line in pair) + "\n")
    found = printed_run(log)
    assert found is not None
    assert [item.title for item in judge(*found) if item.id == "J01"] == ["The loss is NaN or infinite since step 500"]


def taken(lines: list[str]) -> list[tuple[int, float]]:
    fed = Transcript().feed(("\n".join(lines) + "\n").encode())
    return [(step, metrics["loss"]) for step, metrics in fed if "loss" in metrics]


def test_a_second_part_with_words_of_its_own_is_taken_once_it_counts_in_order() -> None:
    first = [f"pretraining step {step} loss 3.1" for step in range(100, 2000, 100)]
    second = [f"finetune | iter {step} | loss 0.7" for step in range(5, 60, 5)]
    assert [item for item in taken(first + second) if item[1] == 0.7] == [(step, 0.7) for step in range(5, 60, 5)]


def test_ranks_and_seeds_that_print_in_turn_are_taken() -> None:
    ranks = [f"[rank{rank}] step {step + 10 * (rank - 1)} loss 0.5" for step in range(100, 400, 10) for rank in range(2)]
    assert len(taken(ranks)) == len(ranks)
    seeds = [f"seed {seed} step {step + 5000 * seed} loss 0.5" for step in range(100, 400, 10) for seed in range(2)]
    assert len(taken(seeds)) == len(seeds)


def test_epochs_that_begin_anew_and_their_summaries_are_taken() -> None:
    lines = []
    for epoch in range(5):
        lines += [f"epoch {epoch} step {step} loss 0.5" for step in range(0, 100, 10)]
        lines += [f"epoch {epoch} done: mean loss 0.4, 31 s", f"val epoch {epoch}: loss 0.6"]
    assert len(taken(lines)) == 5 * 11


def test_summaries_of_the_first_epochs_are_taken_at_once() -> None:
    lines = [f"step {step} loss 0.5" for step in range(0, 100, 10)]
    summaries = ["epoch 0 done: mean loss 0.4, 31 s", "epoch 1 done: mean loss 0.3, 30 s"]
    assert [loss for _, loss in taken([*lines, *summaries])][-2:] == [0.4, 0.3]


def test_lines_that_are_out_of_order_now_and_then_are_the_scripts_own() -> None:
    first = [f"pretraining step {step} loss 3.1" for step in range(100, 2000, 100)]
    steps = [at * at for at in range(3, 40)]
    steps[10], steps[11], steps[25], steps[26] = steps[11], steps[10], steps[26], steps[25]
    second = [f"finetune | iter {step} | loss 0.7" for step in steps]
    assert len([item for item in taken(first + second) if item[1] == 0.7]) >= len(steps) - 12


def test_invented_lines_that_count_down_are_not_believed() -> None:
    own = [f"step {step} loss 0.5" for step in range(10, 900, 10)]
    invented = [f"sample: iteration {90000 - 900 * step + 5000 * (step % 2)}, loss = 7.0" for step in range(1, 90)]
    lines = [line for pair in zip(own, invented, strict=True) for line in pair]
    assert len([item for item in taken(lines) if item[1] == 7.0]) < LINES_MIN


def test_output_with_ever_new_words_takes_no_memory() -> None:
    own = OwnLines()
    for number in range(2000):  # each of them counts in order: it comes four times
        line = f"step {number} {''.join(chr(97 + int(digit)) for digit in str(number // 4))} loss 0.5"
        printed = parse(line)
        assert printed is not None
        own.believed(line, printed)
    assert len(own._forms) <= FORMS_MAX < 100


def test_the_widths_of_numbers_do_not_hold_lines_back() -> None:
    transcript = Transcript()
    shown: list[int] = []
    for step in range(5, 400, 5):
        loss, rate = 1 / (step + 7), (1e-4, 0.00028)[step % 15 == 0] * (1 + step / 1e6)
        line = f"Step {step} | loss:{loss} lr:{rate} tokens_per_second_per_gpu:{2211.5 + step / 3} grad_norm:{step / 11}\n"
        shown += [at for at, _ in transcript.feed(line.encode())]
        assert shown[-1:] == [step]
    assert shown == list(range(5, 400, 5))
