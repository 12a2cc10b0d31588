"""Faults of DistributedDataParallel and of data (catalogue C), their look-alikes, and runs that are in order."""

from __future__ import annotations

import math
from dataclasses import replace

from gputop.snapshot import Communicator, CommunicatorRank, LogMatch
from tests import samples
from tests.doctor.scenes.base import gpus, journal, rank, use
from tests.doctor.tracked import CALM, ddp, failed

BARE = {"wrapper": None, "wrappers": []}
EQUAL_LOSSES = {**CALM, "loss": lambda r, step: 2.0 - step * 0.001}


def _probes(step):
    return range(step - step % 10 - 30, step + 1, 10)


def _apart(number, step):
    return {"parameters": {"recent": [[at, 5_000 + at + number, 1.5 + 0.01 * number] for at in _probes(step)]}}


def _same_batches(step):
    return {"batches": {"recent": [[at, 90_000 + at] for at in range(step - 15, step + 1)]}}


def _calls(number, step):
    return {"wrapped": 0, "bypassed": step, "bypassed_steps": step, "module": "GPT", "where": "train.py:88"}


# ---- faults


def bypass(second):
    def each(number, step):
        unsynced = {"synced_backwards": 0, "unsynced_steps": step}
        return {"wrapper_calls": _calls(number, step), "gradients": unsynced, **_apart(number, step)}

    return ddp(second, each=each)


def bypass_by_a_method(second):
    """The script calls model.module.loss(x): neither the wrapper nor the module inside it is called."""

    def each(number, step):
        counted = {"steps": step, "backwards": step, "synced_backwards": 0, "unsynced_steps": step}
        return {"wrapper_calls": None, "gradients": counted, **_apart(number, step)}

    return ddp(second, each=each)


def never_out_of_no_sync(second):
    def each(number, step):
        counted = {"steps": step, "backwards": step, "synced_backwards": 0, "unsynced_steps": step}
        return {"gradients": counted, **_apart(number, step)}

    return ddp(second, each=each)


def bypass_with_unknown_weights(second):
    def each(number, step):
        return {"wrapper_calls": _calls(number, step), "parameters": {"recent": []}}

    return ddp(second, each=each)


def made_double(second):
    def each(number, step):
        return {
            "model": {"parameter_dtypes": {"float64": 11_000_000}},
            "ddp": {"replaced_parameters": 62},
            "optimizer": {"type": "SGD"},
            **_apart(number, step),
        }

    return ddp(second, each=each)


def not_wrapped(second):
    def each(number, step):
        return {
            "model": BARE,
            "wrapper_calls": None,
            "ddp": None,
            "gradients": None,
            **_apart(number, step),
        }

    return ddp(second, each=each)


def not_connected(second):
    """The launcher starts the ranks, and the script never connects them."""
    base = not_wrapped(second)
    (run,) = base.runs
    ranks = tuple(replace(item, facts={**item.facts, "process_group": None}) for item in run.ranks)
    return replace(base, runs=(replace(run, ranks=ranks),))


def not_wrapped_but_loss_reduced(second):
    def each(number, step):
        return {
            "model": BARE,
            "wrapper_calls": None,
            "ddp": None,
            "gradients": None,
            "process_group": {"collectives": {"all_reduce": step}},
            **_apart(number, step),
        }

    return ddp(second, each=each)


def inverted_no_sync(second):
    def each(number, step):
        counted = {"steps": step, "backwards": 4 * step, "synced_backwards": step, "unsynced_steps": step, "accumulation": 4}
        return {"gradients": counted, **_apart(number, step)}

    return ddp(second, each=each)


def every_micro_batch(second):
    def each(number, step):
        counted = {"steps": step, "backwards": 4 * step, "synced_backwards": 4 * step, "accumulation": 4}
        return {"gradients": counted, "ddp": {"communication_s": 0.06, "overlap_s": 0.045}}

    return ddp(second, each=each)


