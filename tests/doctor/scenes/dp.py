"""Faults of nn.DataParallel (catalogue B), their look-alikes, and runs of it that are in order."""

from __future__ import annotations

from dataclasses import replace

from tests import samples
from tests.doctor.scenes.base import gpus
from tests.doctor.tracked import CALM, ddp, failed, one_process, single
from tests.samples import GIB

ALL = (0, 1, 2, 3)
DP = {"model": {"wrapper": "DataParallel", "wrappers": ["DataParallel"]}}


def _fact(second, **changes):
    return {
        "device_ids": [0, 1, 2, 3], "replicas": 4, "module": "Net", "batch_rows": 128, "rows_per_device": [32] * 4,
        "calls": 300 + 3 * second, "underused_calls": 0, "uneven_calls": 0, "output_device": 0, "dim": 0,
        "tensor_leaves": 2, "leaf_sizes": [128, 128], **changes,
    }  # fmt: skip


def data_parallel(second, numbers=ALL, facts=None, process=None, devices=None, metrics=CALM, logs=(), **changes):
    given = {**DP, "data_parallel": _fact(second, **changes), "loader": {"batch_size": 128, "length": 391}, **(facts or {})}
    return single(second, given, numbers=numbers, process=process, devices=devices, metrics=metrics, logs=logs)


# ---- faults


def bypass(second):
    calls = {"wrapped": 0, "bypassed": 3 * second, "bypassed_steps": 3 * second, "module": "Net", "where": "train.py:41"}
    return single(
        second,
        {**DP, "wrapper_calls": calls, "torch": {"device_count": 4}},
        numbers=(0,),
        devices=gpus([0], 4),
        process=one_process(second, 0, visible=4),
    )


def objects(second):
    return data_parallel(second, tensor_leaves=0, leaf_sizes=[], batch_rows=None, rows_per_device=None)


def time_first(second):
    return data_parallel(second, leaf_sizes=[35], tensor_leaves=1, batch_rows=35, rows_per_device=[9, 9, 9, 8])


def list_of_images(second):
    return data_parallel(
        second,
        facts={"loader": {"batch_size": 8, "length": 900}},
        leaf_sizes=[3] * 8,
        tensor_leaves=8,
        batch_rows=3,
        rows_per_device=[1, 1, 1, 0],
    )


def first_full(second):
    devices = tuple(samples.device(n, utilization_percent=95.0 if n == 0 else 62.0) for n in ALL)
    return data_parallel(second, devices=devices, process=one_process(second, *ALL, gib=(29.0, 11.0, 11.2, 10.9)))


def overhead(second):
    devices = tuple(samples.device(n, utilization_percent=41.0) for n in ALL)
    return data_parallel(second, devices=devices)


def unequal(second):
    small = samples.device(3, name="NVIDIA A10", memory_total_bytes=24 * GIB, memory_used_bytes=20 * GIB)
    return data_parallel(second, devices=(*gpus(ALL, 4)[:3], small))


def one_id(second):
    fact = _fact(second, device_ids=[0], replicas=1, rows_per_device=[128])
    return single(
        second,
        {**DP, "data_parallel": fact, "torch": {"device_count": 4}},
        devices=gpus([0], 4),
        process=one_process(second, 0, visible=4),
    )


def _evaluates(rank, step):
    return 5.0 if step % 60 == 0 else None


def evaluation_inside(second):
    metrics = {**CALM, "phase/evaluation": _evaluates}
    facts = {"evaluation": {"calls": 40 * second, "seconds": 0.25 * second, "parameter_device": "cuda:0", "wrapped": False}}
    return data_parallel(second, facts=facts, metrics=metrics)


def evaluation_on_rank_0(second):
    def each(number, step):
        return {"evaluation": {"calls": 9 * second, "seconds": 0.25 * second, "wrapped": False}} if number == 0 else {}

    return ddp(second, each=each, metrics={**CALM, "phase/evaluation": lambda r, s: _evaluates(r, s) if r == 0 else None})


def not_moved(second):
    text = (
        "RuntimeError: module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on "
        "device: cpu"
    )
    return failed(second, 1, ("dp_not_on_dev0", text))


def replica_state(second):
    return failed(
        second,
        1,
        ("dp_replica_error", "RuntimeError: Caught RuntimeError in replica 1 on device 1."),
        (
            "two_devices",
            "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:1 and cuda:0!",
        ),
    )


