"""Programs for one real GPU, open half: each computes on CUDA device 0, so ``--hardware`` runs these and nothing else."""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python

_case = partial(Case, half="open")


def _program(name: str, *right: str, acceptable: tuple[str, ...] = (), outside_trace: bool = True) -> Program:
    title = name.replace("_", "-")
    case = _case(f"gpu-{title}" if right else f"healthy-gpu-{title}", right, acceptable=acceptable, outside_trace=outside_trace)
    return Program(case, with_python(f"gpu_{name}"), gpu=True)


PROGRAMS: tuple[Program, ...] = (
    # ---- healthy
    _program("char_gpt"),
    _program("cifar"),
    _program("dcgan"),
    # The environments need the CPU, and the GPU waits.
    _program("ppo"),
    # Inference only, in bursts.
    _program("generate"),
    _program("hf_trainer"),
    _program("lightning_autoencoder"),
    _program("unet_ema"),
    _program("compiled_lm"),
    # A person reads, and the GPU keeps the model.
    _program("notebook"),
    # ---- faulty
    # Heavy augmentation in the process that trains.
    _program("augments_in_main", "D01"),
    # Some forty numbers are read from the GPU in each step.
    _program("reads_every_metric", "E01"),
    # Matrix products of 1024 and more in float32, without TF32.
    _program("full_precision", "E03", outside_trace=False),
    # The model is on the CPU, and CUDA was started.
    _program("forgotten_device", "A12", "A13"),
    # Each step's graph is kept.
    _program("keeps_graphs", "E04", "H06", "H02", acceptable=("E10",)),
    # The cache is emptied in each step.
    _program("empties_cache", "E04"),
    # The loss grows from step 1500 on, and overflows.
    _program("learning_rate", "J01", "J02", "nan_loss"),
)
