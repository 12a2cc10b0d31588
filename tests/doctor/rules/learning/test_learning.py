"""What is said of a loss that is NaN, grows, or stays: since when, on which rank, and what came before."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gputop.cli.doctor.logs import explain_logs
from gputop.doctor.diagnosis import Doctor
from gputop.history.metrics import MetricMemory
from gputop.levels import FIRST_STRETCHES, STRETCHES_MAX, Levels
from gputop.snapshot import Snapshot
from tests.doctor.scenes.base import check_first_verdict, first_seen, ids, only_shown, play, verdict
from tests.doctor.scenes.near import learning as scenes
from tests.doctor.scenes.near.modes import in_part
from tests.doctor.tracked import one_step_in_three_seconds


def test_a_nan_names_its_step_the_rate_and_the_gradient_before_it() -> None:
    finding = check_first_verdict("J01", scenes.becomes_nan, 30)
    assert finding.title == "The loss is NaN or infinite since step 160"
    told = [fact.text for fact in finding.evidence]
    assert told[0].startswith("loss has not been finite since step 160, 1.")
    assert "at step 159" in told[0]
    assert "grad_norm was 900 at step 158, usually 2.05" in told
    assert "grad_norm has not been finite since step 159" in told
    assert "lr was 0.5 at step 160" in told


def test_a_nan_is_named_with_the_third_loss_whenever_the_doctor_began() -> None:
    seen = {start + (first_seen(play(scenes.becomes_nan, 40, start=start), "J01") or 0) for start in range(4)}
    assert len(seen) == 1, "no reading passes unjudged"


def test_findings_separate_the_thousands_of_a_step_as_the_screens_do() -> None:
    def later(second: int) -> Snapshot:
        shot = scenes.becomes_nan(second)
        points = tuple(replace(part, steps=tuple(step + 12_000 for step in part.steps)) for part in shot.points)
        return replace(shot, points=points)

    finding = check_first_verdict("J01", later, 30)
    assert finding.title == "The loss is NaN or infinite since step 12 160"
    assert "grad_norm was 900 at step 12 158, usually 2.05" in [fact.text for fact in finding.evidence]


def test_a_nan_keeps_its_step_however_long_the_run_continues() -> None:
    finding = verdict(scenes.becomes_nan, 300)  # longer than the newest values reach
    assert finding.title == "The loss is NaN or infinite since step 160"
    told = [fact.text for fact in finding.evidence]
    assert "at step 159" in told[0]
    assert "grad_norm has not been finite since step 159" in told


def test_a_nan_of_last_night_still_says_what_was_before_it() -> None:
    memory = MetricMemory()

    def kept(second: int) -> Snapshot:
        memory.observe(scenes.becomes_nan(second))
        return scenes.becomes_nan(second)

    said = play(kept, 300, Doctor(memory))[-1]
    told = [fact.text for fact in said[0].evidence]
    assert "lr was about 0.5 until step 159" in told
    assert any(re.fullmatch(r"grad_norm was about \d+(\.\d+)? until step 158", text) for text in told), told


def test_the_gradients_reveal_a_nan_loss_that_is_logged_as_zero() -> None:
    finding = check_first_verdict("J01", scenes.zeros_hide_nan, 40)
    assert (finding.title, finding.confidence) == (
        "The gradients are NaN, and the loss is shown as 0, since step 160",
        "likely",
    )


def test_a_nan_of_several_ranks_names_the_first() -> None:
    finding = verdict(scenes.all_ranks_nan, 40)
    assert (finding.id, finding.title) == ("J01", "The loss is NaN or infinite since step 160")
    assert finding.evidence[0].text.startswith("loss of rank 2 has not been finite since step 160")


def test_a_loss_that_was_never_finite_names_no_invented_step() -> None:
    assert verdict(scenes.never_finite, 10).title == "The loss is NaN or infinite since step 98 or earlier"


def test_a_nan_is_reported_at_the_third_value_and_until_its_run_ends() -> None:
    doctor = Doctor()
    said = play(scenes.becomes_nan, 30, doctor)
    first = next(second for second, found in enumerate(said) if "J01" in ids(found))
    assert 98 + 3 * first + 2 < 160 + 3 * 6
    for second in range(30, 40):
        found = doctor.observe(replace(scenes.becomes_nan(second), runs=(), processes=(), points=()))
    assert "J01" not in ids(found)


def test_a_loss_that_grows_says_what_it_was_at_best() -> None:
    finding = verdict(scenes.learned_then_lost, 70)
    assert (finding.id, finding.severity, finding.confidence) == ("J02", "error", "likely")
    assert "times its lowest" in finding.title


def test_a_loss_that_grows_while_the_model_acts_between_its_steps_is_only_possible() -> None:
    """The errors of an agent's estimates grow with what it earns. Validation runs between few steps only."""
    for every, confidence in ((1, "possible"), (25, "likely")):
        scene = scenes.acts(scenes.learned_then_lost, every)
        finding = next(item for item in play(scene, 70)[-1] if item.id == "J02")
        assert finding.confidence == confidence


