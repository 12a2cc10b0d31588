"""The training frameworks that gputop knows: how to recognize each, and what each does on a script's behalf.

Both sides share this table: automatic tracking looks for the modules and skips a framework's code when it searches for the
user's; the doctor asks what a framework does by itself. Launchers have a list of their own
(``sources/host/launchers.py``); accelerate and deepspeed are in both. Imports only ``typing``, because training processes
import this module.
"""

from __future__ import annotations

from typing import NamedTuple


class Framework(NamedTuple):
    """What gputop knows about one framework."""

    title: str
    modules: tuple[str, ...]
    """If any of these modules is imported, the process uses the framework."""
    runs_backward: bool = False
    """The framework calls backward in its own code, so the calling line is not the user's."""
    divides_data: bool = False
    """The framework splits the data among the ranks by itself, with its own loaders or samplers."""
    averages_gradients: bool = False
    """The framework averages gradients with its own calls, which the counters of torch.distributed may miss."""
    one_gpu_in_notebooks: bool = False
    """In a notebook, the framework trains on one GPU by default (rule A11)."""
    own_command: bool = False
    """The framework has its own command, which takes the number of GPUs (rule A16)."""


FRAMEWORKS = {
    "accelerate": Framework("Accelerate", ("accelerate",), runs_backward=True, divides_data=True, one_gpu_in_notebooks=True),
    "transformers": Framework(
        "Transformers", ("transformers",), runs_backward=True, divides_data=True, one_gpu_in_notebooks=True
    ),
    # Transformers imports its Trainer only when a script asks for it; what the Trainer does by itself applies only then.
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
"""Name in the journal's fact ``frameworks`` -> framework."""
EXCHANGE_GRADIENTS = (
    *(module for known in FRAMEWORKS.values() if known.averages_gradients for module in known.modules),
    *("bagua", "byteps", "colossalai", "fairscale", "mpi4py"),
)
"""Packages whose optimizers, engines and communicators exchange gradients, whatever holds the model. gputop knows the last ones
for nothing else."""
