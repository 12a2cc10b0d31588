"""The DataParallel demo with one mistake: the script hides all GPUs but one. (Doctor: A03)

python demos/faults/launching/mask_in_script.py

The line was right on the machine where the script was written; here it overrides what the shell or the scheduler set.

The fix: let whoever starts the script set the mask.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up


# The mistake. (Virtual GPUs have their own mask.)
for variable in ("CUDA_VISIBLE_DEVICES", "GPUTOP_VIRTUAL_DEVICES"):
    if os.environ.get(variable) != "":  # "" hides all GPUs, which makes the demos run on the CPU
        os.environ[variable] = os.environ.get(variable, "0").split(",")[0]

import data_parallel  # noqa: E402 - the mask must be set before torch is imported


class Training(data_parallel.Training):
    """The healthy training run, on the remaining GPU."""

    name = "mask-in-script"


if __name__ == "__main__":
    data_parallel.main(Training)