def gan(second):
    """Each step runs backward for several losses, two of the discriminator's and one of the generator's."""
    run = every_micro_batch(second).runs[0]
    losses = {"loss/real": 0.7, "loss/fake": 0.6}
    ranks = tuple(replace(rank, metrics={**rank.metrics, **losses}) for rank in run.ranks)
    return replace(every_micro_batch(second), runs=(replace(run, ranks=ranks),))


def same_batches(second):
    def each(number, step):
        return {
            "sampler": {"type": "RandomSampler", "set_epoch": None, "replicas": None},
            "loader": {"length": 782},
            **_same_batches(step),
        }

    return ddp(second, each=each, metrics=EQUAL_LOSSES)


def drawn_alike(second):
    """No loader: each rank draws its batches from the same data, by the same seed."""
    return ddp(second, each=_drawn, metrics=EQUAL_LOSSES)


def drawn_apart(second):
    return ddp(second, each=_drawn, metrics={**CALM, "loss": lambda r, step: 2.0 - step * 0.001 + r * 1e-4})


def average_logged(second):
    """The script opened the run and logs the mean over all ranks, which is equal."""
    shot = drawn_alike(second)
    runs = (replace(run, ranks=tuple(replace(rank, optimizer_step=rank.step) for rank in run.ranks)) for run in shot.runs)
    return replace(shot, runs=tuple(runs))


def drawn_alike_unwrapped(second):
    """The script sums what it passes on by hand: ranks that share one replica must draw alike."""

    def each(number, step):
        group = {"collectives": {"all_reduce": 60 * step}}
        return {**_drawn(number, step), "model": BARE, "ddp": None, "gradients": None, "process_group": group}

    return ddp(second, each=each, metrics=EQUAL_LOSSES)


def drawn_alike_accelerated(second):
    """Accelerate may divide a batch that all ranks have drawn."""
    return ddp(second, each=lambda n, step: {**_drawn(n, step), "frameworks": ["accelerate"]}, metrics=EQUAL_LOSSES)


def _drawn(number, step):
    return {"sampler": None, "loader": None, "batches": None}


def whole_data_set(second):
    def each(number, step):
        return {"sampler": {"type": "RandomSampler", "set_epoch": None, "replicas": None}, "loader": {"length": 782}}

    return ddp(second, each=each)


def no_set_epoch(second):
    def each(number, step):
        return {
            "sampler": {"set_epoch": False},
            "loader": {"iterations": 3},
            "batches": {"epochs": [[0, 77 + number], [1, 77 + number], [2, 77 + number]]},
        }

    return ddp(second, each=each)


def uneven_lengths(second):
    return ddp(second, each=lambda number, step: {"loader": {"length": 327 if number else 338}})


def ran_out(second):
    """Rank 1's data has ended; the others wait in the next averaging."""
    if second < 5:
        return uneven_lengths(second)

    def each(number, step):
        done = number == 1
        waits = {"step": step, "phase": "backward", "stack": ["graph.py:865 _engine_run_backward", "train.py:90 train"]}
        return {
            "loader": {"length": 327 if done else 338, "exhausted": done},
            "stalled": None if done else {**waits, "since": samples.EPOCH, "at": samples.EPOCH + second},
        }

    return ddp(second, each=each, frozen=True)


def _stands(phase, *stack):
    return {"stalled": {"since": samples.EPOCH, "at": samples.EPOCH, "step": 100, "phase": phase, "stack": list(stack)}}


def rank_0_evaluates_through_ddp(second):
    def each(number, step):
        if number == 0:
            return _stands(
                "evaluation", "distributed.py:1619 _sync_buffers", "distributed.py:1520 forward", "train.py:120 evaluate"
            )
        return _stands("backward", "graph.py:865 _engine_run_backward", "train.py:88 train")

    return ddp(second, each=each, frozen=True)


