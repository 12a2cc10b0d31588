"""A classifier whose loss and accuracy stay those of chance, epoch after epoch (J03)."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs
from gputop.doctor.findings.finding import Finding

LINES: dict[str, Callable[[int, float, float], str]] = {
    "a line for each epoch": lambda epoch, loss, share: f"Epoch {epoch:03d} - loss: {loss:.4f} - accuracy: {share:.4f} - 3s",
    "in percent": lambda epoch, loss, share: f"[epoch {epoch}/100] train loss {loss:.4f}, train acc {100 * share:.2f}%",
    "in Spanish": lambda epoch, loss, share: f"Época {epoch}/500 - pérdida: {loss:.4f} - exactitud: {share:.3f} - 3 s",
    "JSON": lambda epoch, loss, share: json.dumps({"epoch": epoch, "train/loss": loss, "train/top1": 100 * share}),
}
Course = Callable[[int, random.Random], tuple[float, float]]
CLASSES = 24
CHANCE = math.log(CLASSES)


def at(loss: float, share: float) -> Course:
    """Return losses and shares of right answers about these."""
    return lambda epoch, rng: (loss + rng.gauss(0, 0.003), share * (1 + rng.gauss(0, 0.05)))


LEARNS: dict[str, Course] = {
    "it learns": lambda epoch, rng: (CHANCE * math.exp(-epoch / 20), 1 - (1 - 1 / CLASSES) * math.exp(-epoch / 20)),
    "it knows more than it dares to say": at(CHANCE, 2 / CLASSES),
    "it errs with confidence": at(CHANCE + 0.5, 1 / CLASSES),
    "it began at chance, and has learned all but two classes": lambda epoch, rng: (
        (CHANCE, 1 / CLASSES) if epoch == 1 else at(math.log(2), 0.5)(epoch, rng)
    ),
    "one that is nearly always right": at(0.1, math.exp(-0.1)),
}


def judged(course: Course, line: Callable[[int, float, float], str], folder: Path, epochs: int = 16) -> Finding | None:
    log, rng = folder / "train.log", random.Random(3)
    log.write_text("".join(f"{line(epoch, *course(epoch, rng))}\n" for epoch in range(1, epochs + 1)))
    return next((item for item in explain_logs([str(log)])[0] if item.id == "J03"), None)


@pytest.mark.parametrize("line", LINES)
def test_a_classifier_that_guesses_after_many_epochs_does_not_learn(line: str, tmp_path: Path) -> None:
    finding = judged(at(CHANCE, 1 / CLASSES), LINES[line], tmp_path)
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("warning", "possible")
    assert finding.title == "After 16 epochs, the model does no better than a guess among 24 classes"


def test_a_table_that_names_its_percentages_in_the_heading(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    rows = [f"│ {at}/25 │ {4.1689 if at > 1 else 4.4847} │ 1.5{at % 9} │ 4.16 │ 213 s │" for at in range(1, 13)]
    log.write_text("\n".join(["┃ Epoch ┃ Train loss ┃ Train acc % ┃ Val loss ┃ time ┃", *rows]) + "\n")
    finding = next((item for item in explain_logs([str(log)])[0] if item.id == "J03"), None)
    assert finding is not None
    assert finding.title == "After 12 epochs, the model does no better than a guess among 65 classes"


def test_a_last_line_that_names_the_best_epoch(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    rows = [
        f"epoch {at:2d}  train loss 3.8{at % 5}  acc 2.1{at % 9}%   test loss 3.83 acc 2.1{6 + at % 3}%   (7.3s)"
        for at in range(1, 21)
    ]
    log.write_text("\n".join([*rows, "best test acc 2.17% (epoch 1)"]) + "\n")
    assert any(item.id == "J03" and "guess" in item.title for item in explain_logs([str(log)])[0])


def test_it_takes_ten_epochs(tmp_path: Path) -> None:
    line = LINES["a line for each epoch"]
    assert judged(at(CHANCE, 1 / CLASSES), line, tmp_path, 9) is None
    assert judged(at(CHANCE, 1 / CLASSES), line, tmp_path, 10) is not None


def test_many_reports_of_few_epochs_are_the_beginning(tmp_path: Path) -> None:
    def within(number: int, loss: float, share: float) -> str:
        return f"epoch {1 + number // 10} loss {loss:.4f} acc {share:.4f}"

    assert judged(at(CHANCE, 1 / CLASSES), within, tmp_path, 60) is None


@pytest.mark.parametrize(("share", "found"), [(0.87, True), (0.85, False), (1.15, True), (1.18, False)])
def test_classes_may_differ_a_little_in_size(share: float, found: bool, tmp_path: Path) -> None:
    course = at(CHANCE, share / CLASSES)
    line = LINES["a line for each epoch"]
    assert (judged(lambda epoch, rng: (course(epoch, rng)[0], share / CLASSES), line, tmp_path) is not None) is found


@pytest.mark.parametrize(("moves", "found"), [(0.018, True), (0.022, False)])
def test_a_loss_that_falls_is_no_longer_that_of_chance(moves: float, found: bool, tmp_path: Path) -> None:
    """By so much from the first epoch to the last; its halves differ by half of that."""
    line = LINES["a line for each epoch"]
    course: Course = lambda epoch, rng: (CHANCE * (1 - moves * (epoch - 1) / 15), 1 / CLASSES)  # noqa: E731
    assert (judged(course, line, tmp_path) is not None) is found


@pytest.mark.parametrize(("times", "found"), [(1.05, True), (1.5, True), (0.8, False)])
def test_a_loss_that_began_lower_has_known_something(times: float, found: bool, tmp_path: Path) -> None:
    course: Course = lambda epoch, rng: (CHANCE * (times if epoch == 1 else 1), 1 / CLASSES)  # noqa: E731
    finding = judged(course, LINES["a line for each epoch"], tmp_path, 100)
    assert finding is not None
    assert ("guess" in finding.title) is found
    assert found or finding.title.startswith("After its first reports, the loss has not moved in ")


def as_json(**more: Callable[[int], float]) -> Callable[[int, float, float], str]:
    def line(epoch: int, loss: float, share: float) -> str:
        own = {name: value(epoch) for name, value in more.items()}
        return json.dumps({"epoch": epoch, "train/loss": loss, "train/top1": share} | own)

    return line


def test_the_best_accuracy_is_not_that_of_now(tmp_path: Path) -> None:
    assert judged(at(CHANCE, 1 / CLASSES), as_json(best_accuracy=lambda epoch: 0.5), tmp_path) is not None


def test_what_is_no_accuracy_or_no_count_of_epochs_is_left_alone(tmp_path: Path) -> None:
    assert judged(lambda epoch, rng: (744.44 + epoch % 2, 5e-324), as_json(), tmp_path) is None
    assert judged(at(CHANCE, 1 / CLASSES), as_json(epoch=lambda epoch: epoch * 1e307 - 9e307), tmp_path) is None


@pytest.mark.parametrize("name", LEARNS)
def test_what_learns_or_knows_something_is_left_alone(name: str, tmp_path: Path) -> None:
    finding = judged(LEARNS[name], LINES["a line for each epoch"], tmp_path, 30)
    assert finding is None or "guess" not in finding.title


def trainer_log(loss: Course, folder: Path, reports: int = 24, every: int = 8) -> Finding | None:
    """What the Trainer of Transformers prints without a progress bar: no line counts steps."""
    log, rng, lines = folder / "train.log", random.Random(5), []
    for number in range(1, reports + 1):
        now, share = loss(number, rng)
        lines.append(str({"loss": f"{now:.4g}", "learning_rate": "0.0003", "epoch": f"{number * 0.0135:.4g}"}))
        if number % every == 0:
            lines.append(str({"eval_loss": f"{now:.4g}", "eval_accuracy": f"{share:.4g}", "epoch": f"{number * 0.0135:.4g}"}))
    log.write_text("\n".join(lines) + "\n")
    return next((item for item in explain_logs([str(log)])[0] if item.id == "J03"), None)


@pytest.mark.parametrize("classes", [2, 4, 12])
def test_a_trainer_whose_evaluations_guess_does_not_learn(classes: int, tmp_path: Path) -> None:
    finding = trainer_log(at(math.log(classes), 1 / classes), tmp_path)
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("warning", "possible")
    assert finding.title == f"After 3 evaluations, the model does no better than a guess among {classes} classes"


def test_a_test_at_the_end_adds_nothing(tmp_path: Path) -> None:
    assert trainer_log(at(math.log(4), 0.25), tmp_path) is not None
    log = tmp_path / "train.log"
    log.write_text(log.read_text() + "{'test_loss': '1.386', 'test_accuracy': '0.251', 'epoch': '0.32'}\n")
    found = next((item for item in explain_logs([str(log)])[0] if item.id == "J03"), None)
    assert found is not None
    assert found.title == "After 3 evaluations, the model does no better than a guess among 4 classes"


def test_what_the_run_does_stands_before_a_remark_that_is_as_certain(tmp_path: Path) -> None:
    assert trainer_log(at(math.log(4), 0.25), tmp_path) is not None
    log = tmp_path / "train.log"
    remark = "dataloader.py:759: UserWarning: 'pin_memory' argument is set as true but no accelerator is found, then\n"
    log.write_text(remark + log.read_text())
    assert [item.id for item in explain_logs([str(log)])[0]] == ["J03", "A12"]


@pytest.mark.parametrize(("rises_until", "found"), [(0.02, True), (0.5, True), (1.0, False)])
def test_a_rate_that_no_longer_rises_excuses_nothing(rises_until: float, found: bool, tmp_path: Path) -> None:
    log, rng = tmp_path / "train.log", random.Random(5)
    lines = []
    for step in range(1, 1561):
        rate = 1e-3 * min(1.0, step / 1560 / rises_until)
        if step % 10 == 0:
            lines.append(
                f"[13:01:01] epoch {1 + step // 210} [{step % 210}/210] loss={1.609 + rng.gauss(0, 0.004):.4f} lr={rate:.2e}"
            )
        if step % 210 == 0:
            valid, right = 1.61 + rng.gauss(0, 0.001), 0.2 + rng.gauss(0, 0.002)
            lines.append(f"[13:01:13] epoch {step // 210} valid loss={valid:.4f} accuracy={right:.3f}")
    log.write_text("\n".join(lines) + "\n")
    said = [item.title for item in explain_logs([str(log)])[0] if item.id == "J03" and "guess" in item.title]
    assert bool(said) is found


def test_more_classes_take_more_evaluations(tmp_path: Path) -> None:
    finding = trainer_log(at(math.log(20), 0.05), tmp_path, 42, 7)
    assert finding is not None
    assert finding.title == "After 6 evaluations, the model does no better than a guess among 20 classes"
    other = trainer_log(at(math.log(150), 1 / 150), tmp_path, 42, 7)
    assert other is None or "guess" not in other.title


def test_an_evaluation_of_few_samples_varies(tmp_path: Path) -> None:
    shares = (0.101, 0.116, 0.11, 0.087)
    varies: Course = lambda number, rng: (math.log(10), shares[number // 8 % 4])  # noqa: E731
    assert trainer_log(varies, tmp_path, 40) is not None


def test_a_model_that_its_first_steps_have_ruined_does_not_learn(tmp_path: Path) -> None:
    ruined: Course = lambda number, rng: (900.0 if number < 4 else math.log(4) + rng.gauss(0, 0.01), 0.25)  # noqa: E731
    assert trainer_log(ruined, tmp_path, 40) is not None


@pytest.mark.parametrize(
    ("course", "reports", "every"),
    [
        (at(math.log(4), 0.25), 23, 7),
        (at(math.log(4), 0.25), 24, 12),
        (at(math.log(20), 0.05), 40, 8),
        (at(math.log(4), 0.4), 24, 8),
        (at(math.log(4), 0.31), 24, 8),
        (lambda number, rng: (math.log(4) - 0.002 * number, 0.25), 24, 8),
        (lambda number, rng: (math.log(4) + rng.gauss(0, 0.01), 0.25 if number < 20 else 0.35), 24, 8),
    ],
    ids=[
        *(
            "few reports",
            "few evaluations",
            "many classes",
            "knows more",
            "knows a little more",
            "falls",
            "knows more in the end",
        ),
    ],
)
def test_a_trainer_that_may_learn_is_left_alone(course: Course, reports: int, every: int, tmp_path: Path) -> None:
    assert trainer_log(course, tmp_path, reports, every) is None