RISING = (10.9, 8.4, 7.3, 6.9, 6.7, 6.9, 7.6, 8.3, 9.9, 12.4, 15.9, 21.7, 30.2, 44.8, 61.3, 88.9, 127.4, 171.8, 230.6, 311.2)


@pytest.mark.parametrize(
    ("losses", "confidence"),
    [
        (RISING, "likely"),
        (RISING[:-6], "likely"),
        (RISING[:-10], None),  # not yet back where it began
        ((*RISING[:-2], 7.0, 6.8), None),
        ((*RISING[:6], 200.0, 180.0, 90.0, 30.0, 12.0, 9.0, 8.0, 7.5, 7.2, 7.0, 6.9, 6.8), None),
    ],
)
def test_a_short_course_that_only_rises_is_judged_by_its_end(
    losses: tuple[float, ...], confidence: str | None, tmp_path: Path
) -> None:
    """The median of the newest 20 of 20 losses is that of the whole run."""
    log = tmp_path / "train.log"
    log.write_text("".join(f"iter {20 * at}: loss {loss:.4f}, time 151.33ms\n" for at, loss in enumerate(losses)))
    found = [item.confidence for item in explain_logs([str(log)])[0] if item.id == "J02"]
    assert found == ([confidence] if confidence else [])


def test_a_loss_that_loses_what_it_had_learned_grows_however_few_times_its_lowest(tmp_path: Path) -> None:
    """As in a language model, whose loss is a logarithm: 5.3 is far from 10.5."""
    log = tmp_path / "train.log"
    for end, found in ((10.9, True), (8.5, False)):
        falls = [10.5 - 5.2 * at / 26 for at in range(27)]
        rises = [5.3 + (end - 5.3) * min(1.0, at / 50) + 0.05 * (at % 3) for at in range(90)]
        lines = (f"iter {10 * at}: loss {loss:.4f}, time 1613.49ms" for at, loss in enumerate((*falls, *rises)))
        log.write_text("\n".join(lines) + "\n")
        assert ("J02" in {item.id for item in explain_logs([str(log)])[0]}) is found


@pytest.mark.parametrize(("twin", "confidence"), [(True, "possible"), (False, "likely")])
def test_a_loss_that_grows_beside_a_teacher_is_only_possible(twin: bool, confidence: str) -> None:
    """The loss of a momentum contrast rises while its queue fills."""

    def scene(second: int) -> Snapshot:
        shot = scenes.learned_then_lost(second)
        facts = {"model": {"class": "Encoder", **({"has_twin": True} if twin else {})}}
        runs = tuple(replace(run, ranks=tuple(replace(r, facts={**r.facts, **facts}) for r in run.ranks)) for run in shot.runs)
        return replace(shot, runs=runs)

    finding = next(item for item in play(scene, 70)[-1] if item.id == "J02")
    assert finding.confidence == confidence