def _communicator(*counts):
    ranks = tuple(CommunicatorRank(n, 4000 + n, "node7", n, "running", None, count) for n, count in enumerate(counts))
    return (Communicator("0xabc", len(counts), ranks, "2.28.9"),)


def counts_cross(second):
    behind = {"AllReduce": 400, "Broadcast": 7}
    found = _communicator({"AllReduce": 398, "Broadcast": 8}, behind, behind, behind)
    return ddp(second, frozen=True, communicators=found)


def other_shapes(second):
    text = (
        "RuntimeError: [1]: params[4] in this process with sizes [11, 64] appears not to match sizes of the same param in "
        "process 0."
    )
    return failed(second, 2, ("param_shape", text))


def unused(second):
    return failed(
        second,
        2,
        (
            "unused_params",
            "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.",
        ),
        ("unused_idx", "Parameter indices which did not receive grad for rank 0: 2 3"),
    )


def twice(second):
    return failed(second, 2, ("ready_twice", "RuntimeError: Expected to mark a variable ready only once."))


def useless_search(second):
    logs = (
        LogMatch("fup_useless", "C09", "Warning: find_unused_parameters=True was specified", "run-1", None, 0, "run-1.log", 7),
    )
    return ddp(second, each=lambda number, step: {"ddp": {"find_unused_parameters": True}}, logs=logs)


def few_rows(second):
    return ddp(second, each=lambda number, step: {"loader": {"batch_size": 2, "length": 6250}, "batches": {"rows": 2}})


def nan_on_rank_2(second):
    return ddp(second, metrics={**CALM, "loss": lambda r, step: math.nan if r == 2 and step > 110 else 2.0 - step / 1000})


def prefix(second):
    return failed(second, 1, ("module_prefix", 'Unexpected key(s) in state_dict: "module.conv1.weight", "module.conv1.bias".'))


def same_checkpoint(second):
    processes = [
        replace(rank(n, use(n), world=4, second=second), files_written=("/data/out/last.pt", "/data/out/train.log"))
        for n in range(4)
    ]
    return ddp(second, processes=processes)


def wrapped_on_cpu(second):
    text = (
        "ValueError: DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-"
        "device GPU modules or CPU modules, but got device_ids [0], output_device 0, and module "
        "parameters {device(type='cpu')}."
    )
    return failed(second, 2, ("ddp_devids_cpu", text))


def gloo(second):
    return ddp(second, each=lambda number, step: {"ddp": {"backend": "gloo"}, "process_group": {"backend": "gloo"}})


def gloo_from_outside(second):
    processes = tuple(
        replace(rank(n, use(n), world=4, second=second), threads=(("pt_gloo_runloop", 2),), run_id=None) for n in range(4)
    )
    return samples.snapshot(second, devices=gpus(range(4), 4), processes=processes, runs=(), points=())


def divided_batch(second):
    devices = tuple(samples.device(n, power_w=180.0, utilization_percent=70.0) for n in range(4))
    return ddp(second, each=lambda number, step: {"loader": {"batch_size": 16, "length": 782}}, devices=devices)


