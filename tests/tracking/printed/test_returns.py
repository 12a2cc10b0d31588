"""What scripts print about the returns of an agent, in the words of many authors; and what only resembles it."""

from __future__ import annotations

import pytest

from gputop.losses import is_return
from gputop.tracking.printed.transcript import Transcript

SB3 = """\
---------------------------------
| rollout/            |          |
|    ep_len_mean      | 98.1     |
|    ep_rew_mean      | 12.5     |
| time/               |          |
|    total_timesteps  | 2048     |
---------------------------------
"""
SPINNING_UP = """\
---------------------------------------
|             Epoch |               3 |
|      AverageEpRet |            12.5 |
|          StdEpRet |            10.2 |
---------------------------------------
"""


def returns(text: str) -> dict[str, float]:
    """Return what of a text is an agent's return, by its name."""
    transcript = Transcript()
    found = [*transcript.feed(text.encode()), *transcript.end()]
    return {name: value for _, metrics in found for name, value in metrics.items() if is_return(name)}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Episode 100\tAverage Score: 12.5\n", "episode_score"),
        ("\rEpisode 100\tAverage Score: 12.5\rEpisode 200", "episode_score"),
        ("episode: 7/2000, score: 12.5, e: 0.05\n", "episode_score"),
        ("Episode 10\tLast reward: 12.5\tlength 31\n", "last_reward"),
        ("Episode 100 finished after 120 steps with total reward 12.5\n", "total_reward"),
        ("global_step=22, episodic_return=[12.5]\n", "episodic_return"),
        ("10:00:00.123 | INFO | __main__:main:52 - ep 7 | return 12.5 | eps 0.05\n", "episode_return"),
        ("ep=7 ret=12.5 len=200\n", "episode_return"),
        ("ep_7: R=12.5\n", "episode_return"),
        ("train:  10%|#    | 100/1000 [00:01<00:10, 90.0it/s, ep_ret=12.5, loss=0.51]\n", "ep_ret"),
        ("{'episode': 7, 'score': 12.5, 'epsilon': 0.1}\n", "episode_score"),
        ('{"iteration": 7, "episode_reward_mean": 12.5}\n', "episode_reward_mean"),
        ("[iter 7] mean_ep_reward=12.5 kl=0.01\n", "mean_ep_reward"),
        ("Iter 7: avg. return (last 20): 12.5\n", "avg_return"),
        ("T=700 | mean return over 10 episodes: 12.5 | best 20\n", "mean_return"),
        ("update 710 | mean return (100 episodes) 12.5 | loss -0.02\n", "mean_return"),
        ("                        Mean reward: 12.5\n", "mean_reward"),
        ("update     7 | rew   12.50 | vf 0.3 | ent 1.1\n", "rew"),
        (SB3, "ep_rew_mean"),
        (SPINNING_UP, "AverageEpRet"),
    ],
)
def test_a_return_is_known_by_the_words_of_many_authors(text: str, name: str) -> None:
    assert returns(text) == {name: 12.5}


@pytest.mark.parametrize(
    "text",
    [
        "epoch 3 score: 0.81 loss: 0.5\n",
        "ep 3 | score 0.81 | loss 0.5\n",
        "ep 3: P=0.9 R=0.8 F1=0.85 loss=0.5\n",
        "ep 3 D: 0.51 G: 0.72 loss 0.5\n",
        "step 3 R=0.8 loss=0.5\n",
        "{'epoch': 3, 'score': 0.81, 'loss': 0.5}\n",
        "episodes of 300 frames, scored by two annotators\n",
        "process exited: return 1 of 3\n",
        "recall over 10 classes: 0.5, loss: 0.5\n",
        "steps 30 loss 0.5 grew 0.25\n",
    ],
)
def test_what_only_resembles_a_return_is_none(text: str) -> None:
    assert returns(text) == {}


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("ep_rew_mean", True),
        ("AverageEpRet", True),
        ("episode/score", True),
        ("episodic_return", True),
        ("score", False),
        ("StdEpRet", False),
        ("rewards/chosen", False),
        ("episode_length", False),
        ("ret_loss", False),
        ("retina", False),
    ],
)
def test_names_of_returns(name: str, is_one: bool) -> None:
    assert is_return(name) is is_one


def test_that_a_script_counts_episodes_stays_known() -> None:
    """By it, rules know a run that learns a policy, also if it reports no return."""
    transcript = Transcript()
    assert [*transcript.feed(b"{'episode': 7, 'loss': 0.5}\n")] == [(1, {"episode": 7.0, "loss": 0.5})]
