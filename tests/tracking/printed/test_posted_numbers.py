"""Which number of a line is its step, which names its values have, and which lines only repeat another; own samples in the
forms of logs that people have posted.
"""

from __future__ import annotations

import pytest

from gputop.tracking.printed.lines import parse
from gputop.tracking.printed.transcript import Transcript

Values = list[tuple[int, dict[str, float]]]


def read(*lines: str) -> Values:
    transcript = Transcript(with_bars=True)
    return [*transcript.feed("\n".join((*lines, "")).encode()), *transcript.end()]


def metrics_of(line: str) -> dict[str, float]:
    said = parse(line)
    return dict(said.metrics) if said is not None else {}


def step_of(line: str) -> tuple[int | None, int | None]:
    said = parse(line)
    return (said.step, said.steps) if said is not None else (None, None)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("[03/14 09:26:53] engine INFO: Epoch: [2] [ 30/400] learning_rate: 0.25 loss: 1.5", (30, 400)),
        ("[2023/03/14 09:26:53] root INFO: iter: 90, loss: 1.5", (90, None)),
        ("[03/14 09:26:53] loss: 1.5", (None, None)),
        ("[03/14, 09:26] loss: 1.5", (None, None)),
        ("[03/14/2023 09:26:53] loss: 1.5", (None, None)),
        ("[2023/03/14] loss: 1.5", (None, None)),
        ("[30/400] loss: 1.5", (30, 400)),
        ("[ 30/400] 09:26:53 loss: 1.5", (30, 400)),
        ("[30/400 00:12<02:30 loss: 1.5]", (30, 400)),
        ("[30/400, loss: 1.5]", (30, 400)),
        ("batch 30/400 loss: 1.5", (30, 400)),
    ],
)
def test_a_date_is_no_step(line: str, step: tuple[int | None, int | None]) -> None:
    assert step_of(line) == step


@pytest.mark.parametrize(
    ("line", "metrics"),
    [
        ("Mean disc_loss loss: 0.5", {"disc_loss": 0.5}),
        ("Mean grad_penalty loss: nan", {"grad_penalty_loss": pytest.approx(float("nan"), nan_ok=True)}),
        ("Mean m3_actor loss: 0.25", {"m3_actor_loss": 0.25}),
        ("Mean m3_critic loss: 9000.5", {"m3_critic_loss": 9000.5}),
        ("train_step loss: 0.5", {"loss": 0.5}),
        ("rank_0 loss: 0.5", {"loss": 0.5}),
        ("fold_3 loss: 0.5", {"loss": 0.5}),
        ("global_step loss: 0.5", {"loss": 0.5}),
        ("batch_idx loss: 0.5", {"loss": 0.5}),
        ("mean value_function loss: 0.5", {"value_function_loss": 0.5}),
        ("Mean Reward: 1.5. Std of Reward: 0.25.", {"mean_reward": 1.5}),
        ("mean reward: 1.5, standard deviation of the reward: 0.25", {"mean_reward": 1.5}),
        ("Min of loss: 0.25, loss: 0.5", {"loss": 0.5}),
        ("mean of loss: 0.5", {"loss": 0.5}),
        ("loss of model: 0.5", {}),
    ],
)
def test_the_words_before_a_measure_are_part_of_its_name(line: str, metrics: dict[str, float]) -> None:
    assert metrics_of(line) == metrics