FAULTS = (
    ("C01", "calls around DDP", bypass, 12),
    ("C01", "calls around DDP, weights unknown", bypass_with_unknown_weights, 12),
    ("C01", "calls of a method inside DDP", bypass_by_a_method, 12),
    ("C02", "double() after wrapping", made_double, 12),
    ("C03", "no wrapper", not_wrapped, 40),
    ("C03", "no wrapper and no group", not_connected, 12),
    ("C03", "no wrapper, the loss is reduced", not_wrapped_but_loss_reduced, 12),
    ("C04", "no_sync inverted", inverted_no_sync, 12),
    ("C04", "never out of no_sync", never_out_of_no_sync, 12),
    ("C04", "every micro-batch is reduced", every_micro_batch, 30),
    ("C05", "the same batches", same_batches, 12),
    ("C05", "the whole data set on each rank", whole_data_set, 12),
    ("C05", "drawn by the same seed", drawn_alike, 30),
    ("C06", "no set_epoch", no_set_epoch, 12),
    ("C07", "unequal lengths", uneven_lengths, 12),
    ("C07", "one rank ran out of data", ran_out, 14),
    ("C08", "rank 0 evaluates through DDP", rank_0_evaluates_through_ddp, 12),
    ("C08", "counts that cross", counts_cross, 30),
    ("C08", "other shapes", other_shapes, 5),
    ("C09", "unused parameters", unused, 5),
    ("C09", "ready twice", twice, 5),
    ("C09", "a needless search", useless_search, 12),
    ("C10", "two rows for BatchNorm", few_rows, 12),
    ("C11", "NaN on rank 2", nan_on_rank_2, 20),
    ("C13", "a checkpoint of the wrapper", prefix, 5),
    ("C14", "every rank saves", same_checkpoint, 12),
    ("C15", "wrapped on the CPU", wrapped_on_cpu, 5),
    ("C16", "gloo with GPUs", gloo, 12),
    ("C16", "gloo with GPUs, from outside", gloo_from_outside, 45),
)
POSSIBLE = (("C12", "a divided batch", divided_batch, 60),)
"""Rules that are never more than possible."""


# ---- look-alikes and runs in order


def bypass_with_equal_weights(second):
    """Gradients are averaged by hand."""
    return ddp(second, each=lambda number, step: {"wrapper_calls": _calls(number, step)})


def bypass_reduced_by_hand(second):
    def each(number, step):
        return {
            "wrapper_calls": _calls(number, step),
            "parameters": {"recent": []},
            "process_group": {"collectives": {"all_reduce": 60 * step}},
        }

    return ddp(second, each=each)


def method_reduced_by_hand(second):
    def each(number, step):
        return {
            "wrapper_calls": None,
            "gradients": {"steps": step, "backwards": step, "synced_backwards": 0, "unsynced_steps": step},
            "parameters": {"recent": []},
            "process_group": {"collectives": {"all_reduce": 60 * step}},
        }

    return ddp(second, each=each)


def calls_unseen_but_reduced(second):
    """A compiled wrapper: its calls are not seen, and DDP reduces each backward pass."""

    def each(number, step):
        counted = {"steps": step, "backwards": step, "synced_backwards": step, "unsynced_steps": 0}
        return {"wrapper_calls": None, "gradients": counted, **_apart(number, step)}

    return ddp(second, each=each)


def mixed_precision_by_autocast(second):
    return ddp(second, each=lambda number, step: {"settings": {"autocast": True}})


def fsdp(second):
    """Each rank holds its own part of the weights."""

    def each(number, step):
        return {
            "model": {"wrapper": "FSDPModule", "wrappers": ["FSDPModule"], "class": "FSDPGPT", "mesh": ["dp"]},
            "wrapper_calls": None,
            "ddp": None,
            "gradients": {"synced_backwards": None, "unsynced_steps": None},
            "process_group": {"collectives": {"all_gather_into_tensor": 40 * step, "reduce_scatter_tensor": 20 * step}},
            **_apart(number, step),
        }

    return ddp(second, each=each)


def tensor_parallel(second):
    """Two ranks share each replica: they see equal batches, and hold different weights."""

    def each(number, step):
        return {
            "model": {**BARE, "mesh": ["dp", "tp"]},
            "wrapper_calls": None,
            "ddp": None,
            "gradients": None,
            "sampler": {"type": "RandomSampler", "set_epoch": None, "replicas": None},
            "loader": {"length": 782},
            "process_group": {"groups": 5, "mesh": ["dp", "tp"], "collectives": {"all_reduce": 96 * step}},
            **_same_batches(step),
            **_apart(number, step),
        }

    return ddp(second, each=each)


