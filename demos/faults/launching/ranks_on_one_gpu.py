"""The DDP demo with one mistake: every rank takes GPU 0. (Doctor: A07)

torchrun --nproc-per-node=2 demos/faults/launching/ranks_on_one_gpu.py

It trains, and nothing complains. But one GPU does the work of all ranks, the others stay idle, and the memory of all ranks has
to fit on that one. NCCL refuses two ranks on one GPU; with gloo as the backend, the fault goes unnoticed.

The fix: devices.take(local_rank), that is torch.cuda.set_device(int(os.environ["LOCAL_RANK"])).
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

import ddp
import devices


class Training(ddp.Training):
    """Takes the wrong device."""

    name = "ranks-on-one-gpu"

    def take_device(self) -> devices.Place:
        """Return the device of this rank."""
        return devices.take(0)  # the mistake: local_rank is not used, like a "cuda:0" left in the code


if __name__ == "__main__":
    ddp.main(Training, backend="gloo")
