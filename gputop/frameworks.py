"""The training frameworks that gputop knows: which modules tell of each, and what each does in a script's stead.

One table for both sides: automatic tracking looks for the modules and passes over a framework's code in search of the
user's, the doctor asks what a framework does by itself. Launchers are another list (``sources/host/launchers.py``):
accelerate and deepspeed are both. Imports ``typing`` alone, because it is imported into training processes.
"""

from __future__ import annotations

from typing import NamedTuple


class Framework(NamedTuple):
    """What is known of one framework."""

    title: str
    modules: tuple[str, ...]
    """Any of these among the imported modules means that the process uses it."""
    runs_backward: bool = False
    """It calls backward in its own code, whose lines are not the user's."""
    divides_data: bool = False
    """It divides the data over the ranks by itself, with loaders or samplers of its own."""
    averages_gradients: bool = False
    """It averages gradients by calls of its own, which the counters of torch.distributed may miss."""
    one_gpu_in_notebooks: bool = False
    """In a notebook it trains on one GPU unless it is told otherwise (rule A11)."""
    own_command: bool = False
    """Its own command takes the number of GPUs (rule A16)."""


FRAMEWORKS = {
    "accelerate": Framework("Accelerate", ("accelerate",), runs_backward=True, divides_data=True, one_gpu_in_notebooks=True),
    "transformers": Framework(
        "Transformers", ("transformers",), runs_backward=True, divides_data=True, one_gpu_in_notebooks=True
    ),
    # Transformers imports its Trainer where a script asks for it, and with it comes what the Trainer does by itself.
    "transformers.trainer": Framework("the Trainer of Transformers", ("transformers.trainer",)),
    "lightning": Framework(
        "Lightning",
        ("lightning", "pytorch_lightning", "lightning_fabric"),
        runs_backward=True,
        divides_data=True,
        one_gpu_in_notebooks=True,
    ),
    "deepspeed": Framework("DeepSpeed", ("deepspeed",), runs_backward=True, divides_data=True, averages_gradients=True),
    "keras": Framework("Keras", ("keras",), runs_backward=True),
    "ultralytics": Framework("Ultralytics", ("ultralytics",), divides_data=True, own_command=True),
    "mmengine": Framework("MMEngine", ("mmengine",), divides_data=True, own_command=True),
    "horovod": Framework("Horovod", ("horovod",), averages_gradients=True),
    "megatron": Framework("Megatron", ("megatron",), averages_gradients=True),
    "ipykernel": Framework("IPython kernel", ("ipykernel",)),
}
"""Name in the journal's fact ``frameworks`` -> what is known of it."""