def groups_without_a_mesh(second):
    """Megatron's way: several groups, no device mesh."""

    def each(number, step):
        facts = _same_batches(step)
        return {**facts, "process_group": {"groups": 7}, "frameworks": ["megatron"]}

    return ddp(second, each=each)


def reduced_by_hand(second):
    def each(number, step):
        group = {"collectives": {"all_reduce": 60 * step}}
        return {"model": BARE, "wrapper_calls": None, "ddp": None, "gradients": None, "process_group": group}

    return ddp(second, each=each)


def horovod(second):
    def each(number, step):
        bare = {"model": BARE, "wrapper_calls": None, "ddp": None, "gradients": None, "process_group": None}
        return {**bare, "frameworks": ["horovod"], **_apart(number, step)}

    return ddp(second, each=each)


def accumulation(second):
    """Eight backwards a step, no_sync around the first seven; the last step of an epoch ends early."""

    def each(number, step):
        counted = {
            "steps": step,
            "backwards": 8 * step,
            "synced_backwards": step - 2,
            "unsynced_steps": 2,
            "accumulation": 8,
        }
        return {"gradients": counted}

    return ddp(second, each=each)


def local_sgd(second):
    """no_sync all the time, weights averaged now and then: equal when looked at."""

    def each(number, step):
        return {"gradients": {"synced_backwards": 0, "unsynced_steps": step}}

    return ddp(second, each=each)


def accumulation_that_hides_it(second):
    """Every micro-batch is reduced, and backward hides it."""

    def each(number, step):
        return {"gradients": {"backwards": 4 * step, "synced_backwards": 4 * step, "accumulation": 4}}

    return ddp(second, each=each)


def black_borders(second):
    """The first bytes of every image are 0: checksums say nothing."""
    return ddp(second, each=lambda number, step: {"batches": {"recent": [[at, 4242] for at in range(step - 15, step + 1)]}})


def own_subset(second):
    def each(number, step):
        sampler = {"type": "RandomSampler", "set_epoch": None, "replicas": None}
        return {"sampler": sampler, "loader": {"dataset": "Subset", "dataset_length": 12_500, "length": 196}}

    return ddp(second, each=each)


def accelerated(second):
    def each(number, step):
        sampler = {"type": "SeedableRandomSampler", "set_epoch": None, "replicas": None}
        return {"sampler": sampler, "loader": {"type": "DataLoaderShard"}, "frameworks": ["accelerate", "transformers"]}

    return ddp(second, each=each)


def lightning(second):
    """Lightning puts in its sampler after the loader was described."""

    def each(number, step):
        sampler = {"type": "RandomSampler", "set_epoch": None, "replicas": None}
        return {"sampler": sampler, "loader": {"length": 782}, "frameworks": ["lightning"]}

    return ddp(second, each=each)


def iterable(second):
    """An iterable data set that gives each rank its shards."""

    def each(number, step):
        return {"sampler": None, "loader": {"iterable": True, "length": None, "dataset_length": None, "dataset": "WebDataset"}}

    return ddp(second, each=each)


def resumed(second):
    """The first epoch after a resume."""
    return ddp(second, each=lambda number, step: {"sampler": {"set_epoch": None}, "loader": {"iterations": 1}})


def validation_order(second):
    def each(number, step):
        return {"sampler": {"shuffle": False, "set_epoch": False}, "loader": {"iterations": 4}}

    return ddp(second, each=each)


def shuffled_by_seed(second):
    def each(number, step):
        return {"sampler": {"set_epoch": False}, "batches": {"epochs": [[0, 77 + number], [1, 88 + number]]}}

    return ddp(second, each=each)


def joined(second):
    """Unequal lengths within Join: the first epoch is over, and nothing hung."""
    return ddp(second, each=lambda number, step: {"loader": {"length": 327 if number else 338, "iterations": 2}})


