"""What a rank measures while it trains, besides metrics: the records about batches, weights, waits, memory and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gputop.facts.record import Key, Record, flag, number, read_number, read_whole, text, vital, whole
from gputop.facts.rows import is_rows_of, read_rows


def _checksums(value: Any) -> Mapping[int, int | str]:
    return {step: row[1] for step, row in read_rows(value, 2) if isinstance(row[1], int | str)}


def _sizes(value: Any) -> Mapping[int, tuple[int, int]]:
    found = {}
    for step, row in read_rows(value, 3):
        rows, elements = read_whole(row[1]), read_whole(row[2])
        if rows is not None and elements:
            found[step] = rows, elements
    return found


def _shares(value: Any) -> Mapping[int, float]:
    known = ((step, read_number(row[1])) for step, row in read_rows(value, 2))
    return {step: share for step, share in known if share is not None}


def _probes(value: Any) -> Mapping[int, tuple[Any, float | None]]:
    return {step: (row[1], read_number(row[2]) if len(row) > 2 else None) for step, row in read_rows(value, 2)}


def _changes(value: Any) -> Sequence[Change]:
    known = ((step, row) for step, row in read_rows(value, 4))
    return tuple(Change(step, read_whole(row[1]) or step, read_whole(row[2]), read_whole(row[3])) for step, row in known)


class Change(NamedTuple):
    """What a step works on from the step ``by`` on; it changed after the step ``after``."""

    after: int
    by: int
    parameters: int | None
    elements: int | None


class Batches(Record):
    """Fingerprints of the batches that the rank trains on."""

    recent = Key("list of [step, checksum]", _checksums, is_rows_of(2), "The last 16 training batches.", optional=True)
    epochs = Key(
        "list of [epoch, checksum]",
        _checksums,
        is_rows_of(2),
        "The first 4 batches of each of the last 4 epochs.",
        optional=True,
    )
    rows = whole("Rows of the last batch.", null=True, optional=True)
    elements = whole("Elements of the last batch.", null=True, optional=True)
    called = Key(
        "list of [step, rows, elements]",
        _sizes,
        is_rows_of(3),
        "What DDP, a sharded model (fully_shard, FSDP) or DeepSpeed's engine was called with in the last 32 steps recorded in "
        "full: its first tensor, or list of tensors. The calls of a step are added up.",
        optional=True,
    )


class Parameters(Record):
    """Probes of the weights."""

    recent = Key(
        "list of [step, checksum, sum]",
        _probes,
        is_rows_of(3),
        "The last 8 probes, one every 10 steps. The checksum is null if the weights are on a GPU.",
    )
    changed = Key(
        "list of [step, share]",
        _shares,
        is_rows_of(2),
        "Which share of the probed values had changed since the probe before. Only for weights on the CPU.",
        optional=True,
    )
    dtype = text("Dtype of the probed weights; null if they have several.", null=True, optional=True)
    kept_gradients = whole(
        "How many of the first steps, in a row, were followed by a backward pass without zeroing the gradients of the only "
        "optimizer. Missing if fewer than 8.",
        optional=True,
    )


class Workload(Record):
    """How much a step works on: when it changed, as where layers thaw, images get larger, or sequences longer."""

    changes = Key(
        "list of [step, step, parameters, elements]",
        _changes,
        is_rows_of(4),
        "The last 32 changes, after the first of two steps and by the second: elements of the parameters that are trained, and "
        "of the model's inputs in one step. Null: unknown.",
    )


class Graphs(Record):
    """Earlier losses whose autograd graphs still exist, of a few that were marked; the newest two do not count."""

    kept = vital(whole("Marked losses whose graphs exist."))
    first = whole("Step of the oldest of them.", null=True)
    last = whole("Step of the newest of them.", null=True)
    released = whole("How often graphs were freed after they had been kept for longer: then the count restarts.")


class EvaluatedGraphs(Graphs):
    """The same of what the model returned in evaluation mode, where gradients were not turned off."""


class Synchronizations(Record):
    """Calls within a step that wait for a CUDA device: `item`, `cpu`, `tolist`, `numpy`, `bool`. From sampled steps."""

    per_step = vital(number("Calls per step."))
    seconds_per_step = number("How long the step is in these calls.", null=True)
    steps = whole("Steps that were sampled.")
    where = text("Line with the most calls.", null=True)


class Transfers(Record):
    """Copies from host to device within a step. From sampled steps."""

    per_step = number("Copies per step.")
    bytes_per_step = number("Size of the copies.")
    pageable_per_step = number("Copies from memory that is not pinned.")
    blocking_per_step = number("Copies that the CPU waits for.")
    seconds_per_step = number("Time of the copies by the CPU's clock.")
    where = text("Line with the most copies.", null=True)


class CudaMemory(Record):
    """CUDA memory as torch's allocator counts it. Null if this version of torch does not report it."""

    allocated_bytes = whole("Memory held by tensors.", null=True)
    reserved_bytes = whole("Memory held by the allocator.", null=True)
    peak_bytes = whole("Peak memory held by tensors.", null=True)
    total_bytes = whole("Memory of the device.")
    retries = whole("Allocations that succeeded only after the cache was freed.", null=True)
    out_of_memory = whole("Allocations that failed.", null=True)
    empty_cache_calls = whole("Calls of `torch.cuda.empty_cache`.")


class Evaluation(Record):
    """Calls of the model without gradients."""

    calls = vital(whole("Calls."))
    seconds = vital(number("Their time."))
    parameter_device = text("Device of the first parameter.", null=True)
    wrapped = flag("Whether the wrapper was called. Null without a wrapper.", null=True)


class Checkpoint(Record):
    """The last checkpoint that `torch.save` wrote."""

    seconds = number("How long it took.")
    bytes = whole("Size of the file. Null if it was not given as a path.", null=True)
    path = text("The file. Null if it has no name.", null=True)
    step = whole("Step after which it was written.")
