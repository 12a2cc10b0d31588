"""Every fact that gputop knows, by name: ``Facts``. docs/facts.md is written from it.

Each record is one fact, or a part of one; those that a script states itself are here, the others in the modules next to this
one. Renaming anything changes the content of journals, and readers would no longer understand old ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputop.facts.measured import (
    Batches,
    Checkpoint,
    CudaMemory,
    EvaluatedGraphs,
    Evaluation,
    Graphs,
    Parameters,
    Synchronizations,
    Transfers,
    Workload,
)
from gputop.facts.parallel import DataParallel, Ddp, Gradients, ProcessGroup, WrapperCalls
from gputop.facts.record import Key, Record, any_text, named, number, part, parts, texts, whole
from gputop.facts.setup import Device, Environment, Loader, Model, Optimizer, Progress, Sampler, Settings, Torch
from gputop.facts.standing import Error, OutOfMemory, OwnLines, PrintedCourse, Stalled, Standing

_NAMES = "string or list of strings"


def _class_names(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list | tuple) else (value,)
    names = (item.get("type") if isinstance(item, Mapping) else item for item in items)
    return tuple(name for name in names if isinstance(name, str))


def _names_classes(value: Any) -> bool:
    return bool(_class_names(value))


class Alert(Record):
    """The last call of `run.alert`."""

    title = any_text("Title.")
    text = any_text("Text.")
    level = any_text("Level.")
    time = number("When, in seconds since the epoch.")


class Metric(Record):
    """What `run.define_metric` says about each metric."""

    goal = any_text('"min" or "max".', null=True)
    unit = any_text("Unit.", null=True)
    step_metric = any_text("Metric whose values are its steps.", null=True)


class Summary(Record):
    """What the script wrote to `run.summary`."""

    more = "Whatever the script wrote."


class Facts(Record):
    """All facts of a rank by name."""

    more = "The script's own facts, from `run.fact`."
    progress = part(Progress, optional=True)
    devices = parts(Device, optional=True)
    torch = part(Torch, optional=True)
    settings = part(Settings, optional=True)
    environment = part(Environment, optional=True)
    frameworks = texts("Frameworks that the process has imported.", optional=True)
    model = part(Model, null=True, optional=True)
    optimizer = part(Optimizer, optional=True)
    loader = part(Loader, optional=True)
    sampler = part(Sampler, optional=True)
    data_parallel = part(DataParallel, optional=True)
    wrapper_calls = part(WrapperCalls, null=True, optional=True)
    ddp = part(Ddp, null=True, optional=True)
    gradients = part(Gradients, optional=True)
    process_group = part(ProcessGroup, optional=True)
    batches = part(Batches, optional=True)
    parameters = part(Parameters, optional=True)
    workload = part(Workload, optional=True)
    graphs = part(Graphs, optional=True)
    evaluated_graphs = part(EvaluatedGraphs, optional=True)
    synchronizations = part(Synchronizations, optional=True)
    transfers = part(Transfers, optional=True)
    cuda_memory = part(CudaMemory, optional=True)
    evaluation = part(Evaluation, optional=True)
    checkpoint = part(Checkpoint, optional=True)
    stalled = part(Stalled, null=True, optional=True)
    standing = part(Standing, optional=True)
    own_lines = part(OwnLines, optional=True)
    printed = parts(PrintedCourse, optional=True)
    error = part(Error, optional=True)
    out_of_memory = part(OutOfMemory, optional=True)
    uncollected = texts("What automatic tracking could not collect, and why, once each.", optional=True)
    summary = part(Summary, optional=True)
    metrics = named(Metric, optional=True)
    alert = part(Alert, optional=True)
    group = any_text("A label that runs share, from `init`.", optional=True)
    tags = texts("Labels, from `init`.", optional=True)
    notes = any_text("A remark, from `init`.", null=True, optional=True)
    job_type = any_text("What the run does, from `init`.", optional=True)
    source = any_text('"log" if the metrics are read from printed lines; "TensorBoard" … if from a file.', optional=True)
    device_count = whole("CUDA devices that the rank sees. Only a script writes it.", optional=True)
    total_steps = whole("Steps of the whole training. Only a script writes it.", optional=True)
    wrapper = Key(_NAMES, _class_names, _names_classes, "Class of the model's wrapper. Only a script writes it.", optional=True)
    wrappers = Key(
        _NAMES, _class_names, _names_classes, "Classes of the model's wrappers. Only a script writes it.", optional=True
    )