def within_join(second):
    """Unequal lengths within Join, in the first epoch."""
    return ddp(second, each=lambda number, step: {"loader": {"length": 327 if number else 338}, "ddp": {"joins": True}})


def every_rank_waits(second):
    """All of them wait at the same line (for a slow file system): no other path."""
    return ddp(
        second,
        each=lambda number, step: _stands("backward", "graph.py:865 _engine_run_backward", "train.py:88 train"),
        frozen=True,
    )


def rank_0_evaluates(second):
    """Rank 0 evaluates model.module; the others wait at the barrier, as they should."""

    def each(number, step):
        if number == 0:
            return _stands("evaluation", "conv.py:548 _conv_forward", "train.py:121 evaluate")
        return _stands("other", "distributed_c10d.py:5010 barrier", "train.py:93 train")

    return ddp(second, each=each, frozen=True)


def counts_on_their_way(second):
    """Counts differ while the job runs: rank 0 is one call ahead in everything."""
    behind = {"AllReduce": 3 * second, "Broadcast": 7}
    return ddp(second, communicators=_communicator({"AllReduce": 3 * second + 1, "Broadcast": 8}, behind, behind, behind))


def searches_and_finds(second):
    return ddp(second, each=lambda number, step: {"ddp": {"find_unused_parameters": True, "unused_parameter_bytes": 4096}})


def frozen_norm(second):
    def each(number, step):
        rows = {"loader": {"batch_size": 2, "length": 6250}, "batches": {"rows": 2}}
        return {**rows, "model": {"batch_norm": {"layers": 20, "synced": 0, "frozen": 20}}}

    return ddp(second, each=each)


def synced_norm(second):
    def each(number, step):
        rows = {"loader": {"batch_size": 2, "length": 6250}, "batches": {"rows": 2}}
        return {**rows, "model": {"batch_norm": {"layers": 20, "synced": 20, "frozen": 0}}}

    return ddp(second, each=each)


def noisy_losses(second):
    return ddp(second, metrics={**CALM, "loss": lambda r, step: 2.0 + math.sin(step * (r + 2)) + 0.1 * r})


def all_nan(second):
    """All of them at once: another fault, and rank 0 shows it."""
    return ddp(second, metrics={**CALM, "loss": lambda r, step: math.nan if step > 110 else 1.0 + step / 1000})


def shared_log(second):
    processes = [
        replace(rank(n, use(n), world=4, second=second), files_written=("/data/out/nohup.out", f"/data/out/rank{n}.pt"))
        for n in range(4)
    ]
    return ddp(second, processes=processes)


def both_backends(second):
    """Gloo for the CPU's tensors, NCCL for the GPUs'."""
    processes = tuple(
        replace(
            rank(n, use(n), world=4, second=second),
            threads=(("pt_gloo_runloop", 2), ("pt_nccl_watchdg", 1)),
            run_id=None,
        )
        for n in range(4)
    )
    return samples.snapshot(second, devices=gpus(range(4), 4), processes=processes, runs=(), points=())


def compiled(second):
    def each(number, step):
        return {"model": {"wrapper": "DistributedDataParallel", "wrappers": ["OptimizedModule", "DistributedDataParallel"]}}

    return ddp(second, each=each)


