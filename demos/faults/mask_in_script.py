"""The DataParallel demo with one mistake: the script hides all GPUs but one. (Doctor: A03)

python demos/faults/mask_in_script.py

A line that was right on the machine where the script was written: it replaces what the shell or the scheduler gave.

The fix: leave the mask to the one who starts the script.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the healthy demo lies one folder up


# The mistake. (Virtual GPUs have a mask of their own.)
for variable in ("CUDA_VISIBLE_DEVICES", "GPUTOP_VIRTUAL_DEVICES"):
    if os.environ.get(variable) != "":  # "" hides all GPUs: that is how the demos run on the CPU
        os.environ[variable] = os.environ.get(variable, "0").split(",")[0]

import data_parallel  # noqa: E402 - the mask comes before torch, or it comes too late


class Training(data_parallel.Training):
    """The healthy training, on what is left."""

    name = "mask-in-script"


if __name__ == "__main__":
    data_parallel.main(Training)
