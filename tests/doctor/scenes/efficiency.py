"""Faults of efficiency (catalogue E), their look-alikes, and runs that are in order."""

from __future__ import annotations

from dataclasses import replace

from gputop.snapshot import Points
from tests import samples
from tests.doctor.scenes.base import gpus, rank, use
from tests.doctor.tracked import CALM, ddp, one_process, single
from tests.samples import EPOCH, GIB

LIGHT = {"power_w": 150.0, "memory_used_bytes": 8 * GIB, "sm_activity_percent": 30.0, "tensor_activity_percent": 8.0}
BUSY = {"sm_occupancy_percent": 55.0, "tensor_activity_percent": 0.4}


def _waits(per_step=2.0, where="train.py:64", seconds=0.2):
    """As on an H200: one step in several seconds is sampled, so that there are seven after a minute."""
    return {"synchronizations": {"per_step": per_step, "seconds_per_step": seconds, "steps": 7, "where": where}}


def _without_loader():
    return {name: value_of for name, value_of in CALM.items() if name != "phase/data"}


def _spread(first, second):
    places = {"cuda:0": first, "cuda:1": second}
    return {"model": {"parameter_devices": places}, "torch": {"device_count": 4}}


def _two(second, facts, busy, gib=(30.0, 30.0)):
    devices = tuple(samples.device(n, utilization_percent=busy[n]) if n < 2 else samples.idle_device(n) for n in range(4))
    return single(second, facts, numbers=(0, 1), devices=devices, process=one_process(second, 0, 1, gib=gib))


# ---- faults


def item_in_each_step(second):
    return single(second, _waits(), devices=gpus([0], 1, utilization_percent=70.0))


def item_in_each_step_without_a_loader(second):
    """The script makes its batches itself; most of the step is spent in calls of item()."""
    return single(second, _waits(32.0), devices=gpus([0], 1, utilization_percent=70.0), metrics=_without_loader())


def makes_its_data_itself(second):
    """Item() hardly waits: whatever makes the batches takes the time."""
    facts = _waits(2.0, seconds=0.002)
    return single(second, facts, devices=gpus([0], 1, utilization_percent=40.0), metrics=_without_loader())


def tiny_steps(second):
    process = one_process(second, 0, visible=1, main_thread_cpu_percent=99.0)
    metrics = {**CALM, "step_s": lambda r, s: 0.012, "phase/data": lambda r, s: 0.0004}
    return single(second, {}, devices=gpus([0], 1, utilization_percent=65.0, **LIGHT), process=process, metrics=metrics)


def full_precision(second):
    return single(second, {"settings": {"autocast": False}}, devices=gpus([0], 1, **BUSY))


def full_precision_unmeasured(second):
    """A card without GPM: whether its tensor cores work is not known."""
    devices = gpus([0], 1, name="NVIDIA A100-SXM4-80GB", power_w=380.0, tensor_activity_percent=None)
    return single(second, {"settings": {"autocast": False}}, devices=devices)