def evaluation_and_checkpoints(second):
    """Every rank evaluates its part for two seconds in each minute, rank 0 saves."""

    def each(number, step):
        facts = {"evaluation": {"calls": 20, "seconds": 2.0 * (1 + second // 60), "wrapped": False}}
        return facts | (
            {"checkpoint": {"seconds": 1.2, "bytes": 10**9, "path": "out/last.pt", "step": 180}} if number == 0 else {}
        )

    def pause(r, step):
        return 2.0 if step % 180 == 0 else None

    def step_s(r, step):
        return 3.4 if step % 180 == 0 else 0.3

    return ddp(second, each=each, metrics={**CALM, "step_s": step_s, "phase/evaluation": pause})


def untracked_ddp(second):
    processes = tuple(replace(rank(n, use(n), world=4, second=second), run_id=None) for n in range(4))
    return samples.snapshot(second, devices=gpus(range(4), 4), processes=processes, runs=(), points=())


def two_ranks_started(second):
    """The first steps: facts are half there."""
    run = journal(4, 0)
    run = replace(run, ranks=tuple(replace(r, step=second // 4, facts={}) for r in run.ranks[: 1 + second % 4]))
    return ddp(second, run=run, processes=[rank(n, use(n), world=4, second=second) for n in range(4)], metrics={})


LOOK_ALIKES = (
    ("C01", "the weights stay equal", bypass_with_equal_weights, 12),
    ("C01", "gradients averaged by hand", bypass_reduced_by_hand, 12),
    ("C01", "a method inside DDP, averaged by hand", method_reduced_by_hand, 12),
    ("C01", "calls of the wrapper that are not seen", calls_unseen_but_reduced, 12),
    ("C02", "autocast", mixed_precision_by_autocast, 12),
    ("C03", "averaged by hand", reduced_by_hand, 12),
    ("C03", "Horovod", horovod, 12),
    ("C03", "tensor parallel", tensor_parallel, 12),
    ("C03", "FSDP", fsdp, 12),
    ("C04", "accumulation in order", accumulation, 12),
    ("C04", "local SGD", local_sgd, 12),
    ("C04", "backward hides it", accumulation_that_hides_it, 30),
    ("C05", "tensor parallel", tensor_parallel, 12),
    ("C05", "groups without a mesh", groups_without_a_mesh, 12),
    ("C05", "black borders", black_borders, 12),
    ("C05", "Accelerate", accelerated, 12),
    ("C05", "Lightning", lightning, 12),
    ("C05", "an iterable data set", iterable, 12),
    ("C05", "drawn by other seeds", drawn_apart, 30),
    ("C05", "the average is logged", average_logged, 30),
    ("C05", "drawn alike without DDP", drawn_alike_unwrapped, 30),
    ("C05", "drawn alike for Accelerate", drawn_alike_accelerated, 30),
    ("C06", "resumed", resumed, 12),
    ("C06", "no shuffle", validation_order, 12),
    ("C06", "another seed", shuffled_by_seed, 12),
    ("C07", "Join", joined, 12),
    ("C07", "Join in the first epoch", within_join, 12),
    ("C08", "all at one line", every_rank_waits, 30),
    ("C08", "rank 0 evaluates the module", rank_0_evaluates, 30),
    ("C08", "counts on their way", counts_on_their_way, 30),
    ("C09", "parameters are unused now and then", searches_and_finds, 12),
    ("C10", "frozen", frozen_norm, 12),
    ("C10", "synced", synced_norm, 12),
    ("C11", "noise", noisy_losses, 20),
    ("C11", "NaN on all", all_nan, 20),
    ("C14", "a shared log", shared_log, 12),
    ("C16", "both backends", both_backends, 45),
)
HEALTHY = (
    ("DDP", ddp, 60),
    ("DDP of which nothing is tracked", untracked_ddp, 45),
    ("FSDP", fsdp, 60),
    ("tensor parallel", tensor_parallel, 60),
    ("Megatron's groups", groups_without_a_mesh, 30),
    ("gradient accumulation with no_sync", accumulation, 60),
    ("torch.compile", compiled, 60),
    ("evaluation and checkpoints", evaluation_and_checkpoints, 130),
    ("a data set that is already divided", own_subset, 30),
    ("Accelerate", accelerated, 30),
    ("Lightning", lightning, 30),
    ("an iterable data set", iterable, 30),
    ("resumed", resumed, 30),
    ("averaged by hand", reduced_by_hand, 30),
    ("noisy losses", noisy_losses, 30),
    ("ranks that start one after the other", two_ranks_started, 40),
)
