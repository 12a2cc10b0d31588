"""Returns as people print them, where single ones vary: one that falls is a finding, one that rises or only varies is none."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs

LINES: dict[str, Callable[[int, float], str]] = {
    "an agent's episodes": lambda at, value: f"episode {128 * at:6d}  return {value:8.2f}  loss +0.31  entropy 1.6",
    "Stable-Baselines3 in one line": lambda at, value: f"| rollout/ep_rew_mean: {value:.3g} | total_timesteps: {2048 * at} |",
    "CleanRL": lambda at, value: f"global_step={400 * at}, episodic_return={value:.1f}",
    "JSON": lambda at, value: f'{{"iteration": {at}, "episode_reward_mean": {value:.3f}}}',
}
COURSES: dict[str, tuple[Callable[[float], float], bool]] = {
    "falls all the time": (lambda done: -9 - 20 * done, True),
    "falls from a good start and stays": (lambda done: 9 + 40 * max(0.0, 1 - 4 * done), True),
    "rises": (lambda done: -30 + 20 * done, False),
    "varies": (lambda done: -20.0, False),
    "rises, then collapses": (lambda done: -20 + 30 * done if done < 0.45 else -35.0, True),
    "rises before it falls": (lambda done: -20 + 40 * done if done < 0.4 else -4 - 40 * (done - 0.4), True),
    "rises, with a dip": (lambda done: -20 + 30 * done - 12 * (0.6 < done < 0.75), False),
    "rises, and loses a part": (lambda done: -20 + 30 * done if done < 0.5 else -9.0, False),
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("course", COURSES)
@pytest.mark.parametrize("seed", range(2))
def test_a_return_that_falls_is_seen_among_returns_that_vary(line: str, course: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    value_of, falls = COURSES[course]
    log = tmp_path / "train.log"
    log.write_text("\n".join(LINES[line](at, value_of(at / 80) + rng.gauss(0, 0.9)) for at in range(1, 81)) + "\n")
    assert ("J06" in {item.id for item in explain_logs([str(log)])[0]}) is falls


def table(number: int, value: float) -> str:
    return f"| rollout/ | |\n|    ep_rew_mean | {value:.3g} |\n|    total_timesteps | {2048 * number} |\n------------------"


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ((112, 702, 1240, 1688, 1990, 1871, 1402, 911, 503, 118), True),
        ((215, 231, 221, 169, 100, 16.6, -60, -134, -187, -240), True),
        ((-73.1, -22.5, 52.7, 101, 8.91, -54.9, -122, -178), True),
        ((-73.1, -22.5, 52.7, 101, 8.91, -54.9, -22, -178), False),
        ((427, 668, 776, 794, 609, 223, 25.3, 45.5), True),
        ((112, 1990, 1300, 600, 500), False),
        ((112, 702, 1240, 1688, 1990, 1871, 1802, 1711, 1603, 1518), False),
        ((20, 20.4, 20.9, 21.3, 21.2, 20.9, 20.6, 20.3, 20.1, 20), False),
        ((215, 231, 221, 229, 200, 212, 190, 180, 174, 160), False),
        ((112, 702, 1240, 1688, 1990, 1871, 1402, 911, 1403, 1818), False),
        ((112, 400, 700, 1000, 1300, 1600, 1900, 1950, 300, 200), False),
        ((112, 800, 200, 900, 250, 950, 1000, 300, 250, 220), False),
        ((240, 238, 236, 233, 230, 226, 222, 220, 217, 214), False),
    ],
    ids=[
        "collapses",
        "begins late",
        "ends below its start",
        "varies below its start",
        "a little up at the end",
        "few",
        "loses a part",
        "a wave",
        "a little",
        "comes back",
        "too soon",
        "noise",
        "slowly",
    ],
)
def test_few_means_of_many_episodes_are_enough(values: tuple[float, ...], found: bool, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("\n".join(table(at, value) for at, value in enumerate(values, 1)) + "\n")
    assert ("J06" in {item.id for item in explain_logs([str(log)])[0]}) is found


def test_single_returns_that_fall_late_are_not_judged_as_means_are(tmp_path: Path) -> None:
    values = [100 - 100 * (at / 80) ** 4 for at in range(1, 81)]
    found = {}
    for name in ("CleanRL", "JSON"):
        log = tmp_path / "train.log"
        log.write_text("\n".join(LINES[name](at, value) for at, value in enumerate(values, 1)) + "\n")
        found[name] = "J06" in {item.id for item in explain_logs([str(log)])[0]}
    assert found == {"CleanRL": False, "JSON": True}
