"""The faults: recipes with one mistake each, named by the rule that finds it. Their scripts are in ``demos/faults/``."""

from __future__ import annotations

from collections.abc import Mapping

from gputop.recipes.recipe import Option, Recipe, with_defaults
from gputop.recipes.table import DATA_PARALLEL, TIMEOUT, TRAINING

_DDP = (*TRAINING, TIMEOUT)


def _ddp(
    doctor: str,
    script: str,
    title: str,
    description: str,
    teaches: str,
    defaults: Mapping[str, int | float] | None = None,
    *,
    launcher: str = "torchrun",
    options: tuple[Option, ...] = _DDP,
    processes: int | None = None,
    env: Mapping[str, str] | None = None,
    mask: str | None = None,
    min_devices: int = 2,
    one_machine: bool = False,
) -> Recipe:
    """Return the recipe of ``demos/faults/<script>.py``: DDP with one mistake, and ``defaults`` that make it visible. Its id is
    the name of the file: the folder may change.
    """
    return Recipe(
        id="faults/" + script.rpartition("/")[2].replace("_", "-"),
        title=f"Fault: {title}",
        description=description,
        teaches=teaches,
        launcher=launcher,
        script=f"faults/{script}.py",
        options=with_defaults(options, **(defaults or {})),
        min_devices=min_devices,
        one_machine=one_machine,
        default_devices=min_devices,
        fault=doctor,
        processes=processes,
        env=env or {},
        mask=mask,
    )


def _dp(
    doctor: str, script: str, title: str, description: str, teaches: str, defaults: Mapping[str, int | float] | None = None
) -> Recipe:
    """Return the same for DataParallel."""
    return _ddp(doctor, script, title, description, teaches, defaults, launcher="python", options=DATA_PARALLEL)


LAUNCHING = (
    _ddp(
        "A01",
        "launching/plain_python",
        "started with python",
        "The DDP script is started with python instead of torchrun.",
        "Without a launcher there is one process, on one GPU; the others idle.",
        launcher="python",
    ),
    _ddp(
        "A02",
        "launching/fewer_ranks",
        "fewer processes than GPUs",
        "torchrun starts one process, although several GPUs should work.",
        "--nproc-per-node decides how many GPUs work.",
        processes=1,
        one_machine=True,
    ),
    _ddp(
        "A03",
        "launching/mask_in_script",
        "the script hides GPUs",
        "A line of the script sets CUDA_VISIBLE_DEVICES to one GPU.",
        "Leave the mask to whoever starts the script.",
        launcher="python",
        options=DATA_PARALLEL,
    ),
    _ddp(
        "A05",
        "launching/mask_with_a_repeat",
        "a GPU listed twice",
        "CUDA_VISIBLE_DEVICES=0,0 hides all GPUs, and the script falls back to the CPU.",
        "A wrong mask is silent: assert torch.cuda.is_available().",
        mask="0,0",
        min_devices=1,
        launcher="python",
        options=TRAINING,
    ),
    _ddp(
        "A07",
        "launching/ranks_on_one_gpu",
        "all ranks on one GPU",
        "Every rank uses GPU 0, as with a cuda:0 left in the code.",
        "One GPU works for all ranks, the others idle, and nothing complains.",
        one_machine=True,
    ),
    _ddp(
        "A12",
        "launching/cpu_fallback",
        "training on the CPU",
        "try_gpu(i) asks for a GPU that does not exist, and gets the CPU.",
        "It trains, slowly, and all GPUs stay idle.",
    ),
    _ddp(
        "A17",
        "launching/local_rank_argument",
        "--local_rank",
        "The script expects --local_rank; torch.distributed.launch passes --local-rank.",
        "Read LOCAL_RANK from the environment: torchrun passes no argument.",
        launcher="launch",
    ),
    _ddp(
        "A18",
        "launching/independent_worlds",
        "worlds of one",
        "A loop starts the script once per GPU, and every process believes that it is the only one.",
        "All train the same model on the same data, on GPU 0.",
        launcher="python",
    ),
    _ddp(
        "A19",
        "launching/dp_inside_ddp",
        "DataParallel in every rank",
        "nn.DataParallel was left in a script that torchrun starts.",
        "Each of N ranks puts copies on all N GPUs, and gradients are not averaged.",
        one_machine=True,
    ),
)

