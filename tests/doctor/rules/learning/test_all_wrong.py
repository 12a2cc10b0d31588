"""A recognizer that gets every word wrong in each evaluation (J03)."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs


def says(tmp_path: Path, rate: float = 1.0, now: float = 2.87, evaluations: int = 8) -> str | None:
    lines = []
    for at in range(evaluations * 6):
        loss = 2.87 if at < evaluations * 3 else now
        lines.append(
            f"{{'loss': {3.4 if at < 3 else loss + at % 3 / 1000}, 'learning_rate': 1e-4, 'epoch': {at / 6 + 0.1:.2f}}}"
        )
        if at % 6 == 5:
            lines.append(
                f"{{'eval_loss': 2.85{at % 7}, 'eval_wer': {rate}, 'eval_runtime': 95.1, 'epoch': {at / 6 + 0.1:.2f}}}"
            )
    log = tmp_path / "train.log"
    log.write_text("\n".join(lines) + "\n")
    found = next((item for item in explain_logs([str(log)])[0] if item.id == "J03" and "wrong" in item.title), None)
    return None if found is None else found.title


@pytest.mark.parametrize("rate", [1.0, 99.8])
def test_every_word_is_wrong_and_the_loss_stays(rate: float, tmp_path: Path) -> None:
    title = f"After 8 evaluations, everything is still wrong: eval_wer is {rate:g} or more"
    assert says(tmp_path, rate) == title.replace("99.8", "99.8")


def test_some_words_are_right_the_loss_falls_or_it_is_early(tmp_path: Path) -> None:
    assert says(tmp_path, 0.92) is None
    assert says(tmp_path, now=1.9) is None
    assert says(tmp_path, evaluations=5) is None
