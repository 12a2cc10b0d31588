"""Healthy work in forms that may trigger rules: uneven, bursty, idle or odd on purpose. All are open: rules may use them.

A scene with a journal is played tracked and, like the others, without a journal.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from gputop.snapshot import Snapshot

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests import samples
from tests.doctor import tracked
from tests.doctor.scenes.base import Scene, gpus, rank, scene, single, use
from tests.doctor.scenes.by_hand import by_hand
from tests.doctor.scenes.near.learning import with_metrics


def _loads(second: int, *means: float, swing: float = 5.0, **changes: Any) -> tuple[Any, ...]:
    """GPUs at these loads, which move a little."""
    return tuple(
        samples.device(index, utilization_percent=max(0.0, mean + swing * math.sin(second + index)), **changes)
        for index, mean in enumerate(means)
    )


def distil_with_a_teacher(second: int) -> Snapshot:
    """One process: the student trains on GPU 0, a larger teacher answers on GPU 1."""
    known = {"torch": {"device_count": 2}}
    process = tracked.one_process(second, 0, 1, gib=(30.0, 60.0), visible=2, autograd_threads=((0, 5.0 + second), (1, 0.0)))
    return tracked.single(second, known, devices=_loads(second, 92.0, 35.0), process=process, numbers=(0, 1))


def stages_of_a_pipeline(second: int) -> Snapshot:
    """A pipeline written by hand whose first stage holds the embeddings, and whose last one has less to do."""
    base = by_hand({"send": 16, "recv": 16}, losses="last", batches="own")(second)
    return replace(base, devices=_loads(second, 88.0, 72.0, 70.0, 41.0))


def experts_with_uneven_load(second: int) -> Snapshot:
    """Mixture of experts: some experts get more tokens, minute by minute others."""
    base = by_hand({"all_to_all_single": 12, "all_reduce": 40}, batches="own", losses="unlike")(second)
    busy = (second // 20) % 4
    return replace(base, devices=_loads(second, *(95.0 if index == busy else 66.0 for index in range(4))))


def gan_in_balance(second: int) -> Snapshot:
    """Two losses that go up and down and never fall: neither network wins."""
    metrics: tracked.Metrics = {
        "step_s": lambda r, s: 0.3,
        "phase/data": lambda r, s: 0.01,
        "loss_d": lambda r, s: 0.69 + 0.1 * math.sin(s / 7),
        "loss_g": lambda r, s: 0.8 + 0.25 * math.cos(s / 5),
    }
    return tracked.single(second, {}, metrics=metrics)


def ppo_on_one_card(second: int) -> Snapshot:
    """Rollouts on the CPU between short updates; the policy's loss stays about zero, and episodes get longer."""
    metrics: tracked.Metrics = {
        "step_s": lambda r, s: 0.3 + s * 0.001,
        "policy_loss": lambda r, s: -0.01 + 0.02 * math.sin(s),
        "reward": lambda r, s: 10 + s * 0.1,
    }
    load = 85.0 if second % 10 < 2 else 3.0
    process = tracked.one_process(second, 0, visible=1, cpu_percent=780.0)
    base = tracked.single(second, {}, metrics=metrics, process=process, devices=_loads(second, load, swing=1.0))
    return with_metrics(base)


def ppo_with_many_envs(second: int) -> Snapshot:
    """The same from outside: forty processes step environments, and one learns."""
    learner = replace(
        single(4000, use(0, 5.0, 25.0), second=second, visible=1), command=("python", "ppo.py", "--num-envs", "40")
    )
    quiet: dict[str, Any] = {"nvidia_open": False, "torch_cuda_mapped": False, "autograd_threads": (), "cpu_percent": 60.0}
    envs = tuple(replace(learner, pid=4100 + n, ppid=4000, devices=(), **quiet) for n in range(40))
    return scene(second, _loads(second, 22.0, swing=15.0), (learner, *envs))


def evaluates_checkpoints(second: int) -> Snapshot:
    """lm-eval on one GPU of its own mask: no backward, no step, for hours."""
    process = single(4000, use(0, 40.0, 80.0), second=second, visible=1, mask="0", autograd_threads=())
    return scene(second, gpus([0], 4), (replace(process, command=("lm_eval", "--model", "hf", "--tasks", "mmlu")),))


def prepares_tokens(second: int) -> Snapshot:
    """Tokenizes with all cores beside idle GPUs; torch is loaded, and CUDA is not."""
    base = single(4000, nvidia_open=False, torch_cuda_mapped=False, autograd_threads=(), cpu_percent=99.0)
    main = replace(base, command=("python", "prepare.py", "--workers", "32"))
    workers = tuple(replace(main, pid=4100 + n, ppid=4000) for n in range(31))
    return scene(second, gpus([], 4), (main, *workers))


def one_card_by_its_mask(second: int) -> Snapshot:
    """One GPU of eight, chosen by CUDA_VISIBLE_DEVICES."""
    process = single(4000, use(5, 40.0), second=second, visible=1, mask="5")
    return scene(second, gpus([5]), (process,))


def notebook_over_lunch(second: int) -> Snapshot:
    """A kernel that has trained, holds its memory and waits for somebody to come back."""
    process = single(4000, use(0, 30.0, 0.0), second=0, visible=4, cpu_percent=0.3, state="S")
    command = ("python", "-m", "ipykernel_launcher", "-f", "kernel.json")
    idle = tuple(samples.idle_device(index, memory_used_bytes=(30 if not index else 0) * 2**30) for index in range(4))
    return scene(second, idle, (replace(process, command=command),))