FAULTS = (
    ("B03", "calls around the wrapper", bypass, 12),
    ("B04", "arguments without a tensor", objects, 12),
    ("B06", "time first", time_first, 14),
    ("B06", "a list of images", list_of_images, 14),
    ("B07", "memory and work on GPU 0", first_full, 45),
    ("B08", "GPUs that wait for one process", overhead, 45),
    ("B09", "the model is not on GPU 0", not_moved, 5),
    ("B10", "a tensor that replicas do not share", replica_state, 5),
    ("B11", "a smaller card among them", unequal, 5),
    ("B12", "one entry in device_ids", one_id, 20),
    ("B13", "evaluation around the wrapper", evaluation_inside, 60),
    ("B13", "evaluation on rank 0 alone", evaluation_on_rank_0, 60),
)


# ---- look-alikes


def auxiliary_call(second):
    """The inner module is called for a second loss, the wrapper in every step."""
    calls = {"wrapped": 3 * second, "bypassed": 3 * second, "bypassed_steps": 0, "module": "Net", "where": "train.py:52"}
    return data_parallel(second, facts={"wrapper_calls": calls})


def bypass_on_one_gpu(second):
    calls = {"wrapped": 0, "bypassed": 3 * second, "bypassed_steps": 3 * second, "module": "Net", "where": "train.py:41"}
    return single(second, {**DP, "wrapper_calls": calls})


def graphs(second):
    return data_parallel(second, facts={"loader": {"type": "DataListLoader"}}, tensor_leaves=0, leaf_sizes=[], batch_rows=None)


def last_batch(second):
    """50,000 % 128 = 80 rows are left at the end of the epoch."""
    return data_parallel(second, leaf_sizes=[80, 80], batch_rows=80, rows_per_device=[20] * 4)


def micro_batches(second):
    return data_parallel(second, leaf_sizes=[32], batch_rows=32, rows_per_device=[8] * 4)


def slightly_more_on_the_first(second):
    devices = tuple(samples.device(n, utilization_percent=95.0 if n == 0 else 88.0) for n in ALL)
    return data_parallel(second, devices=devices, process=one_process(second, *ALL, gib=(13.0, 11.0, 11.2, 10.9)))


def starved(second):
    """The GPUs idle because data comes late."""
    devices = tuple(samples.device(n, utilization_percent=41.0) for n in ALL)
    return data_parallel(second, devices=devices, metrics={**CALM, "phase/data": lambda rank, step: 0.15})


def other_name(second):
    """The same memory under another name."""
    return data_parallel(second, devices=(*gpus(ALL, 4)[:3], samples.device(3, name="NVIDIA H100 PCIe")))


def one_id_on_a_shared_machine(second):
    others = tuple(
        replace(one_process(second, n), pid=7000 + n, uid=1001, user="bob", run_id=None, rank=None, environment=None)
        for n in (1, 2, 3)
    )
    fact = _fact(second, device_ids=[0], replicas=1, rows_per_device=[128])
    shot = single(second, {**DP, "data_parallel": fact, "torch": {"device_count": 4}}, devices=gpus(ALL, 4))
    return replace(shot, processes=(*shot.processes, *others))


def short_evaluation(second):
    metrics = {**CALM, "phase/evaluation": lambda rank, step: 0.5 if step % 60 == 0 else None}
    facts = {"evaluation": {"calls": 40 * second, "seconds": 0.03 * second, "wrapped": False}}
    return data_parallel(second, facts=facts, metrics=metrics)


def evaluation_on_every_rank(second):
    def each(number, step):
        return {"evaluation": {"calls": 9 * second, "seconds": 0.25 * second, "wrapped": False}}

    return ddp(second, each=each, metrics={**CALM, "phase/evaluation": _evaluates})


def replica_without_memory(second):
    return failed(
        second,
        1,
        ("dp_replica_error", "torch.OutOfMemoryError: Caught OutOfMemoryError in replica 1 on device 1."),
        (
            "oom",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.1 GiB",
        ),
    )


LOOK_ALIKES = (
    ("B03", "an auxiliary call", auxiliary_call, 12),
    ("B03", "one GPU", bypass_on_one_gpu, 12),
    ("B04", "lists of graphs", graphs, 12),
    ("B06", "the last batch", last_batch, 14),
    ("B06", "micro-batches", micro_batches, 14),
    ("B07", "slightly more on GPU 0", slightly_more_on_the_first, 45),
    ("B08", "data comes late", starved, 45),
    ("B10", "out of memory in a replica", replica_without_memory, 5),
    ("B11", "another name", other_name, 5),
    ("B12", "the others are taken", one_id_on_a_shared_machine, 20),
    ("B13", "a short evaluation", short_evaluation, 60),
    ("B13", "every rank evaluates", evaluation_on_every_rank, 60),
)

HEALTHY = (("DataParallel in order", data_parallel, 60), ("DataParallel with an auxiliary call", auxiliary_call, 60))
