"""Losses that went wrong (J), and what lies near to each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from gputop.snapshot import Snapshot
from tests.doctor.scenes.base import Scene
from tests.doctor.scenes.near.pairs import Pair
from tests.doctor.tracked import CALM, Metrics, ddp, single

FROM = 160
"""The step at which something begins to go wrong; the scenes start at step 98 with three steps a second."""


def noise(rank: int, step: int) -> float:
    return ((step * 7 + rank * 13) % 11) * 0.01


def falls(rank: int, step: int) -> float:
    """A loss as it should be: from 2.3 down to 0.3."""
    return 0.3 + 2.0 * math.exp(-(step - 98) / 60) + noise(rank, step)


def with_metrics(shot: Snapshot) -> Snapshot:
    """The same; each rank names the metrics of its points, with their newest values."""
    newest = {(points.rank, points.metric): points.values[-1] for points in shot.points}
    runs = []
    for run in shot.runs:
        ranks = (
            replace(rank, metrics={metric: value for (number, metric), value in newest.items() if number == rank.rank})
            for rank in run.ranks
        )
        runs.append(replace(run, ranks=tuple(ranks)))
    return replace(shot, runs=tuple(runs))


def run_with(loss: Callable[[int, int], float], **more: Callable[[int, int], float]) -> Scene:
    """One process with this loss, and more metrics."""
    metrics = {**CALM, "loss": loss, **{name.replace("__", "/"): value_of for name, value_of in more.items()}}
    return lambda second: with_metrics(single(second, {}, metrics=metrics))


def ranks_with(metrics: Metrics) -> Scene:
    """Four ranks of DDP with these metrics."""
    return lambda second: with_metrics(ddp(second, metrics={**CALM, **metrics}))


def acts(scene: Scene, every: int) -> Scene:
    """The same, with a call of the model without gradients after every ``every`` steps."""

    def with_calls(second: int) -> Snapshot:
        shot = scene(second)
        times = next(points for points in shot.points if points.metric == "step_s")
        steps = tuple(step for step in times.steps if step % every == 0)
        calls = replace(
            times, metric="phase/evaluation", steps=steps, times=times.times[: len(steps)], values=(0.001,) * len(steps)
        )
        return replace(shot, points=(*(points for points in shot.points if points.metric != calls.metric), calls))

    return with_calls


# ---- J01

becomes_nan = run_with(
    lambda rank, step: math.nan if step >= FROM else falls(rank, step),
    lr=lambda rank, step: 0.5,
    grad_norm=lambda rank, step: math.inf if step >= FROM - 1 else 900.0 if step == FROM - 2 else 2.0 + noise(rank, step),
)
becomes_infinite = run_with(lambda rank, step: math.inf if step >= FROM else falls(rank, step))
all_ranks_nan = ranks_with({"loss": lambda rank, step: math.nan if step >= FROM + (rank != 2) else falls(rank, step)})
never_finite = run_with(lambda rank, step: math.nan)
skipped_by_a_scaler = run_with(lambda rank, step: math.inf if step % 40 < 2 else falls(rank, step))
undefined_metric = run_with(falls, val__loss=lambda rank, step: math.nan, auc=lambda rank, step: math.nan)
passing_nan = run_with(lambda rank, step: math.nan if FROM <= step < FROM + 2 else falls(rank, step))

zeros_hide_nan = run_with(
    lambda rank, step: 0.0 if step >= FROM else falls(rank, step),
    grad_norm=lambda rank, step: math.nan if step >= FROM else 2.0 + noise(rank, step),
)
learned_by_heart = run_with(
    lambda rank, step: 0.0 if step >= FROM else falls(rank, step),
    grad_norm=lambda rank, step: 0.0 if step >= FROM else 2.0 + noise(rank, step),
)
undefined_norm = run_with(falls, grad_norm=lambda rank, step: math.nan)

# ---- J02

learned_then_lost = run_with(lambda rank, step: falls(rank, step) if step < 220 else 0.4 * 1.06 ** min(step - 220, 60))
explodes = run_with(lambda rank, step: 2.3 * 1.05 ** min(step - 98, 150) + noise(rank, step))
spike = run_with(lambda rank, step: 40.0 if 230 <= step < 236 else falls(rank, step))
grows_a_little = run_with(lambda rank, step: falls(rank, step) if step < 220 else 0.7 + noise(rank, step))
below_zero = run_with(lambda rank, step: -falls(rank, step) if step < 220 else 40.0)
two_losses = run_with(
    lambda rank, step: falls(rank, step) if step < 220 else 9.0, loss__critic=lambda rank, step: 1.0 + noise(rank, step)
)
rewarded = run_with(
    lambda rank, step: falls(rank, step) if step < 220 else 9.0, episodic_return=lambda rank, step: 20.0 + step / 10
)

harder_task = run_with(
    lambda rank, step: falls(rank, step) if step < 220 else 9.0 * math.exp(-(step - 220) / 120) + noise(rank, step)
)


def moves_away(rank: int, step: int) -> float:
    """The distance from a reference model, which grows as the model learns."""
    return 1e-3 * 1.03 ** (step - 98) + noise(rank, step) * 1e-3


def only_loss(name: str, loss: Callable[[int, int], float]) -> Scene:
    """One process that logs a single loss under this name."""
    metrics = {**{metric: value for metric, value in CALM.items() if metric != "loss"}, name: loss}
    return lambda second: with_metrics(single(second, {}, metrics=metrics))


leaves_its_reference = only_loss("actor/kl_loss", moves_away)
is_maximized = only_loss("objective", moves_away)
leaves_its_data = only_loss("train/loss", moves_away)

# ---- J03

vanished_rate = run_with(falls, lr=lambda rank, step: 0.1 ** (1 + step / 5) if step > FROM else 1e-3)
no_rate = run_with(falls, lr=lambda rank, step: 0.0 if step >= FROM else 0.1)
small_rate = run_with(falls, lr=lambda rank, step: 1e-9)
ends_at_zero = run_with(falls, lr=lambda rank, step: 0.0 if step >= 250 else 0.1)
frozen_backbone = run_with(falls, lr=lambda rank, step: 0.0, lr__1=lambda rank, step: 0.1)
always_the_same = run_with(lambda rank, step: 2.3025851)
nearly_the_same = run_with(lambda rank, step: 2.3025851 + 1e-6 * (step % 2))

rounded_to_zero = run_with(lambda rank, step: round(2.3 * math.exp(-(step - 98) / 12), 4))
zero_at_once = run_with(lambda rank, step: 0.0 if step >= FROM else 2.3 + noise(rank, step))
zero_from_the_start = run_with(lambda rank, step: 0.0)

# ---- J04


def by_class(rank: int, step: int) -> float:
    """The data is sorted: the loss falls while one class lasts, and jumps at the next one."""
    return 0.05 + 2.3 * math.exp(-(step % 20) / 4) + noise(rank, step) * 0.1


def sampled_by(kind: str, loss: Callable[[int, int], float], **more: Callable[[int, int], float]) -> Scene:
    """One process whose loader has a sampler of this class."""
    facts = {"sampler": {"type": kind, "shuffle": kind == "RandomSampler", "set_epoch": None, "replicas": None, "rank": None}}
    metrics = {**CALM, "loss": loss, **more}
    return lambda second: with_metrics(single(second, facts, metrics=metrics))


sorted_data = sampled_by("SequentialSampler", by_class)
shuffled = sampled_by("RandomSampler", by_class)
in_order = sampled_by("SequentialSampler", falls)
one_bad_batch = sampled_by("SequentialSampler", lambda rank, step: 9.0 if step % 20 == 0 else 0.2 + noise(rank, step))


def restarting(rank: int, step: int) -> float:
    """A learning rate that falls, again and again."""
    return 0.1 * (1 - step % 20 / 21)


def rounds(rank: int, step: int) -> float:
    """The number of a training that begins anew, again and again."""
    return float(step // 20)


restarts = sampled_by("SequentialSampler", by_class, lr=restarting)
trains_anew = sampled_by("SequentialSampler", by_class, training=rounds)


small_jumps = sampled_by(
    "SequentialSampler", lambda rank, step: falls(rank, step) if step < 150 else 0.02 + 0.2 * (step % 12 < 4)
)


# ---- J03, by the weights


def with_weights(
    loss: Callable[[int, int], float],
    sample: Callable[[int], object],
    changed: float = 1.0,
    dtype: str = "float32",
    **more: Callable[[int, int], float],
) -> Scene:
    """One process that is known from its first step on: its loss, samples of its weights, and what part of them changes."""
    metrics = {**CALM, "loss": lambda rank, step: loss(rank, step + 98), **more}

    def scene(second: int) -> Snapshot:
        newest = 3 * second - 3 * second % 10
        steps = range(max(0, newest - 70), newest + 1, 10)
        facts = {
            "parameters": {
                "recent": [[step, sample(step), 1.5] for step in steps],
                "changed": [[step, changed] for step in steps if step],
                "dtype": dtype,
            }
        }
        shot = with_metrics(single(second, facts, metrics=metrics))
        points = tuple(replace(item, steps=tuple(step - 98 for step in item.steps)) for item in shot.points)
        return replace(shot, points=points)

    return scene


def flat(rank: int, step: int) -> float:
    return 4.5 + noise(rank, step)


def moves(step: int) -> object:
    return step


def rests(step: int) -> object:
    return 7


weights_rest = with_weights(flat, rests)
weights_move = with_weights(flat, moves)
rest_and_learn = with_weights(falls, rests)
too_coarse = with_weights(flat, moves, 0.06, "bfloat16")
fine_enough = with_weights(flat, moves, 0.06)
coarse_and_large = with_weights(flat, moves, 0.9, "bfloat16")
coarse_and_learns = with_weights(falls, moves, 0.06, "bfloat16")
coarse_and_warms_up = with_weights(flat, moves, 0.06, "bfloat16", lr=lambda rank, step: 1e-7 * step)

# ---- J05, J06


def printed(loss: Callable[[int, int], float], **values: Callable[[int], float]) -> Scene:
    """One process that is known from its first step on; every second it prints these values to a file."""
    metrics = {**CALM, "loss": lambda rank, step: loss(rank, step + 98)}

    def scene(second: int) -> Snapshot:
        courses = {name: [value_of(at) for at in range(second + 1)] for name, value_of in values.items()}
        said = [
            {
                "name": name,
                "values": len(course),
                "lowest": min(course),
                "highest": max(course),
                "means": [[at, value] for at, value in enumerate(course)],
            }
            for name, course in courses.items()
        ]
        shot = with_metrics(single(second, {"printed": said}, metrics=metrics))
        points = tuple(replace(item, steps=tuple(step - 98 for step in item.steps)) for item in shot.points)
        return replace(shot, points=points)

    return scene


def hardly(second: int) -> float:
    return 1.9559 - 0.0001 * (second % 2)


never_updated = printed(falls, val_loss=lambda second: 1.9559, val_acc=lambda second: 0.143)
overfits = printed(falls, val_loss=hardly, val_acc=lambda second: 0.143 + 0.001 * (second % 5))
not_prepared = printed(falls, val_loss=lambda second: 4200.0 + 900 * math.sin(second * 1.3))
summed = printed(falls, val_loss=lambda second: 4200.0 * math.exp(-second / 90))
in_other_units = printed(falls, val_rmse=lambda second: 4200.0 + 900 * math.sin(second * 1.3))
far_at_times = printed(falls, val_loss=lambda second: 4200.0 if second % 3 else 8.0)
nothing_learned = printed(flat, val_loss=lambda second: 1.9559)
says_its_best = printed(falls, best_val_loss=lambda second: 1.9559, val_loss=hardly)
is_perfect = printed(falls, val_loss=hardly, val_acc=lambda second: 1.0, test_error=lambda second: 0.0)


def sinks(second: int) -> float:
    return 9.4 + 10.6 * math.exp(-second / 12) + 0.1 * (second % 3)


wrong_sign = printed(flat, **{"return": sinks})
sinks_at_once = printed(flat, **{"return": lambda second: max(9.4, 20 - 4 * second) + 0.1 * (second % 3)})
lucky_at_first = printed(flat, **{"return": lambda second: 38 if second < 3 else 20 + 10 * math.sin(second * 1.7)})


def varied(second: int) -> float:
    """Pseudo-random, between -1 and 1."""
    return math.sin(second * 12.9898) * math.cos(second * 4.1414)


sinks_slowly = printed(flat, **{"return": lambda second: -9.0 - 0.3 * second + 1.2 * varied(second)})
rises_slowly = printed(flat, **{"return": lambda second: -30.0 + 0.3 * second + 1.2 * varied(second)})
explores_then_sinks = printed(
    flat, **{"return": lambda second: (0.5 * min(second, 20) - 9.0 - 0.5 * max(0, second - 30)) + 1.2 * varied(second)}
)
rises_and_stays = printed(flat, **{"return": lambda second: 0.5 * min(second, 20) - 9.0 + 1.2 * varied(second)})
gets_better = printed(flat, **{"return": lambda second: 30 - sinks(second)})
learns_and_collapses = printed(flat, **{"return": lambda second: 20.0 + second if second < 12 else sinks(second - 12)})
dips_first = printed(flat, **{"return": lambda second: sinks(second) if second < 30 else 3.0 * (second - 25)})
plays_by_chance = printed(flat, **{"return": lambda second: 20 + 8 * math.sin(second * 1.7)})


def doubles(rank: int, step: int) -> float:
    return 2.3 * 1.05 ** min(step - 98, 150) + noise(rank, step)


prints_rewards = printed(doubles, mean_reward=lambda second: 10 + second / 3)
prints_accuracies = printed(doubles, val_acc=lambda second: 0.2 + second / 1000)
has_a_loss_of_rewards = printed(flat, reward_loss=sinks, reward_std=sinks)

PAIRS = (
    Pair("J01", "two steps that a scaler skips", skipped_by_a_scaler, becomes_infinite, 40),
    Pair("J01", "an undefined metric beside a finite loss", undefined_metric, becomes_nan, 40),
    Pair("J01", "NaN that passes", passing_nan, never_finite, 40),
    Pair("J01", "a loss of 0 and gradients of 0", learned_by_heart, zeros_hide_nan, 40),
    Pair("J01", "a norm that is undefined beside a loss that falls", undefined_norm, zeros_hide_nan, 40),
    Pair("J02", "a spike", spike, learned_then_lost, 70),
    Pair("J02", "a little more than at best", grows_a_little, explodes, 70),
    Pair("J02", "a loss below zero", below_zero, learned_then_lost, 70),
    Pair("J02", "two losses that work against each other", two_losses, learned_then_lost, 70),
    Pair("J02", "reinforcement learning", rewarded, learned_then_lost, 70),
    Pair("J02", "rewards that are only printed", prints_rewards, prints_accuracies, 70),
    Pair("J02", "a distance from the reference model", leaves_its_reference, leaves_its_data, 70),
    Pair("J02", "an objective that is maximized", is_maximized, leaves_its_data, 70),
    Pair("J03", "a schedule that ends with the run", ends_at_zero, no_rate, 60),
    Pair("J03", "a rate that is small", small_rate, vanished_rate, 60),
    Pair("J03", "one group of parameters is frozen", frozen_backbone, no_rate, 60),
    Pair("J03", "a loss that moves in the sixth digit", nearly_the_same, always_the_same, 60),
    Pair("J03", "a flat loss, and weights that move", weights_move, weights_rest, 60),
    Pair("J03", "weights that rest beside others that learn", rest_and_learn, weights_rest, 60),
    Pair("J03", "few weights that change, in float32", fine_enough, too_coarse, 60),
    Pair("J03", "large steps in bfloat16", coarse_and_large, too_coarse, 60),
    Pair("J03", "small steps in bfloat16, and a loss that falls", coarse_and_learns, too_coarse, 60),
    Pair("J03", "small steps in bfloat16, in a warm-up", coarse_and_warms_up, too_coarse, 60),
    Pair("J04", "a sampler that shuffles", shuffled, sorted_data, 60),
    Pair("J04", "a loss that falls", in_order, sorted_data, 60),
    Pair("J04", "one bad batch in each round", one_bad_batch, sorted_data, 60),
    Pair("J04", "a schedule with restarts", restarts, sorted_data, 60),
    Pair("J04", "a new model in each round", trains_anew, sorted_data, 60),
    Pair("J05", "a validation loss that hardly moves", overfits, never_updated, 40),
    Pair("J05", "the training loss stays, too", nothing_learned, never_updated, 40),
    Pair("J05", "the best value so far", says_its_best, never_updated, 40),
    Pair("J05", "an accuracy of 1, and an error of 0", is_perfect, never_updated, 40),
    Pair("J06", "a return that rises", gets_better, wrong_sign, 60),
    Pair("J06", "a return that rises, of few episodes", rises_slowly, sinks_slowly, 60),
    Pair("J06", "a return that rose and stays", rises_and_stays, explores_then_sinks, 60),
    Pair("J06", "episodes that went well at first", lucky_at_first, sinks_at_once, 60),
    Pair("J06", "a dip before it rises", dips_first, wrong_sign, 60),
    Pair("J06", "a return that rose before it fell", learns_and_collapses, wrong_sign, 60),
    Pair("J06", "returns that only vary", plays_by_chance, wrong_sign, 60),
    Pair("J06", "a loss and a spread of rewards", has_a_loss_of_rewards, wrong_sign, 60),
    Pair("J04", "jumps that are small beside the initial loss", small_jumps, sorted_data, 60),
)