def retries(second):
    memory = {"total_bytes": 80 * GIB, "retries": 3 + second // 4, "out_of_memory": 0, "empty_cache_calls": 0}
    return single(second, {"cuda_memory": memory})


def empty_cache(second):
    memory = {"total_bytes": 80 * GIB, "retries": 0, "out_of_memory": 0, "empty_cache_calls": 100 + 3 * second}
    return single(second, {"cuda_memory": memory})


def leak(second):
    metrics = {**CALM, "memory_allocated_bytes": lambda r, step: 20 * GIB + step * 12 * 2**20 + (step % 7) * 2**20}
    memory = {"total_bytes": 80 * GIB, "retries": 0, "out_of_memory": 0, "empty_cache_calls": 0}
    return single(second, {"cuda_memory": memory}, metrics=metrics)


def debug_flags(second):
    def with_flags(n):
        process = rank(n, use(n), world=4, second=second)
        flags = (("CUDA_LAUNCH_BLOCKING", "1"), ("TORCH_DISTRIBUTED_DEBUG", "DETAIL"), ("OMP_NUM_THREADS", "8"))
        return replace(process, environment=replace(process.environment, settings=flags))

    return ddp(second, processes=[with_flags(n) for n in range(4)])


def anomaly_detection(second):
    return single(second, {"settings": {"anomaly_detection": True}})


def traced_by_python(second):
    return single(second, {"settings": {"tracer": "__main__.tracer"}})


def profiles_each_call(second):
    return single(second, {"settings": {"call_profiler": "cProfile.Profile"}})


def runs_under_a_profiler(second):
    shot = single(second, {})
    command = ("python", "-u", "-m", "cProfile", "-o", "out.prof", "train.py")
    return replace(shot, processes=tuple(replace(process, command=command) for process in shot.processes))


def p2p_disabled(second):
    def without_p2p(n):
        process = rank(n, use(n), world=4, second=second)
        return replace(process, environment=replace(process.environment, settings=(("NCCL_P2P_DISABLE", "1"),)))

    return ddp(second, processes=[without_p2p(n) for n in range(4)])


def communication(second):
    return ddp(second, each=lambda n, step: {"ddp": {"communication_s": 0.14 + 0.01 * n, "overlap_s": 0.03}})


def slow_checkpoints(second):
    def step_s(r, step):
        return 6.3 if step % 50 == 0 else 0.3

    return single(second, {}, metrics={**CALM, "step_s": step_s, "checkpoint_s": lambda r, s: 6.0 if s % 50 == 0 else None})


def saves_in_every_step(second, share=0.6):
    """Three steps a second, and after each of them a checkpoint."""
    times = {"step_s": lambda r, s: 0.3 * (1 - share), "checkpoint_s": lambda r, s: 0.3 * share}
    return single(second, {}, metrics={**CALM, **times})


def saves_little_in_every_step(second):
    return saves_in_every_step(second, share=0.1)


def uploads_what_it_saved(second):
    """A save takes 10 ms, the upload after it 0.7 s. As tracking writes it, the next step has no time of its own."""
    return _saves(second, 0.013)


def saves_and_goes_on(second):
    """The same saves, between steps of 40 ms, which fill the rest of the second."""
    return _saves(second, 0.040)


def _saves(second, step_s):
    first = 25 * second
    steps = tuple(range(first + 1, first + 25))
    times = tuple(EPOCH + second + step_s * place for place in range(1, 25))
    train = Points("run-1", 0, "step_s", steps, times, (step_s,) * 24)
    works = replace(train, metric="cuda/step_s")
    saved = Points("run-1", 0, "checkpoint_s", steps[-1:], times[-1:], (0.01,))
    return replace(single(second, {}), points=(train, works, saved))


def long_evaluations(second, seconds=6.0):
    """As the tracking writes it: the step that an evaluation stretched has no time of its own."""
    metrics = {
        **CALM,
        "step_s": lambda r, step: None if step % 20 == 0 else 0.3,
        "phase/evaluation": lambda r, step: seconds if step % 20 == 0 else None,
    }
    return single(second, {}, metrics=metrics)


def evaluates_in_rounds(second, begins_at=2.0):
    """Active learning, pseudo labels: the pauses choose what comes next, and the loss falls from ``begins_at`` again."""
    base = long_evaluations(second)
    losses = [points for points in base.points if points.metric == "loss"]
    anew = tuple(
        replace(points, values=tuple(0.2 + (begins_at - 0.2) * 0.8 ** ((step - 1) % 20) for step in points.steps))
        for points in losses
    )
    return replace(base, points=(*(points for points in base.points if points.metric != "loss"), *anew))


def evaluates_at_the_same_loss(second):
    """The loss after each evaluation is hardly higher than before."""
    return evaluates_in_rounds(second, 0.22)


def scores_candidates(second):
    """An evolution or a search: 97% of the time goes to calls without gradients, as it should."""
    return long_evaluations(second, 180.0)


def plays_between_bursts(second):
    """Self-play: thousands of calls with a few rows between two bursts of steps."""
    return _evaluates(second, 40_000)


def waits_for_its_environments(second):
    """Rollouts: small calls, and waits for processes that play, of which tracking knows nothing."""
    (run,) = long_pauses(second).runs
    ranks = tuple(replace(rank, facts={**rank.facts, "evaluation": _calls(40_000)}) for rank in run.ranks)
    return replace(long_pauses(second), runs=(replace(run, ranks=ranks),))


def evaluates_in_whole_batches(second):
    return _evaluates(second, 2_000)


def _evaluates(second, calls):
    base = long_evaluations(second)
    (run,) = base.runs
    (rank,) = run.ranks
    return replace(base, runs=(replace(run, ranks=(replace(rank, facts={**rank.facts, "evaluation": _calls(calls)}),)),))


def _calls(number):
    return {"calls": number, "seconds": 400.0, "parameter_device": "cuda:0", "wrapped": None}


def garbage(second):
    def step_s(r, step):
        return 2.4 if step % 70 == 0 else 0.3

    return single(second, {}, metrics={**CALM, "step_s": step_s, "gc_s": lambda r, s: 2.1 if s % 70 == 0 else None})


def long_pauses(second):
    """Something that tracking does not know takes longer than the training, and the GPU idles meanwhile."""
    metrics = {**CALM, "step_s": lambda r, step: 9.0 if step % 20 == 0 else 0.3, "cuda/step_s": lambda r, step: 0.3}
    return single(second, {}, metrics=metrics)


def long_pauses_without_times_of_the_gpu(second):
    """The host may only wait for work that it has queued."""
    return single(second, {}, metrics={**CALM, "step_s": lambda r, step: 9.0 if step % 20 == 0 else 0.3})


def reads_the_loss_now_and_then(second):
    """As on an H200: the host queues steps, and where it prints the loss it waits until the GPU has done them."""
    metrics = {**CALM, "step_s": lambda r, step: 4.5 if step % 20 == 0 else 0.1, "cuda/step_s": lambda r, step: 0.31}
    return single(second, {}, metrics=metrics)


def long_pauses_at_a_prompt(second):
    """A person reads the result of twenty steps and types on."""
    shot = long_pauses(second)
    typed = replace(shot.processes[0], command=("python", "-u", "-i"))
    return replace(shot, processes=(typed, *shot.processes[1:]))


def long_pauses_asleep(second):
    """An online learner: it sleeps until the next file has arrived."""
    shot = long_pauses(second)
    asleep = replace(shot.processes[0], state="S", waits_for="sleep", waits_read_s=shot.monotonic_s)
    return replace(shot, processes=(asleep, *shot.processes[1:]))


def short_pauses(second):
    """It may well be an evaluation that tracking does not see as one."""
    return single(second, {}, metrics={**CALM, "step_s": lambda r, step: 3.6 if step % 50 == 0 else 0.3})


def halves(second):
    return _two(second, _spread(9_000_000, 2_000_000), (55.0, 20.0))


def by_hand(second):
    return _two(second, _spread(11_000_000, 11_000_000), (88.0, 80.0))


FAULTS = (
    ("E01", "item() in each step", item_in_each_step, 45),
    ("E01", "item() in each step without a loader", item_in_each_step_without_a_loader, 45),
    ("E02", "steps of 12 ms", tiny_steps, 45),
    ("E03", "float32 without tensor cores", full_precision, 45),
    ("E04", "allocations that are tried again", retries, 12),
    ("E04", "empty_cache in the loop", empty_cache, 12),
    ("E04", "memory that grows", leak, 90),
    ("E05", "switches of a search", debug_flags, 12),
    ("E05", "anomaly detection", anomaly_detection, 12),
    ("E05", "a trace function of Python", traced_by_python, 12),
    ("E05", "a profiler of Python's calls", profiles_each_call, 12),
    ("E05", "a profiler runs the script", runs_under_a_profiler, 12),
    ("E05", "P2P switched off", p2p_disabled, 12),
    ("E06", "communication", communication, 20),
    ("E07", "slow checkpoints", slow_checkpoints, 90),
    ("E07", "a checkpoint in every step", saves_in_every_step, 60),
    ("E07", "uploads after each save", uploads_what_it_saved, 60),
    ("E07", "long evaluations", long_evaluations, 60),
    ("E07", "evaluation in whole batches", evaluates_in_whole_batches, 60),
    ("E07", "evaluations that change no loss", evaluates_at_the_same_loss, 60),
    ("E07", "garbage collection", garbage, 110),
    ("E07", "long pauses", long_pauses, 110),
    ("E08", "two halves of a model", halves, 20),
    ("E09", "copies averaged by hand", by_hand, 20),
)


def communication_on_the_cpu(second):
    """The ranks share the cores, so that an exchange takes long in a healthy run, too."""

    def each(n, step):
        cpu = {"parameter_device": "cpu", "parameter_devices": {"cpu": 11_000_000}}
        own = {"backend": "gloo", "communication_s": 0.14, "overlap_s": 0.03, "parameter_device": "cpu"}
        return {"model": cpu, "torch": {"cuda_available": False, "device_count": 0}, "ddp": own}

    processes = [replace(rank(n, world=4, second=second), nvidia_open=False, torch_cuda_mapped=False) for n in range(4)]
    return ddp(second, each=each, devices=(), processes=processes)


def communication_on_an_unknown_device(second):
    own = {"communication_s": 0.14, "overlap_s": 0.03}
    return ddp(second, each=lambda n, step: {"model": {"parameter_device": None}, "ddp": own})


POSSIBLE = (
    ("E06", "communication on an unknown device", communication_on_an_unknown_device, 20),
    ("E03", "float32, tensor cores unknown", full_precision_unmeasured, 45),
    ("E07", "short pauses", short_pauses, 110),
    ("E07", "long pauses without times of the GPU", long_pauses_without_times_of_the_gpu, 110),
    ("E07", "long pauses at a prompt", long_pauses_at_a_prompt, 110),
    ("E07", "long pauses asleep", long_pauses_asleep, 110),
    ("E07", "games between bursts of steps", plays_between_bursts, 60),
    ("E07", "a search that scores candidates", scores_candidates, 60),
    ("E07", "rounds that each begin anew", evaluates_in_rounds, 60),
    ("E07", "environments between bursts of steps", waits_for_its_environments, 110),
)


# ---- look-alikes


def item_of_a_long_step(second):
    return single(second, _waits(1.0))


def gradient_scaler(second):
    return single(second, _waits(1.0, "grad_scaler.py:321"), devices=gpus([0], 1, utilization_percent=70.0))


def item_while_data_is_late(second):
    metrics = {**CALM, "phase/data": lambda r, s: 0.12}
    return single(second, _waits(), devices=gpus([0], 1, utilization_percent=60.0), metrics=metrics)


def small_but_full_steps(second):
    """Short steps of a GPU that draws its power."""
    process = one_process(second, 0, visible=1, main_thread_cpu_percent=99.0)
    return single(
        second, {}, process=process, metrics={**CALM, "step_s": lambda r, s: 0.012, "phase/data": lambda r, s: 0.0004}
    )


def short_of_data(second):
    process = one_process(second, 0, visible=1, main_thread_cpu_percent=99.0)
    metrics = {**CALM, "step_s": lambda r, s: 0.012, "phase/data": lambda r, s: 0.006}
    return single(second, {}, devices=gpus([0], 1, utilization_percent=65.0, **LIGHT), process=process, metrics=metrics)


def autocast(second):
    return single(second, {"settings": {"autocast": True}}, devices=gpus([0], 1, **BUSY))


def scientific(second):
    return single(
        second, {"model": {"parameter_dtypes": {"float64": 9}}, "settings": {"autocast": False}}, devices=gpus([0], 1, **BUSY)
    )


def exact_on_purpose(second):
    return single(second, {"settings": {"autocast": False, "deterministic": True}}, devices=gpus([0], 1, **BUSY))


def old_card(second):
    devices = gpus([0], 1, name="NVIDIA GeForce GTX 1080 Ti", tensor_activity_percent=None)
    return single(second, {"settings": {"autocast": False}}, devices=devices)


def retries_at_the_start(second):
    memory = {"total_bytes": 80 * GIB, "retries": 1, "out_of_memory": 0, "empty_cache_calls": 2}
    return single(second, {"cuda_memory": memory})


def memory_that_swings(second):
    metrics = {**CALM, "memory_allocated_bytes": lambda r, step: 20 * GIB + (step * 37 % 101) * 30 * 2**20}
    return single(second, {"cuda_memory": {"total_bytes": 80 * GIB}}, metrics=metrics)


def megatron(second):
    def with_flag(n):
        process = rank(n, use(n), world=4, second=second)
        return replace(process, environment=replace(process.environment, settings=(("CUDA_DEVICE_MAX_CONNECTIONS", "1"),)))

    def each(n, step):
        return {"process_group": {"groups": 7}, "frameworks": ["megatron"]}

    return ddp(second, each=each, processes=[with_flag(n) for n in range(4)])


def usual_settings(second):
    def usual(n):
        process = rank(n, use(n), world=4, second=second)
        flags = (
            ("OMP_NUM_THREADS", "8"),
            ("NCCL_DEBUG", "WARN"),
            ("CUDA_LAUNCH_BLOCKING", "0"),
            ("TORCH_DISTRIBUTED_DEBUG", "INFO"),
        )
        return replace(process, environment=replace(process.environment, settings=flags))

    return ddp(second, processes=[usual(n) for n in range(4)])


def one_rank_late(second):
    """Three ranks wait for the fourth: a straggler, not the links."""
    return ddp(second, each=lambda n, step: {"ddp": {"communication_s": 0.15 if n else 0.04, "overlap_s": 0.03}})


def rare_reduction(second):
    """Much communication in a reduced backward, and one of eight is."""

    def each(n, step):
        counted = {"backwards": 8 * step, "synced_backwards": step, "accumulation": 8}
        return {"gradients": counted, "ddp": {"communication_s": 0.08, "overlap_s": 0.04}}

    return ddp(second, each=each)


def stalls_now_and_then(second):
    return single(second, {}, metrics={**CALM, "step_s": lambda r, step: 3.0 if step in (120, 131, 190, 260, 266) else 0.3})


def slow_stretch(second):
    """As on an H200 that other jobs crowded for a while: the steps that took long followed one another."""
    metrics = {**CALM, "step_s": lambda r, step: 3.0 if 120 <= step < 150 else 0.3, "cuda/step_s": lambda r, step: 0.2}
    return single(second, {}, metrics=metrics)


def quick_checkpoints(second):
    def step_s(r, step):
        return 1.8 if step % 150 == 0 else 0.3

    return single(second, {}, metrics={**CALM, "step_s": step_s, "checkpoint_s": lambda r, s: 1.5 if s % 150 == 0 else None})


def new_epochs(second):
    """The first batch of each epoch is late: another rule's matter."""

    def data(r, step):
        return 6.0 if step % 50 == 0 else 0.01

    return single(second, {}, metrics={**CALM, "step_s": lambda r, s: 6.3 if s % 50 == 0 else 0.3, "phase/data": data})


def epochs_that_end(second):
    """An evaluation that tracking does not see as one, between two epochs."""
    metrics = {**CALM, "step_s": lambda r, s: 3.6 if s % 50 == 0 else 0.3, "epoch": lambda r, s: float(s // 50)}
    return single(second, {}, metrics=metrics)


def evaluation(second):
    def pause(r, step):
        return 9.0 if step % 60 == 0 else None

    return single(second, {}, metrics={**CALM, "step_s": lambda r, s: None if s % 60 == 0 else 0.3, "phase/evaluation": pause})


def pipeline(second):
    return _two(second, _spread(9_000_000, 8_000_000), (88.0, 84.0))


def device_map(second):
    return _two(second, {"model": {**_spread(9_000_000, 8_000_000)["model"], "hf_device_map": 2}}, (50.0, 45.0))


def offloaded(second):
    places = {"cuda:0": 9_000_000, "cpu": 4_000_000}
    return single(second, {"model": {"parameter_devices": places}})


LOOK_ALIKES = (
    ("E01", "a long step", item_of_a_long_step, 45),
    ("E01", "the gradient scaler", gradient_scaler, 45),
    ("E01", "data comes late", item_while_data_is_late, 45),
    ("E01", "a script that makes its data itself", makes_its_data_itself, 45),
    ("E02", "a GPU at full power", small_but_full_steps, 45),
    ("E02", "data comes late", short_of_data, 45),
    ("E03", "autocast", autocast, 45),
    ("E03", "float64", scientific, 45),
    ("E03", "deterministic on purpose", exact_on_purpose, 45),
    ("E03", "a card without tensor cores", old_card, 45),
    ("E04", "a retry at the start", retries_at_the_start, 20),
    ("E04", "memory that swings", memory_that_swings, 90),
    ("E05", "Megatron", megatron, 12),
    ("E05", "usual settings", usual_settings, 12),
    ("E06", "a straggler", one_rank_late, 20),
    ("E06", "communication of ranks on a CPU", communication_on_the_cpu, 20),
    ("E06", "a rare reduction", rare_reduction, 20),
    ("E07", "stalls now and then", stalls_now_and_then, 90),
    ("E07", "a host that waits for its GPU", reads_the_loss_now_and_then, 110),
    ("E07", "one slow stretch", slow_stretch, 90),
    ("E07", "quick checkpoints", quick_checkpoints, 130),
    ("E07", "a small checkpoint in every step", saves_little_in_every_step, 60),
    ("E07", "saves between steps", saves_and_goes_on, 60),
    ("E07", "the first batch of an epoch", new_epochs, 90),
    ("E08", "a pipeline", pipeline, 20),
    ("E08", "a device_map", device_map, 20),
    ("E08", "parameters on the CPU too", offloaded, 20),
    ("E09", "two halves", halves, 20),
)
HEALTHY = (
    ("one GPU", lambda second: single(second, {}), 60),
    ("one GPU with a gradient scaler", gradient_scaler, 60),
    ("one GPU that evaluates", evaluation, 90),
    ("one GPU, something between epochs", epochs_that_end, 100),
    ("one GPU with checkpoints", quick_checkpoints, 90),
    ("float64", scientific, 45),
    ("deterministic on purpose", exact_on_purpose, 45),
    ("gradient accumulation", rare_reduction, 45),
    ("usual settings", usual_settings, 45),
)
