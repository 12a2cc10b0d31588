"""What more than one follower says of the same cause. Pure."""

from __future__ import annotations

from typing import NamedTuple


class Text(NamedTuple):
    """The beginning of the title, the cause, and the fix."""

    title: str
    cause: str
    fix: str


FIRST_GPU = Text(
    "The first GPU holds more than the others",
    "nn.DataParallel gathers the outputs of all GPUs on the first one, computes the loss there, and keeps the optimizer's "
    "state there. The batch is limited by that GPU, and the others wait for it.",
    "torchrun --standalone --nproc-per-node=gpu train.py  # with DistributedDataParallel: each GPU computes its loss\n"
    "# or compute the loss in forward(), so that only losses are gathered",
)
FIRST_BATCH = Text(
    "The first batch of each epoch comes late",
    "Each epoch starts the loader's workers again: they import, open their files and fill their queues before the first batch.",
    "DataLoader(..., persistent_workers=True)  # the workers stay for the next epoch\n"
    "# or make the start of a worker cheap: open files and indices once, before the loader",
)
CHECKPOINTS = Text(
    "The loop waits for checkpoints",
    "The loop waits until the checkpoint is written, and with it all ranks.",
    "from torch.distributed.checkpoint import async_save  # writes while training continues\n"
    "# or save less often, and to a local disk first",
)
WAITS_FOR_DATA = Text(
    "The run waits for data",
    "Batches arrive more slowly than the GPU uses them: too few loader workers, slow decoding, or a slow disk.",
    "DataLoader(..., num_workers=8, pin_memory=True, persistent_workers=True, prefetch_factor=4)\n"
    "gputop run -- ...  # shows whether workers, disk or cores are the reason",
)
COMMUNICATES = Text(
    "Communication takes much of the step",
    "The ranks exchange more than the path between them can pass on while they compute. Or they wait there for one that is "
    "late: compare the parts of all ranks.",
    "# more work per exchange: a larger batch, or several backward passes\n"
    "with model.no_sync(): ...  # all but the last backward pass of a step\n"
    "NCCL_DEBUG=INFO  # NET/Socket: without InfiniBand; choose the interface with NCCL_SOCKET_IFNAME",
)
SAME_ORDER = Text(
    "Each epoch has the same order",
    "DistributedSampler shuffles by its seed and its epoch. Without set_epoch, each rank sees its samples in the same order in "
    "every epoch.",
    "for epoch in range(epochs):\n    loader.sampler.set_epoch(epoch)",
)
EVALUATION = Text(
    "Evaluation takes longer than training",
    "The run evaluates too often, on too much data, or more slowly than it trains: with a small batch, without "
    "torch.no_grad(), or on one rank while the others wait.",
    "# evaluate less often, on less data, and a part of it on every rank\n"
    "with torch.inference_mode(): ...  # with batches twice as large as in training",
)
COMPUTES_LONGER = Text(
    "computes longer",
    "Each step is as slow as its slowest rank: the ranks average their gradients. The GPU of this one is slower, hot, locked "
    "to a low clock or used by another program, or its batches are larger.",
    "nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE  # on its host: throttled?\n"
    "nvidia-smi  # does another program use its GPU?",
)
SMALL_STEPS = Text(
    "Too little work in a step",
    "The model or the batch is small, and Python queues one small operation after another. Between them, the GPU is idle.",
    "# a larger batch, and the learning rate with it\n"
    'model = torch.compile(model, mode="reduce-overhead")  # CUDA graphs: one start for many kernels\n'
    "optimizer = torch.optim.AdamW(params, fused=True)",
)
ONE_PROCESS = Text(
    "One process trains",
    "The script was started with python: without a launcher there is one process, which uses one GPU.",
    "torchrun --standalone --nproc-per-node=gpu train.py ...  # or: accelerate launch --multi_gpu",
)
ONE_DEVICE = Text(
    "use one GPU",
    "The script takes the same device on each rank: 'cuda' alone is cuda:0.",
    'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))  # before the model is moved\n'
    'device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))',
)
