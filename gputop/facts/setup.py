"""What a rank trains, with what and on what: the records of the facts that rarely change during a training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputop.facts.record import Record, any_text, counts, flag, number, part, text, texts, vital, whole


class Progress(Record):
    """How long the training will be."""

    total_steps = whole("Steps of the whole training.", null=True)
    epochs = number("Epochs of the whole training.", null=True, optional=True)
    counts_lines = flag("Whether the steps are lines with a loss, counted because no line shows a step.", optional=True)


def counts_lines(facts: Mapping[str, Any]) -> bool:
    """Return whether a rank's steps are the lines that it printed: no step of the training is known."""
    progress = facts.get("progress")
    return isinstance(progress, Mapping) and progress.get("counts_lines") is True


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
    tracer = any_text("What Python calls for each line, such as coverage; null if nothing.", null=True, optional=True)
    call_profiler = any_text("What Python calls for each call, such as cProfile; null if nothing.", null=True, optional=True)
    seed = whole("The seed of the random numbers on the CPU; null if the script has set none.", null=True, optional=True)


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
    largest_parameter = whole("Elements of the largest parameter that is trained.", optional=True)
    hf_device_map = whole("Places over which Hugging Face's device map spreads the model. Null: there is none.", null=True)
    batch_norm = part(BatchNorm)
    recurrent = flag("Whether it has recurrent layers.")
    dropout = whole("Layers that drop values while the model trains.", optional=True)
    dropout_off = whole(
        "Those of them that drop nothing, because their part of the model is in evaluation mode while the model itself trains. "
        "Missing: none.",
        optional=True,
    )
    evaluation_mode_from = whole(
        "Step after which it was called in evaluation mode only, though with gradients. Missing: it is not.", optional=True
    )
    has_twin = flag(
        "True if a module of its class and shape, which is not trained, is called without gradients in most steps: a teacher, "
        "a target network. Else missing.",
        optional=True,
    )
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