DATA_PARALLEL_FAULTS = (
    _dp(
        "B01",
        "data_parallel/dp_small_batch",
        "fewer samples than GPUs",
        "The DataParallel recipe with a batch of 1, so that only GPU 0 gets a sample.",
        "nn.DataParallel gives ceil(batch / GPUs) samples to each GPU until none are left.",
        {"batch_size": 1, "lr": 0.001},
    ),
    _dp(
        "B02",
        "data_parallel/dp_remainder",
        "batch does not divide",
        "A batch of 5: 3 and 2 on two GPUs; on four GPUs, the last one idles.",
        "The largest piece sets the pace.",
        {"batch_size": 5, "lr": 0.002},
    ),
    _dp(
        "B03",
        "data_parallel/dp_bypass",
        "wrapper not called",
        "The module inside the wrapper is called: parallel.module(images).",
        "Only a call of the wrapper splits the batch; here only GPU 0 works.",
    ),
    _dp(
        "B04",
        "data_parallel/dp_object",
        "a batch that is not a tensor",
        "The batch is passed in a custom object, which cannot be split.",
        "Every GPU processes the whole batch.",
    ),
    _dp(
        "B05",
        "data_parallel/dp_mask",
        "a mask with one row",
        "One argument has a single row, meant to be broadcast.",
        "The argument with the fewest rows sets the number of pieces: the rest of the batch is lost.",
    ),
    _dp(
        "B06",
        "data_parallel/dp_time_first",
        "batch is not dimension 0",
        "A recurrent network takes [time, batch, features], and is split along time.",
        "DataParallel(model, dim=1), or batch_first=True.",
    ),
    _dp(
        "B12",
        "data_parallel/dp_single_id",
        "device_ids=[0]",
        "nn.DataParallel is given only one GPU.",
        "It then passes everything through, and the other GPUs idle.",
    ),
    _dp(
        "B13",
        "data_parallel/eval_on_one_gpu",
        "test on one GPU",
        "After each epoch only GPU 0 runs the test, in small batches.",
        "The wrapper splits test batches as well.",
        {"train_samples": 4000},
    ),
)

DDP_FAULTS = (
    _ddp(
        "C01",
        "ddp/ddp_bypass",
        "wrapper not called",
        "The module inside the wrapper is called: parallel.module(images).",
        "Gradients are never averaged, and the ranks drift apart.",
    ),
    _ddp(
        "C02",
        "ddp/changed_after_wrap",
        "cast after wrapping",
        "model.double() after DistributedDataParallel(model).",
        "DDP loses track of the parameters: no error, and no averaging.",
    ),
    _ddp(
        "C03",
        "ddp/not_wrapped",
        "not wrapped",
        "The process group exists, but the model is not wrapped in DDP.",
        "As many models as ranks, each trained on its own part of the data.",
    ),
    _ddp(
        "C04",
        "ddp/no_sync_inverted",
        "no_sync() the wrong way round",
        "Of four accumulated batches, the last is the one without averaging.",
        "The ranks drift apart.",
    ),
    _ddp(
        "C05",
        "ddp/no_sampler",
        "no DistributedSampler",
        "Every rank goes through all the data, in the same order.",
        "N GPUs compute the same gradients N times.",
    ),
    _ddp(
        "C06",
        "ddp/no_set_epoch",
        "no set_epoch",
        "set_epoch is never called on the sampler.",
        "Every epoch has the same order as the first.",
        {"train_samples": 2000},
    ),
    _ddp(
        "C07",
        "ddp/uneven_inputs",
        "different numbers of batches",
        "The data is split by hand, and rank 0 gets more.",
        "At the end of the epoch, rank 0 waits for gradients that no rank sends.",
        {"batch_size": 16, "train_samples": 60_000},
    ),
    _ddp(
        "C08",
        "ddp/only_rank_0",
        "a barrier on rank 0 only",
        "After the first epoch rank 0 waits at a barrier that no other rank reaches.",
        "Keep collectives out of an `if rank == 0:` block.",
        {"train_samples": 4000},
    ),
    _ddp(
        "C09",
        "ddp/unused_parameters",
        "an unused layer",
        "The model has a layer that no forward uses.",
        "DDP waits for its gradient, and the second step ends with an error.",
    ),
    _ddp(
        "C10",
        "ddp/bn_not_synced",
        "batch norm on 4 samples",
        "Each rank normalizes over its own 4 samples.",
        "SyncBatchNorm normalizes over the samples of all ranks.",
        {"batch_size": 4},
    ),
    _ddp(
        "C13",
        "ddp/state_dict_prefix",
        'names with "module."',
        "The wrapper's weights are saved and loaded into the bare module.",
        "Save parallel.module.state_dict().",
        {"steps": 200},
    ),
    _ddp(
        "C14",
        "ddp/ranks_write_one_file",
        "all ranks write one file",
        "Every rank opens the same file for writing.",
        "They overwrite each other's lines: let rank 0 write, or give each rank its own file.",
    ),
    _ddp(
        "C15",
        "ddp/wrapped_before_move",
        "wrapped on the CPU",
        "DDP gets device_ids, but a model that is still on the CPU.",
        ".to(device) first, then wrap.",
    ),
)

