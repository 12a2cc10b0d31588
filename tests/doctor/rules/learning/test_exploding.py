"""A loss that grows beyond all others, also where targets move (J02)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gputop.cli.doctor.logs import explain_logs


def says(tmp_path: Path, loss: Callable[[int], float], number: int = 40, name: str = "value_loss") -> str | None:
    log = tmp_path / "train.log"
    log.write_text(
        "".join(
            f'{{"step": {at}, "{name}": {loss(at):.4g}, "policy_loss": -0.01, "mean_reward": {at % 7 - 3:.2f}}}\n'
            for at in range(1, number + 1)
        )
    )
    return next((item.title for item in explain_logs([str(log)])[0] if item.id == "J02"), None)


def test_by_orders_of_magnitude(tmp_path: Path) -> None:
    title = says(tmp_path, lambda at: 0.03 * 2.0**at)
    assert title is not None
    assert title.startswith("value_loss has grown to ")


def test_with_the_returns_for_a_moment_or_few_values(tmp_path: Path) -> None:
    assert says(tmp_path, lambda at: 0.03 * at**2) is None
    assert says(tmp_path, lambda at: 1e6 if at > 38 else 0.03) is None
    assert says(tmp_path, lambda at: 0.03 * 8.0**at, 11) is None


def printed(
    tmp_path: Path, losses: list[float], text: str = "epoch [1][{step}/2766] loss_cls: {loss:.4f}, loss: {loss:.4f}"
) -> str:
    """Return the title of J02 on these losses, and how sure it is; "" without one."""
    log = tmp_path / "train.log"
    log.write_text("".join(f"{text.format(step=50 * at, loss=loss)}\n" for at, loss in enumerate(losses, 1)))
    found = next((item for item in explain_logs([str(log)])[0] if item.id == "J02"), None)
    return f"{found.title}, {found.confidence}" if found is not None else ""


def test_beyond_all_measure_within_a_few_reports(tmp_path: Path) -> None:
    title = "loss has grown beyond all measure: 1.08e+13"
    assert printed(tmp_path, [0.79, 2.61, 36_350.0, 1.08e13]) == f"{title}, likely"
    assert printed(tmp_path, [0.79, 2.61, 1.08e13]) == f"{title}, possible"
    assert printed(tmp_path, [1.35e19]).endswith("1.35e+19, possible"), "alone"
    assert printed(tmp_path, [0.79, 2.61, 1.08e8]) == "", "a large sum"
    assert printed(tmp_path, [2.4e10, 2.3e10, 1.08e10]) == "", "large from the start"
    assert printed(tmp_path, [0.79, 1.08e13, 0.81]) == "", "once"
    assert printed(tmp_path, [0.79, 2.61, 1.08e13], "step {step} val_loss: {loss:.4f}") == "", "of an evaluation"


def test_a_lowest_average_that_holds_an_exploded_loss_is_not_the_lowest(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"step {at * 10} loss {2.3e35 + at % 5 * 1e33 if at else 0.7421:.4g}\n" for at in range(37)))
    finding = next(item for item in explain_logs([str(log)])[0] if item.id == "J02")
    assert finding.title == "The loss has grown to 2.32e+35, 3.13e+35 times its lowest"
    assert "about 0.7421 from step 0, at its lowest" in [fact.text for fact in finding.evidence]
