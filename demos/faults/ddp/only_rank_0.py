"""The DDP demo with one mistake: a collective that only rank 0 calls. (Doctor: C08)

torchrun --nproc-per-node=2 demos/faults/ddp/only_rank_0.py

After the first epoch rank 0 waits at a barrier for ranks that are busy with the next epoch, and they wait in backward() for
rank 0: a deadlock.

The fix: collectives (barrier, all_reduce, a forward of the wrapper) belong outside if rank == 0.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

import torch.distributed as dist

import ddp


class Training(ddp.Training):
    """Waits alone."""

    name = "only-rank-0"

    def test(self, epoch: int) -> None:
        """Test, and let rank 0 report."""
        super().test(epoch)
        if self.rank == 0:
            dist.barrier()  # the mistake


if __name__ == "__main__":
    ddp.main(Training, train_samples=4000)
