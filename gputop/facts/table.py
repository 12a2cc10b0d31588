"""Every fact that gputop knows: its keys, their types and what they mean. docs/facts.md is written from here.

Each record is one fact, or a part of one; ``Facts`` at the end gives the facts their names. Renaming anything changes the
content of journals, and readers would no longer understand old ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputop.facts.record import (
    Key,
    Record,
    any_text,
    counts,
    device,
    devices,
    flag,
    named,
    number,
    part,
    parts,
    read_items,
    read_number,
    read_whole,
    text,
    texts,
    vital,
    whole,
    wholes,
)

_NAMES = "string or list of strings"


def _rows(value: Any, least: int) -> list[tuple[int, Any]]:
    """Return (step, row) of each row that has this many columns and starts with a step."""
    rows = [item for item in read_items(value) if isinstance(item, list | tuple) and len(item) >= least]
    return [(step, row) for row in rows if (step := read_whole(row[0])) is not None]


def _checksums(value: Any) -> Mapping[int, int | str]:
    return {step: row[1] for step, row in _rows(value, 2) if isinstance(row[1], int | str)}


def _sizes(value: Any) -> Mapping[int, tuple[int, int]]:
    found = {}
    for step, row in _rows(value, 3):
        rows, elements = read_whole(row[1]), read_whole(row[2])
        if rows is not None and elements:
            found[step] = rows, elements
    return found


def _probes(value: Any) -> Mapping[int, tuple[Any, float | None]]:
    return {step: (row[1], read_number(row[2]) if len(row) > 2 else None) for step, row in _rows(value, 2)}


def _groups(value: Any) -> Mapping[int, tuple[int, int]]:
    found = {}
    for checksum, row in _rows(value, 3):
        ranks, begun = read_whole(row[1]), read_whole(row[2])
        if ranks and begun is not None:
            found[checksum] = ranks, begun
    return found


def _class_names(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list | tuple) else (value,)
    names = (item.get("type") if isinstance(item, Mapping) else item for item in items)
    return tuple(name for name in names if isinstance(name, str))


def _names_classes(value: Any) -> bool:
    return bool(_class_names(value))


def _list_of(columns: int) -> Any:
    return lambda value: isinstance(value, list) and all(isinstance(row, list) and len(row) == columns for row in value)


class Progress(Record):
    """How long the training will be."""

    total_steps = whole("Steps of the whole training.", null=True)
    epochs = number("Epochs of the whole training.", null=True, optional=True)


class Device(Record):
    """The devices that the rank computes on."""

    name = text('Name, such as "cuda:0".')
    uuid = any_text("UUID of the GPU.", null=True)
    virtual_index = whole("Index of the virtual GPU.", null=True)
    thread_id = whole("Thread that works as this virtual GPU.", null=True)
    memory_bytes = whole("Memory in use.", null=True)


class Torch(Record):
    """The installed torch, and whether it sees GPUs."""

    version = text("Version of torch.")
    cuda_built = flag("Whether this torch is built with CUDA.")
    cuda_available = flag("What `torch.cuda.is_available()` returns. Null until CUDA is in use.", null=True)
    device_count = whole("CUDA devices that torch sees. Null until CUDA is in use.", null=True)


class Settings(Record):
    """Switches of torch. Null if this version of torch does not report them."""

    float32_matmul_precision = text('"highest", "high" or "medium".', null=True)
    allow_tf32 = flag("Whether matrix products may use TF32.", null=True)
    anomaly_detection = flag("Whether autograd's anomaly detection is on.", null=True)
    deterministic = flag("Whether deterministic algorithms are requested.", null=True)
    cudnn_benchmark = flag("Whether cuDNN benchmarks several algorithms.", null=True)
    autocast = flag("Whether autocast was on in a forward pass.", null=True)
    threads = whole("Threads per operation on the CPU.", null=True)
    profiler = flag("Whether autograd's profiler is on.", null=True)


class Environment(Record):
    """Environment variables that select devices. Null: not set."""

    cuda_visible_devices_launch = any_text("CUDA_VISIBLE_DEVICES when the process started.", null=True)
    cuda_visible_devices_now = any_text("CUDA_VISIBLE_DEVICES in `os.environ` now.", null=True)
    virtual_devices_now = any_text("GPUTOP_VIRTUAL_DEVICES, the mask of virtual GPUs, now.", null=True)
    device_order = any_text("CUDA_DEVICE_ORDER.", null=True)
    visible_uuids = texts("UUIDs of the devices that CUDA sees. Null until CUDA is initialized.", null=True)
    omp_num_threads = any_text("OMP_NUM_THREADS.", null=True)


class BatchNorm(Record):
    """The BatchNorm layers of a model."""

    layers = vital(whole("Number of layers."))
    synced = whole("Layers that normalize over the batches of all ranks.")
    frozen = whole("Layers that no longer update their statistics while the model trains.")


class Model(Record):
    """The model that is being trained."""

    class_ = text("Class, without wrappers.")
    wrapper = text("Class of the outermost wrapper.", null=True)
    wrappers = texts("Classes of all wrappers, outermost first.")
    parameter_device = any_text('Device of the first parameter, such as "cuda:0".', null=True)
    parameter_devices = counts("Elements on each device.")
    parameter_dtypes = counts("Elements of each dtype.")
    parameters = whole("Elements of all parameters.")
    trained_parameters = whole("Elements of the parameters that are trained.")
    hf_device_map = whole("Places over which Hugging Face's device map spreads the model. Null: there is none.", null=True)
    batch_norm = part(BatchNorm)
    recurrent = flag("Whether it has recurrent layers.")
    mesh = texts("Names of the dimensions of a device mesh.")


class Optimizer(Record):
    """The first optimizer. Further ones have facts named `optimizer/1`, `optimizer/2` and so on."""

    more = "The simple settings of the first parameter group, such as `lr`."
    type = text("Class.")
    groups = whole("Parameter groups.")


class Loader(Record):
    """The loader of the training batches."""

    type = text("Class of the loader.")
    dataset = text("Class of the data set.")
    batch_size = whole("Samples per batch.", null=True)
    num_workers = whole("Worker processes.", null=True)
    pin_memory = flag("Whether batches are copied to pinned memory.")
    drop_last = flag("Whether an incomplete last batch is dropped.")
    persistent_workers = flag("Whether workers persist between iterations.")
    prefetch_factor = whole("Batches that each worker prepares in advance.", null=True)
    length = whole("Batches per iteration. Null: unknown.", null=True)
    dataset_length = whole("Samples in the data set. Null: unknown.", null=True)
    iterable = flag("Whether the data set is an IterableDataset.")
    iterations = whole("Iterations so far, including the current one.")
    exhausted = flag("Whether the last iteration ended by itself.")
    batches = whole("Batches delivered in this iteration.")


class Sampler(Record):
    """The sampler of the training loader."""

    type = vital(text("Class."))
    shuffle = flag("Whether it shuffles.", null=True)
    set_epoch = flag("Whether `set_epoch` was called between iterations. Null before the second iteration.", null=True)
    replicas = whole("Number of ranks that share the data.", null=True)
    rank = whole("Rank whose share it draws.", null=True)


class DataParallel(Record):
    """How nn.DataParallel splits its batches. Counts training calls; written when the rows change, and every 20 calls."""

    device_ids = devices("Devices of the wrapper.")
    replicas = whole("Number of these devices.")
    batch_rows = whole("Rows of the last batch.", null=True)
    rows_per_device = wholes("Rows of the last batch on each device.", null=True)
    calls = whole("Calls.")
    underused_calls = whole("Calls in which a device got no rows.")
    uneven_calls = whole("Calls whose smallest share was below 0.75 of the largest.")
    module = any_text("Class of the wrapped module.")
    output_device = device("Device that gathers the outputs.", null=True)
    dim = whole("Dimension along which batches are split.")
    tensor_leaves = whole("Tensors in the arguments of the last call.")
    leaf_sizes = wholes("Size of each of these tensors along `dim`.")


class WrapperCalls(Record):
    """Whether training calls go through the model's wrapper. Only outermost calls are counted."""

    wrapped = vital(whole("Calls of the wrapper."))
    bypassed = vital(whole("Calls of the module inside it."))
    bypassed_steps = whole("Consecutive steps, up to now, with bypassed calls and no wrapped one.")
    module = text("Class that was called instead of the wrapper.", null=True)
    where = text('Line that called it, such as "train.py:41".', null=True)


