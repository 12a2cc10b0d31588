"""The DataParallel demo with one mistake: a batch smaller than the number of GPUs. (Doctor: B01)

python demos/faults/dp_small_batch.py

One sample: GPU 0 works alone. nn.DataParallel cuts the batch with torch.chunk: ceil(batch / GPUs) samples to a piece,
until there are none left.

The fix: a batch size that is a multiple of the number of GPUs, and many times it.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the healthy demo lies one folder up

import data_parallel


class Training(data_parallel.Training):
    """The healthy training."""

    name = "dp-small-batch"


if __name__ == "__main__":
    # The mistake: a batch of 1, left over from a test; the healthy demo takes 128. (Such noisy steps have to be small ones.)
    data_parallel.main(Training, batch_size=1, lr=0.001)
