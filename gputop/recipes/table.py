"""The healthy recipes and the options of their scripts in ``demos/``. For the faulty ones see ``faults``."""

from __future__ import annotations

from gputop.recipes.recipe import NO, YES, Option, Recipe, with_defaults


def _switch(name: str, label: str, text: str) -> Option:
    return Option(name, label, "choice", NO, text, (NO, YES), switch=True)


MODEL = Option(
    "model",
    "Model",
    "choice",
    "lenet",
    "LeNet learns in seconds; the ResNets keep a GPU busy; FooNet prints the batch of each replica",
    ("lenet", "resnet18", "resnet101", "foonet"),
)
NAME = Option("name", "Name", "text", None, "of the run; empty: model and recipe")
SEED = Option("seed", "Seed", "int", 0, "of the weights and of the order of the samples")
TRAINING = (
    MODEL,
    Option("epochs", "Epochs", "int", 50, "passes over the data", minimum=1),
    Option("batch_size", "Batch size", "int", 64, "samples per optimizer step", minimum=1),
    Option("lr", "Learning rate", "float", 0.01, "of SGD with momentum 0.9", minimum=0),
    Option("steps", "Steps", "int", None, "end after this many optimizer steps; empty: all epochs", minimum=1),
    Option("data", "Data folder", "text", None, "MNIST or Fashion-MNIST IDX files; empty: digits drawn by the program"),
    Option("digits", "Drawn digits", "choice", "hard", "easy ones: 9 of 10 right within 250 steps", ("hard", "easy")),
    Option("train_samples", "Training images", "int", 20_000, "how many images to train on", minimum=1),
    SEED,
    NAME,
)
"""The options of every script that trains."""
SCALING = (
    Option(
        "scale_batch",
        "Batch is",
        "choice",
        "per-gpu",
        "for each GPU, so that more GPUs take larger steps, or global: shared by all of them",
        ("per-gpu", "global"),
    ),
    Option(
        "scale_lr",
        "Scale learning rate",
        "choice",
        "none",
        "with the global batch: linear, or by its square root",
        ("none", "linear", "sqrt"),
    ),
)
AMP = _switch("amp", "Mixed precision", "autocast to bfloat16, or float16 on older GPUs")
TIMEOUT = Option("timeout", "Timeout", "float", 1800.0, "seconds that a rank waits for the others", minimum=1)
DATA_PARALLEL = with_defaults((*TRAINING, *SCALING, AMP), batch_size=128, scale_batch="global")
DDP = (
    *TRAINING,
    *SCALING,
    AMP,
    _switch("sync_bn", "Synchronize batch norm", "over the batches of all ranks; for the ResNets"),
    Option("accumulate", "Accumulate", "int", 1, "batches whose gradients make one step; no_sync() in between", minimum=1),
    TIMEOUT,
)

RECIPES: tuple[Recipe, ...] = (
    Recipe(
        "single",
        "One GPU",
        "Trains a classifier on one GPU: what every other recipe is compared with.",
        "Model and data go to the device with .to(); the loss falls; the GPU is busy.",
        "python",
        "single.py",
        (*TRAINING, AMP),
        max_devices=1,
        default_devices=1,
    ),
    Recipe(
        "data-parallel",
        "DataParallel",
        "One process drives all chosen GPUs with nn.DataParallel; the batch is split into one piece per GPU.",
        "How a batch is scattered and gradients are summed; why GPU 0 has more to do.",
        "python",
        "data_parallel.py",
        DATA_PARALLEL,
    ),
    Recipe(
        "ddp",
        "DistributedDataParallel",
        "torchrun starts one process for each chosen GPU; they average their gradients at every step.",
        "Device from LOCAL_RANK, DistributedSampler with set_epoch, wrapping after .to(), saving on rank 0.",
        "torchrun",
        "ddp.py",
        DDP,
    ),
    Recipe(
        "from-scratch",
        "Data parallel by hand",
        "Scatter, broadcast and allreduce written out in four functions, on any list of devices.",
        "What DataParallel and DDP do inside, and why everything through GPU 0 is slow.",
        "python",
        "from_scratch.py",
        with_defaults((*TRAINING, *SCALING), batch_size=128, scale_batch="global"),
    ),
    Recipe(
        "model-parallel",
        "Model parallel",
        "The first half of the network on one GPU, the second on another.",
        "Naively the GPUs take turns; with micro-batches they work at the same time.",
        "python",
        "model_parallel.py",
        (
            *with_defaults(TRAINING, batch_size=128),
            Option("micro_batches", "Micro-batches", "int", 1, "pieces of a batch in the pipeline; 1: naive", minimum=1),
        ),
        min_devices=2,
        max_devices=2,
    ),
    Recipe(
        "fsdp",
        "Fully sharded (FSDP)",
        "Every rank holds a part of each weight; layers are gathered when needed (fully_shard).",
        "For models that do not fit on one GPU; the result is the same as with DDP.",
        "torchrun",
        "fsdp.py",
        DDP,
    ),
    Recipe(
        "inference",
        "Inference",
        "Uses a trained network, or trains one briefly: batches without gradients, softmax with a temperature.",
        "eval() and inference_mode(); what temperature does to how sure the network is.",
        "python",
        "inference.py",
        (
            *with_defaults(TRAINING, digits="easy", steps=300, batch_size=32, lr=0.02, train_samples=6000),
            Option("checkpoint", "Checkpoint", "text", None, "weights to use; empty: train briefly"),
            Option("temperature", "Temperature", "float", 1.0, "of the softmax; above 1: less sure", minimum=0.01),
        ),
        max_devices=1,
        default_devices=1,
    ),
    Recipe(
        "memory-tips",
        "Memory tips",
        "In-place operations, one tensor instead of many, freeing memory: each measured before and after.",
        "How much memory and time common habits cost.",
        "python",
        "memory_tips.py",
        (Option("mebibytes", "MiB", "int", 64, "size of the tensors", minimum=1), NAME),
        max_devices=1,
        default_devices=1,
    ),
    Recipe(
        "checkpoint",
        "Checkpoints",
        "Saves and loads across CPU, GPU, DataParallel and DDP; shows the two usual errors and their solutions.",
        'map_location, and the prefix "module." of a wrapper\'s weights.',
        "python",
        "checkpoint.py",
        (SEED, NAME),
    ),
)