class Ddp(Record):
    """What DistributedDataParallel reports about itself. Null if this version of torch does not report it."""

    backend = text('Backend, such as "nccl".', null=True)
    world_size = whole("Ranks.", null=True)
    device_ids = devices("Devices that this rank uses.", null=True)
    find_unused_parameters = flag("Whether it searches for unused parameters in each backward pass.", null=True)
    unused_parameter_bytes = whole("Size of the parameters without a gradient.", null=True)
    has_sync_bn = flag("Whether the model has SyncBatchNorm.", null=True)
    static_graph = flag("Whether the graph is declared static.", null=True)
    iteration = whole("Iterations that DDP has counted.", null=True)
    forward_s = number("Average time of a forward pass.", null=True)
    backward_s = number("Average computation time of a backward pass.", null=True)
    communication_s = number("Average communication time of a backward pass.", null=True)
    overlap_s = number("Average time in which both overlapped.", null=True)
    replaced_parameters = whole(
        "Trained parameters that were not wrapped, or that have changed dtype or device since.", null=True
    )
    parameter_device = text("Device of the first parameter when it was wrapped.", null=True)
    parameter_dtype = text("Dtype of the first parameter when it was wrapped.", null=True)


class Gradients(Record):
    """How often gradients were computed and reduced. Null without DDP."""

    steps = vital(whole("Optimizer steps that followed a backward."))
    backwards = vital(whole("Backwards."))
    synced_backwards = vital(whole("Backwards that DDP reduced.", null=True))
    unsynced_steps = vital(whole("Steps whose last backward was not reduced.", null=True))
    accumulation = number("Backwards in the last step.")