def test_a_spike_before_a_divergence_makes_it_no_less_likely(tmp_path: Path) -> None:
    low, spike = [0.4] * 60, [7.0] * 30
    losses = [0.8, 0.7, 0.6, *low, *spike, *low, *(0.4 * 1.05**at for at in range(60)), *([7.5] * 30)]
    log = tmp_path / "train.log"
    log.write_text("".join(f"step {at} loss {loss:.4f}\n" for at, loss in enumerate(losses)))
    assert [item.confidence for item in explain_logs([str(log)])[0] if item.id == "J02"] == ["likely"]


def test_of_many_losses_a_few_that_rise_are_no_course(tmp_path: Path) -> None:
    losses = [*(1.0 - 0.003 * at for at in range(94)), 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    log = tmp_path / "train.log"
    log.write_text("".join(f"step {at} loss {loss:.4f}\n" for at, loss in enumerate(losses)))
    assert [item.id for item in explain_logs([str(log)])[0] if item.id == "J02"] == []


@pytest.mark.parametrize(("blocks", "confidence"), [(5, "possible"), (1, "likely")])
def test_a_loss_of_tasks_that_take_turns_in_long_blocks_is_only_possible(blocks: int, confidence: str, tmp_path: Path) -> None:
    """A spike that passed says nothing about the growth after it."""
    turn = [*(0.4 - 0.001 * step for step in range(60)), *(2.9 + 0.01 * (step % 5) for step in range(60))]
    lines = [f"step {step} loss {loss:.4f}" for step, loss in enumerate([0.8, 0.7, 0.6, *turn * blocks])]
    log = tmp_path / "train.log"
    log.write_text("\n".join(lines) + "\n")
    assert [item.confidence for item in explain_logs([str(log)])[0] if item.id == "J02"] == [confidence]


@pytest.mark.parametrize(("name", "confidence"), [("contrastive loss", "possible"), ("loss", "likely")])
def test_a_contrastive_loss_that_grows_is_only_possible(name: str, confidence: str, tmp_path: Path) -> None:
    """Each batch is compared with those of a queue, which begins as noise."""
    log = tmp_path / "train.log"
    losses = [*[0.4] * 20, *(6.5 - 0.002 * at for at in range(200))]
    log.write_text("".join(f"epoch 0 step {10 * at} {name} {loss:.4f}\n" for at, loss in enumerate(losses)))
    said = [item for item in explain_logs([str(log)])[0] if item.id == "J02"]
    assert [item.confidence for item in said] == [confidence]


def test_a_loss_that_falls_again_after_a_jump_is_no_more_than_possible() -> None:
    said = [item for item in play(scenes.harder_task, 70)[-1] if item.id == "J02"]
    assert [item.confidence for item in said] == ["possible"]
    lost = [item for item in play(scenes.learned_then_lost, 70)[-1] if item.id == "J02"]
    assert [item.confidence for item in lost] == ["likely"]


@pytest.mark.parametrize(
    ("weight", "grows", "confidence"), [("beta", True, "possible"), ("kl_weight", True, "possible"), ("beta", False, "likely")]
)
def test_a_loss_that_grows_with_the_weight_of_a_term_is_only_possible(weight: str, grows: bool, confidence: str) -> None:
    scene = scenes.run_with(
        lambda rank, step: scenes.falls(rank, step) if step < 220 else 0.4 * 1.06 ** min(step - 220, 60),
        **{weight: lambda rank, step: 0.02 * step if grows else 4.0},
    )
    finding = next(item for item in play(scene, 70)[-1] if item.id == "J02")
    assert finding.confidence == confidence


@pytest.mark.parametrize(("falls", "confidence"), [(True, "possible"), (False, "likely")])
def test_a_loss_that_begins_anew_in_each_round_is_no_divergence(falls: bool, confidence: str, tmp_path: Path) -> None:
    """Active learning: a new model for each round, with more data that it fits less well."""
    lines = []
    for number in range(16):
        for step in range(0, 240, 40):
            least = 0.002 * 1.6 ** min(number, 12)
            loss = least + (0.7 - least) * 0.1 ** (step / 40) if falls else 0.002 * 1.1 ** (6 * number + step / 40)
            lines.append(f"round {number} step {step} labelled {256 * number} loss {loss:.5f}")
    log = tmp_path / "train.log"
    log.write_text("\n".join(lines))
    assert [(item.id, item.confidence) for item in explain_logs([str(log)])[0]] == [("J02", confidence)]


@pytest.mark.parametrize(("part", "told"), [("loss_cls", True), ("loss_d", False), ("critic_loss", False), ("loss_kl", True)])
def test_the_sum_of_several_losses_is_judged_unless_they_are_opposed(part: str, told: bool) -> None:
    summed = scenes.run_with(
        lambda rank, step: scenes.falls(rank, step) if step < 220 else 0.4 * 1.06 ** min(step - 220, 60),
        **{part: lambda rank, step: 1.0 + scenes.noise(rank, step)},
    )
    assert any("J02" in ids(found) for found in play(summed, 70)) == told


def test_a_rate_of_zero_is_certain_and_says_since_when() -> None:
    finding = verdict(scenes.no_rate, 60)
    assert (finding.id, finding.severity, finding.confidence) == ("J03", "error", "certain")
    assert finding.title == "The learning rate is 0 since step 160"
    assert finding.evidence[1].text == "it was 0.1 at step 159"


def test_a_run_that_the_script_opened_is_judged_by_its_automatic_values() -> None:
    """Automatic values are "auto/…" there, beside the script's own."""
    joined = scenes.run_with(
        scenes.falls, auto__loss=scenes.falls, auto__lr=lambda rank, step: 0.0 if step >= scenes.FROM else 0.1
    )
    assert verdict(joined, 60).title == "The learning rate is 0 since step 160"


def test_a_flat_loss_is_possible_after_hundreds_of_steps() -> None:
    flat = scenes.run_with(lambda rank, step: 6.5 + scenes.noise(rank, step))

    def from_the_start(second: int):
        shot = flat(second)
        return replace(shot, points=tuple(replace(p, steps=tuple(step - 98 for step in p.steps)) for p in shot.points))

    said = play(from_the_start, 200)
    assert "J03" not in ids(said[150])
    finding = next(item for item in said[-1] if item.id == "J03")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert finding.title.startswith("The loss is where it began after 5")


@pytest.mark.parametrize("name", ["becomes_nan", "learned_then_lost", "no_rate", "always_the_same"])
def test_a_loss_that_an_untracked_run_s_files_show_is_judged(name: str) -> None:
    """Its curve was drawn on the screen, and no rule looked at it."""
    scene = getattr(scenes, name)
    finding = verdict(only_shown(scene), 70)
    assert (finding.id, finding.confidence) == (verdict(scene, 70).id, verdict(scene, 70).confidence)
    assert finding.evidence[0].source.startswith("its files: ")
    assert finding.pids == (4000,)
    assert finding.run is None


@pytest.mark.parametrize("name", ["no_rate", "always_the_same"])
def test_printed_values_may_be_rounded(name: str) -> None:
    said = play(only_shown(getattr(scenes, name), {"source": "log"}), 70)[-1]
    finding = next(item for item in said if item.id == "J03")
    assert finding.confidence == "possible"
    assert finding.evidence[0].source.startswith("its output: ")


@pytest.mark.parametrize("facts", [{"source": "log"}, {}])
def test_a_loss_that_falls_until_a_print_shows_0_has_converged(facts: dict[str, str]) -> None:
    said = play(only_shown(scenes.rounded_to_zero, facts), 120)
    assert not any("J03" in ids(found) for found in said)


@pytest.mark.parametrize("name", ["zero_at_once", "zero_from_the_start"])
def test_a_loss_that_is_0_at_once_or_from_the_start_is_possibly_one_that_nothing_moves(name: str) -> None:
    said = play(only_shown(getattr(scenes, name), {"source": "log"}), 90)[-1]
    assert [(item.id, item.confidence) for item in said if item.id == "J03"] == [("J03", "possible")]


def by_epochs(
    tmp_path: Path, loss: Callable[[int], float], held_out: Callable[[int], float], other: str = "val_loss", epochs: int = 45
) -> list[tuple[str, str]]:
    log = tmp_path / "train.log"
    log.write_text("".join(f"[{n:03d}] train_loss={loss(n):.4f} {other}={held_out(n):.4f}\n" for n in range(epochs)))
    return [(item.id, item.confidence) for item in explain_logs([str(log)])[0]]


def chance(epoch: int) -> float:
    """The loss of a model of 1,000 classes that knows nothing."""
    return 6.9078 + epoch * 7 % 5 * 0.0005


@pytest.mark.parametrize(
    ("loss", "held_out"),
    [
        (chance, lambda epoch: 6.9 - epoch / 100),
        (lambda epoch: 6.9 - epoch / 100, chance),
        (lambda epoch: 0.3 + 2 / (1 + epoch), lambda epoch: 0.5 + 2 / (1 + epoch)),
        (lambda epoch: chance(epoch) if epoch < 38 else 6.7 - epoch / 100, chance),
    ],
)
def test_a_loss_that_moves_in_training_or_evaluation_learns(tmp_path: Path, loss, held_out) -> None:
    assert by_epochs(tmp_path, loss, held_out) == []


def test_a_scale_that_never_moves_is_no_evaluation(tmp_path: Path) -> None:
    assert by_epochs(tmp_path, lambda epoch: chance(epoch) * (1 + epoch % 3 / 100), lambda epoch: 65536.0, "loss_scale") == []


@pytest.mark.parametrize(
    ("loss", "norm", "reports", "found"),
    [
        ("0", "0", 8, ["J03"]),
        ("nan", "0.0", 8, ["J03"]),
        ("0", "0", 7, []),
        ("0", "nan", 8, ["J01"]),
        ("1.5", "0", 8, []),
        ("0", "0.3", 8, []),
    ],
)
def test_a_loss_over_no_labels_is_the_mean_of_nothing(
    loss: str, norm: str, reports: int, found: list[str], tmp_path: Path
) -> None:
    """As Transformers' Trainer prints it where the template of the answers is not in the samples."""
    log = tmp_path / "train.log"
    line = "{{'loss': '{0}', 'grad_norm': '{1}', 'learning_rate': '0.0003', 'epoch': '{2:.2f}'}}\n"
    log.write_text("".join(line.format(loss, norm, 0.04 * at) for at in range(reports)))
    said = explain_logs([str(log)])[0]
    assert [item.id for item in said if item.confidence != "possible"][: len(found) or None] == found
    assert said[0].title.startswith("No label counts: ") is ("J03" in found) if said else not found


def test_a_loss_that_stays_where_its_first_reports_came_to(tmp_path: Path) -> None:
    """As the loss of triplets does, at its margin, once all embeddings are one point."""
    log = tmp_path / "train.log"
    for spread, found in ((0.0001, True), (0.004, False)):
        losses = (0.2871, 0.2094, *(0.2 + spread * (at * 7 % 5 - 2) for at in range(28)))
        log.write_text("".join(f"epoch={at:3d} triplet_loss={loss:.5f} d_ap=0.0011\n" for at, loss in enumerate(losses)))
        said = [item.title for item in explain_logs([str(log)])[0] if item.id == "J03"]
        assert said == (["After its first reports, the loss has not moved in 24: 0.2"] if found else [])


def test_a_loss_that_neither_training_nor_evaluation_moves_in_many_epochs(tmp_path: Path) -> None:
    assert by_epochs(tmp_path, chance, chance) == [("J03", "possible")]


@pytest.mark.parametrize(("spread", "epochs", "found"), [(0.0015, 12, True), (0.0015, 11, False), (0.003, 12, False)])
def test_a_loss_that_hardly_moves_in_few_epochs(tmp_path: Path, spread: float, epochs: int, found: bool) -> None:
    def stays(epoch: int) -> float:
        return 0.6123 * (1 + spread * (epoch * 7 % 5) / 4)

    assert (("J03", "possible") in by_epochs(tmp_path, stays, stays, epochs=epochs)) is found


@pytest.mark.parametrize(
    ("rate", "lines", "falls", "found"),
    [(0.0, 12, 0.0, True), (0.0, 11, 0.0, False), (2e-5, 20, 0.0, False), (0.0, 20, 0.02, False)],
    ids=["0", "few lines", "not 0", "the loss falls"],
)
def test_a_rate_of_zero_in_what_a_trainer_prints(tmp_path: Path, rate: float, lines: int, falls: float, found: bool) -> None:
    log = tmp_path / "train.log"
    printed = [
        {"loss": 1.1 + at % 5 * 0.002 - falls * at, "learning_rate": rate, "epoch": round(at * 0.05, 2)} for at in range(lines)
    ]
    log.write_text("".join(f"{line}\n" for line in printed))
    assert any(item.title.startswith("The learning rate is 0") for item in explain_logs([str(log)])[0]) is found


def test_a_part_of_a_model_that_is_trained_in_evaluation_mode_is_possible() -> None:
    (finding,) = (item for item in play(in_part(10, 11), 40)[-1] if item.id == "J07")
    assert (finding.severity, finding.confidence) == ("warning", "possible")
    assert finding.title == "A part of the model is trained in evaluation mode: 10 dropout layers drop nothing"


@pytest.mark.parametrize(("redraws", "since"), [(90, 0), (120, 70)])
def test_a_bar_that_prints_a_loss_until_the_next_is_no_standstill(redraws: int, since: int) -> None:
    """The first such stretch has nothing to compare with: one of 120 steps is reported, but not the next."""
    redrawn = scenes.run_with(lambda rank, step: 3.3331 - step // redraws * 0.0101)
    said = play(only_shown(redrawn, {"source": "log"}), 85)
    assert not any("J03" in ids(found) for found in said[since:])


def test_a_healthy_curve_of_an_untracked_run_says_nothing() -> None:
    assert ids(play(only_shown(scenes.run_with(scenes.falls)), 60)[-1]) == []


def without_checksums(facts: dict[str, object]) -> dict[str, object]:
    sums = [[step, None, 1.5] for step in range(0, 180, 10)]
    return {**facts, "parameters": {"recent": sums[-8:], "dtype": "float32"}}


@pytest.mark.parametrize(
    ("change", "confidence"),
    [
        (lambda facts: facts, "likely"),
        (lambda facts: {**facts, "optimizer/2": {"type": "SGD"}}, "possible"),
        (without_checksums, "possible"),
    ],
    ids=["all of it", "another optimizer", "on a GPU"],
)
def test_weights_that_stay_are_only_possibly_wrong_where_a_part_of_them_is_known(change, confidence: str) -> None:
    def scene(second: int) -> Snapshot:
        shot = scenes.weights_rest(second)
        runs = tuple(replace(run, ranks=tuple(replace(r, facts=change(dict(r.facts))) for r in run.ranks)) for run in shot.runs)
        return replace(shot, runs=runs)

    (finding,) = [item for item in play(scene, 60)[-1] if item.id == "J03"]
    assert (finding.confidence, finding.title.partition(" has")[0]) == (confidence, "None of the sampled weights")


def test_an_evaluation_far_above_the_training_is_possible_and_says_what_else_it_may_be() -> None:
    finding = check_first_verdict("J05", scenes.not_prepared, 40)
    assert finding.confidence == "possible"
    assert re.fullmatch(r"val_loss is always at least \d+ times the training loss, which falls", finding.title)
    assert "scaling" in finding.cause
    assert "sum" in finding.cause
    assert finding.evidence[0].text.startswith("val_loss was 3301 to 5099 in ")


@pytest.mark.parametrize(
    "near",
    [scenes.summed, scenes.in_other_units, scenes.far_at_times],
    ids=["a sum over the data set", "an error on another scale", "far above at times"],
)
def test_an_evaluation_with_another_measure_than_the_training_is_left_alone(near: Callable[[int], Snapshot]) -> None:
    assert "J05" not in ids(play(near, 40)[-1])


@pytest.mark.parametrize(("times", "found"), [(5, False), (6, True)])
def test_a_few_evaluations_far_above_the_training_prove_nothing(times: int, found: bool) -> None:
    far = scenes.printed(scenes.falls, val_loss=lambda second: 4200.0 + second)

    def few(second: int) -> Snapshot:
        shot, early = far(second), far(min(second, times - 1))
        ranks = tuple(replace(rank, facts=early.runs[0].ranks[0].facts) for rank in shot.runs[0].ranks)
        return replace(shot, runs=(replace(shot.runs[0], ranks=ranks),))

    assert ("J05" in ids(play(few, 40)[-1])) is found


def test_levels_keep_where_a_long_run_began() -> None:
    """Newest values were never joined, and all that was older than 200 looks became one stretch."""
    levels = Levels()
    for step in range(5000):
        levels.extend([step], [float(step)])
    assert levels.stretches[0].mean < 5000 / FIRST_STRETCHES
    assert max(stretch.count for stretch in levels.stretches) <= 5000 / FIRST_STRETCHES


@given(some.lists(some.lists(some.floats(), max_size=300), max_size=150))
def test_levels_are_bounded_and_keep_mean_and_minimum(parts: Sequence[Sequence[float]]) -> None:
    levels, step, all_values = Levels(), 0, []
    for part in parts:
        levels.extend(range(step, step + len(part)), part)
        step += len(part)
        all_values += [value for value in part if math.isfinite(value)]
    assert len(levels.stretches) <= STRETCHES_MAX
    assert sum(stretch.count for stretch in levels.stretches) == len(all_values)
    assert levels.lowest == min(all_values, default=math.inf)
    steps = [stretch.step for stretch in levels.stretches]
    assert steps == sorted(steps)
    small = [value for value in all_values if abs(value) < 1e6]
    if len(small) == len(all_values) > 0:
        mean = sum(stretch.mean * stretch.count for stretch in levels.stretches) / len(all_values)
        assert mean == pytest.approx(sum(all_values) / len(all_values), abs=1e-6)


def test_a_long_past_keeps_its_course() -> None:
    levels = Levels()
    levels.extend(range(10_000), [float(step) for step in range(10_000)])
    assert len(levels.stretches) == FIRST_STRETCHES
    assert levels.stretches[0].mean < 200 < 9_800 < levels.stretches[-1].mean


def test_a_rank_whose_script_opened_the_run_is_compared_with_the_others() -> None:
    """Only rank 0 calls wandb.init, as people write it: its automatic loss is "auto/loss" there."""

    def rank_0_joined(second: int):
        shot = scenes.all_ranks_nan(second)
        points = (replace(p, metric="auto/loss") if (p.rank, p.metric) == (0, "loss") else p for p in shot.points)
        return scenes.with_metrics(replace(shot, points=tuple(points)))

    finding = verdict(rank_0_joined, 40)
    assert (finding.id, finding.title) == ("J01", "The loss is NaN or infinite since step 160")


def _told_by_log(tmp_path: Path, lines: Sequence[str]) -> list[tuple[str, str]]:
    log = tmp_path / "train.log"
    log.write_text("\n".join(lines) + "\n")
    return [(item.id, item.confidence) for item in explain_logs([str(log)])[0] if item.id == "J02"]


@pytest.mark.parametrize(("suddenly", "confidence"), [(False, "possible"), (True, "likely")])
def test_the_loss_of_an_epoch_that_creeps_upwards_may_be_that_of_a_harder_task(
    tmp_path: Path, suddenly: bool, confidence: str
) -> None:
    """Scheduled sampling: with less teacher forcing, the training loss rises for dozens of epochs."""
    losses = [0.3 * 0.5**epoch + 0.02 for epoch in range(6)]
    losses += [0.5 + 0.01 * epoch for epoch in range(30)] if suddenly else [0.025 * 1.11**epoch for epoch in range(38)]
    lines = [
        f"epoch {epoch:3d}  teacher {max(0.0, 1 - epoch / 40):.2f}  loss {loss:.4f}" for epoch, loss in enumerate(losses, 1)
    ]
    assert _told_by_log(tmp_path, lines) == [("J02", confidence)]


def test_a_loss_that_creeps_upwards_for_too_long_is_no_harder_task(tmp_path: Path) -> None:
    losses = [0.3 * 0.5**epoch + 0.02 for epoch in range(6)] + [0.025 * 1.11**epoch for epoch in range(48)]
    assert _told_by_log(tmp_path, [f"epoch {epoch:3d} loss {loss:.4f}" for epoch, loss in enumerate(losses, 1)]) == [
        ("J02", "likely")
    ]


def test_losses_within_an_epoch_that_creep_upwards_are_no_harder_task(tmp_path: Path) -> None:
    losses = [0.3 * 0.5**at + 0.02 for at in range(6)] + [0.025 * 1.11**at for at in range(38)]
    lines = [f"epoch {at // 10} step {at} loss {loss:.4f}" for at, loss in enumerate(losses)]
    assert _told_by_log(tmp_path, lines) == [("J02", "likely")]


@pytest.mark.parametrize(("turns", "confidence"), [(True, "possible"), (False, "likely")])
def test_a_loss_that_comes_back_to_its_lowest_does_not_grow(tmp_path: Path, turns: bool, confidence: str) -> None:
    """Tasks that take turns: what is printed is the loss of one after the other."""
    begin, task = [0.9, 0.5, 0.35, *[0.3] * 8], ("fat", "yield", "illness")
    later = [(0.3, 1.6, 1.5)[at % 3] if turns else 1.5 + 0.1 * (at % 3) for at in range(30)]
    losses = enumerate((*begin, *later), 1)
    lines = [f"step {20 * at} {task[at % 3]} loss {loss:.4f}" for at, loss in losses]
    assert _told_by_log(tmp_path, lines) == [("J02", confidence)]


def test_the_first_loss_of_tasks_that_take_turns_may_be_that_of_the_easiest() -> None:
    losses = [0.66, 3.2, 1.4, 0.8, 2.1, 1.6, 0.33, 0.34, *[(0.9, 1.3, 1.0, 1.2, 0.95)[at % 5] for at in range(30)]]
    printed = only_shown(scenes.run_with(lambda rank, step: losses[(step - 98) // 9]), {"source": "log"})
    slow = play(lambda second: one_step_in_three_seconds(printed(second), second), 3 * len(losses))
    assert not any("J02" in ids(found) for found in slow)


@pytest.mark.parametrize(
    ("noise", "falls", "found"),
    [(0.0, 0.0, True), (0.05, 0.0, True), (0.5, 0.0, False), (0.02, 0.06, False), (0.08, 0.12, False)],
    ids=["exact", "noise of single batches", "nothing but noise", "falls a little", "falls under noise"],
)
@pytest.mark.parametrize("seed", range(3))
def test_a_flat_loss_is_seen_through_its_noise(noise: float, falls: float, found: bool, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    losses = (4.1 * (1 - falls * step / 1900) * (1 + rng.gauss(0, noise)) for step in range(0, 1900, 10))
    log = tmp_path / "train.log"
    log.write_text("".join(f"step {10 * at} loss {loss:.4f}\n" for at, loss in enumerate(losses)))
    assert any(item.id == "J03" for item in explain_logs([str(log)])[0]) is found
