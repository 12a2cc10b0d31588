"""How a rank shares the training with other devices and ranks: the records about the wrappers and torch.distributed."""

from __future__ import annotations

from gputop.facts.record import Record, any_text, counts, device, devices, flag, number, text, texts, vital, whole, wholes


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
    joins = flag("Whether it runs within Join, so that ranks may have different numbers of batches.", null=True)
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
    largest = whole("Elements of the largest tensor that a reduction or gathering among them passed on.", optional=True)
    reduced = whole("Elements that calls of all_reduce among them passed on, in sum.", optional=True)