INPUT_FAULTS = (
    _ddp(
        "D01",
        "input/slow_loader",
        "num_workers=0",
        "The training process prepares expensive data itself.",
        "The GPU waits for each batch, and loading waits for each step.",
    ),
    _ddp(
        "D02",
        "input/too_many_workers",
        "more workers than cores",
        "Every rank starts four loader processes for each core.",
        "num_workers = cores // ranks.",
    ),
    _ddp(
        "D03",
        "input/workers_on_one_core",
        "all workers on one core",
        "Loader processes inherit a pinning to one core.",
        "Four workers are then no faster than one.",
    ),
    _ddp(
        "D06",
        "input/workers_restart",
        "workers restart",
        "Short epochs, and each begins with new loader processes.",
        "persistent_workers=True.",
        {"train_samples": 2000},
    ),
    _ddp(
        "E05",
        "input/debug_flags",
        "debugging left on",
        "Anomaly detection and CUDA_LAUNCH_BLOCKING=1 are still on.",
        "Good for debugging, expensive afterwards.",
        # Not TORCH_DISTRIBUTED_DEBUG=DETAIL: with it torch 2.13 crashes when DDP wraps a model over gloo.
        env={"CUDA_LAUNCH_BLOCKING": "1"},
    ),
    _ddp(
        "E07",
        "input/periodic_stall",
        "a test every 5 steps",
        "Every rank evaluates the whole test set after every 5 steps.",
        "Training pauses for the time of many steps.",
    ),
)

RANK_FAULTS = (
    _ddp(
        "F01",
        "ranks/slow_data_on_one_rank",
        "slow data on one rank",
        "Rank 1 loads its data slowly.",
        "The whole job is as fast as its slowest rank.",
    ),
    _ddp(
        "F02",
        "ranks/slow_gpu_on_one_rank",
        "a slow GPU",
        "Rank 1 takes three times as long for a forward pass.",
        "All others wait for it in backward().",
    ),
    _ddp(
        "F03",
        "ranks/uneven_batches",
        "batches of different sizes",
        "The ranks' batches have very different numbers of rows.",
        "In each step, all wait for a different rank.",
    ),
    _ddp(
        "F05",
        "ranks/rank_0_does_more",
        "extra work on rank 0",
        "Rank 0 draws a picture after every step.",
        "All others wait for it.",
    ),
    _ddp(
        "G01",
        "ranks/one_rank_waits",
        "one rank waits forever",
        "After 200 steps rank 1 waits for input that nobody types.",
        "The others wait for its gradients: no error, and no step.",
    ),
    _ddp(
        "G03",
        "ranks/wrong_world_size",
        "one rank too many expected",
        "WORLD_SIZE is one more than the ranks that were started.",
        "init_process_group waits until all have arrived.",
    ),
    _ddp(
        "G04",
        "ranks/dead_rank",
        "a rank is killed",
        "After 200 steps rank 1 is ended with SIGKILL, as when memory runs out.",
        "The other ranks' errors follow from it; torchrun names the first that failed.",
    ),
)

FAULTS: tuple[Recipe, ...] = (*LAUNCHING, *DATA_PARALLEL_FAULTS, *DDP_FAULTS, *INPUT_FAULTS, *RANK_FAULTS)