class ProcessGroup(Record):
    """torch.distributed in this rank; after the group is destroyed, as last known."""

    backend = text('Backend, such as "nccl".')
    world_size = whole("Ranks.")
    rank = whole("This rank.")
    groups = whole("Process groups.", null=True)
    mesh = texts("Names of the dimensions of a device mesh.")
    mesh_sizes = wholes("Ranks along each of these dimensions.", optional=True)
    data_ranks = whole("Number of groups of ranks with different samples. Null: unknown.", null=True, optional=True)
    data_rank = whole("The group of this rank: its members get the same samples.", null=True, optional=True)
    collectives = counts("Calls of each collective from Python, without those of DDP's reducer.")


class Batches(Record):
    """Fingerprints of the batches that the rank trains on."""

    recent = Key("list of [step, checksum]", _checksums, _list_of(2), "The last 16 training batches.", optional=True)
    epochs = Key(
        "list of [epoch, checksum]",
        _checksums,
        _list_of(2),
        "The first 4 batches of each of the last 4 epochs.",
        optional=True,
    )
    rows = whole("Rows of the last batch.", null=True, optional=True)
    elements = whole("Elements of the last batch.", null=True, optional=True)
    called = Key(
        "list of [step, rows, elements]",
        _sizes,
        _list_of(3),
        "What DDP, a sharded model (fully_shard, FSDP) or DeepSpeed's engine was called with in the last 32 steps recorded in "
        "full: its first tensor, or list of tensors. The calls of a step are added up.",
        optional=True,
    )


class Parameters(Record):
    """Probes of the weights."""

    recent = Key(
        "list of [step, checksum, sum]",
        _probes,
        _list_of(3),
        "The last 8 probes, one every 10 steps. The checksum is null if the weights are on a GPU.",
    )


class Synchronizations(Record):
    """Calls within a step that wait for a CUDA device: `item`, `cpu`, `tolist`, `numpy`, `bool`. From sampled steps."""

    per_step = vital(number("Calls per step."))
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


class Stalled(Record):
    """Written when there was no step for a while; null again once steps continue."""

    since = number("When the last step ended, in seconds since the epoch.")
    step = whole("The last step.")
    phase = text('"data", "forward", "backward", "optimizer", "evaluation", "checkpoint" or "other".')
    stack = texts('The stack of the thread that trains, as "file.py:12 function", innermost first.')
    at = number("When this was written, in seconds since the epoch.")
    early = flag("True in a first report, after a third of the time that makes a stall; else missing.", optional=True)


class Standing(Record):
    """Where a rank is. Readers take it from the ring of a rank that has been still or silent for 4 s; no journal keeps it."""

    at = number("When this was written, in seconds since the epoch.")
    since = number("When it arrived there, in seconds since the epoch; checked every 2 s.")
    line = text('The innermost line outside libraries, as "train.py:88". Null: there is none on the stack.', null=True)
    function = text("The function around that line.", null=True)
    phase = text('"data", "forward", "backward", "optimizer", "evaluation", "checkpoint" or "other".')
    operation = text("The collective of torch.distributed that Python has called and that has not returned yet.", null=True)
    begun = whole("Collectives that the group of all ranks has begun in this rank. Null: unknown.", null=True)
    completed = whole("How many of them torch knows to be complete.", null=True)
    step = whole("The last step. Null before the first one.", null=True)
    stepped = number("When that step ended, in seconds since the epoch.", null=True)
    stack = texts('The innermost calls of the thread that trains, as "file.py:12 function", innermost first.')
    groups = Key(
        "list of [checksum, ranks, begun]",
        _groups,
        _list_of(3),
        "Of each smaller process group: a checksum of its ranks, their number, and the collectives begun.",
        optional=True,
    )


class Error(Record):
    """The exception that ended the script."""

    type = any_text("Class.")
    message = any_text("Message, shortened.")
    where = any_text("Innermost line outside libraries.", null=True)


class MemoryLine(Record):
    """What one line of the script holds in torch's allocator."""

    line = any_text("Innermost line outside libraries, and its function.")
    bytes = whole("Size of its blocks.")
    blocks = whole("Number of its blocks.")


class OutOfMemory(Record):
    """What torch's allocator held on the rank's device when an out-of-memory error ended the script."""

    allocated_bytes = whole("Bytes in use.")
    cached_bytes = whole("Bytes that torch keeps although nothing uses them.")
    largest_free_bytes = whole("The largest free piece; null if torch does not report it.", null=True)
    lines = parts(MemoryLine)


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
    synchronizations = part(Synchronizations, optional=True)
    transfers = part(Transfers, optional=True)
    cuda_memory = part(CudaMemory, optional=True)
    evaluation = part(Evaluation, optional=True)
    checkpoint = part(Checkpoint, optional=True)
    stalled = part(Stalled, null=True, optional=True)
    standing = part(Standing, optional=True)
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