def server_waits_for_questions(second: int) -> Snapshot:
    """A tensor-parallel server: four ranks with full memory that sleep until a request comes."""
    ranks = tuple(
        replace(rank(n, use(n, 70.0, 0.0), world=4, second=0), autograd_threads=(), cpu_percent=1.0, state="S", run_id=None)
        for n in range(4)
    )
    ranks = tuple(replace(p, command=("python", "-m", "sglang.launch_server", "--tp", "4")) for p in ranks)
    busy = 90.0 if second % 45 < 3 else 0.0
    return scene(second, _loads(second, *[busy] * 4, swing=0.0, power_w=110.0, memory_used_bytes=70 * 2**30), ranks)


def two_trials_per_card(second: int) -> Snapshot:
    """Ray Tune with half a GPU for each of eight trials."""
    trials = tuple(
        replace(
            single(4000 + n, use(n // 2, 18.0, 45.0), second=second, visible=1, mask=str(n // 2)),
            command=("ray::ImplicitFunc.train()",),
        )
        for n in range(8)
    )
    return scene(second, gpus(range(4), 4), trials)


def warm_restarts(second: int) -> Snapshot:
    """Cosine annealing with restarts: the rate jumps back, and the loss with it for a while."""

    def loss(r: int, s: int) -> float:
        return 2.0 - 0.002 * s + 0.4 * math.exp(-(s % 60) / 15)

    def rate(r: int, s: int) -> float:
        return 1e-3 * 0.5 * (1 + math.cos(math.pi * (s % 60) / 60))

    return tracked.single(second, {}, metrics={**tracked.CALM, "loss": loss, "lr": rate})


def averages_now_and_then(second: int) -> Snapshot:
    """Local SGD: no wrapper, and the ranks average their weights every 50 steps."""
    return _local_sgd(second)


def longer_sequences_by_the_hour(second: int) -> Snapshot:
    """A curriculum: sequences get longer, and as many tokens a second are trained."""
    metrics: tracked.Metrics = {
        "loss": lambda r, s: 3.0 - 0.001 * s + (s % 7) * 0.01,
        "step_s": lambda r, s: 0.2 + s * 0.0005,
        "phase/data": lambda r, s: 0.01,
        "tokens_per_sec": lambda r, s: 90_000.0 + (s % 5) * 100,
    }
    return with_metrics(tracked.single(second, {}, metrics=metrics))


def two_models_in_one_launch(second: int) -> Snapshot:
    """torchrun starts four ranks; two train one model and two another, by groups of their own."""

    def each(number: int, step: int) -> dict[str, Any]:
        own = 5000 + step // 10 * 10 + 1000 * (number // 2)
        return {
            "process_group": {
                "backend": "nccl",
                "world_size": 4,
                "rank": number,
                "groups": 3,
                "collectives": {"all_reduce": step},
            },
            "parameters": {"recent": [[step // 10 * 10, own, 1.5 + number // 2]]},
        }

    return tracked.ddp(second, 4, each=each)


def optimizer_on_the_host(second: int) -> Snapshot:
    """ZeRO-Offload: each step the GPUs wait while the CPU updates the weights."""
    load = 20.0 if second % 4 == 0 else 75.0
    base = tracked.ddp(second, 4, devices=_loads(second, *[load] * 4))
    return replace(base, processes=tuple(replace(p, cpu_percent=1100.0) for p in base.processes))


def pictures_every_epoch(second: int) -> Snapshot:
    """A diffusion model that draws samples for half a minute now and then, on rank 0, while the others wait."""
    drawing = second % 60 >= 45
    devices = _loads(second, 97.0, *[100.0 if drawing else 93.0] * 3, swing=0.0)
    return tracked.ddp(second, 4, devices=devices)


def _local_sgd(second: int) -> Snapshot:
    """Weights of the ranks differ between two averages, and their losses with them."""
    base = by_hand({}, batches="own", losses="unlike")(second)
    runs = []
    for run in base.runs:
        ranks = []
        for item in run.ranks:
            group = dict(item.facts["process_group"])
            group["collectives"] = {"all_reduce": (item.step or 0) // 50 * 161}
            probes = [[at, at if at % 50 == 0 else seen, 1.5] for at, seen, _ in item.facts["parameters"]["recent"]]
            probes = [[at, seen, 1.5 + (item.rank if at % 50 else 0)] for at, seen, _ in probes]
            ranks.append(replace(item, facts={**item.facts, "process_group": group, "parameters": {"recent": probes}}))
        runs.append(replace(run, ranks=tuple(ranks)))
    return replace(base, runs=tuple(runs))


HEALTHY: dict[str, Scene] = {
    build.__name__.replace("_", "-"): build
    for build in (
        distil_with_a_teacher,
        stages_of_a_pipeline,
        experts_with_uneven_load,
        gan_in_balance,
        ppo_on_one_card,
        ppo_with_many_envs,
        evaluates_checkpoints,
        prepares_tokens,
        one_card_by_its_mask,
        notebook_over_lunch,
        server_waits_for_questions,
        two_trials_per_card,
        warm_restarts,
        averages_now_and_then,
        longer_sequences_by_the_hour,
        two_models_in_one_launch,
        optimizer_on_the_host,
        pictures_every_epoch,
    )
}
