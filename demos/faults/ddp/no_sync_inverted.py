"""The DDP demo with one mistake: no_sync() around the wrong batches of an accumulation. (Doctor: C04)

torchrun --nproc-per-node=2 demos/faults/ddp/no_sync_inverted.py

Gradients of 4 batches are added up. The last backward must average them over the ranks; with the condition inverted it is the
only one that does not, and the ranks drift apart.

The fix: with nullcontext() if last else parallel.no_sync(): around forward and backward.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

import ddp


class Training(ddp.Training):
    """Averages at the wrong time."""

    name = "no-sync-inverted"

    def averages(self, last: bool) -> bool:
        """Return whether this backward averages gradients over the ranks."""
        return not last  # the mistake


if __name__ == "__main__":
    ddp.main(Training, accumulate=4)
